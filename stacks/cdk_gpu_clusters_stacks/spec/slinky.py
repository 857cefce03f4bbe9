"""`eks.software.slurm`: Slurm on nodes of Kubernetes, by Slinky."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from cdk_gpu_clusters.kubernetes.software import SlurmCluster, SlurmDatabase

from ._base import AsTuple, Line, Name, SpecModel, Text


class SlurmDatabaseSpec(SpecModel):
    """A database of MySQL or MariaDB in which slurmdbd records jobs, such as one of Amazon RDS."""

    host: Line = Field(
        description="Its host name, without a port.",
        examples=["slurm.abcdefghijkl.us-east-1.rds.amazonaws.com"],
    )
    secret_name: Line = Field(
        description="Secret of Kubernetes in the namespace `slurm` with the password. You make it.",
        examples=["slurm-database"],
    )
    key: Line = Field(default="password", description="Key of the password in the secret.")
    port: int = Field(default=3306, ge=1, le=65535, description="Port of the database.")
    database: Line = Field(
        default="slurm_acct_db", description="Name of the database. slurmdbd makes it if its user may."
    )
    username: Line = Field(default="slurm", description="User who owns the database.")


GpuInstanceIds = Annotated[tuple[Annotated[tuple[int, ...], AsTuple], ...], AsTuple]


class SlinkySpec(SpecModel):
    """A Slurm cluster whose nodes are pods of Slinky on entire nodes of fleets."""

    fleets: Annotated[tuple[Name, ...] | None, AsTuple] = Field(
        default=None,
        description="Training fleets whose nodes belong to Slurm, each a partition; that of the first is the default "
        "one. Default: all training fleets, in the order of the file.",
        examples=[["trainers"]],
    )
    name: Name = Field(default="slurm", description="Name of the Slurm cluster.")
    accounting: SlurmDatabaseSpec | None = Field(
        default=None, description="Database of the accounting. Default: Slurm records no jobs."
    )
    nvml_image: Line | None = Field(
        default=None,
        description="Image of slurmd whose Slurm was built with NVML, which finds MIG slices. Default: Slinky's, which "
        "finds unsplit GPUs only.",
        examples=["111122223333.dkr.ecr.us-east-1.amazonaws.com/slurmd:26.05-nvml"],
    )
    gpu_instance_ids: dict[Name, GpuInstanceIds] = Field(
        default={},
        description="Ids of the GPU instances of fleets with MIG, as `nvidia-smi mig -lgi` shows them: name of the "
        "fleet -> a list for each GPU. Needed for slices without `nvml_image`.",
        examples=[{"slices": [[7, 8, 9, 10, 11, 12, 13]]}],
    )
    login: bool = Field(
        default=True, description="Whether there is a login node. It is reached inside the cluster only."
    )
    root_authorized_keys: Annotated[tuple[Line, ...], AsTuple] = Field(
        default=(), description="Public SSH keys of root on the login node.", examples=[["ssh-ed25519 AAAA… alice"]]
    )
    sssd_secret: Line | None = Field(
        default=None,
        description="Secret of Kubernetes in the namespace `slurm` with `sssd.conf` of your directory of users. "
        "Default: the login node knows local users only.",
    )
    storage_class: Line | None = Field(
        default=None,
        description="Storage class of the volume with the controller's state. Default: one of Amazon EBS (gp3, "
        "encrypted), whose volume stays after the Slurm cluster is deleted.",
    )
    settings: dict[Text, Line] = Field(
        default={},
        description="Settings of slurm.conf, by name, over those of the library.",
        examples=[{"SchedulerParameters": "bf_continue"}],
    )

    def fleet_names(self, training: Iterable[str]) -> tuple[str, ...]:
        """The fleets that belong to Slurm, of the training fleets of the file."""
        return tuple(training) if self.fleets is None else self.fleets

    @property
    def cluster(self) -> SlurmCluster:
        """The same as the library takes it."""
        return SlurmCluster(
            name=self.name,
            accounting=None if self.accounting is None else SlurmDatabase(**self.accounting.model_dump()),
            nvml_image=self.nvml_image,
            gpu_instance_ids=self.gpu_instance_ids,
            login=self.login,
            root_authorized_keys="\n".join(self.root_authorized_keys) or None,
            sssd_secret=self.sssd_secret,
            storage_class=self.storage_class,
            settings=self.settings,
        )
