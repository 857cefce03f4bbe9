"""Sizes a compute node group of AWS PCS to its capacity: the reconcile, by the calls of PCS.

On a Capacity Block the template has the full size: n to n nodes, a static group. Before the block runs, and from forty
minutes before its end, the reconcile makes it 0 to n. PCS then launches no node by itself, and jobs wait. This ends no
node and no job: the nodes drain themselves in Slurm at the same time, and EC2 takes them at the end of the block.

Other capacity with an end does not end its instances by itself. There the nodes drain themselves, too, and at the end
the reconcile sets the group to 0 nodes, which fails and requeues what still runs. Until then its size is that of the
template.

A deployment sends the sizes of the template. While the capacity lasts, they are what the group has, so that neither the
deployment nor the reconcile changes it. Elsewhere a run follows at the end of the deployment, and no earlier: PCS
refuses a queue whose node group is being updated, and an update of a cluster with such a group. Decision 24 has the
same reasons for Amazon EKS.

PCS refuses a change while the cluster or the group is being changed (ConflictException). A run then ends without an
error, and the next one changes the group. A refusal without such a change fails the run, and the alarm rings.

PCS has no metric of a node group. A run therefore counts the nodes that report themselves each minute.

Sources: AWS PCS user guide, "Using Amazon EC2 Capacity Blocks for ML with AWS PCS", "Updating an AWS PCS compute node
group" (fewer nodes: running jobs fail and return to their queues) and "Minimum permissions for AWS PCS"; botocore
1.44.5, pcs service model: GetComputeNodeGroup, UpdateComputeNodeGroup, UpdateCluster, CreateQueue; CloudFormation user
guide, "Managing events with CloudFormation and Amazon EventBridge".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.compute.reconcile import GroupCalls, Task, sdk_call
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.node.gpunode.metrics.names import FLEET, NAMESPACE, NODE_SEVERITY
from cdk_gpu_clusters.rules.capacity import CapacityWindow

# The group is its ARN, as `Ref` and CloudFormation's events have it:
# arn:aws:pcs:us-east-1:111122223333:cluster/pcs_abc/computenodegroup/pcs_def.
_CLUSTER, _GROUP = 1, 3
# What a cluster or a group leaves by itself, by the API model's ClusterStatus and ComputeNodeGroupStatus.
_TRANSIENT = ["CREATING", "UPDATING", "DELETING", "SUSPENDING", "RESUMING"]
# A record of a minute may take as long to become a metric.
_SEEN_MINUTES = 5
# "Minimum permissions for AWS PCS", UpdateComputeNodeGroup and Capacity Blocks: PCS asks for them in the caller's name.
_LOOKS = (
    "ec2:DescribeCapacityBlockStatus",
    "ec2:DescribeCapacityBlocks",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
_EC2 = "ec2.amazonaws.com"
_LAUNCHES = ("ec2:CreateFleet", "ec2:CreateTags", "ec2:RunInstances")


def compute_node_group_calls(
    partition: str, group_arns: str, *, plan: FleetPlan, fleet: str, role_arn: str, profile_arn: str
) -> GroupCalls:
    """The calls of AWS PCS.

    Args:
        partition: Partition of the stack.
        group_arns: The node group, by a pattern that names no resource.
        plan: What was decided about its fleet.
        fleet: Its name in the metrics of its nodes.
        role_arn: Role of its nodes.
        profile_arn: Their instance profile.
    """

    def call(action: str, group: str, **arguments: Any) -> Task:
        names = {
            "ClusterIdentifier": f"{{% $split({group}, '/')[{_CLUSTER}] %}}",
            "ComputeNodeGroupIdentifier": f"{{% $split({group}, '/')[{_GROUP}] %}}",
        }
        return {"Resource": sdk_call(partition, "pcs", action), "Arguments": {**names, **arguments}}

    def changes(what: str) -> str:
        return f"$states.result.{what}.Status in {json.dumps(_TRANSIENT)}"

    def scale(least: Any, most: Any) -> Task:
        sizes = {"MinInstanceCount": least, "MaxInstanceCount": most}
        return call("updateComputeNodeGroup", "$group", ScalingConfiguration=sizes)

    def resize(size: str) -> Task:
        value = f"{{% {size} %}}"
        return scale(value if plan.keeps_size else 0, value)

    on_block = plan.terms.kind.is_block
    bound = "MinInstanceCount" if on_block else "MaxInstanceCount"
    return GroupCalls(
        look=call("getComputeNodeGroup", "$states.input.group"),
        seen=(
            "( $group := $states.result.ComputeNodeGroup; {"
            f"'desired': $group.ScalingConfiguration.{bound}, "
            "'busy': $not($group.Status in ['ACTIVE', 'UPDATE_FAILED']), "
            "'manual': false, 'suspended': false, 'standby': 0, 'serving': [], "
            "'short': $group.Status = 'UPDATE_FAILED' } )"
        ),
        resize=resize,
        drain=scale(0, plan.maximum if on_block else 0),
        floor=None,
        resume=None,
        reports_issues=True,
        allowed=_allowed(group_arns, role_arn, profile_arn, counts=plan.keeps_size),
        count=_count(partition, fleet) if plan.keeps_size else None,
        ready=_READY,
        conflict="Pcs.ConflictException",
        under_way={
            "Cluster": (_cluster_call(partition), changes("Cluster")),
            "Group": (call("getComputeNodeGroup", "$group"), changes("ComputeNodeGroup")),
        },
    )


def _cluster_call(partition: str) -> Task:
    named = {"ClusterIdentifier": f"{{% $split($group, '/')[{_CLUSTER}] %}}"}
    return {"Resource": sdk_call(partition, "pcs", "getCluster"), "Arguments": named}


def sized_windows(plan: FleetPlan) -> Sequence[CapacityWindow]:
    """When the reconcile gives the group nodes: to the drain of a block, and to the end of other capacity.

    Args:
        plan: What was decided about the fleet.
    """
    ends_at = plan.terms.ends_at
    if plan.terms.kind.is_block or ends_at is None:
        return plan.windows
    return [replace(one, drain_at=ends_at) for one in plan.windows]


_NOW = "$states.context.State.EnteredTime"
_READY = "$max($append(0, $states.result.Datapoints.SampleCount))"


def _count(partition: str, fleet: str) -> Task:
    """The nodes that reported themselves: each sends one value of this metric a minute."""
    return {
        "Resource": sdk_call(partition, "cloudwatch", "getMetricStatistics"),
        "Arguments": {
            "Namespace": NAMESPACE,
            "MetricName": NODE_SEVERITY.name,
            "Dimensions": [{"Name": FLEET, "Value": fleet}],
            "StartTime": f"{{% $fromMillis($toMillis({_NOW}) - {_SEEN_MINUTES * 60_000}) %}}",
            "EndTime": f"{{% {_NOW} %}}",
            "Period": 60,
            "Statistics": ["SampleCount"],
        },
    }


def _allowed(group_arns: str, role_arn: str, profile_arn: str, *, counts: bool) -> list[Mapping[str, Any]]:
    cluster_arn = group_arns.partition("/computenodegroup/")[0]
    looks = [*_LOOKS, *(["cloudwatch:GetMetricStatistics"] if counts else [])]
    return [
        allow([cluster_arn, group_arns], "pcs:GetComputeNodeGroup", "pcs:UpdateComputeNodeGroup"),
        allow(cluster_arn, "pcs:GetCluster"),
        # Describing has no resource level, nor have metrics.
        allow("*", *looks),
        # Only what PCS does in its name: the machine itself launches nothing.
        {**allow("*", *_LAUNCHES), "Condition": {"Bool": {"aws:ViaAWSService": "true"}}},
        {**allow(role_arn, "iam:PassRole"), "Condition": {"StringEquals": {"iam:PassedToService": _EC2}}},
        allow(profile_arn, "iam:GetInstanceProfile"),
    ]
