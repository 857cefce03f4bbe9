"""Faults to plant in rules and constructs, one for each invariant: what the matrix must see, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_pcs as pcs

from cdk_gpu_clusters.compute import fleet, fleet_resources, launch_template
from cdk_gpu_clusters.compute.launch_template import launch_template_data
from cdk_gpu_clusters.compute.node_asset import write_node
from cdk_gpu_clusters.compute.node_role import permissions_resource
from cdk_gpu_clusters.fleet import node_group as node_group_plan
from cdk_gpu_clusters.fleet import plan as fleet_plan
from cdk_gpu_clusters.network import efa_security_group
from cdk_gpu_clusters.orchestration.eks import node_group
from cdk_gpu_clusters.orchestration.eks.node_group import managed_nodes
from cdk_gpu_clusters.orchestration.pcs import node_group as pcs_nodes
from cdk_gpu_clusters.orchestration.pcs import node_role as pcs_role
from cdk_gpu_clusters.rules import capacity, interfaces, mig
from cdk_gpu_clusters.rules.capacity import CapacityKind, PlacementUse
from cdk_gpu_clusters.rules.images import choose_image
from cdk_gpu_clusters.rules.interfaces import NetworkInterface
from cdk_gpu_clusters.storage import lustre_traffic
from cdk_gpu_clusters_stacks import capacity as capacity_stacks
from cdk_gpu_clusters_stacks import network as fabric_stacks
from cdk_gpu_clusters_stacks.spec import _check_nodes
from matrix.axes import RESERVATION

Plant = Callable[[pytest.MonkeyPatch], None]
Data = dict[str, Any]

SPOT: Data = {"instance_type": "p4d.24xlarge", "nodes": 2, "capacity": "spot"}
RESERVED: Data = {**SPOT, "capacity": {"reservation": RESERVATION, "placement_group": "reserved"}}
MADE_HERE: Data = {**SPOT, "capacity": {"new_reservation": {"unlimited": True}}}
BLOCK: Data = {
    **SPOT,
    "capacity": {
        "capacity_block": RESERVATION,
        "starts_at": "2026-12-01T11:30Z",
        "ends_at": "2026-12-15T11:30Z",
    },
}
B300: Data = {**SPOT, "instance_type": "p6-b300.48xlarge"}
SPLIT: Data = {**SPOT, "efa": False, "mig": "3g.20gb,4g.20gb"}
TOLD: Data = {**SPOT, "environment": {"DATASET": "wikitext"}}
MOUNTING: Data = {**SPOT, "mounts": {"/fsx": "corpus"}}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, the invariant that it breaks, and a fleet, on plain EC2 or on EKS, in whose template it shows."""

    invariant: str
    fleet: Data
    plant: Plant
    orchestrator: str = "ec2"


def in_layout(change: Callable[[list[NetworkInterface]], Sequence[NetworkInterface]]) -> Plant:
    """Another layout of the interfaces, from the rule that makes it."""
    original = interfaces._minimum_ip

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(interfaces, "_minimum_ip", lambda kind: tuple(change(list(original(kind)))))

    return plant


def in_template(change: Callable[[Data], object]) -> Plant:
    """Another `LaunchTemplateData`."""

    def faulty(parts: Any) -> Data:
        data = launch_template_data(parts)
        change(data)
        return data

    return lambda patch: patch.setattr(launch_template, "launch_template_data", faulty)


def in_group(change: Callable[[autoscaling.CfnAutoScalingGroup], object]) -> Plant:
    """Another Auto Scaling group."""

    original = fleet_resources.define_fleet

    def faulty(*args: Any) -> Any:
        defined = original(*args)
        change(defined.resource(fleet_resources.GROUP))
        return defined

    return lambda patch: patch.setattr(fleet, "define_fleet", faulty)


def on_eks(invariant: str, change: Callable[[eks.CfnNodegroup], object], fleet: Data = SPOT) -> Fault:
    """Another managed node group."""

    def faulty(*args: Any, **options: Any) -> eks.CfnNodegroup:
        group = managed_nodes(*args, **options)
        change(group)
        return group

    return Fault(invariant, fleet, lambda patch: patch.setattr(node_group, "managed_nodes", faulty), orchestrator="eks")


def on_pcs(invariant: str, path: str, value: object, fleet: Data = SPOT) -> Fault:
    """Another compute node group of AWS PCS: a path of its properties with another value, or without one."""
    original = pcs_nodes.compute_nodes

    def faulty(*args: Any, **options: Any) -> pcs.CfnComputeNodeGroup:
        group = original(*args, **options)
        if value is None:
            group.add_property_deletion_override(path)
        else:
            group.add_property_override(path, value)
        return group

    return Fault(invariant, fleet, lambda patch: patch.setattr(pcs_nodes, "compute_nodes", faulty), orchestrator="pcs")


