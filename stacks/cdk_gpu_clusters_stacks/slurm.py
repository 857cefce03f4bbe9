"""The Slurm cluster of AWS PCS that the fleets join, created or existing, with its fleets, queues and login nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.node.users import UserDirectory, UserList
from cdk_gpu_clusters.orchestration.pcs.cluster import PcsCluster
from cdk_gpu_clusters.orchestration.pcs.cluster_base import IPcsCluster
from cdk_gpu_clusters.orchestration.pcs.login import PcsLoginNodes
from cdk_gpu_clusters.orchestration.pcs.node_group import PcsNodeGroup
from cdk_gpu_clusters.orchestration.pcs.queue import PcsQueue
from cdk_gpu_clusters.rules.pcs import ClusterSize
from cdk_gpu_clusters.rules.zones import is_local_zone
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.fleets import NodesStack, Site, mounted_stores, node_image
from cdk_gpu_clusters_stacks.network import ClusterNetworkRef, FabricStack, FleetPlace
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec._users import users_of
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.pcs import ExistingPcsSpec, LoginNodesSpec, PcsSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import login_stack, queue_stack, slurm_stack

_KEEP_RECORDS = -1


class SlurmStack(cdk.Stack):
    """A `PcsCluster`, in a stack of its own so that fleets come and go beside it."""

    def __init__(
        self, scope: Construct, construct_id: str, *, spec: PcsSpec, place: ClusterNetworkRef, env: cdk.Environment
    ) -> None:
        super().__init__(scope, construct_id, env=env, description="Slurm of a GPU cluster")
        here, keep_days, minutes = place.import_into(self), spec.accounting.keep_days, spec.scale_down_idle_minutes
        self.cluster = PcsCluster(
            self,
            "Cluster",
            vpc=here.vpc,
            subnet=_subnet_in_region(self, place, here),
            size=ClusterSize(spec.size.upper()),
            slurm_version=spec.slurm_version,
            accounting=spec.accounting.enabled,
            accounting_purge_days=_KEEP_RECORDS if keep_days is None else keep_days,
            slurm_settings=spec.slurm_settings,
            slurm_rest=spec.rest_api,
            metrics=spec.metrics,
            scale_down_idle_time=None if minutes is None else cdk.Duration.minutes(minutes),
        )
        for name, value, description in (
            ("ClusterId", self.cluster.cluster_id, "Cluster of AWS PCS"),
            ("SecurityGroupId", self.cluster.security_group.security_group_id, "Group of the controller and all nodes"),
            ("EndpointsCommand", self.cluster.endpoints_command, "Shows the addresses of Slurm's controller"),
        ):
            publish(self, name, value, description=description)

    def import_into(self, reader: cdk.Stack, vpc: ec2.IVpc) -> IPcsCluster:
        """The cluster, imported into a stack of nodes or of a queue."""
        group_id = read(reader, self, "SecurityGroupId")
        return PcsCluster.from_pcs_cluster_attributes(
            reader,
            "Cluster",
            vpc=vpc,
            cluster_id=read(reader, self, "ClusterId"),
            slurm_version=self.cluster.slurm_version,
            security_groups=[ec2.SecurityGroup.from_security_group_id(reader, "SlurmGroup", group_id, mutable=False)],
        )


def _subnet_in_region(reader: cdk.Stack, place: ClusterNetworkRef, here: FleetPlace) -> ec2.ISubnet:
    """The subnet of controller and login nodes: that of the fleets, or a service subnet beside a Local Zone.

    AWS PCS puts no controller into a Local Zone, and Local Zones have few instance types.
    """
    return place.service_subnets(reader)[0] if is_local_zone(place.availability_zone) else here.subnets[0]


class ExistingSlurm:
    """A cluster that exists already."""

    def __init__(self, spec: ExistingPcsSpec) -> None:
        """Know it by its attributes."""
        self._spec = spec

    def import_into(self, reader: cdk.Stack, vpc: ec2.IVpc) -> IPcsCluster:
        """The cluster, imported into a stack of nodes or of a queue."""
        return PcsCluster.from_pcs_cluster_attributes(
            reader,
            "Cluster",
            vpc=vpc,
            cluster_id=self._spec.cluster_id,
            slurm_version=self._spec.slurm_version,
            security_groups=[
                ec2.SecurityGroup.from_security_group_id(reader, f"SlurmGroup{index or ''}", group_id, mutable=False)
                for index, group_id in enumerate(self._spec.security_group_ids)
            ],
        )


def slurm_cluster(
    app: cdk.App, spec: PcsSpec, *, name: str, place: ClusterNetworkRef, env: cdk.Environment
) -> SlurmStack | ExistingSlurm:
    """The Slurm cluster: made in a stack of its own, or existing."""
    if spec.existing is not None:
        return ExistingSlurm(spec.existing)
    return SlurmStack(app, slurm_stack(name), spec=spec, place=place, env=env)


class People(TypedDict):
    """Who works on the nodes."""

    users: UserList | None
    directory: UserDirectory | None


def people(spec: PcsSpec) -> People:
    """The users of all nodes of a cluster."""
    return {
        "users": None if spec.users is None else users_of(spec.users),
        "directory": None if spec.directory is None else spec.directory.settings,
    }


class ComputeNodeGroupStack(NodesStack):
    """One `PcsNodeGroup`: a training fleet of the cluster file, with a queue of its name unless the file has queues."""

    def __init__(
        self,
        site: Site,
        fleet: PlannedFleet,
        *,
        cluster: SlurmStack | ExistingSlurm,
        fabric: FabricStack | None,
        capacity: CapacityStack | None,
    ) -> None:
        super().__init__(site, fleet, description="Slurm nodes of a GPU cluster", capacity=capacity, fabric=fabric)
        slurm, options = cluster.import_into(self, self.here.vpc), self.node_options()
        options["update_policy"] = UpdatePolicy(fleet.update)
        spec = fleet.spec
        self.node_group = PcsNodeGroup(
            self,
            "Nodes",
            cluster=slurm,
            vpc_subnets=self.node_subnets(),
            node_group_name=fleet.compute_node_group.name,
            slurm_settings=fleet.slurm_node_settings,
            image=node_image(spec.image),
            scratch=spec.scratch is not False,
            user_data_parts=self.user_parts(),
            metadata_users=spec.metadata_users if isinstance(spec, FleetSpec) else (),
            **people(site.spec.pcs),
            **self.training_options(),
            **options,
        )
        self.complete(
            self.node_group,
            self.node_group,
            lambda: self.node_group.cfn_compute_node_group,
            group=self.node_group.launch_template.security_groups[0],
        )
        publish(self, "NodeGroupId", self.node_group.node_group_id, description="Compute node group of the fleet")
        publish(
            self, "SessionCommand", self.node_group.session_command, description="Opens a session on the first node"
        )
        log_group = self.node_group.log_group.log_group_name
        publish(self, "LogGroupName", log_group, description="Boot events, a stream per node")
        if not site.spec.pcs.queues:
            PcsQueue(self, "Queue", cluster=slurm, node_groups=[self.node_group], queue_name=fleet.name)


@dataclass(frozen=True, slots=True)
class _QueuedNodes:
    """A compute node group of another stack, as a queue sees it."""

    node_group_id: str


class QueueStack(cdk.Stack):
    """One `PcsQueue` over the fleets of several stacks."""

    def __init__(
        self,
        site: Site,
        name: str,
        *,
        cluster: SlurmStack | ExistingSlurm,
        fleets: Mapping[str, ComputeNodeGroupStack],
    ) -> None:
        """Define the stack.

        Args:
            site: What the stacks of the cluster have in common.
            name: Name of the queue.
            cluster: The Slurm cluster.
            fleets: Stacks of all fleets, by the names of the fleets.
        """
        stack_name = queue_stack(site.spec.name, name)
        super().__init__(site.app, stack_name, env=site.env, description="Queue of a GPU cluster")
        spec = site.spec.pcs.queues[name]
        PcsQueue(
            self,
            "Queue",
            cluster=cluster.import_into(self, site.place.import_into(self).vpc),
            node_groups=[_QueuedNodes(read(self, fleets[fleet], "NodeGroupId")) for fleet in spec.fleets],
            queue_name=name,
            slurm_settings=spec.slurm_settings,
        )


class LoginStack(cdk.Stack):
    """The `PcsLoginNodes` of a cluster, beside its fleets."""

    def __init__(self, site: Site, spec: LoginNodesSpec, cluster: SlurmStack | ExistingSlurm) -> None:
        super().__init__(
            site.app, login_stack(site.spec.name), env=site.env, description="Login nodes of a GPU cluster"
        )
        here, stores = site.place.import_into(self), mounted_stores(spec.mounts, site.stores)
        reached = {store: store.import_into(self) for store in dict.fromkeys(stores.values())}
        key = spec.ssh_key_name
        self.nodes = PcsLoginNodes(
            self,
            "Login",
            cluster=cluster.import_into(self, here.vpc),
            vpc_subnets=ec2.SubnetSelection(subnets=[_subnet_in_region(self, site.place, here)]),
            instance_type=spec.instance_type,
            node_count=spec.nodes,
            key_pair=None if key is None else ec2.KeyPair.from_key_pair_name(self, "Key", key),
            ssh_from=[ec2.Peer.ipv4(one) for one in spec.ssh_cidrs],
            mounts={point: reached[store] for point, store in stores.items()},
            **people(site.spec.pcs),
        )
        for index, store in enumerate(reached.values()):
            rules = store.allow_from(self, f"Data{index or ''}", self.nodes.launch_template.security_groups[0])
            self.nodes.cfn_compute_node_group.node.add_dependency(rules)
        publish(self, "SessionCommand", self.nodes.session_command, description="Opens a session on a login node")
