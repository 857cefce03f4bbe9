"""eksctl's ClusterConfig -> Amazon EKS: node groups with accelerators become fleets.

Every default is that of eksctl-io/eksctl @ 99984ad: pkg/apis/eksctl.io/v1alpha5 and pkg/cfn/builder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.rules.fleet import DEFAULT_SIZE_GIB
from cdk_gpu_clusters.rules.interfaces import Orchestrator
from cdk_gpu_clusters.rules.kubernetes_labels import node_taints

from ._rules import TYPE
from .draft import Change, Draft, Note
from .eks import write_version
from .foreign import Foreign, Part
from .group import (
    NO_DESIRED,
    NO_MIX,
    Group,
    Market,
    Volume,
    accelerated,
    fleet_name,
    is_spot,
    refuse_equal_names,
    write_capacity,
    write_fleet,
    write_nodes,
)
from .judge import Deployed, deployed_groups, logical_id
from .network import Place, put_existing_network, zones_of
from .small_nodes import has_no_accelerator, plain_type

_NODES = (
    "call what your nodes need in one shell script beside the cluster file, and name it in `user_data` of the fleet"
)
_PODS = "grant it to the service account of the pod that needs it, with EKS Pod Identity"
_BY_HAND = "add it to the cluster as you do today: `existing` of `eks` takes the cluster that eksctl made"
_KUBELET = "the library sets labels and taints of its nodes itself, see its page about Amazon EKS"
_OWN_GROUP = "the fleet has a security group of its own, with EFA's rules"
#: Keys of a node group -> what becomes of them.
_OF_GROUP = {
    "additionalVolumes": "nodes have one volume, and their local disks at /scratch",
    "ami": "nodes boot the image of EKS for their accelerator",
    "amiFamily": "nodes boot the image of EKS for their accelerator, on Amazon Linux 2023",
    "iam": _PODS,
    "labels": _KUBELET,
    "overrideBootstrapCommand": _NODES,
    "preBootstrapCommands": _NODES,
    "securityGroups": _OWN_GROUP,
    "ssh": "sessions come through Systems Manager; nodes have no SSH key",
    "tags": "tags of the Cluster Autoscaler are set by the library",
    "updateConfig": "`update` of the fleet decides whether a change replaces running nodes",
    "volumeKmsKeyID": "write the ARN of the key as `encryption_key_arn` of `root_volume`",
}
#: Where a value is -> what becomes of it. The longest path that fits is taken.
LOST: Mapping[str, str] = {
    **{f"{kind}.{key}": text for kind in ("nodeGroups", "managedNodeGroups") for key, text in _OF_GROUP.items()},
    "nodeGroups.instancesDistribution.onDemandBaseCapacity": NO_MIX,
    "nodeGroups.instancesDistribution.onDemandPercentageAboveBaseCapacity": NO_MIX,
    "managedNodeGroups.launchTemplate": "the library writes the launch template",
    "nodeGroups.kubeletExtraConfig": _KUBELET,
    "addons": "the library installs the add-ons that its nodes need; add others as you do today",
    "accessConfig": "write roles and users as `admin_principal_arns` of `eks`, or `teams`",
    "autoModeConfig": "fleets are managed node groups, or node pools of Karpenter",
    "cloudWatch": "the library writes the logs of the control plane and of the nodes to CloudWatch",
    "fargateProfiles": _BY_HAND,
    "gitops": _BY_HAND,
    "iam": _PODS,
    "iamIdentityMappings": "write roles and users as `admin_principal_arns` of `eks`",
    "identityProviders": _BY_HAND,
    "karpenter": "write `managed_by: karpenter` for a fleet whose nodes Karpenter is to launch",
    "privateCluster": "a closed network has the endpoints that its nodes need",
    "secretsEncryption": "secrets in the cluster are encrypted with a key that is made for it",
    "vpc.nat": "a network made here has one NAT gateway, in the zone of the fleets",
    "vpc.clusterEndpoints": "the API server is reached from inside the network; write `public_access_cidrs` of `eks` "
    "for more",
    "vpc.securityGroup": _OWN_GROUP,
    "vpc.sharedNodeSecurityGroup": _OWN_GROUP,
}
#: Keys of a node group that the library decides as well as eksctl does, or better.
_OF_LIBRARY = (
    "instancePrefix",
    "instanceName",
    "privateNetworking",
    "disableIMDSv1",
    "disablePodIMDS",
    "ebsOptimized",
)
_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d[a-z]")
_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/.+")
_GROUPS = ("managedNodeGroups", "nodeGroups")


def is_eksctl(data: object) -> bool:
    """Whether a file is a ClusterConfig of eksctl."""
    return isinstance(data, Mapping) and str(data.get("apiVersion", "")).startswith("eksctl.io/")


def name_of_eksctl(foreign: Foreign) -> str:
    """The name of the cluster in the file."""
    part = foreign.root["metadata"]["name"]
    return fleet_name("cluster" if part.is_placeholder else part.text() or "") or "cluster"


def import_eksctl(foreign: Foreign, draft: Draft, place: Place) -> list[Group]:
    """Write a cluster file for Amazon EKS.

    Args:
        foreign: The file of eksctl.
        draft: The cluster file.
        place: What the file does not say.

    Returns:
        The groups of nodes that became fleets.
    """
    root = foreign.root
    for name in ("apiVersion", "kind"):
        root[name].text()
    root["metadata"]["name"].skip()
    groups, others = _groups(root)
    refuse_equal_names(groups)
    draft.put("version", value=1)
    draft.put("name", value=place.name, of=root["metadata"]["name"])
    region = place.put_region(draft, root["metadata"]["region"])
    draft.put("orchestrator", value="eks")
    _write_network(draft, place, region, root, groups)
    for tag in root["metadata"]["tags"].children():
        draft.put("tags", str(tag.key[-1]), value=tag.text() or "", of=tag)
    _write_cluster(draft, root, others)
    for group in groups:
        if group.part["launchTemplate"].exists:
            _fill_of_template(draft, group)
        else:
            no_price = "a managed node group has no price limit of Spot; you pay the Spot price"
            write_fleet(draft, group, no_spot_price=no_price, orchestrator=Orchestrator.EKS_MANAGED)
        _write_node(draft, group)
    draft.notes.append(
        Note(
            Change.BETTER,
            "",
            "every node checks its GPUs, NVLink, EFA and mounts before pods get it; a watchdog drains and replaces "
            "nodes that fail later",
        )
    )
    return groups


# Node groups.


def _groups(root: Part) -> tuple[list[Group], list[Part]]:
    """The node groups with accelerators, and the others."""
    groups: list[Group] = []
    others: list[Part] = []
    for kind in _GROUPS:
        for part in root[kind].items():
            types = _types(part)
            found = next(((record, one) for one in types if (record := accelerated(one)) is not None), None)
            if found is not None:
                groups.append(_group(part, *found))
            elif types or not _is_chosen_elsewhere(part):
                others.append(part)
            else:
                _refuse_without_type(part)
    return groups, others


def _types(part: Part) -> list[Part]:
    """The types of a group: InstanceTypeList of types.go. With several, the one type is `mixed`."""
    several = part["instanceTypes"].items() or part["instancesDistribution"]["instanceTypes"].items()
    one = part["instanceType"]
    if several or one.value == "mixed":
        one.skip()
        return several
    return [one] if one.exists else []


def _is_chosen_elsewhere(part: Part) -> bool:
    """Whether a group without types can have accelerators; one of eksctl's default type has none."""
    selector = part["instanceSelector"].entries()
    is_plain = all(name in selector and selector[name].value == 0 for name in ("gpus", "neuron_devices"))
    return part["launchTemplate"].exists or (bool(selector) and not is_plain)