def in_user_data(old: str, new: str) -> Plant:
    """Another text of the user data, too long or not."""

    def faulty(*args: Any, **options: Any) -> Any:
        text, asset = write_node(*args, **options)
        assert old in text
        return text.replace(old, new), asset

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(fleet, "write_node", faulty)
        patch.setattr(launch_template, "check_user_data", lambda *_, **__: [])

    return plant


def in_fabric(change: Callable[[ec2.SecurityGroup], object]) -> Plant:
    """Something more, or less, in the security group of the EFA fabric."""
    original = efa_security_group.EfaSelfRules

    def faulty(scope: Any, name: str, *, security_group: ec2.SecurityGroup) -> Any:
        rules = original(scope, name, security_group=security_group)
        change(security_group)
        return rules

    return lambda patch: patch.setattr(efa_security_group, "EfaSelfRules", faulty)


def with_options(module: Any, name: str, **options: Any) -> Plant:
    """A function or construct of a module that is called with other options."""
    original = getattr(module, name)

    def faulty(*args: Any, **given: Any) -> Any:
        return original(*args, **{**given, **options})

    return lambda patch: patch.setattr(module, name, faulty)


def with_value(target: Any, name: str, value: Any) -> Plant:
    """Another value of a name."""
    return lambda patch: patch.setattr(target, name, value)


