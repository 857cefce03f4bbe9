"""The resources of which `plan --against` reports changes: one row each, with its sentences, stack by stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

from cdk_gpu_clusters.fleet.karpenter import is_static
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.endpoints import endpoints_for, gateways_for
from cdk_gpu_clusters_stacks.manifests.cluster import kubernetes_version, node_pools, releases, volumes
from cdk_gpu_clusters_stacks.manifests.files import MODEL_KINDS, applied
from cdk_gpu_clusters_stacks.spec.changes import Resource
from cdk_gpu_clusters_stacks.spec.data import CheckpointsSpec, EfsSpec, LustreSpec, OpenZfsSpec
from cdk_gpu_clusters_stacks.spec.fleet import AlarmsSpec, FleetSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec, LoadBalancerSpec
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS
from cdk_gpu_clusters_stacks.spec.network import NewNetwork

from ._sides import FleetSide, Side

_SCHEMA = "CloudFormation registry schema of {}, createOnlyProperties (cfn-lint 1.58.0)"

#: Says what happens to running nodes, given the stack before and after.
NodesText = Callable[[Side, Side], str]


def _always(side: Side) -> bool:  # noqa: ARG001
    return True


@dataclass(frozen=True, slots=True)
class Row:
    """A resource, and what is reported of each effect on it.

    Attributes:
        resource: What keys of the file declare.
        type: CloudFormation type; empty for an entire stack.
        exists: Whether a stack has it.
        items: Like resources by name, for rows of several; a sentence then contains `{item}`.
        updated, replaced, added, removed: What happens to it.
        joins, leaves: The same for another orchestrator; default: `added` and `removed`.
        stays: Whether it stays when the orchestrator changes.
        nodes_leave: The same when the orchestrator changes.
        data_replaced: The same if it is replaced.
        source: What the statements rest on; default for replaced types: their schema.
    """

    resource: Resource
    type: str
    _: KW_ONLY
    exists: Callable[[Side], bool] = _always
    items: Callable[[Side, Side], Mapping[str, object]] | None = None
    updated: str = ""
    replaced: str = ""
    added: str = ""
    removed: str = ""
    joins: str = ""
    leaves: str = ""
    stays: bool = False
    nodes: str | NodesText = ""
    nodes_leave: str = ""
    data: str = ""
    data_replaced: str = ""
    source: str = ""


# Whether a stack has a resource.


def _egress(kind: str) -> Callable[[Side], bool]:
    return lambda side: isinstance(side.cluster.network, NewNetwork) and side.cluster.network.egress == kind


def _records_traffic(side: Side) -> bool:
    return isinstance(side.cluster.network, NewNetwork) and side.cluster.network.flow_logs


def _zones(side: Side, other: Side) -> Mapping[str, object]:  # noqa: ARG001
    network = side.cluster.network
    return dict.fromkeys(network.control_zones) if isinstance(network, NewNetwork) else {}


def _services(side: Side, other: Side) -> Mapping[str, object]:
    """Endpoints of a network made here: those of gateways, and the interfaces if it is closed before and after."""
    if not isinstance(side.cluster.network, NewNetwork) or not isinstance(other.cluster.network, NewNetwork):
        return {}
    stays_closed = _egress("closed")(side) and _egress("closed")(other)
    features = side.cluster.features
    return dict.fromkeys([*gateways_for(features), *(endpoints_for(features) if stays_closed else ())])


def _links(side: Side, other: Side) -> Mapping[str, object]:  # noqa: ARG001
    store = side.cluster.data.get(side.of)
    return {link.path: link for link in store.repositories} if isinstance(store, LustreSpec) else {}


def _makes(store: type[LustreSpec | OpenZfsSpec | EfsSpec | CheckpointsSpec]) -> Callable[[Side], bool]:
    return lambda side: isinstance(side.cluster.data.get(side.of), store)


def _has_directory_bucket(side: Side) -> bool:
    store = side.cluster.data.get(side.of)
    return isinstance(store, CheckpointsSpec) and store.checkpoints.express_zone_id is not None


def _fleet(holds: Callable[[FleetSide], bool]) -> Callable[[Side], bool]:
    return lambda side: side.fleet is not None and holds(side.fleet)


def _alarms(side: FleetSide) -> AlarmsSpec:
    return side.view.spec.alarms


def _balancer(side: FleetSide) -> LoadBalancerSpec | None:
    spec = side.view.spec
    if isinstance(spec, InferenceFleetSpec) and side.view.profile.runs_model_servers:
        return spec.load_balancer
    return None


def _is_served(side: FleetSide) -> bool:
    return _balancer(side) is not None


def _has_log_bucket(side: FleetSide) -> bool:
    balancer = _balancer(side)
    return balancer is not None and balancer.access_log_bucket is None


def _scales_with_requests(side: FleetSide) -> bool:
    spec = side.view.spec
    return isinstance(spec, InferenceFleetSpec) and _is_served(side) and spec.requests_per_minute_per_node is not None


# What happens to running nodes.


def _follow_ec2_template(before: Side, after: Side) -> str:  # noqa: ARG001
    if _rolls(after):
        return "running nodes are replaced one at a time (update: rolling)"
    return "running nodes stay as they are; nodes that are launched later follow the new template (update: never)"


def _follow_eks_template(before: Side, after: Side) -> str:
    if _changes_hands(before, after):  # the row of the node group says it
        return ""
    if _rolls(after):
        return "EKS replaces running nodes one at a time, and drains each (update: rolling)"
    return (
        "running nodes stay as they are, and so do nodes that are launched later: the group keeps the version of the "
        "template that it was made with (update: never)"
    )


def _rolls(side: Side) -> bool:
    return side.fleet is not None and side.fleet.view.spec.update == "rolling"


def _is_reconciled(side: FleetSide) -> bool:
    capacity = side.plan.capacity
    return capacity.ends_at is not None or CapacityKind(capacity.kind).is_reserved


def _keeps_size(side: FleetSide) -> bool:
    return side.plan.minimum_nodes == side.plan.maximum_nodes or CapacityKind(side.plan.capacity.kind).is_block


def _follow_capacity(before: Side, after: Side) -> str:
    """What the next run does to the nodes: it fills the new capacity, and empties the group before its start."""
    if before.fleet is None or after.fleet is None:
        return ""
    old, new = before.fleet.view.plan.terms, after.fleet.view.plan.terms
    left = [one for one in old.reservation_ids if one not in new.reservation_ids]
    if new.kind.is_block and left:
        return (
            f"the nodes of {', '.join(left)}, which leaves the file, keep running until it ends, undrained, if another "
            "block has started, and are drained at once if none has: remove a block when it is over"
        )
    if len(new.blocks) > len(old.reservation_ids):
        return "running nodes stay; those of a block that is added are launched when it runs"
    return "running nodes stay until the new end"


def _has_several_blocks(side: FleetSide) -> bool:
    return side.has_scaling_group and bool(side.view.plan.terms.blocks)


def _follow_size(before: Side, after: Side) -> str:
    if before.fleet is None or after.fleet is None:
        return ""
    old, new = before.fleet.plan, after.fleet.plan
    if _is_reconciled(after.fleet) and _keeps_size(after.fleet):
        return "the next run of the state machine sets the size to what is paid for"
    more = new.minimum_nodes - old.minimum_nodes
    if more > 0:
        return f"{more} more nodes are launched"
    if new.maximum_nodes < old.maximum_nodes:
        return f"nodes above {new.maximum_nodes:,} are drained and terminated; EC2 Auto Scaling chooses which"
    return ""


def _changes_hands(before: Side, after: Side) -> bool:
    """Whether Karpenter takes over from EKS, or EKS from Karpenter."""
    return before.fleet is not None and after.fleet is not None and before.fleet.is_pool is not after.fleet.is_pool


def _follow_pool(before: Side, after: Side) -> str:
    """What happens to the nodes of a node pool of Karpenter."""
    if before.fleet is None or after.fleet is None:
        return ""
    if _changes_hands(before, after):
        if after.fleet.is_pool:
            return (
                "Karpenter launches other nodes, at once or for pods that wait; into a reservation without room only "
                "when the old nodes are gone"
            )
        return (
            "Karpenter drains its nodes and ends them; the deployment waits for it for 15 minutes, so end or move the "
            "jobs first"
        )
    old, new = before.fleet.view.plan, after.fleet.view.plan
    if is_static(old) is not is_static(new):
        return "Karpenter refuses to make a pool of a fixed size one that scales, or back: delete the NodePool first"
    if _rolls(after):
        return "Karpenter replaces running nodes that differ one at a time, the new one first (update: rolling)"
    return "running nodes stay as they are; nodes that are launched later are of the new class (update: never)"


def _new_version(before: Side, after: Side) -> bool:
    return kubernetes_version(before.cluster) != kubernetes_version(after.cluster)


def _follow_version(before: Side, after: Side) -> str:
    """What nodes do when the control plane has another version: the groups of fleets follow in their own stacks."""
    if not _new_version(before, after):
        return "nodes go on running"
    fleets: dict[str, FleetSpec | InferenceFleetSpec] = {
        **after.cluster.training.fleets,
        **after.cluster.inference.fleets,
    }
    rolling = [name for name, one in fleets.items() if one.update == "rolling"]
    kept = [name for name in fleets if name not in rolling]
    parts = ["nodes go on running, then EKS replaces the system nodes one at a time, and drains each"]
    if rolling:
        parts.append(f"then the nodes of {', '.join(rolling)}, by their stacks")
    if kept:
        parts.append(
            f"nodes of {', '.join(kept)} keep {kubernetes_version(before.cluster)} (update: never): bring them to this "
            "version before the next one"
        )
    return "; ".join(parts)


def _follow_system_nodes(before: Side, after: Side) -> str:
    if _new_version(before, after):
        return "EKS replaces the system nodes one at a time, after the control plane, and drains each"
    return ""


def _follow_group(before: Side, after: Side) -> str:
    """What a changed node group does to its nodes."""
    if _new_version(before, after) and _rolls(after):
        return "EKS replaces running nodes one at a time, and drains each (update: rolling)"
    return _follow_group_size(before, after)


def _follow_group_size(before: Side, after: Side) -> str:
    if _changes_hands(before, after):
        if after.fleet is not None and after.fleet.is_pool:
            return "EKS drains and ends its nodes, once the node pool of Karpenter is there: both have nodes meanwhile"
        return _NO_ROOM
    group = None if after.fleet is None else after.fleet.plan.node_group
    if group is None or group.desired_nodes is None:
        return ""
    return "EKS launches or drains nodes to reach the new size; a deployment sets no size if something else sets it"


def _has_own_queue(side: Side) -> bool:
    return side.fleet is not None and side.fleet.has_compute_node_group and not side.cluster.pcs.queues


def _follow_slurm(before: Side, after: Side) -> str:
    old, new = before.cluster.pcs, after.cluster.pcs
    if old.size != new.size:
        return "nodes of the old cluster stay in it until their stacks are deployed: their groups are replaced"
    if old.slurm_version != new.slurm_version:
        return "running nodes keep their version of Slurm until the stacks of their fleets are deployed"
    return ""


#: The guide's pages "Updating SageMaker HyperPod cluster configuration" (type, role and threads of a group),
#: "Spot instances in Amazon SageMaker HyperPod" (CapacityRequirements), "Migrating to API-driven Slurm configuration"
#: (Merge) and "Using an external accounting database with SageMaker HyperPod Slurm clusters"; the mode has one value.
FIXED_SOURCE = (
    "Amazon SageMaker AI developer guide, read 2026-11; botocore 1.44.5, sagemaker service model: UpdateCluster, "
    "NodeProvisioningMode"
)


def fixed_of_group(before: Side, after: Side) -> list[str]:
    """What SageMaker does not change of an instance group, and both files have otherwise."""
    if before.fleet is None or after.fleet is None:
        return []
    old, new = before.fleet.view, after.fleet.view
    pairs = {
        "instance type": (old.plan.instance_type.name, new.plan.instance_type.name),
        "purchase as Spot Instances": tuple(one.plan.terms.kind is CapacityKind.SPOT for one in (old, new)),
        "threads per core": (old.group_options.threads_per_core, new.group_options.threads_per_core),
        # A fleet with checkpoints has a role of its own.
        "execution role": tuple(_has_checkpoints(one) for one in (before.fleet, after.fleet)),
    }
    return [what for what, (one, other) in pairs.items() if one != other]


def _has_checkpoints(side: FleetSide) -> bool:
    spec = side.view.spec
    return isinstance(spec, FleetSpec) and spec.checkpoints is not None


def fixed_of_hyperpod(before: Side, after: Side) -> list[str]:
    """What SageMaker does not change of a cluster, and both files have otherwise."""
    old, new = before.cluster.hyperpod, after.cluster.hyperpod
    on_slurm = ORCHESTRATORS[after.cluster.orchestrator].is_hyperpod_slurm
    both_login = bool(old.login.nodes and new.login.nodes)
    found = {
        "continuous provisioning": old.continuous_provisioning and not new.continuous_provisioning,
        # The guide migrates clusters with the strategy Merge, and those without continuous provisioning have Managed.
        "continuous provisioning of a cluster with the strategy Managed": on_slurm
        and new.continuous_provisioning
        and not old.continuous_provisioning,
        "type of the controller": on_slurm and old.controller.instance_type != new.controller.instance_type,
        "type of the login nodes": on_slurm and both_login and old.login.instance_type != new.login.instance_type,
        "accounting database of your own, which it keeps": on_slurm
        and old.accounting_database is not None
        and new.accounting_database is None,
    }
    return [what for what, is_so in found.items() if is_so]


def _follow_instance_group(before: Side, after: Side) -> str:
    if before.fleet is None or after.fleet is None:
        return ""
    old, new = before.fleet.plan, after.fleet.plan
    if fixed_of_group(before, after):
        return "rename the fleet: another group is made with its nodes, and the old one goes with its own"
    if old.maximum_nodes != new.maximum_nodes:
        return f"{new.maximum_nodes:,} nodes in place of {old.maximum_nodes:,}; jobs on nodes that go fail"
    return "running nodes keep their scripts until SageMaker replaces them"


def _follow_compute_nodes(before: Side, after: Side) -> str:
    if before.fleet is None or after.fleet is None:
        return ""
    if _is_reconciled(after.fleet) and _keeps_size(after.fleet):
        return "the next run of the state machine sets the size to what is paid for"
    old, new = before.fleet.plan, after.fleet.plan
    if new.maximum_nodes < old.maximum_nodes:
        return f"nodes above {new.maximum_nodes:,} end; their jobs fail, and return to their queues"
    more = new.minimum_nodes - old.minimum_nodes
    return f"{more} more nodes are launched" if more > 0 else ""


def _follow_batch_template(before: Side, after: Side) -> str:
    plan = None if after.fleet is None else after.fleet.plan.compute_environment
    old = None if before.fleet is None else before.fleet.plan.compute_environment
    # With another strategy it is another environment, whose rows say it.
    return "" if plan is None or old is None or plan.strategy != old.strategy else plan.update


_OLD_STORE_STAYS = "the old one would stay, with its data, and nothing would use it (UpdateReplacePolicy: Retain)"
_LEFT_BEHIND = "EC2 deletes a group only when it is empty, so it may be left behind"
_NO_ROOM = (
    "nodes of the new group come before the old ones go: if a reservation has no room for both, the deployment "
    "fails; bring the fleet to zero nodes first"
)

_TAGS = Row(
    Resource.TAGS,
    "",
    stays=True,
    updated="what takes tags gets the new ones; nodes that run keep the old",
    source="AWS CDK: tags of an app",
)
_NETWORK = (
    _TAGS,
    Row(
        Resource.VPC,
        "AWS::EC2::VPC",
        replaced="another VPC is made",
        nodes="nodes of the old VPC cannot move",
    ),
    Row(
        Resource.FLEET_SUBNET,
        "AWS::EC2::Subnet",
        replaced="CloudFormation makes the new subnet before it deletes the old one, whose addresses are in use: the "
        "deployment fails. Make a network beside it, under another cluster name",
        nodes="running nodes stay in the old subnet",
    ),
    Row(
        Resource.ZONE_SUBNETS,
        "AWS::EC2::Subnet",
        items=_zones,
        added="control and load-balancer subnets in {item}",
        removed="control and load-balancer subnets in {item} go; those with load balancers or nodes in use cannot, and "
        "the deployment fails",
    ),
    Row(
        Resource.NAT_GATEWAY,
        "AWS::EC2::NatGateway",
        exists=_egress("nat"),
        added="nodes reach the internet through a NAT gateway",
        removed="nodes no longer reach the internet",
        nodes="running nodes keep their addresses",
    ),
    Row(
        Resource.NAT_GATEWAY,
        "AWS::EC2::Subnet",
        exists=_egress("nat"),
        added="public subnet of the NAT gateway",
        removed="public subnet of the NAT gateway",
    ),
    Row(
        Resource.ENDPOINTS,
        "AWS::EC2::VPCEndpoint",
        exists=_egress("closed"),
        added="AWS services are reached through interface endpoints",
        removed="AWS services are reached through the NAT gateway",
    ),
    Row(
        Resource.ENDPOINTS,
        "AWS::EC2::SecurityGroup",
        exists=_egress("closed"),
        added="group of the endpoints",
        removed="group of the endpoints",
    ),
    Row(
        Resource.ENDPOINT_POLICIES,
        "AWS::EC2::VPCEndpoint",
        updated="what the endpoints carry changes",
    ),
    Row(
        Resource.MORE_ENDPOINTS,
        "AWS::EC2::VPCEndpoint",
        items=_services,
        added="endpoint of {item}",
        removed="the endpoint of {item} goes",
    ),
    Row(
        Resource.FLOW_LOG,
        "AWS::EC2::FlowLog",
        exists=_records_traffic,
        added="traffic is recorded from now on",
        removed="traffic is no longer recorded",
        data="the log group goes with its stack's rules",
    ),
)
_DATA = (
    _TAGS,
    Row(
        Resource.FILE_SYSTEM,
        "AWS::FSx::FileSystem",
        exists=_makes(LustreSpec),
        updated="FSx changes the file system in place",
        replaced="CloudFormation would make another, empty file system: refused",
        data="the data stay, and clients keep them mounted",
        data_replaced=_OLD_STORE_STAYS,
        source="rules GPU-LUS-030 to -033 and GPU-SPEC-024",
    ),
    Row(
        Resource.OPENZFS,
        "AWS::FSx::FileSystem",
        exists=_makes(OpenZfsSpec),
        updated="FSx changes the file system in place",
        replaced="CloudFormation would make another, empty file system: refused",
        data="the home directories stay, and clients keep them mounted",
        data_replaced=_OLD_STORE_STAYS,
        source="rules GPU-HOM-010 and GPU-SPEC-024",
    ),
    Row(
        Resource.EFS,
        "AWS::EFS::FileSystem",
        exists=_makes(EfsSpec),
        updated="EFS changes the file system in place",
        replaced="CloudFormation would make another, empty file system: refused",
        data="the home directories stay, and clients keep them mounted",
        data_replaced=_OLD_STORE_STAYS,
        source="rules GPU-HOM-010 and GPU-SPEC-024; " + _SCHEMA.format("AWS::EFS::FileSystem"),
    ),
    Row(
        Resource.S3_LINK,
        "AWS::FSx::DataRepositoryAssociation",
        items=_links,
        updated="the link of {item} changes in place",
        replaced="{item} would be linked to another bucket or prefix while it is linked: refused",
        added="{item} is linked to S3",
        removed="the link of {item} leaves its stack: it stays at FSx, unless it had on_removal: unlink",
        data="no file and no object goes",
        source="rule GPU-SPEC-024; " + _SCHEMA.format("AWS::FSx::DataRepositoryAssociation"),
    ),
    Row(
        Resource.BUCKET,
        "AWS::S3::Bucket",
        exists=_makes(CheckpointsSpec),
        updated="the bucket changes in place",
        replaced="CloudFormation would make another, empty bucket: refused",
        data="objects stay; new lifecycle rules hold for existing objects too",
        data_replaced=_OLD_STORE_STAYS,
        source="Amazon S3 user guide, lifecycle configuration; rule GPU-SPEC-024",
    ),
    Row(
        Resource.DIRECTORY_BUCKET,
        "AWS::S3Express::DirectoryBucket",
        exists=_has_directory_bucket,
        updated="the directory bucket changes in place",
        added="a directory bucket is made",
        removed="the directory bucket leaves its stack and stays, with its objects",
        replaced="CloudFormation would make another, empty directory bucket: refused",
        data="objects stay",
        data_replaced=_OLD_STORE_STAYS,
        source="rule GPU-SPEC-024",
    ),
)
_FABRIC = (
    _TAGS,
    Row(
        Resource.FABRIC_GROUP,
        "AWS::EC2::SecurityGroup",
        replaced="another group is made in the other VPC",
        nodes="running nodes keep the old group, which cannot go before them",
    ),
)
#: Rules take no tags.
_LINK = Row(
    Resource.LINK_RULES,
    "AWS::EC2::SecurityGroupIngress",
    replaced="the rules between the fabric and the store's servers are made again",
    nodes="mounts may hang for the moment between",
)
_KUBERNETES = (
    _TAGS,
    Row(
        Resource.CONTROL_PLANE,
        "AWS::EKS::Cluster",
        updated="the cluster changes in place; EKS updates one minor version at a time, and goes back by one only "
        "within 7 days",
        nodes=_follow_version,
        source="Amazon EKS API, UpdateClusterVersion and UpdateClusterConfig; "
        'Amazon EKS user guide, "Roll back a cluster to a previous Kubernetes version"; '
        + _SCHEMA.format("AWS::EKS::Cluster"),
    ),
    Row(
        Resource.SYSTEM_NODES,
        "AWS::EKS::Nodegroup",
        updated="the group of the system nodes changes in place",
        nodes=_follow_system_nodes,
        replaced="other system nodes are made, then the old ones go; the cluster's own pods move",
    ),
    Row(
        Resource.SYSTEM_TEMPLATE,
        "AWS::EC2::LaunchTemplate",
        updated="a new version of the template of the system nodes",
        nodes="EKS replaces the system nodes one at a time, and drains each",
        source="Amazon EKS user guide, customize managed nodes",
    ),
    Row(Resource.ADMINS, "AWS::EKS::AccessEntry", updated="access entries of administrators and teams come and go"),
)
_PCS_API = "AWS PCS API, UpdateCluster; " + _SCHEMA.format("AWS::PCS::Cluster")
_SLURM = (
    _TAGS,
    Row(
        Resource.SLURM_CLUSTER,
        "AWS::PCS::Cluster",
        updated="the cluster changes in place; AWS PCS updates Slurm without ending jobs, and cannot go back",
        replaced="another cluster is made, without the accounting records and jobs of the old one, which AWS PCS does "
        "not delete before its node groups: make a cluster beside it, under another name, and move the jobs first",
        nodes=_follow_slurm,
        source=_PCS_API,
    ),
)
_QUEUE = (
    _TAGS,
    Row(
        Resource.QUEUE,
        "AWS::PCS::Queue",
        updated="the queue changes in place; jobs in it stay",
        replaced="another queue is made, and the old one goes with the jobs that wait in it",
        source="AWS PCS API, UpdateQueue; " + _SCHEMA.format("AWS::PCS::Queue"),
    ),
)
_LOGIN = (
    _TAGS,
    Row(
        Resource.LOGIN_TEMPLATE,
        "AWS::EC2::LaunchTemplate",
        updated="a new version of the template",
        nodes="AWS PCS replaces each login node, and sessions on it end",
        source='EC2 API, CreateLaunchTemplateVersion; AWS PCS user guide, "Updating an AWS PCS compute node group"',
    ),
    Row(
        Resource.LOGIN_SECURITY_GROUP,
        "AWS::EC2::SecurityGroup",
        exists=lambda side: bool(side.cluster.pcs.login.ssh_cidrs),
        updated="its rules change in place",
        added="a group that lets these ranges reach SSH",
        removed="no one reaches SSH any more; sessions of Systems Manager go on",
    ),
    Row(
        Resource.LOGIN_MOUNT_RULES,
        "AWS::EC2::SecurityGroupIngress",
        exists=lambda side: bool(side.cluster.pcs.login.mounts),
        updated="rules between the login nodes and the servers of what they mount come and go",
        added="rules between the login nodes and the servers of what they mount are made",
        removed="rules between the login nodes and the servers of what they mount go",
        source=_SCHEMA.format("AWS::EC2::SecurityGroupIngress"),
    ),
    Row(
        Resource.LOGIN_NODES,
        "AWS::PCS::ComputeNodeGroup",
        updated="the login nodes are replaced, and sessions on them end",
        replaced="other login nodes are made, then the old ones go, with the sessions on them",
        data="files on the root volumes of the login nodes go; what they mount stays",
        source='AWS PCS user guide, "Updating an AWS PCS compute node group"; '
        + _SCHEMA.format("AWS::PCS::ComputeNodeGroup"),
    ),
)


def _is_deployed(side: Side) -> bool:
    return side.cluster.parallelcluster.custom_resource is not None


def _follow_scripts(before: Side, after: Side) -> str:  # noqa: ARG001
    return "" if _is_deployed(after) else "nodes get other scripts by pcluster update-cluster only"


def _follow_cluster(before: Side, after: Side) -> str:
    """What becomes of the nodes of a cluster with its resource."""
    old = before.cluster.parallelcluster.custom_resource
    if old is None:
        return ""
    if _is_deployed(after):
        return "queues that change drain, and their nodes are replaced when their jobs have ended"
    if old.delete_with_stack:
        return "its nodes go with it, and their jobs"
    return f"its nodes go on running: pcluster {old.version} updates and deletes it from now on"


def _follow_provider(before: Side, after: Side) -> str:
    old, new = before.cluster.parallelcluster.custom_resource, after.cluster.parallelcluster.custom_resource
    if old is None or new is None or old.version == new.version:
        return ""
    return f"a cluster that {old.version} has made goes on, and can no longer be updated: delete it before"


_PROVIDER = "aws/aws-parallelcluster @ 451cc53, cloudformation/custom_resource/cluster.yaml"
_PARALLELCLUSTER = (
    _TAGS,
    Row(
        Resource.FABRIC_GROUP,
        "AWS::EC2::SecurityGroup",
        replaced="another group of clients is made in the other VPC, which the configuration has to name",
        nodes="running nodes keep the old group, which cannot go before them",
    ),
    Row(
        Resource.CONFIGURATION,
        "",
        updated="scripts of nodes, ways to file systems, or rights to checkpoints change",
        nodes=_follow_scripts,
        source="aws-parallelcluster 3.16.1 on PyPI: CustomActions of the configuration, by the URL of a script",
    ),
    Row(
        Resource.CONFIGURATION,
        "AWS ParallelCluster",
        updated="the configuration changes: deploy, then run gpu-clusters export --to pcluster with the new outputs, "
        "and pcluster update-cluster",
        nodes="the deployment itself changes none; pcluster update-cluster drains the queues that change, and refuses "
        "what ParallelCluster cannot change",
        source="aws-parallelcluster 3.16.1 on PyPI: QueueUpdateStrategy DRAIN, and UpdatePolicy of each setting",
    ),
    Row(
        Resource.CLUSTER_PROVIDER,
        "AWS::CloudFormation::Stack",
        exists=_is_deployed,
        updated="the function that makes clusters gets another role or version",
        added="AWS's template makes the function that makes clusters",
        removed="the function that makes clusters goes",
        nodes=_follow_provider,
        source=_PROVIDER,
    ),
    Row(
        Resource.CLUSTER_RESOURCE,
        "Custom::PclusterCluster",
        exists=_is_deployed,
        updated="the deployment updates the cluster, and is rolled back if ParallelCluster cannot change it so",
        added="the deployment makes the cluster, and fails if pcluster has made it before: then delete that one first",
        removed="the resource of the cluster goes",
        nodes=_follow_cluster,
        source=_PROVIDER,
    ),
)
_KARPENTER = (
    _TAGS,
    Row(
        Resource.KARPENTER,
        "",
        updated="the chart of Karpenter, its rights, or what applies its objects change in place",
        nodes="the pods of Karpenter restart; nodes go on running",
        source="AWS CDK: helm upgrade of its kubectl provider",
    ),
)


def _follow_software(before: Side, after: Side) -> str:
    """What becomes of pods and jobs: nodes of Slurm are pods of the software, too."""
    old, new = _node_sets(before), _node_sets(after)
    gone = [name for name in old if name not in new]
    changed = [name for name in old if name in new and old[name] != new[name]]
    words = "pods of the software restart on running nodes; "
    falls = _scaled_from(before, after)
    if falls:
        words += (
            f"the servers of {', '.join(falls)} go to one each, until their autoscaler adds others, unless the number "
            "is taken out of what was applied last before this deployment (docs: serving models, scaling); "
        )
    remade = _remade(before, after)
    if remade:
        words += (
            f"all servers of {', '.join(remade)} go, and others start in their places: requests find none until then; "
        )
    tried = _tried(before, after)
    if tried:
        words += f"new versions of {', '.join(tried)} are tried on some servers first; "
    if before.cluster.eks.software.efa != after.cluster.eks.software.efa:
        words += (
            "waiting jobs that ask for EFA interfaces as before never start: delete them, and apply those of the file; "
        )
    if changed:
        words += (
            f"Slurm drains nodes of {', '.join(changed)}, a quarter of a partition at once (rounded up), and replaces "
            "the pod of each when its jobs have ended; "
        )
    if gone:
        return f"{words}the pods of Slurm on {', '.join(gone)} go, and with them the jobs that run there"
    return f"{words}jobs go on"


def _scaled_from(before: Side, after: Side) -> list[str]:
    """Model servers of a given number, more than one, which an autoscaler is to set: the apply removes the number."""
    fixed, scaled = _models(before), _models(after)
    given = {name for name, one in fixed.items() if one["spec"].get("replicas", 1) > 1}
    # One of another kind is made anew, and nothing was applied of it before.
    kept = {name for name, one in scaled.items() if name in fixed and fixed[name]["kind"] == one["kind"]}
    return sorted(name for name in given & kept if "replicas" not in scaled[name]["spec"])


def _remade(before: Side, after: Side) -> list[str]:
    """Model servers that get a canary, or lose it: a Rollout takes the place of a Deployment, or the other way."""
    old, new = _models(before), _models(after)
    return sorted(name for name in old.keys() & new.keys() if old[name]["kind"] != new[name]["kind"])


def _tried(before: Side, after: Side) -> list[str]:
    """Model servers with a canary whose pods change."""
    old, new = _models(before), _models(after)
    both = [name for name in old.keys() & new.keys() if old[name]["kind"] == new[name]["kind"] == "Rollout"]
    return sorted(name for name in both if old[name]["spec"]["template"] != new[name]["spec"]["template"])


def _models(side: Side) -> Mapping[str, KubernetesObject]:
    """What runs the servers of each model, by its name."""
    parts = applied(side.cluster, _pools(side)).values()
    return {one["metadata"]["name"]: one for part in parts for one in part.objects if one["kind"] in MODEL_KINDS}


def _pools(side: Side) -> Mapping[str, NodePool]:
    return node_pools(side.cluster, volumes(side.cluster))


def _node_sets(side: Side) -> Mapping[str, object]:
    """The groups of nodes of Slurm, as its chart gets them, without their size."""
    made = [one.values["nodesets"] for one in releases(side.cluster, _pools(side).values()) if one.chart == "slurm"]
    return {name: {**one, "replicas": 0} for sets in made for name, one in sets.items()}


def _keeps_names(side: Side) -> bool:
    gateway = side.cluster.eks.gateway
    return gateway is not None and gateway.hosted_zone is not None


_ROLES = "Amazon EKS user guide, EKS Pod Identities"
_SERVING = (
    _TAGS,
    Row(
        Resource.BALANCER_ROLE,
        "AWS::IAM::Role",
        exists=lambda side: side.cluster.eks.gateway is not None,
        added="the role of the AWS Load Balancer Controller is made",
        removed="the role of the AWS Load Balancer Controller goes; a load balancer whose gateway is still there stays",
        source=f"{_ROLES}; kubernetes-sigs/aws-load-balancer-controller @ 11eb202, docs/guide/gateway/l7gateway.md",
    ),
    Row(
        Resource.NAMES_ROLE,
        "AWS::IAM::Role",
        exists=_keeps_names,
        updated="ExternalDNS may change the records of another zone",
        added="the role of ExternalDNS is made",
        removed="the role of ExternalDNS goes; records that it has made may stay",
        source=_ROLES,
    ),
    Row(
        Resource.SCALER_ROLE,
        "AWS::IAM::Role",
        exists=lambda side: side.cluster.eks.software.keda,
        added="the role of KEDA is made",
        removed="the role of KEDA goes",
        source=_ROLES,
    ),
    Row(
        Resource.CANARY_ROLE,
        "AWS::IAM::Role",
        exists=lambda side: side.cluster.eks.software.argo_rollouts,
        added="the role of Argo Rollouts is made",
        removed="the role of Argo Rollouts goes",
        source=_ROLES,
    ),
)
_SOFTWARE = (
    _TAGS,
    Row(
        Resource.SOFTWARE,
        "",
        updated="charts and manifests that differ are installed again; what the file no longer has is removed",
        nodes=_follow_software,
        source="AWS CDK: helm upgrade and kubectl apply of its kubectl provider; Kubernetes documentation, "
        '"Horizontal Pod Autoscaling": "Migrating Deployments and StatefulSets to horizontal autoscaling"; '
        "SlinkyProject/slurm-operator @ 87313da, docs/concepts/nodeset-controller.md and "
        "internal/controller/nodeset/nodeset_sync.go",
    ),
)


def _has_metrics(side: Side) -> bool:
    return side.cluster.monitoring.metrics is not None


def _scrapes_by_name(side: Side) -> bool:
    return _has_metrics(side) and side.cluster.orchestrator != "eks"


def _makes_zone(side: Side) -> bool:
    metrics = side.cluster.monitoring.metrics
    return _scrapes_by_name(side) and metrics is not None and metrics.zone_id is None


_MONITORING = (
    _TAGS,
    Row(
        Resource.DASHBOARD,
        "AWS::CloudWatch::Dashboard",
        exists=lambda side: side.cluster.monitoring.dashboard,
        updated="the dashboard shows what the file has now",
        added="a dashboard is made",
        removed="the dashboard goes; metrics stay",
    ),
    Row(
        Resource.BUDGET,
        "AWS::Budgets::Budget",
        exists=lambda side: side.cluster.monitoring.budget is not None,
        updated="the budget changes in place",
        replaced="another budget is made, and counts the month again from the bill",
        added="a budget is made",
        removed="the budget goes, and no one is notified of costs any more",
    ),
    Row(
        Resource.BUDGET_TOPIC,
        "AWS::SNS::Topic",
        exists=lambda side: side.cluster.monitoring.notifies_own_topic,
        added="each address confirms the topic by a link first",
        removed="the budget no longer notifies by mail",
    ),
    Row(
        Resource.BUDGET_ADDRESSES,
        "AWS::SNS::Subscription",
        exists=lambda side: side.cluster.monitoring.notifies_own_topic,
        updated="addresses come and go; each new one confirms a mail first",
        added="each address is subscribed, once it has confirmed",
        removed="addresses are no longer notified",
    ),
    Row(
        Resource.BRAKE,
        "AWS::StepFunctions::StateMachine",
        exists=lambda side: side.cluster.monitoring.brake is not None,
        updated="the brake stops other fleets, or at another percentage; fleets that it stopped stay so",
        added="the fleets stop when the budget is spent, from now on",
        removed="no fleet stops any more when the budget is spent; fleets that were stopped stay so",
    ),
)
_METRICS = (
    Row(
        Resource.SCRAPER,
        "AWS::APS::Scraper",
        exists=_has_metrics,
        updated="the collector reads what the file has now",
        replaced="another collector is made, and the old one goes; metrics that it sent stay",
        added="a collector is made, and bills by the hour",
        removed="the collector goes; metrics that it sent stay",
    ),
    Row(
        Resource.SCRAPER_GROUP,
        "AWS::EC2::SecurityGroup",
        exists=_scrapes_by_name,
        added="the nodes admit the collector",
        removed="the nodes no longer admit it",
    ),
    Row(
        Resource.NODE_ADDRESSES,
        "AWS::StepFunctions::StateMachine",
        exists=_scrapes_by_name,
        updated="the addresses of what the file has now are written, into the zone that it names",
        added="the addresses of the nodes are written into a private hosted zone",
        removed="no addresses are written any more",
    ),
    Row(
        Resource.METRICS_ZONE,
        "AWS::Route53::HostedZone",
        exists=_makes_zone,
        added="a private hosted zone is made; one of its name that is left in the network makes the deployment fail: "
        "name it as zone_id",
        removed="the hosted zone stays, with its last records; name it as zone_id, or delete it by hand",
    ),
    Row(
        Resource.METRICS_WORKSPACE,
        "AWS::APS::Workspace",
        exists=lambda side: side.cluster.monitoring.has_workspace,
        updated="the workspace changes in place",
        added="a workspace is made",
        removed="the workspace stays, with its metrics; delete it by hand",
    ),
)
_GRAFANA = Row(
    Resource.GRAFANA,
    "AWS::Grafana::Workspace",
    exists=lambda side: side.cluster.monitoring.grafana is not None,
    updated="people sign in to the workspace in other ways",
    added="a workspace of Grafana is made; an administrator assigns people and adds data sources",
    removed="the workspace stays, with its dashboards; delete it by hand",
)
_NODE_ROLE = Row(
    Resource.NODE_ROLE,
    "AWS::IAM::Role",
    stays=True,
    updated="other policies on the role of the nodes, from now on",
    source="IAM user guide, roles",
)
_HYPERPOD = (
    _TAGS,
    Row(
        Resource.HYPERPOD_CLUSTER,
        "AWS::SageMaker::Cluster",
        updated="the cluster of HyperPod changes in place",
        replaced="another cluster is made with all its nodes, and the old one goes with its jobs",
        nodes="capacity must be there for both clusters at once; a training plan has room for one",
        source=_SCHEMA.format("AWS::SageMaker::Cluster"),
    ),
    Row(
        Resource.FLEET_SECURITY_GROUP,
        "AWS::EC2::SecurityGroup",
        replaced="another group is made in the other VPC",
    ),
    _NODE_ROLE,
    # Each fleet is one, a part of the cluster's resource.
    Row(
        Resource.INSTANCE_GROUP,
        "AWS::SageMaker::Cluster",
        updated="the instance group {item} changes in place",
        added="the instance group {item} is made with its nodes",
        removed="the instance group {item} goes with its nodes",
        nodes=_follow_instance_group,
        source="botocore 1.44.5, sagemaker service model: UpdateCluster, InstanceGroups and InstanceGroupsToDelete",
    ),
)
_CAPACITY = (
    _TAGS,
    Row(
        Resource.RESERVATION,
        "AWS::EC2::CapacityReservation",
        updated="the reservation changes in place; EC2 refuses more instances if there is no capacity",
        replaced="a new reservation is made first, for which capacity must be there, then the old one is cancelled: "
        "both bill meanwhile",
        nodes="running nodes go on at the on-demand rate when their reservation is cancelled",
        source='EC2 user guide, "Cancel a Capacity Reservation"; ' + _SCHEMA.format("AWS::EC2::CapacityReservation"),
    ),
    Row(
        Resource.RESERVED_PLACEMENT,
        "AWS::EC2::PlacementGroup",
        exists=_fleet(lambda side: side.plan.placement.is_made_here),
        added="a group is made for nodes that are launched from now on",
        removed=_LEFT_BEHIND,
        nodes="running nodes stay where they are, outside the new placement",
        source='EC2 user guide, "Delete a placement group"; ' + _SCHEMA.format("AWS::EC2::PlacementGroup"),
    ),
)
_FLEET = (
    _TAGS,
    Row(
        Resource.EC2_TEMPLATE,
        "AWS::EC2::LaunchTemplate",
        exists=_fleet(lambda side: side.has_scaling_group),
        updated="a new version of the template",
        joins="a template for the new nodes",
        leaves="the template of the old nodes",
        nodes=_follow_ec2_template,
        source="EC2 API, CreateLaunchTemplateVersion",
    ),
    Row(
        Resource.EKS_TEMPLATE,
        "AWS::EC2::LaunchTemplate",
        exists=_fleet(lambda side: side.has_node_group),
        updated="a new version of the template",
        added="a template for nodes that EKS launches",
        removed="the template goes: a node class of Karpenter takes its place",
        joins="a template for the new nodes",
        leaves="the template of the old nodes",
        nodes=_follow_eks_template,
        source="EC2 API, CreateLaunchTemplateVersion; Amazon EKS user guide, customize managed nodes",
    ),
    Row(
        Resource.PCS_TEMPLATE,
        "AWS::EC2::LaunchTemplate",
        exists=_fleet(lambda side: side.has_compute_node_group),
        updated="a new version of the template",
        joins="a template for the new nodes",
        leaves="the template of the old nodes",
        nodes="AWS PCS replaces each running node when its jobs have ended",
        source='EC2 API, CreateLaunchTemplateVersion; AWS PCS user guide, "Updating an AWS PCS compute node group"',
    ),
    Row(
        Resource.COMPUTE_NODE_GROUP,
        "AWS::PCS::ComputeNodeGroup",
        exists=_fleet(lambda side: side.has_compute_node_group),
        updated="the compute node group changes in place",
        replaced="another compute node group is made, and the old one goes with its nodes: AWS PCS changes neither "
        "instance type nor cluster of a group",
        joins="nodes are a compute node group of the Slurm cluster; jobs come by its queue",
        leaves="the compute node group goes with its nodes; running jobs fail, and return to their queues",
        nodes=_follow_compute_nodes,
        nodes_leave=_NO_ROOM,
        source="AWS PCS API, UpdateComputeNodeGroup; " + _SCHEMA.format("AWS::PCS::ComputeNodeGroup"),
    ),
    Row(
        Resource.BATCH_TEMPLATE,
        "AWS::EC2::LaunchTemplate",
        exists=_fleet(lambda side: side.has_compute_environment),
        updated="a new version of the template",
        joins="a template for the new nodes",
        leaves="the template of the old nodes",
        nodes=_follow_batch_template,
        source='EC2 API, CreateLaunchTemplateVersion; AWS Batch user guide, "Update a compute environment in AWS '
        'Batch"; CloudFormation template reference, AWS::Batch::ComputeEnvironment, ReplaceComputeEnvironment',
    ),
    Row(
        Resource.COMPUTE_ENVIRONMENT,
        "AWS::Batch::ComputeEnvironment",
        exists=_fleet(lambda side: side.has_compute_environment),
        updated="the compute environment changes in place",
        replaced="another environment is made, the queue moves to it, and the old one goes with its running jobs",
        joins="nodes are a compute environment of AWS Batch; jobs come by its queue",
        leaves="the compute environment goes with its nodes and running jobs",
        nodes_leave=_NO_ROOM,
        source="CloudFormation registry schema of AWS::Batch::ComputeEnvironment (2026-10-20), "
        "conditionalCreateOnlyProperties",
    ),
    Row(
        Resource.JOB_QUEUE,
        "AWS::Batch::JobQueue",
        exists=_fleet(lambda side: side.has_compute_environment),
        updated="the job queue changes in place",
        joins="jobs come by a job queue of AWS Batch (output JobQueueArn)",
        leaves="the job queue goes, with the jobs that wait in it",
        source="AWS Batch API, UpdateJobQueue",
    ),
    Row(
        Resource.JOB_DEFINITION,
        "AWS::Batch::JobDefinition",
        exists=_fleet(lambda side: side.has_compute_environment),
        updated="a new revision of the job (output JobDefinitionArn); jobs that were submitted keep the old one",
        joins="a multi-node job on all nodes of the fleet",
        leaves="the job definition goes",
        source="AWS Batch API, RegisterJobDefinition",
    ),
    Row(
        Resource.FLEET_QUEUE,
        "AWS::PCS::Queue",
        exists=_has_own_queue,
        replaced="another queue is made, and the old one goes with the jobs that wait in it",
        added="a queue of the fleet's name is made",
        removed="the queue of the fleet's name goes, with the jobs that wait in it: queues are those of pcs.queues",
        joins="jobs come by a queue of the fleet's name",
        leaves="the queue goes, with the jobs that wait in it",
        source=_SCHEMA.format("AWS::PCS::Queue"),
    ),
    Row(
        Resource.AUTO_SCALING_GROUP,
        "AWS::AutoScaling::AutoScalingGroup",
        exists=_fleet(lambda side: side.has_scaling_group),
        updated="the group changes in place",
        joins="nodes are an Auto Scaling group; a lifecycle hook holds each back until it is ready",
        leaves="the Auto Scaling group goes, with its lifecycle hooks: a node that is not ready starts neither kubelet "
        "nor slurmd",
        nodes=_follow_size,
        nodes_leave=_NO_ROOM,
        source="EC2 Auto Scaling API, UpdateAutoScalingGroup",
    ),
    Row(
        Resource.NODE_GROUP,
        "AWS::EKS::Nodegroup",
        exists=_fleet(lambda side: side.has_node_group),
        updated="the node group changes in place",
        replaced="another group is made in the other place, and the old one goes with its nodes",
        added="a managed node group, with the same nodes as the node pool",
        removed="the node group goes: a node pool of Karpenter takes its place, with the same nodes",
        joins="nodes are a managed node group of the cluster; pods select them by labels and tolerate their taints",
        leaves="the node group goes, and EKS drains its nodes",
        nodes=_follow_group,
        nodes_leave=_NO_ROOM,
        source="Amazon EKS API, UpdateNodegroupConfig; " + _SCHEMA.format("AWS::EKS::Nodegroup"),
    ),
    Row(
        Resource.NODE_POOL,
        "Custom::AWSCDK-EKS-KubernetesResource",
        exists=_fleet(lambda side: side.is_pool),
        updated="the node class and the node pool change in place",
        added="a node class and a node pool of Karpenter, with the same nodes as a managed node group",
        removed="the node class and the node pool go",
        nodes=_follow_pool,
        source="aws/karpenter-provider-aws @ 1d92708 (v1.14), concepts/disruption.md and concepts/nodepools.md",
    ),
    _NODE_ROLE,
    Row(
        Resource.PLACEMENT_GROUP,
        "AWS::EC2::PlacementGroup",
        exists=_fleet(lambda side: side.has_own_placement),
        replaced="another group is made; EC2 deletes the old one only when it is empty, so it may be left behind",
        added="a group is made for nodes that are launched from now on",
        removed=_LEFT_BEHIND,
        nodes="running nodes stay where they are, outside the new placement",
        source='EC2 user guide, "Delete a placement group"; ' + _SCHEMA.format("AWS::EC2::PlacementGroup"),
    ),
    Row(
        Resource.BLOCK_FOLLOWER,
        "AWS::StepFunctions::StateMachine",
        exists=_fleet(lambda side: side.has_scaling_group and _is_reconciled(side)),
        updated="what fills and drains the fleet follows the new capacity, start, end or size",
        added="the fleet is kept filled, and drained before its capacity ends, from now on",
        removed="nothing drains the fleet at the end of its capacity any more",
        leaves="the state machine that sized the Auto Scaling group goes with it",
        nodes=_follow_capacity,
        source="docs/capacity.md, Capacity Blocks",
    ),
    Row(
        Resource.BLOCK_FOLLOWER,
        "AWS::StepFunctions::StateMachine",
        exists=_fleet(lambda side: side.has_node_group and _is_reconciled(side) and _keeps_size(side)),
        updated="what sizes the group follows the new capacity, start, end or size",
        added="the group is sized when its block is delivered; EKS itself empties it before the end",
        removed="nothing sizes the group when a block is delivered any more",
    ),
    Row(
        Resource.BLOCK_FOLLOWER,
        "AWS::StepFunctions::StateMachine",
        exists=_fleet(lambda side: side.has_compute_node_group and _is_reconciled(side) and _keeps_size(side)),
        updated="what sizes the group follows the new capacity, start, end or size",
        added="the group is sized to its capacity from now on",
        removed="nothing sizes the group to its capacity any more",
    ),
    Row(
        Resource.RESERVATION_GROUP,
        "AWS::ResourceGroups::Group",
        exists=_fleet(lambda side: side.puts_reservation_into_group),
        updated="the resource group has the other reservation",
        added="a resource group for the reservation, by which AWS PCS takes it",
        removed="the resource group goes; the reservation stays",
        source='AWS PCS user guide, "Overview of launch templates in AWS PCS"',
    ),
    Row(
        Resource.BLOCK_GROUP,
        "AWS::ResourceGroups::Group",
        exists=_fleet(_has_several_blocks),
        added="the resource group that takes each block when it starts",
        removed="the resource group goes; the blocks stay as they are",
    ),
    Row(
        Resource.FLEET_SECURITY_GROUP,
        "AWS::EC2::SecurityGroup",
        exists=_fleet(lambda side: side.plan.fabric is None),
        replaced="another group is made in the other VPC",
        added="the fleet gets a security group of its own",
        removed="the fleet's own security group goes, once no node uses it",
    ),
    Row(
        Resource.MOUNT_RULES,
        "AWS::EC2::SecurityGroupIngress",
        exists=_fleet(lambda side: side.plan.fabric is None and bool(side.plan.mounts)),
        stays=True,
        updated="rules between the fleet and the servers of what it mounts come and go",
        added="rules between the fleet and the servers of what it mounts are made",
        removed="rules between the fleet and the servers of what it mounts go",
        source=_SCHEMA.format("AWS::EC2::SecurityGroupIngress"),
    ),
    Row(
        Resource.ALARMS,
        "AWS::CloudWatch::Alarm",
        exists=_fleet(lambda side: _alarms(side).enabled),
        updated="the conditions or the recipients of alarms change in place",
        added="the fleet raises alarms from now on",
        removed="the fleet raises no alarms any more",
        joins="alarms are raised on what the new nodes report",
        leaves="the alarms on the old group go, and so does their history",
    ),
    Row(
        Resource.ALARM_TOPIC,
        "AWS::SNS::Topic",
        exists=_fleet(lambda side: _alarms(side).enabled and bool(_alarms(side).emails)),
        stays=True,
        added="each address confirms the topic by a link first",
        removed="alarms are no longer sent by mail",
    ),
    Row(
        Resource.ALARM_MUTE,
        "AWS::CloudWatch::AlarmMuteRule",
        exists=_fleet(lambda side: _alarms(side).enabled and _alarms(side).mute is not None),
        stays=True,
        updated="alarms on nodes notify no one in other windows",
        added="alarms on nodes notify no one in the windows",
        removed="alarms on nodes notify at any time again",
    ),
    Row(
        Resource.LAUNCH_STOP,
        "AWS::StepFunctions::StateMachine",
        exists=_fleet(lambda side: side.stops_launches),
        added="a launch loop is stopped from now on",
        removed="nothing stops a launch loop any more",
        leaves="the state machine that stopped a launch loop goes with it",
    ),
    Row(
        Resource.LOAD_BALANCER,
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        exists=_fleet(_is_served),
        updated="the load balancer changes in place",
        replaced="another load balancer is made, with another address (output Url)",
        joins="clients reach the servers through a load balancer again (output Url)",
        leaves="the load balancer goes, with its address: a Service in the cluster takes its place, which "
        "`gpu-clusters manifests` writes",
    ),
    Row(
        Resource.BALANCER_SECURITY_GROUP,
        "AWS::EC2::SecurityGroup",
        exists=_fleet(_is_served),
        updated="the clients that may connect change in place",
        replaced="another group is made in the other VPC",
        joins="the load balancer gets a security group",
        leaves="the security group goes with its load balancer",
    ),
    Row(
        Resource.LISTENER,
        "AWS::ElasticLoadBalancingV2::Listener",
        exists=_fleet(_is_served),
        updated="the listener changes in place: clients follow the output Url",
        joins="clients connect here",
        leaves="it goes with its load balancer",
    ),
    Row(
        Resource.ACCESS_LOGS,
        "AWS::S3::Bucket",
        exists=_fleet(_has_log_bucket),
        added="a bucket for access logs is made",
        removed="the bucket with the access logs leaves its stack and stays",
        data="access logs stay where they are",
    ),
    Row(
        Resource.TARGET_GROUP,
        "AWS::ElasticLoadBalancingV2::TargetGroup",
        exists=_fleet(_is_served),
        updated="the time that running requests of a leaving node get changes in place",
        replaced="another target group is made in the other VPC",
        joins="the load balancer finds the nodes that are ready",
        leaves="the Service finds the pods that are ready",
    ),
    Row(
        Resource.SCALING_POLICY,
        "AWS::AutoScaling::ScalingPolicy",
        exists=_fleet(_scales_with_requests),
        updated="the fleet scales at another rate",
        added="the fleet scales with its requests from now on",
        removed="the fleet no longer scales: it stays as large as it is",
        leaves="the fleet no longer scales with its requests: a HorizontalPodAutoscaler scales the pods, and an "
        "autoscaler that you install in the cluster scales the nodes",
    ),
)

#: Kind of a stack -> its rows, in the order of the report.
ROWS: Mapping[str, tuple[Row, ...]] = {
    "network": _NETWORK,
    "data": _DATA,
    "fabric": _FABRIC,
    "link": (_LINK,),
    "kubernetes": _KUBERNETES,
    "karpenter": _KARPENTER,
    "serving": _SERVING,
    "software": _SOFTWARE,
    "monitoring": (*_MONITORING, *_METRICS, _GRAFANA),
    "slurm": _SLURM,
    "pcluster": _PARALLELCLUSTER,
    "queue": _QUEUE,
    "login": _LOGIN,
    "hyperpod": _HYPERPOD,
    "capacity": _CAPACITY,
    "fleet": _FLEET,
    "inference": _FLEET,
}


def source_of(row: Row) -> str:
    """What the statements of a row rest on."""
    return row.source or (_SCHEMA.format(row.type) if row.replaced else "")
