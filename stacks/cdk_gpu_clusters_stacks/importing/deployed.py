"""A deployed launch template or Auto Scaling group -> plain EC2, read from the account. All calls only read.

What AWS answers is laid out as one document, in the words of CloudFormation, so that it is read as files are: what is
not read is lost, and is listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters_stacks.doctor.mapping import BY_TYPE, DIRECTIONS, TEMPLATES, described, rule_properties
from cdk_gpu_clusters_stacks.failures.calls import GROUPS
from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.preflight.call import (
    IMAGES,
    PLACEMENT_GROUPS,
    RESERVATIONS,
    SECURITY_GROUP_RULES,
    SUBNETS,
    Call,
    NoAnswer,
)
from cdk_gpu_clusters_stacks.preflight.check import policy_of
from cdk_gpu_clusters_stacks.spec._document import Document
from cdk_gpu_clusters_stacks.spec.capacity import utc_text

from ._rules import DEPLOYED
from .draft import Change, Draft, Note
from .foreign import Foreign, Part
from .group import NO_DESIRED, NO_MIX, Group, Market, Volume, accelerated, fleet_name, is_spot, write_fleet
from .judge import Deployed, logical_id
from .network import Place, put_existing_network

_CALLS = (TEMPLATES, GROUPS, SUBNETS, SECURITY_GROUP_RULES, PLACEMENT_GROUPS, RESERVATIONS, IMAGES)
_LAUNCH, _GROUP = "LaunchTemplateData", "AutoScalingGroup"
_MIX = f"{_GROUP}.MixedInstancesPolicy.InstancesDistribution"
#: Beside the rules about files: what a launch template and its security groups decide.
MORE_RULES = ("GPU-COST-002", "GPU-FLT-009", "GPU-LT-011", "GPU-LT-014")
#: Where a value is -> what becomes of it. The longest path that fits is taken.
LOST: Mapping[str, str] = {
    f"{_LAUNCH}.UserData": "write what your nodes need into a shell script beside the cluster file, and name it in "
    "`user_data` of the fleet: the library's own comes first",
    f"{_LAUNCH}.IamInstanceProfile": "nodes have the smallest role that works; grant more in an app, with `role` of "
    "the fleet",
    f"{_LAUNCH}.KeyName": "sessions come through Systems Manager; nodes have no SSH key",
    f"{_LAUNCH}.SecurityGroupIds": "the fleet has a security group of its own, with EFA's rules",
    f"{_LAUNCH}.NetworkInterfaces": "the library lays out the network interfaces",
    f"{_LAUNCH}.TagSpecifications": "write the tags as `tags` of the fleet",
    f"{_LAUNCH}.BlockDeviceMappings": "nodes have one volume, and their local disks at /scratch",
    f"{_LAUNCH}.Placement.GroupId": "write the name of this placement group, which could not be read, if capacity is "
    "reserved in it",
    f"{_LAUNCH}.CapacityReservationSpecification": "`capacity` of the fleet names a reservation, or none",
    f"{_GROUP}.CapacityReservationSpecification": "`capacity` of the fleet names one reservation, or a group of them",
    **dict.fromkeys(
        (f"{_GROUP}.{name}" for name in ("LoadBalancerNames", "TargetGroupARNs", "TrafficSources")),
        "fleets of `inference` have a load balancer; those of `training` have none",
    ),
    f"{_GROUP}.WarmPoolConfiguration": "fleets have no warm pool",
    f"{_GROUP}.TerminationPolicies": "the library sets the rules by which nodes end",
    f"{_GROUP}.HealthCheckType": "the watchdog of each node reports its health to EC2 Auto Scaling",
    f"{_GROUP}.HealthCheckGracePeriod": "the library knows how long a boot takes",
    f"{_GROUP}.MixedInstancesPolicy.LaunchTemplate.Overrides": "a fleet has one instance type: the first one",
    f"{_MIX}.OnDemandBaseCapacity": NO_MIX,
    f"{_MIX}.OnDemandPercentageAboveBaseCapacity": NO_MIX,
    f"{_GROUP}.DesiredCapacity": NO_DESIRED,
}
#: Of images of Amazon Linux, and of Ubuntu: EC2 user guide, "Device names for volumes on Amazon EC2 instances".
_ROOT_DEVICES = ("/dev/xvda", "/dev/sda1")
_SYSTEMS = {"al2023": "al2023", "ubuntu-noble-24.04": "ubuntu-24.04", "ubuntu-jammy-22.04": "ubuntu-22.04",
            "Ubuntu 24.04": "ubuntu-24.04", "Ubuntu 22.04": "ubuntu-22.04", "Amazon Linux 2023": "al2023"}  # fmt: skip


def policy_to_import() -> dict[str, Any]:
    """The smallest IAM policy with which a launch template or group is read. All actions only read."""
    return policy_of(_CALLS, "GpuClustersImport")


@dataclass(slots=True)
class Found:
    """What an account has of a launch template or group.

    Attributes:
        foreign: Launch template and group as one document.
        subnets: Described subnets by id.
        reservation: The described reservation or block; None if there is none, or it was not read.
        strategy: Strategy of the placement group; empty if it is unknown.
        image_name: Name of the image; empty if it is unknown.
        root_devices: Names that its root device can have; one if the image was read.
        traffic: Rules of the security groups, by group, as properties.
        warnings: What could not be read, and is to be filled in.
    """

    foreign: Foreign
    subnets: dict[str, Mapping[str, Any]]
    reservation: Mapping[str, Any] | None
    strategy: str
    image_name: str
    root_devices: tuple[str, ...]
    traffic: dict[str, list[tuple[str, dict[str, Any]]]]
    warnings: list[Finding]


def read_deployed(account: Account, *, launch_template: str | None = None, group: str | None = None) -> Found:
    """Read a launch template, or an Auto Scaling group with its launch template.

    Args:
        account: The account.
        launch_template: Id of the launch template, with `:VERSION` for another than the default version.
        group: Name of the group.

    Returns:
        What was read. The findings of its document name what could not be.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    reader = _Reader(account, name=group or launch_template or "")
    data: dict[str, Any] = {}
    template, _, version = (launch_template or "").partition(":")
    if group is not None:
        properties = reader.read_group(group)
        data[_GROUP] = properties
        named = properties.get("LaunchTemplate") or _of_mixed(properties)
        template, version = str(named.get("LaunchTemplateId") or ""), str(named.get("Version") or "$Default")
    if template:
        data[_LAUNCH] = reader.read_launch(template, version or "$Default")
    reader.foreign.document.data = data
    return reader.found(data)


