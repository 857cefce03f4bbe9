"""`hyperpod`: the cluster of SageMaker HyperPod whose instance groups the fleets are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ._base import AsTuple, Name, SpecModel, Text
from .changes import Resource, updates

SecretArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$")
]


class AccountingDatabaseSpec(SpecModel):
    """A MySQL database of your own for Slurm's accounting, which outlives the controller."""

    endpoint: Text = Field(
        description="Host name of the database.", examples=["slurm.cluster-abc.us-east-1.rds.amazonaws.com"]
    )
    secret_arn: SecretArn = Field(
        description="ARN of the secret of Secrets Manager with its user and password.",
        examples=["arn:aws:secretsmanager:us-east-1:123456789012:secret:slurm-AbCdEf"],
    )
    port: int = Field(default=3306, ge=1, le=65_535, description="Port of the database.")
    name: Text | None = Field(
        default=None,
        description="Name of the schema. Default: slurm_acct_db_ and the id of the cluster.",
        examples=["slurm_acct_db"],
    )


class ControllerSpec(SpecModel):
    """The node of Slurm's controller."""

    instance_type: Text = Field(
        default="m7i.12xlarge", description="Instance type that HyperPod has, without accelerators."
    )


class HyperPodLoginSpec(SpecModel):
    """The nodes on which people submit jobs to Slurm."""

    nodes: int = Field(default=1, ge=0, le=10, description="Number of login nodes; 0 makes none.")
    instance_type: Text = Field(
        default="m7i.xlarge", description="Instance type that HyperPod has, without accelerators."
    )
    mounts: dict[Text, Name] = Field(
        default={},
        description="Mount point -> store of `data`. Mount the same as on the fleets.",
        examples=[{"/fsx": "corpus"}],
    )


class InstanceGroupSpec(SpecModel):
    """What only HyperPod has of a fleet."""

    partition: Text | None = Field(
        default=None, description="Slurm: partition of the nodes. Default: one with the name of the fleet."
    )
    least_nodes: int | None = Field(
        default=None,
        ge=0,
        description="Nodes from which on the group counts as made; SageMaker takes it back after three hours with "
        "fewer. It needs continuous provisioning. Default: 0.",
    )
    deep_health_checks: Annotated[tuple[Literal["InstanceStress", "InstanceConnectivity"], ...], AsTuple] = Field(
        default=(),
        description="What HyperPod runs on each node before it takes work. Default: none.",
        examples=[["InstanceStress", "InstanceConnectivity"]],
    )
    volume_gib: int | None = Field(
        default=None, description="Size of a second volume at /opt/sagemaker in GiB. Default: none."
    )
    threads_per_core: Literal[1, 2] | None = Field(
        default=None, description="Threads of a core. Default: those of the type."
    )
    image_release: Text | None = Field(
        default=None,
        description="Amazon EKS: version of HyperPod's image, such as 1.2.3. Default: the latest; with continuous "
        "provisioning, a later group gets the image of the earliest one.",
        examples=["1.2.3"],
    )


class HyperPodSpec(SpecModel):
    """The cluster of HyperPod: one resource with all instance groups."""

    node_recovery: Annotated[bool, updates(Resource.HYPERPOD_CLUSTER)] = Field(
        default=True, description="Whether SageMaker reboots and replaces failed nodes."
    )
    continuous_provisioning: Annotated[bool, updates(Resource.HYPERPOD_CLUSTER)] = Field(
        default=True,
        description="Whether a group takes work before all its nodes are there, and SageMaker goes on to add them. "
        "Spot Instances, least_nodes and an accounting database need it. With false, a group whose nodes do not all "
        "come fails. A cluster that has it keeps it.",
    )
    controller: Annotated[ControllerSpec, updates(Resource.HYPERPOD_CLUSTER)] = Field(
        default=ControllerSpec(), description="The controller, with `orchestrator: hyperpod-slurm`."
    )
    login: Annotated[HyperPodLoginSpec, updates(Resource.HYPERPOD_CLUSTER)] = Field(
        default=HyperPodLoginSpec(), description="The login nodes, with `orchestrator: hyperpod-slurm`."
    )
    accounting_database: Annotated[AccountingDatabaseSpec | None, updates(Resource.HYPERPOD_CLUSTER)] = Field(
        default=None,
        description="Database for accounting, with `orchestrator: hyperpod-slurm`. Default: one on the controller, "
        "which ends with it.",
    )
    tiered_checkpoint_percent: Annotated[int | None, updates(Resource.HYPERPOD_CLUSTER)] = Field(
        default=None,
        ge=0,
        le=100,
        description="Share of each node's memory for SageMaker's tiered checkpoints in percent, 20 to 100, with "
        "`orchestrator: hyperpod-eks`. Default: none.",
    )
    groups: Annotated[dict[Name, InstanceGroupSpec], updates(Resource.INSTANCE_GROUP)] = Field(
        default={}, description="Name of a training fleet -> what only HyperPod has of its instance group."
    )
