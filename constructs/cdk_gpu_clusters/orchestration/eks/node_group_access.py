"""What a node group offers: connections, permissions, sessions and metrics."""

from __future__ import annotations

from aws_cdk import aws_eks_v2 as eks

from cdk_gpu_clusters._cdk import path_of, region_of, report, stack_of
from cdk_gpu_clusters.compute.alarms import NodeAlarms, define_alarms, node_alarms
from cdk_gpu_clusters.compute.fleet_access import LaunchedFleet
from cdk_gpu_clusters.compute.metrics import NodeMetrics
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.fleet import AlarmSettings, check_alarms


class NodeGroupAccess(LaunchedFleet, NodeMetrics):
    """Connections, sessions, grants and metrics of a node group.

    Metrics of its Auto Scaling group are left out: EKS makes that, and CloudFormation does not know its name.

    Attributes:
        cfn_nodegroup: The node group, as an escape hatch.
    """

    cfn_nodegroup: eks.CfnNodegroup

    @property
    def node_group_name(self) -> str:
        """Name of the node group, known at deployment."""
        return self.cfn_nodegroup.attr_nodegroup_name

    @property
    def fleet_path(self) -> str:
        """Path of the group in the app: its name in the metrics of its nodes."""
        return path_of(self)

    @property
    def fleet_name(self) -> str:
        """Name of the node group, as `node_group_name`."""
        return self.node_group_name

    @property
    def session_command(self) -> str:
        """A shell line that opens a Systems Manager session on the first node."""
        region = region_of(stack_of(self))
        tags = {"nodegroup-name": self.node_group_name, "cluster-name": self.cfn_nodegroup.attr_cluster_name}
        filters = " ".join(f"Name=tag:eks:{name},Values={value}" for name, value in tags.items())
        instance = (
            f"aws ec2 describe-instances --region {region} --filters {filters} "
            "Name=instance-state-name,Values=running "
            "--query 'Reservations[0].Instances[0].InstanceId' --output text"
        )
        return f'aws ssm start-session --region {region} --target "$({instance})"'

    def _raise_alarms(self, plan: FleetPlan, settings: AlarmSettings | None) -> NodeAlarms | None:
        """Give the group its alarms, if it has any: those on its nodes, not on the launches of EKS's own group."""
        if settings is None:
            return None
        report(self, check_alarms(settings, ready_timeout_seconds=plan.ready_timeout_seconds))
        accelerator = plan.instance_type.accelerator
        has_gpus = accelerator is not None and accelerator.kind == "gpu"
        return define_alarms(self, node_alarms(path_of(self), settings, has_gpus=has_gpus))
