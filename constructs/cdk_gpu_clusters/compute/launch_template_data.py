"""The `LaunchTemplateData` of a GPU node, as the dictionary that CloudFormation's type takes.

CDK passes camelCase keys on as given and drops every other key without a word, so this is the only module that
writes them, from typed values, and a test compares what goes in with what is synthesized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.fleet.profile import OrchestratorProfile
from cdk_gpu_clusters.rules.capacity import CapacityDecision, CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.interfaces import InterfacePlan, NetworkInterface

LaunchTemplateData = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateParts:
    """The decided properties of a launch template; ids may be tokens.

    Attributes:
        instance_type: Type of the nodes.
        profile: The orchestrator that launches the nodes.
        plan: Network interfaces.
        terms: How the nodes are bought.
        decision: What follows from the terms.
        fabric_group_ids: Groups of every interface.
        host_group_ids: Further groups of the interfaces that have an IP address.
        root_volume: Root volume.
        root_device_name: Device name of the image's root volume.
        image_id: Image, None where the orchestrator chooses it.
        instance_profile_arn: Instance profile, None where the orchestrator forbids it.
        placement_group_name: Placement group, None for none.
        subnet_id: Subnet, only for orchestrators that want it in the template.
        user_data: Text, not yet in Base64; None for none.
        metadata_hop_limit: Hops that an IMDSv2 answer may take.
        public_ip: Whether EC2 gives the one interface of a node a public address.
    """

    instance_type: str
    profile: OrchestratorProfile
    plan: InterfacePlan
    terms: CapacityTerms
    decision: CapacityDecision
    fabric_group_ids: Sequence[str]
    host_group_ids: Sequence[str]
    root_volume: RootVolume
    root_device_name: str
    image_id: str | None
    instance_profile_arn: str | None
    placement_group_name: str | None
    subnet_id: str | None
    user_data: str | None
    metadata_hop_limit: int
    public_ip: bool


def launch_template_data(parts: TemplateParts) -> LaunchTemplateData:
    """Write the parts down as CloudFormation's `LaunchTemplateData`."""
    optional: LaunchTemplateData = {
        "instanceType": _instance_type(parts),
        "imageId": parts.image_id,
        "iamInstanceProfile": {"arn": parts.instance_profile_arn} if parts.instance_profile_arn else None,
        "instanceMarketOptions": _market_options(parts),
        "capacityReservationSpecification": _reservation(parts),
        "placement": {"groupName": parts.placement_group_name} if parts.placement_group_name else None,
        "userData": parts.user_data,
    }
    return {
        "networkInterfaces": [_interface(parts, interface) for interface in parts.plan.interfaces],
        "blockDeviceMappings": [_root_device(parts)],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": parts.metadata_hop_limit,
        },
        "monitoring": {"enabled": True},
        **{key: value for key, value in optional.items() if value is not None},
    }


def _instance_type(parts: TemplateParts) -> str | None:
    # PCS takes the type from the node group and ignores the template's, except that a block must name it.
    if not parts.profile.takes_instance_type and not parts.terms.kind.is_block:
        return None
    return parts.instance_type


def _interface(parts: TemplateParts, interface: NetworkInterface) -> LaunchTemplateData:
    groups = [*parts.fabric_group_ids, *(parts.host_group_ids if interface.has_ip else ())]
    entry: LaunchTemplateData = {
        "networkCardIndex": interface.network_card_index,
        "deviceIndex": interface.device_index,
        "interfaceType": interface.interface_type,
        "groups": groups,
        "deleteOnTermination": True,
    }
    if parts.subnet_id is not None:
        entry["subnetId"] = parts.subnet_id
    if parts.plan.may_have_public_ip:
        # EC2 refuses the field, whatever its value, next to a second interface.
        entry["associatePublicIpAddress"] = parts.public_ip
    return entry


def _root_device(parts: TemplateParts) -> LaunchTemplateData:
    volume = parts.root_volume
    ebs: LaunchTemplateData = {
        "volumeType": "gp3",
        "volumeSize": volume.size_gib,
        "iops": volume.iops,
        "throughput": volume.throughput_mib_per_s,
        "encrypted": True,
        "deleteOnTermination": True,
    }
    if volume.encryption_key is not None:
        ebs["kmsKeyId"] = volume.encryption_key.key_arn
    return {"deviceName": parts.root_device_name, "ebs": ebs}


def _market_options(parts: TemplateParts) -> LaunchTemplateData | None:
    market_type = parts.decision.market_type
    if market_type is None:
        return None
    if market_type == "spot":
        # Managed node groups of EKS and PCS ask for spot on the group, and EKS refuses it here.
        if not parts.profile.takes_spot:
            return None
        if parts.terms.max_price_usd_per_hour is not None:
            price = f"{Decimal(str(parts.terms.max_price_usd_per_hour)):f}"
            return {"marketType": market_type, "spotOptions": {"maxPrice": price}}
    return {"marketType": market_type}


def _reservation(parts: TemplateParts) -> LaunchTemplateData | None:
    if parts.decision.targets_reservation:
        terms = parts.terms
        target = (
            {"capacityReservationId": terms.reservation_id}
            if terms.reservation_group_arn is None
            else {"capacityReservationResourceGroupArn": terms.reservation_group_arn}
        )
        return {"capacityReservationTarget": target}
    if parts.terms.kind is CapacityKind.SPOT:
        return None
    return {"capacityReservationPreference": parts.decision.reservation_preference}