def _refuse_without_type(part: Part) -> None:
    template = part["launchTemplate"]
    part.refuse(
        TYPE,
        cause="the type of these nodes is not in the file, so it is not known whether they have accelerators",
        got="launchTemplate" if template.exists else "instanceSelector",
        allowed="a group with instanceType or instanceTypes",
        fix="write its type as `instanceTypes` in a copy of the file"
        + (f"; if the template has it, {_by_command(template)}" if template.exists else ""),
    )


def _by_command(template: Part) -> str:
    """How a launch template of a group is imported by itself."""
    version = template["version"].value
    name = f"{template['id'].value}{'' if version is None else f':{version}'}"
    return f"read it with `gpu-clusters import --launch-template {name}`"


def _group(part: Part, kind: InstanceType, type_part: Part) -> Group:
    least, most, desired = _counts(part)
    target = part["capacityReservation"]["capacityReservationTarget"]
    reservation, arn = target["capacityReservationID"], target["capacityReservationResourceGroupARN"]
    is_block = part["instanceMarketOptions"]["marketType"].text() == "capacity-block"
    market_part, price = _market(part)
    efa = bool(part["efaEnabled"].flag())
    named = part["placement"]["groupName"]
    # pkg/cfn/builder: nodegroup.go and managed_launch_template.go.
    is_unmanaged = part.key[0] == "nodeGroups"
    market = Market.BLOCK if is_block else Market.SPOT if market_part is not None else Market.ON_DEMAND
    return Group(
        name=fleet_name(part["name"].text() or "nodes"),
        part=part,
        instance_type=kind,
        type_part=type_part,
        minimum=least,
        maximum=most,
        # EKS user guide, "Create a managed node group with Capacity Blocks": the size is 0 before the block is active.
        desired=desired or None if is_block else desired,
        counts=next((part[name] for name in ("maxSize", "desiredCapacity", "minSize") if part[name].exists), part),
        market=market,
        market_part=part["instanceMarketOptions"] if is_block else market_part or part["spot"],
        spot_price=price,
        reservation=reservation if reservation.exists else None,
        reservation_group=arn if arn.exists else None,
        placement_group=named if named.exists else None,
        placed=named.exists or (efa and (is_unmanaged or not part["capacityReservation"].exists)),
        efa=efa,
        efa_part=part["efaEnabled"] if part["efaEnabled"].exists else part,
        interfaces=_interfaces(kind) if efa else [{"NetworkCardIndex": 0, "DeviceIndex": 0}],
        volume=Volume(
            size_gib=part["volumeSize"].number() or 80,
            iops=part["volumeIOPS"].number(),
            throughput_mib_per_s=part["volumeThroughput"].number(),
            kind=part["volumeType"].text() or "gp3",
            encrypted=part["volumeEncrypted"].flag(),
            part=part["volumeSize"] if part["volumeSize"].exists else part,
        ),
    )


