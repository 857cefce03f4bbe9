"""Keeps the paid capacity of a managed node group filled: the reconcile, by the calls of Amazon EKS.

CloudFormation names no Auto Scaling group of a node group, so the size is set by `eks:UpdateNodegroupConfig`. EKS sets
a group on a Capacity Block to zero 40 minutes before the end, by a scheduled action that AWS asks to leave alone; so
does the reconcile, in case that one is missing. A node group whose health has issues makes the run fail, and so raises
the alarm on runs. For other shortages a run counts the nodes in service and sends a metric: EKS turns on the metrics of
its groups (aws/containers-roadmap issue 762), but their names are known only when they are made.

Source: Amazon EKS user guide, "Create a managed node group with Capacity Blocks for ML", and API reference,
NodegroupScalingConfig, Nodegroup (status, health).
"""

from __future__ import annotations

from typing import Any

from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.compute.reconcile import MANUAL, SIZE_TAG, GroupCalls, Task, sdk_call


def node_group_calls(partition: str, group_arns: str) -> GroupCalls:
    """The calls of Amazon EKS. The group is `<cluster>/<node group>`, as `Ref` and CloudFormation's events have it.

    Args:
        partition: Partition of the stack.
        group_arns: The node group, by a pattern that names no resource.
    """

    def call(action: str, group: str, **arguments: Any) -> Task:
        names = {
            "ClusterName": f"{{% $split({group}, '/')[0] %}}",
            "NodegroupName": f"{{% $split({group}, '/')[1] %}}",
        }
        return {"Resource": sdk_call(partition, "eks", action), "Arguments": {**names, **arguments}}

    def scale(**sizes: Any) -> Task:
        return call("updateNodegroupConfig", "$group", ScalingConfig=sizes)

    return GroupCalls(
        look=call("describeNodegroup", "$states.input.group"),
        seen=(
            "( $group := $states.result.Nodegroup; {"
            "'desired': $group.ScalingConfig.DesiredSize, "
            "'busy': $not($group.Status in ['ACTIVE', 'DEGRADED'] and $exists($group.Resources.AutoScalingGroups)), "
            "'groups': [$group.Resources.AutoScalingGroups.Name], "
            f"'manual': $exists($group.Tags) and $lookup($group.Tags, '{SIZE_TAG}') = '{MANUAL}', "
            "'suspended': false, 'standby': 0, 'serving': [], 'short': $count($group.Health.Issues) > 0 } )"
        ),
        resize=lambda size: scale(DesiredSize=f"{{% {size} %}}"),
        drain=scale(MinSize=0, DesiredSize=0),
        floor=None,
        resume=None,
        reports_issues=True,
        allowed=[
            {
                "Effect": "Allow",
                "Action": ["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"],
                "Resource": group_arns,
            },
            # Describing has no resource level.
            allow("*", "autoscaling:DescribeAutoScalingGroups"),
        ],
        count={
            "Resource": sdk_call(partition, "autoscaling", "describeAutoScalingGroups"),
            "Arguments": {"AutoScalingGroupNames": "{% $seen.groups %}"},
        },
        ready="$count($states.result.AutoScalingGroups.Instances[LifecycleState = 'InService'])",
    )
