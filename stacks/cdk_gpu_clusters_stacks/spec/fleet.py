"""`training.fleets.<name>`: nodes that train together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from cdk_gpu_clusters.rules.interfaces import InterfacePolicy

from ._base import Environment, Name
from .nodes import NodesSpec

#: Key of the validation context under which the loader gives the cluster file's folder.
FOLDER = "folder"


def _beside_cluster_file(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get(FOLDER)
    return path if folder is None else Path(folder, path)


ScriptPath = Annotated[
    Path,
    Field(strict=False),
    AfterValidator(_beside_cluster_file),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


class FleetSpec(NodesSpec):
    """One group of equal nodes that train."""

    efa: bool | None = Field(
        default=None,
        description="Elastic Fabric Adapter interfaces. Default: true for accelerated types that have them.",
    )
    interface_policy: Annotated[InterfacePolicy, Field(strict=False)] | None = Field(
        default=None,
        description="How network interfaces are laid out. `minimum-ip`: full EFA bandwidth for one IP address a "
        "node. `maximum-ena-bandwidth`: more IP bandwidth, more addresses. `efa-per-card`: one `efa` a card. "
        "Default: minimum-ip.",
    )
    fabric: Name = Field(
        default="default",
        description="Fleets with the same fabric share one EFA security group and reach each other.",
    )
    scratch: bool = Field(
        default=True,
        description="Whether the local disks of a node, where its type has some, become one file system at /scratch. "
        "It is empty after every stop of the instance.",
    )
    update: Literal["never", "rolling"] = Field(
        default="never",
        description="What a changed launch template does to running nodes. `never`: they stay as they are. "
        "`rolling`: they are replaced in turn.",
    )
    environment: Environment = Field(
        default={},
        description="Environment variables for every login shell and service of the nodes: "
        "one line of printable ASCII each.",
    )
    user_data: ScriptPath | None = Field(
        default=None,
        description="Path of a shell script to run at first boot, relative to the cluster file: ASCII, starts with #!.",
    )
    checkpoints: Name | None = Field(
        default=None,
        description="Store of `data` for checkpoints, which the nodes may read and write. They find it in "
        "CHECKPOINT_S3_URI, and its directory bucket in CHECKPOINT_EXPRESS_S3_URI.",
    )

    @property
    def efa_wish(self) -> bool | None:
        """Whether the file asks for EFA; None where the instance type decides."""
        return self.efa

    @property
    def interface_wish(self) -> InterfacePolicy | None:
        """Layout of the network interfaces that the file asks for; None where the library decides."""
        return self.interface_policy