def _fill_of_template(draft: Draft, group: Group) -> None:
    """A group with a launch template of its own: eksctl adds nothing to it, so only the template has the rest."""
    template, key = group.part["launchTemplate"], ("training", "fleets", group.name)
    where = f"in launch template {template['id'].value}"
    write_nodes(draft, group)
    if group.market is Market.ON_DEMAND and not group.is_reserved:
        draft.fill(*key, "capacity", value="on_demand", why=f"the market and the reservation {where}", of=template)
    else:
        write_capacity(draft, group)
    if group.instance_type.supports_efa:
        draft.fill(*key, "efa", value=True, why=f"whether the network interfaces {where} have EFA", of=template)
    why = f"the size of the root volume {where}"
    draft.fill(*key, "root_volume", "size_gib", value=DEFAULT_SIZE_GIB, why=why, of=template)
    text = f"the library writes the launch template: to see what yours has, {_by_command(template)}"
    draft.note(Change.REPLACED, text, template)


def _counts(part: Part) -> tuple[int, int, int]:
    """Least, most and desired nodes, with the defaults of validation.go, ValidateManagedNodeGroup."""
    least, most, desired = (part[name].number() for name in ("minSize", "maxSize", "desiredCapacity"))
    if least is None:
        least = 2 if desired is None else desired
    if most is None:
        most = max(1, least if desired is None else desired)
    return least, most, least if desired is None else desired


def _market(part: Part) -> tuple[Part | None, tuple[float, Part] | None]:
    """Where a group is declared as Spot, and its price limit. A mix of Spot and On-Demand is neither."""
    if part["spot"].flag():
        return part["spot"], None
    mixed = part["instancesDistribution"]
    above = mixed["onDemandPercentageAboveBaseCapacity"]
    if not is_spot(mixed["onDemandBaseCapacity"], above):
        return None, None
    price = mixed["maxPrice"]
    if isinstance(price.value, int | float) and not isinstance(price.value, bool):
        price.skip()
        return above, (float(price.value), price)
    return above, None


def _interfaces(kind: InstanceType) -> list[dict[str, object]]:
    """One `efa` on each network card: pkg/cfn/builder/network_interfaces.go, buildNetworkInterfaces."""
    return [
        {"NetworkCardIndex": index, "DeviceIndex": min(index, 1), "InterfaceType": "efa"}
        for index in range(len(kind.network.cards))
    ]