def both(*plants: Plant) -> Plant:
    """Several at once."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(patch)

    return plant


def _moved(index: int, card: int, device: int) -> Plant:
    """One interface of the layout at another place."""

    def change(layout: list[NetworkInterface]) -> list[NetworkInterface]:
        layout[index] = NetworkInterface(card, device, layout[index].interface_type)
        return layout

    return in_layout(change)


def _retyped(index: int, kind: Any) -> Plant:
    """One interface of the layout of another type."""

    def change(layout: list[NetworkInterface]) -> list[NetworkInterface]:
        layout[index] = NetworkInterface(layout[index].network_card_index, layout[index].device_index, kind)
        return layout

    return in_layout(change)


def _efa_only_first(layout: list[NetworkInterface]) -> list[NetworkInterface]:
    """The two interfaces of card 0 with their places exchanged."""
    return [NetworkInterface(0, 0, "efa-only"), NetworkInterface(0, 1), *layout[2:]]


def _wildcard(patch: pytest.MonkeyPatch) -> None:
    def faulty(**options: Any) -> Data:
        policy = permissions_resource(**options)
        statement = {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*"}
        policy["Properties"]["PolicyDocument"]["Statement"].append(statement)
        return policy

    patch.setattr(fleet_resources, "permissions_resource", faulty)


def _inline_self_reference(group: ec2.SecurityGroup) -> None:
    rule = {
        "IpProtocol": "tcp",
        "FromPort": 22,
        "ToPort": 22,
        "SourceSecurityGroupId": group.security_group_id,
    }
    resource = group.node.default_child
    assert isinstance(resource, ec2.CfnSecurityGroup)
    resource.add_property_override("SecurityGroupIngress", [rule])


def _same_rules_again(group: ec2.SecurityGroup) -> None:
    group_id = group.security_group_id
    ec2.CfnSecurityGroupIngress(group, "Again", group_id=group_id, source_security_group_id=group_id, ip_protocol="-1")


def _one_node_less(patch: pytest.MonkeyPatch) -> None:
    original = capacity.capacity_windows
    patch.setattr(fleet_plan, "capacity_windows", lambda terms, count, **given: original(terms, count - 1, **given))


def _rolling(group: autoscaling.CfnAutoScalingGroup) -> None:
    rolling = cdk.CfnAutoScalingRollingUpdate(max_batch_size=1, min_instances_in_service=0)
    group.cfn_options.update_policy = cdk.CfnUpdatePolicy(auto_scaling_rolling_update=rolling)


_LATE = {**capacity.DRAIN_BEFORE_END, CapacityKind.CAPACITY_BLOCK: timedelta(minutes=20)}
_MIXED = {"LaunchTemplate": {"Overrides": [{"InstanceType": "p5.48xlarge"}]}}

FAULTS = (
    Fault("one-primary-interface", SPOT, in_layout(_efa_only_first)),
    Fault("card-exists", SPOT, _moved(-1, 4, 0)),
    Fault("devices-fit-card", SPOT, _moved(-1, 3, 15)),
    Fault("one-efa-per-card", SPOT, _moved(-1, 2, 1)),
    Fault("card-takes-type", B300, _moved(-1, 0, 1)),
    Fault("efa-as-asked", SPOT, in_layout(lambda layout: layout[:-1])),
    Fault("addresses-as-asked", SPOT, _retyped(-1, "efa")),
    Fault(
        "groups-on-every-interface",
        SPOT,
        in_template(lambda data: data["networkInterfaces"][2].update(groups=[])),
    ),
    Fault(
        "no-top-level-groups",
        SPOT,
        in_template(lambda data: data.update(securityGroupIds=["sg-0123456789abcdef0"])),
    ),
    Fault(
        "no-public-address",
        SPOT,
        in_template(lambda data: data["networkInterfaces"][0].update(associatePublicIpAddress=False)),
    ),
    Fault(
        "no-address-on-efa-only",
        SPOT,
        in_template(lambda data: data["networkInterfaces"][2].update(ipv6AddressCount=1)),
    ),
    Fault(
        "orchestrator-fields",
        SPOT,
        in_template(lambda data: data["networkInterfaces"][0].update(subnetId="subnet-0123456789abcdef0")),
    ),
    Fault("one-instance-type", SPOT, in_template(lambda data: data.update(instanceType="p4de.24xlarge"))),
    Fault("market-type", BLOCK, in_template(lambda data: data.pop("instanceMarketOptions"))),
    Fault(
        "reservation-target",
        RESERVED,
        in_template(lambda data: data["capacityReservationSpecification"].update(capacityReservationPreference="open")),
    ),
    Fault(
        "no-placement-group-with-block",
        BLOCK,
        in_template(lambda data: data.update(placement={"groupName": "own"})),
    ),
    Fault(
        "reservation-placement-group",
        RESERVED,
        in_template(lambda data: data.update(placement={"groupName": "own"})),
    ),
    Fault(
        "cluster-group-for-efa",
        SPOT,
        with_value(capacity, "_decide_placement", lambda *_: (PlacementUse.NONE, "")),
    ),
    Fault(
        "placement-group-stays",
        SPOT,
        with_value(ec2.CfnPlacementGroup, "add_property_deletion_override", lambda *_: None),
    ),
    Fault(
        "reservation-fits-nodes",
        MADE_HERE,
        with_options(capacity_stacks, "CapacityReservation", instance_count=1),
    ),
    Fault(
        "one-zone",
        SPOT,
        in_group(lambda group: group.add_property_override("VPCZoneIdentifier.1", "subnet-0123456789abcdef1")),
    ),
    Fault(
        "no-desired-capacity",
        SPOT,
        in_group(lambda group: group.add_property_override("DesiredCapacity", "2")),
    ),
    Fault("group-size", SPOT, in_group(lambda group: group.add_property_override("MaxSize", "9"))),
    Fault(
        "terminate-before-launch",
        RESERVED,
        in_group(lambda group: group.add_property_deletion_override("InstanceMaintenancePolicy")),
    ),
    Fault(
        "one-template",
        SPOT,
        in_group(lambda group: group.add_property_override("MixedInstancesPolicy", _MIXED)),
    ),
    Fault(
        "newest-template-version",
        SPOT,
        in_group(lambda group: group.add_property_override("LaunchTemplate.Version", "1")),
    ),
    Fault(
        "hooks-in-group",
        SPOT,
        in_group(
            lambda group: group.add_property_override("LifecycleHookSpecificationList.0.DefaultResult", "CONTINUE")
        ),
    ),
    Fault("replaced-only-when-asked", SPOT, in_group(_rolling)),
    Fault("block-drains-in-time", BLOCK, with_value(capacity, "DRAIN_BEFORE_END", _LATE)),
    Fault("block-grows", BLOCK, _one_node_less),
    Fault("efa-self-rules", SPOT, with_value(efa_security_group, "ALL_TRAFFIC", "tcp")),
    Fault("self-rules-apart", SPOT, in_fabric(_inline_self_reference)),
    Fault("no-rule-twice", SPOT, in_fabric(_same_rules_again)),
    Fault(
        "nobody-from-anywhere",
        SPOT,
        in_fabric(lambda group: group.add_ingress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(22))),
    ),
    Fault("way-out", SPOT, with_options(fabric_stacks, "EfaSecurityGroup", allow_all_outbound=False)),
    Fault("imdsv2-only", SPOT, in_template(lambda data: data["metadataOptions"].update(httpTokens="optional"))),
    Fault("sessions-not-keys", SPOT, in_template(lambda data: data.update(keyName="laptop"))),
    Fault("least-privilege", SPOT, _wildcard),
    Fault("lustre-ports", MOUNTING, with_value(lustre_traffic, "lustre_ports", lambda: ((988, 988),))),
    Fault(
        "image-for-hardware",
        SPOT,
        both(
            with_value(fleet_plan, "choose_image", lambda *_, **__: choose_image("g5g.metal")),
            with_value(_check_nodes, "check_image", lambda *_: []),
        ),
    ),
    Fault(
        "root-device-name",
        SPOT,
        in_template(lambda data: data["blockDeviceMappings"][0].update(deviceName="/dev/sda1")),
    ),
    Fault(
        "encrypted-volumes",
        SPOT,
        in_template(lambda data: data["blockDeviceMappings"][0]["ebs"].update(encrypted=False)),
    ),
    Fault(
        "volume-limits",
        SPOT,
        in_template(lambda data: data["blockDeviceMappings"][0]["ebs"].update(throughput=1001)),
    ),
    Fault("tags-everywhere", SPOT, with_value(launch_template, "_TAGGED", ("instance", "volume"))),
    Fault("user-data-size", SPOT, in_user_data("#!/bin/sh\n", "#!/bin/sh\n" + 900 * "# and so on\n")),
    Fault("user-data-parts", SPOT, in_user_data("text/x-shellscript", "text/x-powershell")),
    Fault("node-counts-its-hardware", SPOT, in_user_data("GPU_EFA_COUNT=4", "GPU_EFA_COUNT=3")),
    Fault("node-answers-its-hooks", SPOT, in_user_data("GPU_DRAIN_DEADLINE=90", "GPU_DRAIN_DEADLINE=150")),
    Fault("node-is-told", TOLD, in_user_data("export DATASET=", "export DATA_SET=")),
    Fault(
        "mig-without-efa",
        {**SPLIT, "efa": True},
        with_value(fleet_plan, "check_mig_with_efa", lambda *_, **__: []),
    ),
    Fault(
        "mig-fits",
        {**SPLIT, "mig": "4g.20gb,4g.20gb"},
        both(with_value(mig, "place", lambda *_: (0, 4)), with_value(mig, "place", lambda *_: (0, 4))),
    ),
    on_eks("types-in-one-place", lambda group: group.add_property_override("InstanceTypes", ["p4d.24xlarge"])),
    on_eks("template-says-it", lambda group: group.add_property_override("DiskSize", 200)),
    on_eks("capacity-type", lambda group: group.add_property_override("CapacityType", "ON_DEMAND")),
    on_eks("image-of-eks", lambda group: group.add_property_override("AmiType", "AL2023_ARM_64_NVIDIA")),
    Fault(
        "cluster-group",
        SPOT,
        in_template(lambda data: data["networkInterfaces"][0]["groups"].pop()),
        orchestrator="eks",
    ),
    on_eks("labels-of-hardware", lambda group: group.add_property_override("Labels.gpu-cluster/gpu-count", "7")),
    on_eks("taint-of-devices", lambda group: group.add_property_deletion_override("Taints")),
    Fault(
        "pods-have-addresses",
        SPOT,
        with_value(node_group_plan, "max_pods", lambda *_, **__: 737),
        orchestrator="eks",
    ),
    on_eks("desired-size", lambda group: group.add_property_override("ScalingConfig.DesiredSize", 1), BLOCK),
    on_eks(
        "replaced-by-eks",
        lambda group: group.add_property_override("UpdateConfig.UpdateStrategy", "DEFAULT"),
        RESERVED,
    ),
    on_pcs("pcs-type", "InstanceConfigs.0.InstanceType", "p4de.24xlarge"),
    on_pcs("pcs-purchase", "PurchaseOption", "ONDEMAND"),
    on_pcs("pcs-size", "ScalingConfiguration.MaxInstanceCount", 9),
    on_pcs("pcs-subnet", "SubnetIds.0", "subnet-0123456789abcdef1"),
    on_pcs("pcs-slices", "SlurmConfiguration.GresCustomSettings", None, {**SPLIT, "capacity": "on_demand"}),
    on_pcs("pcs-scripts", "NodeLifecycleActions.Stages.NodeBootstrapped.0.OnError", "CONTINUE"),
    Fault("pcs-role", SPOT, with_value(pcs_role, "PCS_PATH", "/nodes/"), orchestrator="pcs"),
    Fault(
        "pcs-controller",
        SPOT,
        in_template(
            lambda data: data["networkInterfaces"][1].update(groups=data["networkInterfaces"][1]["groups"][:1])
        ),
        orchestrator="pcs",
    ),
)
