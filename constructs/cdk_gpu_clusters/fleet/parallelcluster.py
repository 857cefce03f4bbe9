"""The queues of AWS ParallelCluster for fleets: what its configuration file states of them, from the plan of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.fleet import DEFAULT_IOPS, DEFAULT_THROUGHPUT_MIB_PER_S
from cdk_gpu_clusters.rules.parallelcluster import (
    check_addresses,
    check_capacity_of_queue,
    check_layout,
    check_name,
    check_placement_of_queue,
    check_settings,
    check_whole_gpus,
)
from cdk_gpu_clusters.rules.placement import GroupOrigin

_CAPACITY_TYPES = {CapacityKind.SPOT: "SPOT"}
_BLOCK, _ON_DEMAND = "CAPACITY_BLOCK", "ONDEMAND"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRight:
    """What nodes may do with objects of a bucket.

    Attributes:
        bucket_name: The bucket.
        prefix: What the keys begin with; empty for all.
        key: Key of the one object; empty for all with the prefix.
        write: Whether they also write.
    """

    bucket_name: str
    prefix: str = ""
    key: str = ""
    write: bool = False

    def document(self) -> dict[str, Any]:
        """It as an entry of `S3Access`.

        Example:
            >>> ObjectRight(bucket_name="corpus", prefix="tokens/").document()
            {'BucketName': 'corpus', 'KeyName': 'tokens/*'}
        """
        right = {"BucketName": self.bucket_name, "KeyName": self.key or f"{self.prefix}*"}
        return {**right, **({"EnableWriteAccess": True} if self.write else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRequest:
    """What is requested of a queue, beyond its fleets. None is a value that is left out.

    Attributes:
        name: Its name.
        subnet_ids: Subnets of its nodes.
        security_group_ids: Security groups that its nodes join beside those of ParallelCluster.
        image_id: Image of the nodes, made by `pcluster build-image`; ParallelCluster's own if None.
        root_volume_gib: Size of the root volume.
        root_volume_iops: I/O operations per second.
        root_volume_mib_per_s: Throughput.
        slurm_settings: Settings of the partition in slurm.conf.
        on_node_start: URL of a script and its arguments, in order, before the node is set up.
        on_node_configured: The same, before slurmd starts.
        policies: ARNs of policies of the nodes.
        objects: What the nodes may read and write in S3.
        tags: Tags of the nodes.
    """

    name: str
    subnet_ids: Sequence[str]
    security_group_ids: Sequence[str] = ()
    image_id: str | None = None
    root_volume_gib: int
    root_volume_iops: int | None = None
    root_volume_mib_per_s: int | None = None
    slurm_settings: Mapping[str, str] = field(default_factory=dict)
    on_node_start: Sequence[tuple[str, Sequence[str]]] = ()
    on_node_configured: Sequence[tuple[str, Sequence[str]]] = ()
    policies: Sequence[str] = ()
    objects: Sequence[ObjectRight] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeResourceRequest:
    """A fleet in a queue.

    Attributes:
        fleet: Its plan.
        name: Name of its compute resource; of several, what their names begin with.
        reservation_id: Id of a reservation that is made for the fleet, which its plan does not know.
        placement_group_name: The placement group of the reservation; None if it has none.
        slurm_settings: Settings of the nodes in slurm.conf.
    """

    fleet: FleetPlan
    name: str
    reservation_id: str | None = None
    placement_group_name: str | None = None
    slurm_settings: Mapping[str, str] = field(default_factory=dict)


def capacity_type(fleet: FleetPlan) -> str:
    """How ParallelCluster buys the nodes of a fleet; all compute resources of a queue are bought in the same way.

    Args:
        fleet: The plan of the fleet.
    """
    return _BLOCK if fleet.terms.kind.is_block else _CAPACITY_TYPES.get(fleet.terms.kind, _ON_DEMAND)


def static_nodes(fleet: FleetPlan) -> int:
    """How many nodes of a fleet always run; Slurm starts the others for jobs.

    Args:
        fleet: The plan of the fleet.
    """
    # Nodes of a block come and go with it, and nothing else changes their number.
    return fleet.maximum if fleet.keeps_size else fleet.request.minimum or 0


def check_queue_fleet(fleet: FleetPlan, name: str, slurm_settings: Mapping[str, str]) -> list[Finding]:
    """Find what ParallelCluster refuses of a fleet, beyond what is wrong with the fleet itself.

    Args:
        fleet: The plan of the fleet.
        name: Name of its compute resource.
        slurm_settings: Settings of its nodes in slurm.conf.

    Example:
        >>> from cdk_gpu_clusters.fleet.plan import plan_fleet
        >>> from cdk_gpu_clusters.fleet.request import FleetRequest
        >>> plan = plan_fleet(FleetRequest(name="train", instance_type="p5.48xlarge", minimum=2, maximum=2))
        >>> [finding.id for finding in check_queue_fleet(plan, "Train", {})]
        ['GPU-PCL-001']
    """
    request = fleet.request
    return [
        *check_name(name),
        *check_layout(request.interface_policy),
        *check_addresses(fleet.instance_type, efa=fleet.efa),
        *check_whole_gpus(is_split=request.mig is not None),
        *check_placement_of_queue(request.placement),
        *check_capacity_of_queue(fleet.terms),
        *check_settings(_without_weight(slurm_settings), level="compute resource"),
    ]


def _without_weight(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings without a weight that ParallelCluster takes as a priority."""
    return {name: value for name, value in settings.items() if not _weight(name, value)}


def _weight(name: str, value: str) -> int | None:
    """Weight of nodes, if the setting is one: ParallelCluster writes its priorities as that (SlurmNodePriorities)."""
    return int(value) if name.lower() == "weight" and value.isdecimal() and int(value) >= 1 else None