def _write_node(draft: Draft, group: Group) -> None:
    part, key = group.part, ("training", "fleets", group.name)
    for tag in part["tags"].children():
        if "k8s.io/" not in str(tag.key[-1]) and tag.exists:
            draft.put(*key, "tags", str(tag.key[-1]), value=tag.text() or "", of=tag)
    for name in _OF_LIBRARY:
        part[name].skip()
    for extra in (*part["instanceTypes"].items(), *part["instancesDistribution"]["instanceTypes"].items()):
        if extra.key != group.type_part.key:
            draft.note(Change.LOST, f"a fleet has one instance type: {group.instance_type.name}", extra)
    desired = part["desiredCapacity"]
    is_scaled = group.minimum != group.maximum and group.market is not Market.BLOCK
    if is_scaled and desired.value not in (None, group.minimum):
        draft.note(Change.LOST, NO_DESIRED, desired)
    _note_taints(draft, group)
    if part["nodeRepairConfig"].exists:
        draft.note(Change.REPLACED, "the watchdog of each node repairs and replaces it", part["nodeRepairConfig"])
    if "localStorage" in str(part["overrideBootstrapCommand"].value):
        text = "local disks are one file system at /scratch, as `strategy: RAID0` makes them; other settings are lost"
        draft.note(Change.REPLACED, text, part["overrideBootstrapCommand"])


def _note_taints(draft: Draft, group: Group) -> None:
    """Say which taint the nodes have, where eksctl would give them others, or none."""
    taints = group.part["taints"]
    if isinstance(taints.value, Mapping):
        theirs = {f"{key}={value}" for key, value in taints.value.items()}
    else:
        theirs = {f"{one['key'].value}={one['value'].value or ''}:{one['effect'].value}" for one in taints.items()}
    ours = {f"{one.key}={one.value}:{one.effect}" for one in node_taints(group.instance_type)}
    taints.skip()
    if theirs != ours:
        text = f"nodes have the taint {', '.join(ours)} and no other: only pods that tolerate it run there"
        of = taints if taints.exists else group.part
        draft.notes.append(Note(Change.REPLACED, of.name, text, of.place))


# Network and cluster.


def _write_network(draft: Draft, place: Place, region: str, root: Part, groups: Sequence[Group]) -> None:
    vpc = root["vpc"]
    private, public = vpc["subnets"]["private"].entries(), vpc["subnets"]["public"].entries()
    zones = [one for group in groups for one in group.part["availabilityZones"].items()]
    if not vpc["id"].exists and not private:
        of_cluster = root["availabilityZones"].items()
        if zones or not of_cluster:
            place.put_zone(draft, region, groups, next(iter(zones), None))
        else:
            _fill_zone(draft, place, of_cluster)
        _write_zones(draft, root["availabilityZones"])
        is_closed = root["privateCluster"]["enabled"]
        if is_closed.flag():
            draft.put("network", "egress", value="closed", of=is_closed)
        if vpc["cidr"].exists:
            draft.put("network", "cidr", value=vpc["cidr"].text(), of=vpc["cidr"])
        _note_zones(draft, zones)
        return
    named = [one for group in groups for one in group.part["subnets"].items()]
    chosen = [_subnet(one, private) for one in named] or list(_in_zones(private, zones)) or list(_ids(private))[:1]
    with_zone = Place(name=place.name, region=place.region, zone=place.zone or _zone_of(zones), vpc_id=place.vpc_id)
    put_existing_network(draft, with_zone, region, chosen, groups, vpc["id"])
    _write_subnets(draft, "service_subnets", private, region, groups)
    if len(public) > 1:
        _write_subnets(draft, "public_subnets", public, region, groups)
    vpc["cidr"].skip()
    _note_zones(draft, zones)


def _fill_zone(draft: Draft, place: Place, zones: Sequence[Part]) -> None:
    """The first zone of the cluster, for groups that eksctl spreads over all of them."""
    named = [str(one.value) for one in zones if _ZONE.fullmatch(str(one.value))]
    if place.zone or not named:
        place.put_zone(draft, str(draft.data["region"]), (), None)
        return
    why = f"the zone of your nodes, or give --zone (the file has {', '.join(named)})"
    draft.fill("network", "availability_zone", value=named[0], why=why, of=zones[0])


