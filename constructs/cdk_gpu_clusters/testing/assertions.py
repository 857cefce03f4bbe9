"""Assertions on a user's own template and on a deployed cluster: few, each about one promise of a GPU cluster.

They read the template alone, whatever made it, and need no extra. Each lists every fault at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.errors import errors_in
from cdk_gpu_clusters.rules.interfaces import (
    NetworkInterface,
    check_addresses,
    check_interfaces,
    check_public_ip,
)
from cdk_gpu_clusters.testing.account import EmulatedAccount, Json

_EVERYWHERE = ("0.0.0.0/0", "::/0")
_ALL_TRAFFIC = "-1"
#: What is lost for good when it goes.
_DATA = (
    "AWS::EFS::FileSystem",
    "AWS::FSx::FileSystem",
    "AWS::KMS::Key",
    "AWS::S3::Bucket",
    "AWS::S3Express::DirectoryBucket",
)
_KEPT = ("Retain", "RetainExceptOnCreate")
#: Settings of a network interface that give it addresses.
_ADDRESSES = frozenset(
    {
        "Ipv4PrefixCount",
        "Ipv4Prefixes",
        "Ipv6AddressCount",
        "Ipv6Addresses",
        "Ipv6PrefixCount",
        "Ipv6Prefixes",
        "PrimaryIpv6",
        "PrivateIpAddress",
        "PrivateIpAddresses",
        "SecondaryPrivateIpAddressCount",
    }
)


class _Template(Protocol):
    def to_json(self) -> Mapping[str, Any]: ...


#: `aws_cdk.assertions.Template`, or a template as a dictionary.
TemplateLike = _Template | Mapping[str, Any]


def assert_efa_ready(template: TemplateLike) -> None:
    """Nodes can exchange EFA traffic: interfaces that EC2 takes, in a group that allows all traffic with itself.

    A group that the template does not make is taken on trust.

    Args:
        template: The template; it must have a launch template with EFA interfaces.

    Raises:
        AssertionError: With every fault.

    Example:
        >>> from aws_cdk.assertions import Template
        >>> from cdk_gpu_clusters.testing import assert_efa_ready
        >>> block = Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z")
        >>> fleet = GpuFleet(
        ...     stack, "Trainers", vpc=vpc, instance_type="p5.48xlarge", node_count=2, capacity=block
        ... )
        >>> assert_efa_ready(Template.from_stack(stack))
    """
    resources = _resources(template)
    launched = {name: data for name, data in _launch_templates(resources) if _has_efa(data)}
    _fail("EFA", _none_of(launched, "launch template with EFA interfaces") or _efa_faults(resources, launched))


def assert_capacity_block(template: TemplateLike) -> None:
    """Fleets on Capacity Blocks launch into them, and no deployment resizes them.

    Args:
        template: The template; it must have a launch template for a Capacity Block.

    Raises:
        AssertionError: With every fault.
    """
    resources = _resources(template)
    market = "capacity-block"
    launched = {
        name: data
        for name, data in _launch_templates(resources)
        if data.get("InstanceMarketOptions", {}).get("MarketType") == market
    }
    missing = _none_of(launched, f"launch template with MarketType {market}")
    _fail("Capacity Blocks", missing or _block_faults(resources, launched))


def assert_no_public_access(template: TemplateLike) -> None:
    """Nothing is reached from the internet: no addresses, no open rules, no open buckets, no public load balancer.

    Args:
        template: The template.

    Raises:
        AssertionError: With every fault.
    """
    _fail("private networks", _public_faults(_resources(template)))


def assert_data_outlives(template: TemplateLike) -> None:
    """File systems, buckets and keys stay when their stack is deleted, and when a change replaces them.

    Args:
        template: The template; it must have some.

    Raises:
        AssertionError: With every fault.
    """
    held = {name: one for name, one in _resources(template).items() if one["Type"] in _DATA}
    faults = (
        f"{name}: {policy} of {one['Type']} is {one.get(policy, 'Delete')}, not Retain"
        for name, one in held.items()
        for policy in ("DeletionPolicy", "UpdateReplacePolicy")
        if one.get(policy) not in _KEPT
    )
    _fail("data that outlive their stack", _none_of(held, "file system, bucket or key") or faults)


def assert_fleet_size(account: EmulatedAccount, nodes: int, *, fleet: str | None = None) -> None:
    """A deployed fleet has so many nodes, in service or on their way to it.

    Args:
        account: The emulated account, its clock where the test wants it.
        nodes: Number of nodes.
        fleet: Name of the Auto Scaling group, or of the node group of EKS; may be left out if there is one.

    Raises:
        AssertionError: If it has another number, or there is no such fleet.
    """
    groups = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    found = [group for group in groups if fleet is None or fleet in _names_of(group)]
    names = ", ".join(group["AutoScalingGroupName"] for group in groups) or "none"
    if len(found) != 1:
        raise AssertionError(f"one fleet was expected at {account.now}; Auto Scaling groups: {names}")
    size = len(found[0]["Instances"])
    if size != nodes:
        desired = found[0]["DesiredCapacity"]
        raise AssertionError(f"{names} has {size} nodes at {account.now}, not {nodes}; it wants {desired}")


def _names_of(group: Mapping[str, Any]) -> set[str]:
    """Its own name, and that of the node group of EKS that it belongs to."""
    tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
    return {group["AutoScalingGroupName"], tags.get("eks:nodegroup-name", "")}


def _fail(promise: str, faults: Iterable[str]) -> None:
    found = list(faults)
    if found:
        raise AssertionError("\n- ".join([f"the template breaks what it should hold for {promise}:", *found]))


def _none_of(found: Mapping[str, Any], what: str) -> list[str]:
    return [] if found else [f"there is no {what}"]


def _resources(template: TemplateLike) -> dict[str, Json]:
    document = template if isinstance(template, Mapping) else template.to_json()
    return dict(document.get("Resources", {}))


def _of_type(resources: Mapping[str, Json], kind: str) -> Iterator[tuple[str, Json]]:
    for name, resource in resources.items():
        if resource["Type"] == kind:
            yield name, resource.get("Properties", {})


def _launch_templates(resources: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    for name, properties in _of_type(resources, "AWS::EC2::LaunchTemplate"):
        yield name, properties["LaunchTemplateData"]


def _has_efa(data: Json) -> bool:
    return any(_is_efa(one) for one in data.get("NetworkInterfaces", ()))


def _is_efa(interface: Json) -> bool:
    return interface.get("InterfaceType") in ("efa", "efa-only")


def _efa_faults(resources: Mapping[str, Json], launched: Mapping[str, Json]) -> Iterator[str]:
    made = {
        _text({"Fn::GetAtt": [name, "GroupId"]}): name for name, _ in _of_type(resources, "AWS::EC2::SecurityGroup")
    }
    ways_in = _self_rules(resources, "Ingress", "SourceSecurityGroupId")
    ways_out = _self_rules(resources, "Egress", "DestinationSecurityGroupId")
    for name, data in launched.items():
        yield from (f"{name}: {fault}" for fault in _interface_faults(data))
        for interface in data["NetworkInterfaces"]:
            groups = {_text(group) for group in interface.get("Groups", ())}
            if _is_efa(interface) and groups <= made.keys() and not groups & ways_in & ways_out:
                where = f"card {interface.get('NetworkCardIndex', 0)} device {interface.get('DeviceIndex', 0)}"
                own = ", ".join(sorted(made[group] for group in groups)) or "none"
                yield f"{name}: {where} has no group that allows all traffic with itself in and out; groups: {own}"


def _interface_faults(data: Json) -> Iterator[str]:
    given = data["NetworkInterfaces"]
    if data.get("SecurityGroupIds") or data.get("SecurityGroups"):
        yield "security groups belong to the interfaces; they may not be given at the top level too"
    interfaces = [
        NetworkInterface(
            one.get("NetworkCardIndex", 0), one.get("DeviceIndex", 0), one.get("InterfaceType", "interface")
        )
        for one in given
    ]
    addressed = [made for made, one in zip(interfaces, given, strict=True) if _ADDRESSES & one.keys()]
    public = any(one.get("AssociatePublicIpAddress") for one in given)
    findings = [*check_public_ip(interfaces, public_ip=public), *check_addresses(addressed)]
    if data.get("InstanceType") in instance_types():
        findings += check_interfaces(data["InstanceType"], interfaces)
    for finding in errors_in(findings):
        yield f"[{finding.id}] {finding.cause}, got {finding.got}"


def _self_rules(resources: Mapping[str, Json], direction: str, peer: str) -> set[str]:
    """Groups that allow all traffic with themselves in one direction, by rules of their own."""
    return {
        _text(rule["GroupId"])
        for _, rule in _of_type(resources, f"AWS::EC2::SecurityGroup{direction}")
        if rule.get("IpProtocol") == _ALL_TRAFFIC and rule.get("GroupId") == rule.get(peer)
    }


def _block_faults(resources: Mapping[str, Json], launched: Mapping[str, Json]) -> Iterator[str]:
    for name, data in launched.items():
        specification = data.get("CapacityReservationSpecification", {})
        if not specification.get("CapacityReservationTarget"):
            yield f"{name}: it names no block to launch into (CapacityReservationTarget)"
        if data.get("Placement", {}).get("GroupName"):
            yield f"{name}: it names a placement group, which a launch into a block may not"
    yield from _group_faults(resources, launched)


def _group_faults(resources: Mapping[str, Json], launched: Mapping[str, Json]) -> Iterator[str]:
    for name, group in _of_type(resources, "AWS::AutoScaling::AutoScalingGroup"):
        if _launches(group, "LaunchTemplateId", launched):
            if "DesiredCapacity" in group:
                yield f"{name}: DesiredCapacity is written back at every deployment, also during the block"
            yield from _zone_faults(name, group.get("VPCZoneIdentifier", ()))
    for name, group in _of_type(resources, "AWS::EKS::Nodegroup"):
        if _launches(group, "Id", launched):
            sizes = group.get("ScalingConfig", {})
            if sizes.get("DesiredSize") != sizes.get("MaxSize"):
                yield f"{name}: a deployment during the block would set DesiredSize, which is not the entire block"
            yield from _zone_faults(name, group.get("Subnets", ()))
            if group.get("CapacityType") != "CAPACITY_BLOCK":
                yield f"{name}: the capacity type of its node group is not CAPACITY_BLOCK"


def _launches(group: Json, key: str, launched: Mapping[str, Json]) -> bool:
    template = group.get("LaunchTemplate", {}).get(key, {})
    return isinstance(template, Mapping) and template.get("Ref") in launched


def _zone_faults(name: str, subnets: Sequence[Any]) -> Iterator[str]:
    if len(subnets) > 1:
        yield f"{name}: a block is in one zone, and the group has several subnets"


def _public_faults(resources: Mapping[str, Json]) -> Iterator[str]:
    for name, resource in resources.items():
        is_open, what = _OPEN.get(resource["Type"], (None, ""))
        if is_open is None or not is_open(resource.get("Properties", {})):
            continue
        # CDK's public subnets give public addresses, also where they only hold NAT gateways.
        if resource["Type"] != "AWS::EC2::Subnet" or _launches_in(name, resources):
            yield f"{name}: {what}"


#: Types that launch instances, with the property that names their subnets.
_LAUNCHING = {
    "AWS::AutoScaling::AutoScalingGroup": "VPCZoneIdentifier",
    "AWS::Batch::ComputeEnvironment": "ComputeResources",
    "AWS::EC2::EC2Fleet": "LaunchTemplateConfigs",
    "AWS::EC2::Instance": "SubnetId",
    "AWS::EC2::LaunchTemplate": "LaunchTemplateData",
    "AWS::EC2::NetworkInterface": "SubnetId",
    "AWS::EKS::Nodegroup": "Subnets",
    "AWS::PCS::ComputeNodeGroup": "SubnetIds",
}


def _launches_in(subnet: str, resources: Mapping[str, Json]) -> bool:
    """Whether the template launches instances in a subnet."""
    launching = [one for one in resources.values() if one["Type"] in _LAUNCHING]
    places = [_text(one.get("Properties", {}).get(_LAUNCHING[one["Type"]])) for one in launching]
    return any(f'"{subnet}"' in place for place in places)


def _lets_in(rule: Json) -> bool:
    return rule.get("CidrIp") in _EVERYWHERE or rule.get("CidrIpv6") in _EVERYWHERE


def _has_public_nodes(template: Json) -> bool:
    interfaces = template["LaunchTemplateData"].get("NetworkInterfaces", ())
    return any(one.get("AssociatePublicIpAddress") for one in interfaces)


def _has_open_endpoint(cluster: Json) -> bool:
    """Whether any address may call the public endpoint, which is the default of EKS."""
    network = cluster.get("ResourcesVpcConfig", {})
    ranges = network.get("PublicAccessCidrs") or _EVERYWHERE
    return network.get("EndpointPublicAccess", True) is not False and any(one in _EVERYWHERE for one in ranges)


def _is_public_bucket(bucket: Json) -> bool:
    blocked = bucket.get("PublicAccessBlockConfiguration", {})
    return not all(blocked.get(key) for key in _PUBLIC_ACCESS_BLOCKS)


_PUBLIC_ACCESS_BLOCKS = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
#: How each type is open to the internet.
_OPEN: dict[str, tuple[Callable[[Json], bool], str]] = {
    "AWS::EC2::LaunchTemplate": (_has_public_nodes, "its nodes get public addresses"),
    "AWS::EC2::SecurityGroup": (
        lambda group: any(map(_lets_in, group.get("SecurityGroupIngress", ()))),
        "the group lets in the internet",
    ),
    "AWS::EC2::SecurityGroupIngress": (_lets_in, "the rule lets in the internet"),
    "AWS::EC2::Subnet": (
        lambda subnet: bool(subnet.get("MapPublicIpOnLaunch")),
        "the subnet gives public addresses",
    ),
    "AWS::EKS::Cluster": (_has_open_endpoint, "the API server of the cluster is open to the internet"),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": (
        lambda balancer: balancer.get("Scheme", "internet-facing") == "internet-facing",
        "the load balancer faces the internet",
    ),
    "AWS::S3::Bucket": (_is_public_bucket, f"the bucket lacks some of {', '.join(_PUBLIC_ACCESS_BLOCKS)}"),
}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
