"""What still bills of clusters that have no stacks any more: read-only.

A resource is an orphan if it carries the tag of a cluster, and the cluster has no stack in the Region: none that
carries the tag, none without it whose name is one that a cluster file gives, and none that made a resource with the
tag. Each kind is asked of its own service, whose answer has no resources that are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cdk_gpu_clusters_stacks.preflight.call import FILE_SYSTEMS, RESERVATIONS, STACKS, VOLUMES, Call, define_call
from cdk_gpu_clusters_stacks.preflight.cluster import CLUSTER_TAG
from cdk_gpu_clusters_stacks.stack_names import is_stack_of

EFS_FILE_SYSTEMS = define_call("efs", "describe_file_systems", "elasticfilesystem:DescribeFileSystems")
SNAPSHOTS = define_call("ec2", "describe_snapshots", page_size=500)
#: Load balancers do not carry their tags in the answer of their own service.
TAGGED = define_call("resourcegroupstaggingapi", "get_resources", "tag:GetResources")

#: CloudFormation user guide, "Resource tags": it puts this tag on what it makes.
_STACK_ID = "aws:cloudformation:stack-id"
_TAG_KEY = {"Name": "tag-key", "Values": [CLUSTER_TAG]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A resource that bills, of a cluster without stacks.

    Attributes:
        kind: Such as `volume`.
        name: Its id, or its ARN.
        cluster: The cluster that its tag names.
        size: Such as `512 GiB`; empty if its answer has none.
        stack_id: The stack that made it, by the tag of CloudFormation; empty if it has none.
    """

    kind: str
    name: str
    cluster: str
    size: str
    stack_id: str = ""


class Ask(Protocol):
    """Asks AWS; the answer is empty where there is none, which the caller notes."""

    def __call__(self, call: Call, **parameters: Any) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """How one kind of resource is asked for.

    Attributes:
        parameters: Of the call.
        items: Key of the list in the answer.
        name: Key of the id.
        size: Key of the size, and the words after it.
        tags: Key of the tags.
    """

    kind: str
    call: Call
    parameters: Mapping[str, Any]
    items: str
    name: str
    size: tuple[str, str] = ("", "")
    tags: str = "Tags"

    def read(self, answer: Mapping[str, Any]) -> Iterator[Orphan]:
        """The resources with the tag, whether they are orphans or not."""
        key, unit = self.size
        for one in answer.get(self.items, ()):
            tags = {tag.get("Key"): tag.get("Value", "") for tag in one.get(self.tags, ())}
            if cluster := tags.get(CLUSTER_TAG, ""):
                size = f"{one[key]:,} {unit}" if key in one else ""
                yield Orphan(
                    kind=self.kind,
                    name=one.get(self.name, "?"),
                    cluster=cluster,
                    size=size,
                    stack_id=tags.get(_STACK_ID, ""),
                )


_KINDS = (
    _Kind(
        kind="reservation",
        call=RESERVATIONS,
        parameters={"Filters": [_TAG_KEY, {"Name": "state", "Values": ["active"]}]},
        items="CapacityReservations",
        name="CapacityReservationId",
        size=("TotalInstanceCount", "instances"),
    ),
    _Kind(
        kind="volume",
        call=VOLUMES,
        parameters={"Filters": [_TAG_KEY]},
        items="Volumes",
        name="VolumeId",
        size=("Size", "GiB"),
    ),
    _Kind(
        kind="snapshot",
        call=SNAPSHOTS,
        parameters={"OwnerIds": ["self"], "Filters": [_TAG_KEY]},
        items="Snapshots",
        name="SnapshotId",
        size=("VolumeSize", "GiB at most"),
    ),
    _Kind(
        kind="FSx file system",
        call=FILE_SYSTEMS,
        parameters={},
        items="FileSystems",
        name="FileSystemId",
        size=("StorageCapacity", "GiB"),
    ),
    _Kind(
        kind="EFS file system",
        call=EFS_FILE_SYSTEMS,
        parameters={},
        items="FileSystems",
        name="FileSystemId",
    ),
    _Kind(
        kind="load balancer",
        call=TAGGED,
        parameters={
            "TagFilters": [{"Key": CLUSTER_TAG}],
            "ResourceTypeFilters": ["elasticloadbalancing:loadbalancer"],
        },
        items="ResourceTagMappingList",
        name="ResourceARN",
    ),
)
#: Everything that is asked.
CALLS = (STACKS, *(one.call for one in _KINDS))


def read_orphans(ask: Ask) -> list[Orphan] | None:
    """The orphans of all clusters in the Region, by cluster; None if it is unknown which clusters there are.

    Args:
        ask: Asks AWS.
    """
    stacks = ask(STACKS)
    if "Stacks" not in stacks:
        return None
    found = [one for kind in _KINDS for one in kind.read(ask(kind.call, **kind.parameters))]
    by_id = {one.get("StackId") for one in stacks["Stacks"]}
    living = {one.cluster for one in found if one.stack_id in by_id}
    living |= {name for name in {one.cluster for one in found} if _has_stack(name, stacks["Stacks"])}
    return sorted(
        (one for one in found if one.cluster not in living), key=lambda one: (one.cluster, one.kind, one.name)
    )


def _has_stack(cluster: str, stacks: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a stack is of a cluster: by its tag; by its name if it was deployed without tags."""
    for stack in stacks:
        tagged = next((tag["Value"] for tag in stack.get("Tags", ()) if tag["Key"] == CLUSTER_TAG), "")
        if tagged == cluster or (not tagged and is_stack_of(cluster, stack["StackName"])):
            return True
    return False