def _write_zones(draft: Draft, part: Part) -> None:
    zones = [str(one.value) for one in part.items()]
    if len(zones) > 1 and all(_ZONE.fullmatch(zone) for zone in zones):
        draft.put("network", "control_availability_zones", value=part.texts()[:7], of=part)
    elif part.exists:
        draft.note(Change.REPLACED, "CloudFormation chooses the zones of endpoints and of the control plane", part)


def _note_zones(draft: Draft, zones: Sequence[Part]) -> None:
    """All fleets are in one zone; say which groups were elsewhere."""
    for one in zones:
        if zones and one.value != zones[0].value:
            text = (
                "all fleets of a cluster file are in one zone: give these a file of their own if they must stay there"
            )
            draft.note(Change.REPLACED, text, one)
        one.skip()


def _zone_of(zones: Sequence[Part]) -> str | None:
    found = [str(one.value) for one in zones if _ZONE.fullmatch(str(one.value))]
    return found[0] if found else None


def _ids(subnets: Mapping[str, Part]) -> Iterator[Part]:
    return (part["id"] for part in subnets.values())


def _in_zones(subnets: Mapping[str, Part], zones: Sequence[Part]) -> Iterator[Part]:
    wanted = {str(one.value) for one in zones}
    return (part["id"] for name, part in subnets.items() if {name, str(part["az"].value)} & wanted)


def _subnet(part: Part, private: Mapping[str, Part]) -> Part:
    """A subnet that a group names, by its id or by its name in `vpc.subnets`."""
    named = private.get(str(part.value))
    part.skip()
    return part if named is None else named["id"]


def _write_subnets(draft: Draft, name: str, subnets: Mapping[str, Part], region: str, groups: Sequence[Group]) -> None:
    """Subnets by zone, two at least; what the file does not say is to be filled in."""
    any_zones = zones_of(region, groups)
    made: dict[str, str] = {}
    unsure: list[str] = []
    for index, (key, part) in enumerate(list(subnets.items())[:7]):
        zone = key if _ZONE.fullmatch(key) else str(part["az"].value or "")
        subnet = str(part["id"].value)
        if not _ZONE.fullmatch(zone):
            unsure.append(f"the zone of {key}")
            zone = any_zones[index] if index < len(any_zones) else f"{region}{chr(ord('c') + index)}"
        if not re.fullmatch(r"subnet-([0-9a-f]{8}|[0-9a-f]{17})", subnet):
            unsure.append(f"the id of {key}")
            subnet = f"subnet-0123456789abcd{'e' if name == 'service_subnets' else 'd'}{index:02x}"
        made.setdefault(zone, subnet)
        part.skip()
    for index in range(len(made), 2):
        unsure.append("a second subnet, in another zone")
        made.setdefault(next(one for one in any_zones if one not in made), f"subnet-0123456789abcdf{index:02x}")
    first = next(iter(subnets.values()), None)
    if unsure:
        draft.fill("network", name, value=made, why=", ".join(unsure), of=first)
    else:
        draft.put("network", name, value=made, of=first)


def _write_cluster(draft: Draft, root: Part, others: Sequence[Part]) -> None:
    write_version(draft, root["metadata"]["version"])
    endpoints, cidrs = root["vpc"]["clusterEndpoints"], root["vpc"]["publicAccessCIDRs"]
    is_public = endpoints["publicAccess"].flag() is not False and not root["privateCluster"]["enabled"].flag()
    if not is_public:
        cidrs.skip()
    elif cidrs.exists:
        draft.put("eks", "public_access_cidrs", value=cidrs.texts(), of=cidrs)
    else:
        text = "the API server was reached from the entire internet; here from inside the network only"
        draft.notes.append(Note(Change.BETTER, "vpc.publicAccessCIDRs", text))
    endpoints["privateAccess"].flag()
    arns = [one["principalARN"] for one in root["accessConfig"]["accessEntries"].items() if _is_admin(one)]
    arns += [one["arn"] for one in root["iamIdentityMappings"].items() if "system:masters" in str(one["groups"].value)]
    found = [text for part in arns if _PRINCIPAL.fullmatch(text := part.text() or "")]
    creator = root["accessConfig"]["bootstrapClusterCreatorAdminPermissions"]
    if found:
        draft.put("eks", "admin_principal_arns", value=found, of=arns[0])
    elif creator.flag() is not False:
        why = "who administers the cluster: with eksctl, whoever made it"
        draft.fill("eks", "admin_principal_arns", value=["arn:aws:iam::111122223333:role/platform"], why=why)
    creator.skip()
    _write_system_nodes(draft, others)


