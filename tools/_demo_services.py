"""Load balancers, their targets and scaling of an emulated account, as plain lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cdk_gpu_clusters.testing import EmulatedAccount

Json = dict[str, Any]


def service_lines(account: EmulatedAccount) -> Iterator[str]:
    """Every load balancer with its listener, its targets and what they scale on."""
    elb = account.client("elbv2")
    for balancer in elb.describe_load_balancers()["LoadBalancers"]:
        arn = balancer["LoadBalancerArn"]
        zones = ", ".join(zone["ZoneName"] for zone in balancer["AvailabilityZones"])
        for listener in elb.describe_listeners(LoadBalancerArn=arn)["Listeners"]:
            address = f"{listener['Protocol'].lower()}://{balancer['DNSName']}:{listener['Port']}"
            yield f"service {address} [model]: {balancer['Scheme']}, in {zones}"
        for group in elb.describe_target_groups(LoadBalancerArn=arn)["TargetGroups"]:
            yield f"  targets [model]: {targets(account, group['TargetGroupArn'])}"
            yield from _scaling(account, group["TargetGroupArn"])


def targets(account: EmulatedAccount, target_group_arn: str) -> str:
    """How many targets are in which state: `2 healthy, 1 draining`."""
    found = account.client("elbv2").describe_target_health(TargetGroupArn=target_group_arn)
    states = Counter(one["TargetHealth"]["State"] for one in found["TargetHealthDescriptions"])
    return ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "none"


def _scaling(account: EmulatedAccount, target_group_arn: str) -> Iterator[str]:
    scaling = account.client("autoscaling")
    for group in scaling.describe_auto_scaling_groups()["AutoScalingGroups"]:
        if target_group_arn not in group.get("TargetGroupARNs", []):
            continue
        policies = scaling.describe_policies(AutoScalingGroupName=group["AutoScalingGroupName"])
        for policy in policies["ScalingPolicies"]:
            tracking = policy["TargetTrackingConfiguration"]
            metric = tracking.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType", "a metric")
            yield (
                f"  scaling [model]: {metric} near {tracking['TargetValue']:g}, "
                f"{group['MinSize']} to {group['MaxSize']} nodes"
            )