def without_exclusive(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a queue without `OverSubscribe=EXCLUSIVE`, which ParallelCluster has as `JobExclusiveAllocation`.

    Source: aws/aws-parallelcluster-cookbook @ f75d84c, config_renderer.py.

    Args:
        settings: Settings of the partition in slurm.conf.
    """
    return {
        name: value
        for name, value in settings.items()
        if (name.lower(), value.upper()) != ("oversubscribe", "EXCLUSIVE")
    }


def slurm_queue(request: QueueRequest, members: Sequence[ComputeResourceRequest]) -> dict[str, Any]:
    """A queue with the nodes of fleets, as `Scheduling.SlurmQueues` of the configuration has it.

    Args:
        request: What is requested of the queue.
        members: Its fleets, all bought in the same way.

    Example:
        >>> from cdk_gpu_clusters.fleet.plan import plan_fleet
        >>> from cdk_gpu_clusters.fleet.request import FleetRequest
        >>> plan = plan_fleet(FleetRequest(name="train", instance_type="p5.48xlarge", minimum=2, maximum=2))
        >>> queue = slurm_queue(
        ...     QueueRequest(name="train", subnet_ids=["subnet-0123456789abcdef0"], root_volume_gib=200),
        ...     [ComputeResourceRequest(fleet=plan, name="train")],
        ... )
        >>> queue["ComputeResources"][0]["Efa"], queue["ComputeResources"][0]["MinCount"]
        ({'Enabled': True}, 2)
    """
    volume = {
        "Size": request.root_volume_gib,
        "VolumeType": "gp3",
        "Iops": request.root_volume_iops or DEFAULT_IOPS,
        "Throughput": request.root_volume_mib_per_s or DEFAULT_THROUGHPUT_MIB_PER_S,
        "Encrypted": True,
    }
    actions = {
        name: _scripts(scripts)
        for name, scripts in (
            ("OnNodeStart", request.on_node_start),
            ("OnNodeConfigured", request.on_node_configured),
        )
        if scripts
    }
    groups = {"AdditionalSecurityGroups": [*request.security_group_ids]} if request.security_group_ids else {}
    own = without_exclusive(request.slurm_settings)
    return {
        "Name": request.name,
        "CapacityType": capacity_type(members[0].fleet),
        "ComputeResources": [one for member in members for one in _compute_resources(member)],
        "Networking": {"SubnetIds": [*request.subnet_ids], **groups},
        "ComputeSettings": {"LocalStorage": {"RootVolume": volume}},
        **({"Image": {"CustomAmi": request.image_id}} if request.image_id else {}),
        **({"CustomActions": actions} if actions else {}),
        **_iam(request),
        **({"JobExclusiveAllocation": True} if own != request.slurm_settings else {}),
        **({"CustomSlurmSettings": own} if own else {}),
        **({"Tags": [{"Key": key, "Value": value} for key, value in request.tags.items()]} if request.tags else {}),
    }


def _scripts(scripts: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Any]:
    entries = [{"Script": url, **({"Args": [*arguments]} if arguments else {})} for url, arguments in scripts]
    return entries[0] if len(entries) == 1 else {"Sequence": entries}


def _iam(request: QueueRequest) -> dict[str, Any]:
    rights: dict[str, Any] = {
        **({"AdditionalIamPolicies": [{"Policy": arn} for arn in request.policies]} if request.policies else {}),
        **({"S3Access": [one.document() for one in request.objects]} if request.objects else {}),
    }
    return {"Iam": rights} if rights else {}


def _compute_resources(member: ComputeResourceRequest) -> list[dict[str, Any]]:
    """One for each block of several, of which each is a reservation of its own; else one."""
    fleet = member.fleet
    if not fleet.terms.blocks:
        return [_compute_resource(member, member.name, member.reservation_id or fleet.terms.reservation_id)]
    return [
        _compute_resource(member, f"{member.name}-{number}", block.reservation_id, nodes=block.node_count)
        for number, block in enumerate(fleet.terms.blocks, start=1)
    ]


def _compute_resource(
    member: ComputeResourceRequest, name: str, reservation_id: str | None, *, nodes: int | None = None
) -> dict[str, Any]:
    fleet = member.fleet
    price, most = fleet.terms.max_price_usd_per_hour, nodes or fleet.maximum
    least = most if fleet.keeps_size else static_nodes(fleet)
    settings = _without_weight(member.slurm_settings)
    weight = next((found for one in member.slurm_settings.items() if (found := _weight(*one))), None)
    return {
        "Name": name,
        "InstanceType": fleet.instance_type.name,
        "MinCount": least,
        "MaxCount": most,
        "Efa": {"Enabled": fleet.efa},
        "Networking": {"PlacementGroup": _placement_group(member)},
        **_target(fleet, reservation_id),
        **({} if price is None else {"SpotPrice": price}),
        **({} if weight is None else {"StaticNodePriority": weight, "DynamicNodePriority": weight}),
        **({"CustomSlurmSettings": settings} if settings else {}),
    }


def _placement_group(member: ComputeResourceRequest) -> dict[str, Any]:
    """The group, always stated: ParallelCluster refuses EFA where nothing is stated (EfaPlacementGroupValidator)."""
    origin = member.fleet.placement.origin
    if origin is GroupOrigin.RESERVATION and member.placement_group_name:
        return {"Name": member.placement_group_name}
    return {"Enabled": origin is GroupOrigin.NEW}


def _target(fleet: FleetPlan, reservation_id: str | None) -> dict[str, Any]:
    if reservation_id is not None:
        return {"CapacityReservationTarget": {"CapacityReservationId": reservation_id}}
    group = fleet.terms.reservation_group_arn
    return {} if group is None else {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": group}}