def _is_admin(entry: Part) -> bool:
    return "AmazonEKSClusterAdminPolicy" in str(entry["accessPolicies"].value)


def _write_system_nodes(draft: Draft, others: Sequence[Part]) -> None:
    """The first group without accelerators holds the cluster's own pods; the others are lost.

    A type that the catalogue does not have may have accelerators: its group holds no pods of the cluster.
    """
    system = next((part for part in others if all(map(has_no_accelerator, _types(part)))), None)
    if system is None:
        text = "two m7i.large in two zones hold the cluster's own pods, since the file has no nodes for them"
        draft.notes.append(Note(Change.REPLACED, "managedNodeGroups", text))
    for part in others:
        name = part["name"].value or part.name
        if part is not system:
            text = f"{name} has no accelerators of the catalogue: make it as a node group of your own"
            draft.note(Change.LOST, text, part)
            continue
        _, _, desired = _counts(part)
        kind = next(iter(_types(part)), part["instanceType"])
        if plain_type(kind):
            draft.put("eks", "system_nodes", "instance_type", value=kind.text(), of=kind)
        draft.put("eks", "system_nodes", "nodes", value=min(max(2, desired), 100), of=part)
        kept = f", of the type {kind.value}" if plain_type(kind) else ", of the type m7i.large"
        kind.skip()
        part["name"].text()
        text = f"{name} becomes the system nodes{kept}: two at least, over two zones"
        draft.notes.append(Note(Change.REPLACED, part.name, text, part.place))


def deployed_by_eksctl(foreign: Foreign, groups: Sequence[Group]) -> Deployed:
    """What eksctl deploys for groups (pkg/cfn/builder): launch templates, node groups, and subnets of a new VPC.

    Groups with a launch template of their own are left out: the file does not have its values.
    """
    groups = [group for group in groups if not group.part["launchTemplate"].exists]
    made = deployed_groups(groups, metadata={"HttpTokens": "required", "HttpPutResponseHopLimit": 2})
    is_new = not foreign.root["vpc"]["id"].exists and not foreign.root["vpc"]["cidr"].exists
    for group in groups:
        name = logical_id(group.name)
        # pkg/cfn/builder/nodegroup.go, makeMetadataOptions.
        options = made.resources[name]["Properties"]["LaunchTemplateData"]["MetadataOptions"]
        if group.part["disablePodIMDS"].flag():
            options["HttpPutResponseHopLimit"] = 1
        elif group.part["disableIMDSv1"].flag() is False:
            options["HttpTokens"] = "optional"
        # pkg/cfn/builder/vpc.go: 192.168.0.0/16, in subnets of /19.
        subnet = {
            "VpcId": "vpc-0123456789abcdef0",
            "MapPublicIpOnLaunch": not group.part["privateNetworking"].flag(),
            **({"CidrBlock": "192.168.32.0/19"} if is_new else {}),
        }
        made.resources[f"{name}Subnet"] = {"Type": "AWS::EC2::Subnet", "Properties": subnet}
        made.resources[f"{name}Nodes"] = {
            "Type": "AWS::EKS::Nodegroup",
            "Properties": {
                "ClusterName": "cluster",
                "NodeRole": "nodes",
                "Subnets": [{"Ref": f"{name}Subnet"}],
                "LaunchTemplate": {"Id": {"Ref": name}, "Version": {"Fn::GetAtt": [name, "LatestVersionNumber"]}},
                "ScalingConfig": {
                    "MinSize": group.minimum,
                    "MaxSize": group.maximum,
                    "DesiredSize": group.minimum if group.desired is None else group.desired,
                },
            },
        }
        network = group.part["privateNetworking"]
        made.origins[(f"{name}Subnet",)] = network if network.exists else group.part
        made.origins[(f"{name}Subnet", "Properties", "CidrBlock")] = group.efa_part
        made.origins[(f"{name}Nodes",)] = group.part
    return made