def _of_mixed(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    named: Mapping[str, Any] = (
        (properties.get("MixedInstancesPolicy") or {}).get("LaunchTemplate", {}).get("LaunchTemplateSpecification", {})
    )
    return named


class _Reader:
    """Asks an account, and keeps what has no answer."""

    def __init__(self, account: Account, *, name: str) -> None:
        self._account = account
        self.foreign = Foreign(name, Document())
        self.warnings: list[Finding] = []

    def read_group(self, name: str) -> dict[str, Any]:
        kind = BY_TYPE["AWS::AutoScaling::AutoScalingGroup"]
        answer = self._ask(kind.call, AutoScalingGroupNames=[name])
        document = None if answer is None else described(kind, answer)
        if document is None:
            self._absent(f"there is no Auto Scaling group {name} in {self._account.region}", answer is not None)
            return {}
        return kind.properties(document)

    def read_launch(self, template: str, version: str) -> dict[str, Any]:
        kind = BY_TYPE["AWS::EC2::LaunchTemplate"]
        answer = self._ask(kind.call, LaunchTemplateId=template, Versions=[version])
        document = None if answer is None else described(kind, answer)
        if document is None:
            text = f"there is no version {version} of launch template {template} in {self._account.region}"
            self._absent(text, answer is not None)
            return {}
        found: dict[str, Any] = kind.properties(document)[_LAUNCH]
        return found

    def found(self, data: Mapping[str, Any]) -> Found:
        """What the launch template and the group name."""
        launch = data.get(_LAUNCH, {})
        subnets = _subnet_ids(data)
        groups = sorted(set(_security_groups(launch)))
        reservation = _reservation(self.foreign.root).value
        placement = _placement(self.foreign.root)
        by = "GroupIds" if placement.key[-1] == "GroupId" else "GroupNames"
        image = launch.get("ImageId")
        answers = {
            "subnets": self._described(SUBNETS, "Subnets", SubnetIds=subnets) if subnets else [],
            "rules": self._described(
                SECURITY_GROUP_RULES, "SecurityGroupRules", Filters=[{"Name": "group-id", "Values": groups}]
            )
            if groups
            else [],
            "placement": self._described(PLACEMENT_GROUPS, "PlacementGroups", **{by: [placement.value]})
            if placement.exists
            else [],
            "reservation": self._described(RESERVATIONS, "CapacityReservations", CapacityReservationIds=[reservation])
            if reservation
            else [],
            "image": self._described(IMAGES, "Images", ImageIds=[image]) if str(image).startswith("ami-") else [],
        }
        traffic: dict[str, list[tuple[str, dict[str, Any]]]] = {group: [] for group in groups}
        for rule in answers["rules"]:
            kind = DIRECTIONS[bool(rule.get("IsEgress"))]
            traffic.setdefault(str(rule.get("GroupId")), []).append((kind, rule_properties(rule)))
        if by == "GroupIds" and answers["placement"]:
            launch["Placement"] = {**launch["Placement"], "GroupName": answers["placement"][0].get("GroupName")}
            del launch["Placement"]["GroupId"]
        return Found(
            foreign=self.foreign,
            subnets={str(one.get("SubnetId")): one for one in answers["subnets"]},
            reservation=next(iter(answers["reservation"]), None),
            strategy=next((str(one.get("Strategy", "")) for one in answers["placement"]), ""),
            image_name=next((f"{one.get('Name', '')} {one.get('Description', '')}" for one in answers["image"]), ""),
            root_devices=tuple(str(one["RootDeviceName"]) for one in answers["image"] if "RootDeviceName" in one)
            or _ROOT_DEVICES,
            traffic=traffic,
            warnings=self.warnings,
        )

    def _described(self, call: Call, member: str, **parameters: Any) -> list[Mapping[str, Any]]:
        answer = self._ask(call, **parameters)
        return list((answer or {}).get(member, ()))

    def _ask(self, call: Call, **parameters: Any) -> Mapping[str, Any] | None:
        try:
            return self._account.ask(call, **parameters)
        except NoAnswer as none:
            is_needed = call in (TEMPLATES, GROUPS)
            finding = DEPLOYED.finding(
                cause=none.cause,
                got=call.name,
                fix=none.fix or "correct the name",
                path=f"{self.foreign.name}:1:1",
                severity=Severity.ERROR if is_needed else Severity.WARNING,
            )
            (self.foreign.findings if is_needed else self.warnings).append(finding)
            return None

    def _absent(self, text: str, was_answered: bool) -> None:
        if was_answered:
            finding = DEPLOYED.finding(
                cause=text, got="nothing", fix="correct the name, or the Region", path=f"{self.foreign.name}:1:1"
            )
            self.foreign.findings.append(finding)


def _subnet_ids(data: Mapping[str, Any]) -> list[str]:
    of_group = data.get(_GROUP, {}).get("VPCZoneIdentifier") or []
    of_launch = [one.get("SubnetId") for one in data.get(_LAUNCH, {}).get("NetworkInterfaces", ())]
    return list(dict.fromkeys(str(one) for one in (*of_group, *of_launch) if one))


def _reservation(root: Part) -> Part:
    """The id of the reservation or block. That of the group comes before that of the launch template."""
    of_group = _target_of_group(root)["CapacityReservationIds"].items()
    return of_group[0] if of_group else _target_of_launch(root)["CapacityReservationId"]


def _reservation_group(root: Part) -> Part:
    """The ARN of the resource group of reservations."""
    of_group = _target_of_group(root)["CapacityReservationResourceGroupArns"].items()
    return of_group[0] if of_group else _target_of_launch(root)["CapacityReservationResourceGroupArn"]


def _target_of_group(root: Part) -> Part:
    return root[_GROUP]["CapacityReservationSpecification"]["CapacityReservationTarget"]


def _target_of_launch(root: Part) -> Part:
    return root[_LAUNCH]["CapacityReservationSpecification"]["CapacityReservationTarget"]


def _placement(root: Part) -> Part:
    """The placement group of the group, or that of the launch template, which can be its id."""
    launch = root[_LAUNCH]["Placement"]
    named = (root[_GROUP]["PlacementGroup"], launch["GroupName"], launch["GroupId"])
    return next((one for one in named if one.value), launch["GroupName"])


def _security_groups(launch: Mapping[str, Any]) -> Iterator[str]:
    yield from map(str, launch.get("SecurityGroupIds", ()))
    for interface in launch.get("NetworkInterfaces", ()):
        yield from map(str, interface.get("Groups", ()))


# Write the cluster file.


def import_deployed(found: Found, draft: Draft, place: Place) -> list[Group]:
    """Write a cluster file for plain EC2.

    Args:
        found: What the account has.
        draft: The cluster file.
        place: Name, Region, and what else is known.

    Returns:
        The group of nodes that became a fleet.
    """
    root = found.foreign.root
    launch, group = root[_LAUNCH], root[_GROUP]
    override = next(iter(group["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"].items()), None)
    type_part = launch["InstanceType"]
    if override is not None and override["InstanceType"].exists:
        type_part = override["InstanceType"]
        launch["InstanceType"].skip()
    kind = accelerated(type_part) if type_part.exists else None
    if kind is None:
        return []
    draft.findings += found.warnings
    draft.put("version", value=1)
    draft.put("name", value=place.name)
    draft.put("region", value=place.region)
    draft.put("orchestrator", value="ec2")
    made = _group(found, fleet_name(place.name), kind, type_part)
    _write_network(draft, found, place, made)
    write_fleet(draft, made)
    _write_rest(draft, found, made)
    return [made]


def _group(found: Found, name: str, kind: InstanceType, type_part: Part) -> Group:
    root = found.foreign.root
    launch, group = root[_LAUNCH], root[_GROUP]
    market, market_part, price = _market(launch, group)
    placement = _placement(root)
    is_named = placement.exists and placement.key[-1] != "GroupId"
    interfaces = launch["NetworkInterfaces"].items()
    layout = [_interface(one) for one in interfaces] or [{"NetworkCardIndex": 0, "DeviceIndex": 0}]
    reservation, arn = _reservation(root), _reservation_group(root)
    is_reserved = reservation.exists or arn.exists
    least, most = group["MinSize"].number(), group["MaxSize"].number()
    return Group(
        name=name,
        part=launch,
        instance_type=kind,
        type_part=type_part,
        minimum=1 if least is None else least,
        maximum=max(1, 1 if most is None else most),
        desired=group["DesiredCapacity"].number() or None if market is Market.BLOCK else None,
        counts=group["MaxSize"] if group.exists else launch,
        market=market,
        market_part=market_part,
        spot_price=(float(str(price.text())), price) if _is_price(price) else None,
        reservation=reservation if reservation.exists else None,
        reservation_group=arn if arn.exists else None,
        placement_group=placement if is_named and found.strategy in ("", "cluster") else None,
        placed=found.strategy == "cluster" or (placement.exists and not is_reserved),
        efa=any(str(one.get("InterfaceType", "")).startswith("efa") for one in layout),
        efa_part=launch["NetworkInterfaces"] if interfaces else launch,
        interfaces=layout,
        volume=_volume(found, launch),
    )


def _market(launch: Part, group: Part) -> tuple[Market, Part, Part]:
    """How nodes are bought, where that is, and where a price limit of Spot is."""
    mix = group["MixedInstancesPolicy"]["InstancesDistribution"]
    above = mix["OnDemandPercentageAboveBaseCapacity"]
    if is_spot(mix["OnDemandBaseCapacity"], above):
        return Market.SPOT, above, mix["SpotMaxPrice"]
    options = launch["InstanceMarketOptions"]
    word = options["MarketType"].text() or ""
    market = {"spot": Market.SPOT, "capacity-block": Market.BLOCK}.get(word, Market.ON_DEMAND)
    return market, options["MarketType"], options["SpotOptions"]["MaxPrice"]


def _is_price(part: Part) -> bool:
    try:
        return part.exists and float(str(part.value)) > 0
    except ValueError:
        return False


def _interface(part: Part) -> dict[str, object]:
    """An interface as the rules take it; what the library lays out again is read."""
    for name in ("Groups", "SubnetId", "DeleteOnTermination", "AssociatePublicIpAddress"):
        part[name].skip()
    card, device, kind = (part[name] for name in ("NetworkCardIndex", "DeviceIndex", "InterfaceType"))
    return {
        "NetworkCardIndex": card.number() or 0,
        "DeviceIndex": device.number() or 0,
        **({"InterfaceType": kind.text()} if kind.exists else {}),
    }


def _volume(found: Found, launch: Part) -> Volume:
    """The root volume; without one in the launch template, the image decides."""
    mappings = [one for one in launch["BlockDeviceMappings"].items() if one["DeviceName"].value in found.root_devices]
    if not mappings:
        return Volume(part=launch)
    disk = mappings[0]["Ebs"]
    for part in (mappings[0]["DeviceName"], disk["DeleteOnTermination"]):
        part.skip()
    return Volume(
        size_gib=disk["VolumeSize"].number(),
        iops=disk["Iops"].number(),
        throughput_mib_per_s=disk["Throughput"].number(),
        kind=disk["VolumeType"].text(),
        encrypted=disk["Encrypted"].flag(),
        part=disk if disk.exists else launch,
    )


def _write_network(draft: Draft, found: Found, place: Place, made: Group) -> None:
    root = found.foreign.root
    of_group = root[_GROUP]["VPCZoneIdentifier"].items()
    subnets = of_group or [one["SubnetId"] for one in root[_LAUNCH]["NetworkInterfaces"].items()]
    subnets = [one for one in subnets if one.exists]
    known = [found.subnets[str(one.value)] for one in subnets if str(one.value) in found.subnets]
    zone = next((str(one["AvailabilityZone"]) for one in known if one.get("AvailabilityZone")), None)
    vpc = next((str(one["VpcId"]) for one in known if one.get("VpcId")), None)
    where = Place(name=place.name, region=place.region, zone=place.zone or zone, vpc_id=place.vpc_id or vpc)
    put_existing_network(draft, where, str(place.region), subnets, [made])
    if len(set(map(str, (one.get("SubnetId") for one in known)))) == 1 and known[0].get("CidrBlock"):
        draft.put("network", "cidr", value=str(known[0]["CidrBlock"]))
    if any(one.get("MapPublicIpOnLaunch") for one in known):
        draft.put("network", "public", value=True)


def _write_rest(draft: Draft, found: Found, made: Group) -> None:
    root, key = found.foreign.root, ("training", "fleets", made.name)
    launch, group = root[_LAUNCH], root[_GROUP]
    if not group.exists:
        draft.marks[(*key, "nodes")] = "the number of nodes; a launch template has none"
        draft.notes.append(Note(Change.FILLED, ".".join((*key, "nodes")), draft.marks[(*key, "nodes")]))
    preference = group["CapacityReservationSpecification"]["CapacityReservationPreference"]
    if preference.value == "default":
        preference.skip()
    for part in (group["LaunchTemplate"], group["VPCZoneIdentifier"], launch["MetadataOptions"]):
        part.skip()
    specification = group["MixedInstancesPolicy"]["LaunchTemplate"]["LaunchTemplateSpecification"]
    specification.skip()
    _write_image(draft, key, found)
    _write_times(draft, (*key, "capacity"), found, made)
    for one in group["Tags"].items():
        name, value = str(one["Key"].value or ""), str(one["Value"].value or "")
        if name and not name.startswith("aws:"):
            one.skip()
            draft.put(*key, "tags", name, value=value, of=one)


def _write_image(draft: Draft, key: tuple[str, ...], found: Found) -> None:
    image = found.foreign.root[_LAUNCH]["ImageId"]
    text = image.text() or ""
    system = next((name for word, name in _SYSTEMS.items() if word in found.image_name), None)
    if text.startswith("resolve:ssm:"):
        draft.put(*key, "image", "parameter", value=text.removeprefix("resolve:ssm:").partition(":")[0], of=image)
    elif text:
        draft.put(*key, "image", "id", value=text, of=image)
    else:
        return
    if system is not None:
        draft.put(*key, "image", "os", value=system, of=image)
    else:
        draft.fill(*key, "image", "os", value="al2023", why="the operating system of the image", of=image)
    text = "the image must have the drivers of the accelerator, as those of AWS have; remove the key to take AWS's"
    draft.notes.append(Note(Change.REPLACED, image.name, text))


def _write_times(draft: Draft, key: tuple[str, ...], found: Found, made: Group) -> None:
    """The times of a block or reservation, which the account knows."""
    described_one = found.reservation or {}
    start, end = described_one.get("StartDate"), described_one.get("EndDate")
    if made.market is Market.BLOCK:
        for name, moment in (("starts_at", start), ("ends_at", end)):
            if isinstance(moment, datetime):
                draft.put(*key, name, value=utc_text(moment.astimezone(UTC)), of=made.reservation)
                del draft.marks[(*key, name)]
                draft.notes = [one for one in draft.notes if one.what != ".".join((*key, name))]
    elif made.reservation is not None and isinstance(end, datetime):
        draft.put(*key, "ends_at", value=utc_text(end.astimezone(UTC)), of=made.reservation)


# The rules, asked of what is deployed.


def as_deployed(found: Found, groups: Sequence[Group]) -> Deployed:
    """Launch template, group, subnets and security groups as a template, with what they name linked."""
    made = Deployed()
    names = _subnets(made, found) | {
        group: {"Fn::GetAtt": [f"Traffic{index}", "GroupId"]} for index, group in enumerate(found.traffic)
    }
    _add_traffic(made, found, names)
    for group in groups:
        _add_launch(made, found, logical_id(group.name), names)
        _add_group(made, found, logical_id(group.name), names)
    return made


def _subnets(made: Deployed, found: Found) -> dict[str, object]:
    """Add the subnets; a reference to each, by its id."""
    root = found.foreign.root
    wanted = ("VpcId", "CidrBlock", "AvailabilityZone", "MapPublicIpOnLaunch")
    names: dict[str, object] = {}
    for index, (subnet, one) in enumerate(found.subnets.items()):
        logical = f"Subnet{index}"
        names[subnet] = {"Ref": logical}
        properties = {name: one[name] for name in wanted if name in one}
        made.resources[logical] = {"Type": "AWS::EC2::Subnet", "Properties": properties}
        made.origins[(logical,)] = root[_GROUP]["VPCZoneIdentifier"] if root[_GROUP].exists else root[_LAUNCH]
    return names


def _add_traffic(made: Deployed, found: Found, names: Mapping[str, object]) -> None:
    for index, (group, rules) in enumerate(found.traffic.items()):
        logical = f"Traffic{index}"
        properties = {"GroupDescription": group, "VpcId": "vpc-0123456789abcdef0"}
        made.resources[logical] = {"Type": "AWS::EC2::SecurityGroup", "Properties": properties}
        made.origins[(logical,)] = found.foreign.root[_LAUNCH]["NetworkInterfaces"]
        for number, (kind, rule) in enumerate(rules):
            values = {"GroupId": names[group], **_linked(rule, names)}
            made.resources[f"{logical}Rule{number}"] = {"Type": f"AWS::EC2::{kind}", "Properties": values}


def _add_launch(made: Deployed, found: Found, name: str, names: Mapping[str, object]) -> None:
    """What nodes are launched with: what the group decides is put into the launch template."""
    launch = found.foreign.root[_LAUNCH]
    data: dict[str, Any] = {str(part.key[-1]): _linked(part.value, names) for part in launch.children()}
    placement = _placement(found.foreign.root)
    if placement.exists and found.strategy:
        group = {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": found.strategy}}
        made.resources[f"{name}Placement"] = group
        data["Placement"] = {**data.get("Placement", {}), "GroupName": {"Ref": f"{name}Placement"}}
    reservation, arn = _reservation(found.foreign.root), _reservation_group(found.foreign.root)
    target = {"CapacityReservationId": reservation.value, "CapacityReservationResourceGroupArn": arn.value}
    if reservation.exists or arn.exists:
        target = {key: value for key, value in target.items() if value is not None}
        data["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
        key = (name, "Properties", _LAUNCH, "CapacityReservationSpecification")
        made.origins[key] = reservation if reservation.exists else arn
    made.resources[name] = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}}
    made.origins[(name,)] = launch
    for part in launch.children():
        made.origins[(name, "Properties", _LAUNCH, str(part.key[-1]))] = part


def _add_group(made: Deployed, found: Found, name: str, names: Mapping[str, object]) -> None:
    group = found.foreign.root[_GROUP]
    if not isinstance(group.value, Mapping):
        return
    version = {"LaunchTemplateId": {"Ref": name}, "Version": {"Fn::GetAtt": [name, "LatestVersionNumber"]}}
    kept = ("MinSize", "MaxSize", "VPCZoneIdentifier", "InstanceMaintenancePolicy")
    values = {key: _linked(group.value[key], names) for key in kept if key in group.value}
    values |= {key: str(values[key]) for key in ("MinSize", "MaxSize") if key in values}
    mix = group.value.get("MixedInstancesPolicy")
    if mix is None:
        values["LaunchTemplate"] = version
    else:
        named = {**mix.get("LaunchTemplate", {}), "LaunchTemplateSpecification": version}
        values["MixedInstancesPolicy"] = {**mix, "LaunchTemplate": named}
    made.resources[f"{name}Group"] = {
        "Type": "AWS::AutoScaling::AutoScalingGroup",
        "Properties": values,
    }
    made.origins[(f"{name}Group",)] = group


def _linked(value: Any, names: Mapping[str, object]) -> Any:
    """A value in which ids are references to the resources of the template."""
    if isinstance(value, Mapping):
        return {key: _linked(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_linked(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value
