"""What exists in an emulated account, read through boto3 and written as plain lines.

Each line says who answered: `[model]` (the models of this library) or `[emulator]` (the engine below them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from _demo_services import service_lines
from _demo_stores import store_lines
from cdk_gpu_clusters.testing import EmulatedAccount

Json = dict[str, Any]


def lines(account: EmulatedAccount) -> Iterator[str]:
    """Stacks, stores, and every fleet with its hooks, interfaces, placement, reservation and load balancer."""
    yield from _stacks(account)
    yield from _apart(store_lines(account))
    for group in account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]:
        yield from _apart(fleet_lines(account, group))
    yield from _apart(service_lines(account))


def _apart(part: Iterator[str]) -> Iterator[str]:
    """Lines below an empty one; nothing where there are none."""
    for number, line in enumerate(part):
        if number == 0:
            yield ""
        yield line


def brief_lines(account: EmulatedAccount) -> Iterator[str]:
    """Only what time and edits change: sizes, nodes, versions, reservations, stores, targets."""
    kept = (
        "file system",
        "fleet ",
        "  launch template",
        "  reservation [",
        "service ",
        "  targets",
        "  scaling",
    )
    return (line for line in lines(account) if line.startswith(kept))


def _stacks(account: EmulatedAccount) -> Iterator[str]:
    found = [one for one in account.resources() if one["stack"] not in ("", "CDKToolkit")]
    for stack, members in groupby(sorted(found, key=lambda one: one["stack"]), key=lambda one: one["stack"]):
        count = Counter(one["answered_by"] for one in members)
        made = ", ".join(f"{number} [{who}]" for who, number in sorted(count.items()))
        yield f"stack {stack}: {sum(count.values())} resources, {made}"


def fleet_lines(account: EmulatedAccount, group: Json) -> Iterator[str]:
    """One Auto Scaling group and all that hangs on it."""
    name = group["AutoScalingGroupName"]
    template = group["LaunchTemplate"]
    states = Counter(one["LifecycleState"] for one in group["Instances"])
    nodes = ", ".join(f"{number} {state}" for state, number in states.items()) or "none"
    versions = sorted({one["LaunchTemplate"]["Version"] for one in group["Instances"]})
    nodes += f" of template version {' and '.join(versions)}" if versions else ""
    yield (
        f"fleet {name} [model]: minimum {group['MinSize']}, maximum {group['MaxSize']}, "
        f"desired {group['DesiredCapacity']}; nodes: {nodes}; zone {', '.join(group['AvailabilityZones']) or '-'}"
    )
    hooks = account.client("autoscaling").describe_lifecycle_hooks(AutoScalingGroupName=name)["LifecycleHooks"]
    for hook in hooks:
        transition = hook["LifecycleTransition"].removeprefix("autoscaling:EC2_INSTANCE_").lower()
        yield (
            f"  hook [model]: {transition} {hook['LifecycleHookName']}, "
            f"{hook['HeartbeatTimeout']} s, then {hook['DefaultResult']}"
        )
    (version,) = account.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"], Versions=[template["Version"]]
    )["LaunchTemplateVersions"]
    data = version["LaunchTemplateData"]
    yield (
        f"  launch template [model]: {template['LaunchTemplateId']} version {version['VersionNumber']}: "
        f"{data['InstanceType']}, {data.get('ImageId', 'no image')}"
    )
    yield from _template_lines(account, data)
    for activity in account.client("autoscaling").describe_scaling_activities(AutoScalingGroupName=name)["Activities"][
        :1
    ]:
        message = f": {activity['StatusMessage']}" if activity.get("StatusMessage") else ""
        yield f"  last activity [model]: {activity['StatusCode']} - {activity['Description']}{message}"


def _template_lines(account: EmulatedAccount, data: Json) -> Iterator[str]:
    interfaces = data.get("NetworkInterfaces", [])
    if interfaces:
        yield f"  interfaces [model]: {len(interfaces)}: {interface_summary(interfaces)}"
    groups = {group for one in interfaces for group in one.get("Groups", [])}
    groups |= set(data.get("SecurityGroupIds", []))
    known = account.client("ec2").describe_security_groups()["SecurityGroups"]
    for group in sorted(known, key=lambda one: str(one["GroupId"])):
        if group["GroupId"] not in groups:  # one that was seeded is in no answer of EC2
            continue
        yield f"  security group [emulator]: {group['GroupId']} {group.get('Description', '')}"
        for side, arrow in (("IpPermissions", "from"), ("IpPermissionsEgress", "to")):
            for rule in group[side]:
                yield f"    {arrow} {', '.join(_peers(rule, group['GroupId']))}: {_ports(rule)}"
    placement = data.get("Placement", {}).get("GroupName")
    if placement:
        (found,) = account.client("ec2").describe_placement_groups(GroupNames=[placement])["PlacementGroups"]
        yield f"  placement group [model]: {placement}, {found['Strategy']}, {found['State']}"
    market = data.get("InstanceMarketOptions", {}).get("MarketType")
    if market:
        yield f"  market [model]: {market}"
    yield from _reservation_lines(account, data)


def interface_summary(interfaces: list[Json]) -> str:
    """Interfaces by kind and device, cards as spans: `interface 0/0; efa-only 0/1; efa-only 1-31/0`."""
    parts = []
    keyed = sorted((one["InterfaceType"], one["DeviceIndex"], one["NetworkCardIndex"]) for one in interfaces)
    for (kind, device), members in groupby(keyed, key=lambda one: one[:2]):
        cards = [card for _, _, card in members]
        parts.append((kind != "interface", cards[0], f"{kind} {_spans(cards)}/{device}"))
    return "; ".join(text for *_, text in sorted(parts)) + " (network card/device)"


def _spans(numbers: list[int]) -> str:
    spans = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        spans.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ",".join(spans)


def _peers(rule: Json, own: str) -> list[str]:
    groups = ["itself" if pair["GroupId"] == own else pair["GroupId"] for pair in rule["UserIdGroupPairs"]]
    ranges = [one["CidrIp"] for one in rule["IpRanges"]] + [one["CidrIpv6"] for one in rule["Ipv6Ranges"]]
    return groups + ranges + [one["PrefixListId"] for one in rule["PrefixListIds"]]


def _ports(rule: Json) -> str:
    if rule["IpProtocol"] == "-1":
        return "all traffic"
    first, last = rule.get("FromPort"), rule.get("ToPort")
    return f"{rule['IpProtocol']} {first if first == last else f'{first}-{last}'}"


def _reservation_lines(account: EmulatedAccount, data: Json) -> Iterator[str]:
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if not target:
        return
    wanted = target.get("CapacityReservationId")
    if "CapacityReservationResourceGroupArn" in target:
        yield f"  reservation target [model]: {target['CapacityReservationResourceGroupArn']}"
    for one in account.client("ec2").describe_capacity_reservations()["CapacityReservations"]:
        if wanted in (None, one["CapacityReservationId"]):
            end = f", ends {one['EndDate']:%Y-%m-%d %H:%M %Z}" if "EndDate" in one else ", no end"
            yield (
                f"  reservation [model]: {one['CapacityReservationId']}, {one['ReservationType']}, {one['State']}, "
                f"{one['AvailableInstanceCount']} of {one['TotalInstanceCount']} x {one['InstanceType']} free"
                f" in {one['AvailabilityZone']}{end}"
            )
