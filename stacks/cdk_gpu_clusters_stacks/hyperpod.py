"""A cluster of SageMaker HyperPod: one stack with the cluster and all fleets, which are its instance groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk_gpu_clusters._cdk import path_of
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.training_plan import TrainingPlan
from cdk_gpu_clusters.compute.alarms import NodeAlarms
from cdk_gpu_clusters.compute.node_role import grant_before
from cdk_gpu_clusters.orchestration.hyperpod.cluster import AccountingDatabase, HyperPodCluster
from cdk_gpu_clusters.orchestration.hyperpod.folder import log_group_prefix
from cdk_gpu_clusters.orchestration.hyperpod.instance_group import (
    DeepHealthCheck,
    HyperPodInstanceGroupProps,
    SlurmNodeType,
)
from cdk_gpu_clusters.orchestration.hyperpod.role import HyperPodRole
from cdk_gpu_clusters_stacks.capacity import CapacityStack, existing_capacity
from cdk_gpu_clusters_stacks.data import CheckpointStack, ExistingCheckpoints, MountedStore, Reached
from cdk_gpu_clusters_stacks.fleets import Site, mounted_stores
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.capacity import training_plan_of
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, ImageById, read_script
from cdk_gpu_clusters_stacks.spec.hyperpod import HyperPodLoginSpec, HyperPodSpec
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import hyperpod_stack

if TYPE_CHECKING:  # takes long to load
    from cdk_gpu_clusters_stacks.eks import EksStack, ExistingEks


@dataclass(frozen=True, slots=True)
class GroupNodes:
    """The nodes of an instance group, as the dashboard knows nodes."""

    role: iam.IRole
    fleet_path: str
    alarms: NodeAlarms | None = None


@dataclass(frozen=True, slots=True)
class GroupFleet:
    """A fleet that is an instance group."""

    planned: PlannedFleet
    nodes: GroupNodes
    capacity: CapacityStack | None = None


class HyperPodStack(cdk.Stack):
    """A `HyperPodCluster`. All groups are one resource, so that they are one stack.

    Attributes:
        cluster: The cluster.
        fleets: Its fleets.
    """

    def __init__(
        self, site: Site, fleets: Sequence[PlannedFleet], *, kubernetes: EksStack | ExistingEks | None = None
    ) -> None:
        """Define the stack.

        Args:
            site: What the stacks of the cluster have in common.
            fleets: All fleets.
            kubernetes: Cluster of Amazon EKS that the nodes join; None for Slurm.
        """
        plans = [training_plan_of(fleet.spec.capacity) for fleet in fleets]
        super().__init__(
            site.app,
            hyperpod_stack(site.spec.name),
            env=site.env,
            description="SageMaker HyperPod of a GPU cluster",
            termination_protection=site.spec.termination_protection and any(plans),
        )
        self._site, spec = site, site.spec.hyperpod
        here = site.place.import_into(self)
        self._reached: dict[MountedStore, Reached] = {}
        self.cluster = HyperPodCluster(
            self,
            "HyperPod",
            vpc=here.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=here.subnets),
            eks_cluster=None if kubernetes is None else kubernetes.import_into(self, here.vpc),
            node_recovery=spec.node_recovery,
            continuous_provisioning=spec.continuous_provisioning,
            controller_instance_type=spec.controller.instance_type,
            accounting_database=self._database(spec),
            tiered_checkpoint_percent=spec.tiered_checkpoint_percent,
        )
        if spec.login.nodes and not self.cluster.is_eks:
            self._login(spec.login)
        self.fleets = [self._fleet(fleet, fleet.spec) for fleet in fleets if isinstance(fleet.spec, FleetSpec)]
        for index, store in enumerate(self._reached.values()):
            rules = store.allow_from(self, f"Data{index or ''}", self.cluster.security_groups[0])
            self.cluster.cfn_cluster.node.add_dependency(rules)
        for name, value, description in (
            ("ClusterArn", self.cluster.cluster_arn, "Cluster of SageMaker HyperPod"),
            ("SessionCommand", self.cluster.session_command, "Opens a session on a node"),
            ("LogGroupPrefix", log_group_prefix(self.cluster.unique_name), "How log groups of the nodes begin"),
        ):
            publish(self, name, value, description=description)

    def _database(self, spec: HyperPodSpec) -> AccountingDatabase | None:
        database = spec.accounting_database
        if database is None or not ORCHESTRATORS[self._site.spec.orchestrator].is_hyperpod_slurm:
            return None
        secret = secretsmanager.Secret.from_secret_complete_arn(self, "DatabaseSecret", database.secret_arn)
        return AccountingDatabase(endpoint=database.endpoint, secret=secret, port=database.port, name=database.name)

    def _login(self, spec: HyperPodLoginSpec) -> None:
        self.cluster.add_instance_group(
            "Login",
            instance_type=spec.instance_type,
            node_count=spec.nodes,
            node_type=SlurmNodeType.LOGIN,
            mounts=self._mounts(spec.mounts),
        )

    def _mounts(self, mounts: dict[str, str]) -> dict[str, Reached]:
        """What is mounted, each store imported once for the stack."""
        found = mounted_stores(mounts, self._site.stores)
        for store in found.values():
            if store not in self._reached:
                self._reached[store] = store.import_into(self)
        return {point: self._reached[store] for point, store in found.items()}

    def _fleet(self, fleet: PlannedFleet, spec: FleetSpec) -> GroupFleet:
        own, mounts = fleet.group_options, self._mounts(spec.mounts)
        options = HyperPodInstanceGroupProps(
            node_count=spec.maximum_nodes,
            least_node_count=own.least_nodes,
            capacity=self._capacity(spec),
            efa=fleet.plan.efa,
            interface_policy=spec.requested_interfaces,
            deep_health_checks=[DeepHealthCheck(one) for one in own.deep_health_checks],
            mounts={} if self.cluster.is_eks else mounts,  # pods mount them there, as volumes
            volume_gib=own.volume_gib,
            mig=spec.mig_layouts,
            partition=fleet.partition,
            image_id=spec.image.id if isinstance(spec.image, ImageById) else None,
            threads_per_core=own.threads_per_core,
            setup_script="" if spec.user_data is None else read_script(spec.user_data),
            environment={**(fleet.static_checkpoints or {}), **spec.environment},
            watch=fleet.watch,
            role=self._role(fleet, spec),
        )
        if own.image_release is not None:
            options["image_release"] = own.image_release
        if self.cluster.is_eks:
            options["labels"] = fleet.group_labels
        made = self.cluster.add_instance_group(fleet.name, instance_type=spec.instance_type, **options)
        for key, value in spec.tags.items():
            cdk.Tags.of(made).add(key, value)
        return GroupFleet(fleet, GroupNodes(made.role, path_of(made)))

    def _capacity(self, spec: FleetSpec) -> Capacity | TrainingPlan:
        plan = training_plan_of(spec.capacity)
        return existing_capacity(self, spec) if plan is None else TrainingPlan.from_arn(plan)

    def _role(self, fleet: PlannedFleet, spec: FleetSpec) -> iam.IRole | None:
        """A role that reaches the checkpoints of this fleet alone; None for that of the cluster."""
        store = None if spec.checkpoints is None else self._site.stores[spec.checkpoints]
        if not isinstance(store, CheckpointStack | ExistingCheckpoints):
            return None
        buckets = store.import_into(self, spec.checkpoint_folder(fleet.name), write=not spec.checkpoints_read_only)
        parent = Construct(self, f"Checkpoints-{fleet.name}")
        role = HyperPodRole(parent, "Role")
        buckets.grant(self, role, scope=parent)
        grant_before(role, self.cluster.cfn_cluster)
        return role
