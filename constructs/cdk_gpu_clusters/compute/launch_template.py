"""The launch template of GPU nodes, and its data as CloudFormation takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    errors_at,
    id_of_group,
    path_of,
    report,
    stack_of,
    tag_specifications,
)
from cdk_gpu_clusters._template import Resource, att
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.placement_group import name_of
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.compute.fleet_request import ResolvedFleet, resolve_fleet
from cdk_gpu_clusters.compute.node_image import NodeImage, ResolvedImage
from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.errors import Finding, define_rule, errors_in
from cdk_gpu_clusters.fleet.plan import FleetPlan, Topic
from cdk_gpu_clusters.fleet.profile import PROFILES, ImageChoice, OrchestratorProfile
from cdk_gpu_clusters.fleet.request import Field
from cdk_gpu_clusters.node.user_data import check_block_end, check_user_data
from cdk_gpu_clusters.rules.capacity import CapacityDecision, CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.fleet import EFA_WITHOUT_GROUP, NO_SECURITY_GROUP, SUBNET_IN_TEMPLATE
from cdk_gpu_clusters.rules.hyperpod import check_takes_template
from cdk_gpu_clusters.rules.images import check_moving_image
from cdk_gpu_clusters.rules.interfaces import InterfacePlan, InterfacePolicy, NetworkInterface, Orchestrator
from cdk_gpu_clusters.rules.secrets import SECRET

# CDK passes camelCase keys on as given and drops every other key without a word, so this is the only module that
# writes them, from typed values, and a test compares what goes in with what is synthesized.

LaunchTemplateData = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateParts:
    """What a launch template is written from; ids may be tokens.

    Attributes:
        plan: What was decided about the nodes.
        terms: How the nodes are bought, with the ids of the reservation.
        fabric_group_ids: Groups of every interface.
        host_group_ids: Further groups of the interfaces that have an IP address.
        root_volume: Root volume.
        image: Image, None where the orchestrator chooses it.
        instance_profile_arn: Instance profile, None where the orchestrator forbids it.
        placement_group_name: Placement group, None for none.
        subnet_id: Subnet, only for orchestrators that want it in the template.
        user_data: Text, not yet in Base64; None for none.
        metadata_hop_limit: Hops that an IMDSv2 answer may take.
        public_ip: Whether EC2 gives the one interface of a node a public address.
    """

    plan: FleetPlan
    terms: CapacityTerms
    fabric_group_ids: Sequence[str]
    host_group_ids: Sequence[str]
    root_volume: RootVolume
    image: ResolvedImage | None
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
        "imageId": None if parts.image is None else parts.image.image_id,
        "iamInstanceProfile": {"arn": parts.instance_profile_arn} if parts.instance_profile_arn else None,
        "instanceMarketOptions": _market_options(parts),
        "capacityReservationSpecification": _reservation(parts),
        "placement": {"groupName": parts.placement_group_name} if parts.placement_group_name else None,
        "userData": parts.user_data,
    }
    return {
        "networkInterfaces": [_interface(parts, interface) for interface in parts.plan.interfaces.interfaces],
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
    named = parts.plan.request.profile.takes_instance_type or parts.terms.kind.is_block
    return parts.plan.instance_type.name if named else None


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
    if parts.plan.interfaces.may_have_public_ip:
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
    device_name = "/dev/xvda" if parts.image is None else parts.image.root_device_name
    return {"deviceName": device_name, "ebs": ebs}


def _market_options(parts: TemplateParts) -> LaunchTemplateData | None:
    market_type = parts.plan.decision.market_type
    if market_type is None:
        return None
    if market_type == "spot":
        # Managed node groups of EKS and PCS ask for spot on the group, and EKS refuses it here.
        if not parts.plan.request.profile.takes_spot:
            return None
        if parts.terms.max_price_usd_per_hour is not None:
            price = f"{Decimal(str(parts.terms.max_price_usd_per_hour)):f}"
            return {"marketType": market_type, "spotOptions": {"maxPrice": price}}
    return {"marketType": market_type}


def _reservation(parts: TemplateParts) -> LaunchTemplateData | None:
    if parts.plan.decision.targets_reservation:
        terms = parts.terms
        # EKS asks for the id of a block where others take its resource group.
        is_eks_block = terms.kind.is_block and parts.plan.request.profile.has_node_group
        by_id = terms.reservation_group_arn is None or (is_eks_block and terms.reservation_id is not None)
        target = (
            {"capacityReservationId": terms.reservation_id}
            if by_id
            else {"capacityReservationResourceGroupArn": terms.reservation_group_arn}
        )
        return {"capacityReservationTarget": target}
    if parts.terms.kind is CapacityKind.SPOT or parts.terms.segment:  # whose group has the target
        return None
    return {"capacityReservationPreference": parts.plan.decision.reservation_preference}


NO_IMAGE = define_rule(
    "GPU-LT-007",
    "A node of a self-managed EKS group boots an image of EKS that its launch template names",
    source='Amazon EKS user guide, "Retrieve recommended Amazon Linux AMI IDs"',
)

_SHARED_INTERFACES: WeakKeyDictionary[cdk.Stack, dict[str, cdk.IResolvable]] = WeakKeyDictionary()
_TAGGED = ("instance", "volume", "network-interface")


@jsii.implements(cdk.ITaggable)
class GpuLaunchTemplate(ClusterConstruct):
    """A launch template with every network interface of the type, ready for one orchestrator.

    Makes one `AWS::EC2::LaunchTemplate`: the interface plan of the type, market options and reservation target from
    the capacity, IMDSv2 only, an encrypted root volume, detailed monitoring, and tags on the instance, its volumes and
    its interfaces. Security groups are on the interfaces and nowhere else.

    Example:
        >>> fabric = EfaSecurityGroup(stack, "Fabric", vpc=vpc)
        >>> template = GpuLaunchTemplate(
        ...     stack, "Template", instance_type="p5.48xlarge", fabric=fabric,
        ...     capacity=Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
        ... )

    Attributes:
        interface_plan: The network interfaces, and what follows from them.
        capacity_decision: Market type, reservation target and placement, with the reason.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        instance_type: str | ec2.InstanceType,
        capacity: Capacity | None = None,
        orchestrator: Orchestrator = Orchestrator.EC2,
        interface_policy: InterfacePolicy | None = None,
        efa: bool | None = None,
        fabric: ec2.ISecurityGroup | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] = (),
        placement_group: ec2.IPlacementGroup | None = None,
        instance_profile: iam.IInstanceProfile | None = None,
        image: NodeImage | None = None,
        root_volume: RootVolume | None = None,
        user_data: str | None = None,
        not_secret: Sequence[str] = (),
        subnet: ec2.ISubnet | None = None,
        metadata_hop_limit: int = 1,
        associate_public_ip_address: bool = False,
        name_tag: str | None = None,
        _resolved: ResolvedFleet | None = None,
    ) -> None:
        """Define the template.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            instance_type: Type of the nodes, such as `p5.48xlarge`.
            capacity: How they are bought; on demand if left out.
            orchestrator: Who launches them; decides which fields may be in the template.
            interface_policy: Layout of the interfaces; the orchestrator's default if left out.
            efa: Whether to have EFA interfaces; accelerated types that have EFA use it if left out.
            fabric: Security group of all interfaces that lets the nodes exchange EFA traffic. Required with EFA.
            security_groups: Further groups of the interfaces that have an IP address.
            placement_group: Group to launch into; the reservation's own group if left out.
            instance_profile: Profile of the nodes; left out of the template where the orchestrator forbids it.
            image: Image; the newest recommended one of the type if left out, and the orchestrator's own for managed
                EKS node groups and PCS. Self-managed EKS groups need one.
            root_volume: Root volume; 200 GiB encrypted gp3 if left out.
            user_data: Text that the node runs at boot (not base64), such as `NodeUserData.text`; none if left out.
            not_secret: Names of variables and options, and values, that only look like secrets in the user data.
            subnet: Subnet of every interface; only AWS PCS takes it here.
            metadata_hop_limit: Hops that an IMDSv2 answer may take. With 2, every pod and container can take the role
                of its node.
            associate_public_ip_address: Whether nodes with one interface get a public address, as nodes in a public
                subnet need to reach anything.
            name_tag: Tag `Name` of instances, volumes and interfaces, unless `Tags` sets another; the
                construct's path if left out.

        Raises:
            ConfigError: Faults of type, interfaces and image; then those of capacity, groups and user data at once.
        """
        super().__init__(scope, construct_id)
        report(self, check_takes_template(orchestrator))
        profile = PROFILES[orchestrator]
        fleet = _resolved or resolve_fleet(
            self,
            instance_type=instance_type,
            profile=profile,
            options={
                "capacity": capacity,
                "efa": efa,
                "interface_policy": interface_policy,
                "placement_group": placement_group,
            },
            image=image,
        )
        plan, capacity = fleet.plan, fleet.capacity
        if _resolved is None:
            _report_plan(self, plan)
        self.catalogue_type: InstanceType = plan.instance_type
        self.interface_plan: InterfacePlan = plan.interfaces
        self.capacity_decision: CapacityDecision = plan.decision
        self.placement_group: ec2.IPlacementGroup | None = placement_group or fleet.placement_group
        image = fleet.image or (NodeImage.recommended() if profile.image is ImageChoice.LIBRARY else None)
        with errors_at(self):
            resolved = None if image is None else image.resolve(self, plan.image)
        report(
            self,
            [
                *self._check(profile, fabric, security_groups, subnet),
                *_check_user_data(user_data, profile, image, not_secret),
                *_check_image(image, profile),
                *_check_moving_image(plan, resolved),
                *check_block_end(user_data or "", plan.drain_at),
            ],
        )
        if not_secret:  # the rules over templates do not know what was accepted here
            reason = f"not_secret: {', '.join(not_secret)}"
            cdk.Validations.of(scope if _resolved else self).acknowledge(
                cdk.Acknowledgment(id=f"GpuClusterRules::{SECRET.id}", reason=reason)
            )
        self.capacity: Capacity = capacity
        self.security_groups: list[ec2.ISecurityGroup] = [*([fabric] if fabric else []), *security_groups]
        self._tags = cdk.TagManager(
            cdk.TagType.STANDARD,
            "AWS::EC2::LaunchTemplate",
            [{"key": "Name", "value": name_tag or path_of(self)}],
        )
        parts = TemplateParts(
            plan=plan,
            terms=capacity.terms,
            fabric_group_ids=[id_of_group(fabric)] if fabric else [],
            host_group_ids=[id_of_group(group) for group in security_groups],
            root_volume=root_volume or RootVolume(),
            image=resolved,
            instance_profile_arn=self._profile_arn(instance_profile),
            placement_group_name=None if self.placement_group is None else name_of(self.placement_group),
            subnet_id=None if subnet is None else subnet.subnet_id,
            user_data=user_data,
            public_ip=associate_public_ip_address,
            metadata_hop_limit=metadata_hop_limit,
        )
        self._data: LaunchTemplateData = launch_template_data(parts)
        self._make()

    def _make(self) -> None:
        data = self._data
        data["networkInterfaces"] = _shared_interfaces(self, data["networkInterfaces"])
        data["tagSpecifications"] = tag_specifications(self._tags, _TAGGED)
        if "userData" in data:
            data["userData"] = cdk.Fn.base64(data["userData"])
        self._resource = ec2.CfnLaunchTemplate(self, "Resource", launch_template_data=data)

    @property
    def cfn_launch_template(self) -> ec2.CfnLaunchTemplate:
        """The resource, as an escape hatch."""
        return self._resource

    @property
    @jsii.member(jsii_name="tags")
    def tags(self) -> cdk.TagManager:
        """Tags that go to instances, volumes and interfaces; filled by `Tags.of(scope).add(...)`."""
        return self._tags

    @property
    def launch_template_id(self) -> str:
        """Id of the template, known at deployment."""
        return str(self.cfn_launch_template.ref)

    @property
    def latest_version_number(self) -> str:
        """Newest version, so that a change reaches the group that refers to it."""
        return self.cfn_launch_template.attr_latest_version_number

    def _profile_arn(self, profile: iam.IInstanceProfile | None) -> str | None:
        if profile is None or not self.interface_plan.may_set_instance_profile:
            return None
        return profile.instance_profile_arn

    def _check(
        self,
        profile: OrchestratorProfile,
        fabric: ec2.ISecurityGroup | None,
        security_groups: Sequence[ec2.ISecurityGroup],
        subnet: ec2.ISubnet | None,
    ) -> list[Finding]:
        findings: list[Finding] = []
        if fabric is None and self.interface_plan.efa_count:
            findings.append(
                EFA_WITHOUT_GROUP.finding(
                    cause="the EFA interfaces have no security group that allows all traffic with itself",
                    got="no fabric",
                    allowed="an EfaSecurityGroup, or an imported group with both self rules",
                    fix="pass fabric=EfaSecurityGroup(...), or efa=False",
                )
            )
        elif fabric is None and not security_groups:
            findings.append(
                NO_SECURITY_GROUP.finding(
                    cause="the network interface would get the VPC's default security group",
                    got="no security group",
                    allowed="at least one of fabric and security_groups",
                    fix="pass security_groups=[...]",
                )
            )
        if subnet is not None and not profile.takes_subnet:
            findings.append(
                SUBNET_IN_TEMPLATE.finding(
                    cause="this orchestrator takes its subnets from the group, not from the launch template",
                    got=f"subnet with orchestrator {profile.orchestrator.value}",
                    allowed="subnet only with orchestrator pcs",
                    fix="give the subnet to the fleet or node group",
                )
            )
        return findings


class FleetLaunchTemplate(GpuLaunchTemplate):
    """The launch template of a fleet, which defines it together with its other resources."""

    #: Path of the instance profile below the fleet.
    PROFILE = "InstanceProfile/Resource"
    _find: Callable[[], ec2.CfnLaunchTemplate] | None = None

    def define_with(self, find: Callable[[], ec2.CfnLaunchTemplate]) -> tuple[Resource, dict[str, cdk.IResolvable]]:
        """The template as CloudFormation takes it, and the values that it names.

        Args:
            find: Finds the resource, once it is defined.
        """
        self._find = find
        self._read_node_anew()
        data = dict(self._data)
        values = {
            "Interfaces": _shared_interfaces(self, data.pop("networkInterfaces")),
            "Tags": self._tags.rendered_tags,
        }
        data = _in_template(data)
        if "UserData" in data:
            data["UserData"] = {"Fn::Base64": data["UserData"]}
        data["NetworkInterfaces"] = {"Ref": "Interfaces"}
        data["TagSpecifications"] = [{"ResourceType": kind, "Tags": {"Ref": "Tags"}} for kind in _TAGGED]
        return {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}}, values

    @cached_property
    def cfn_launch_template(self) -> ec2.CfnLaunchTemplate:
        """The resource, as an escape hatch."""
        assert self._find is not None  # noqa: S101 - the fleet defines it before it hands the template out
        return self._find()

    def _make(self) -> None:
        """The fleet makes it."""

    def _profile_arn(self, _: iam.IInstanceProfile | None) -> str:
        return att(self.PROFILE, "Arn")

    def _main_resource(self) -> IConstruct | None:
        return None if self._find is None else self.cfn_launch_template


def _in_template(value: Any) -> Any:
    """A value with its keys as a template has them."""
    if isinstance(value, dict):
        return {key[0].upper() + key[1:]: _in_template(one) for key, one in value.items()}
    return [_in_template(one) for one in value] if isinstance(value, list) else value


def _check_user_data(
    text: str | None, profile: OrchestratorProfile, image: NodeImage | None, not_secret: Sequence[str]
) -> list[Finding]:
    if text is None:
        return []
    added = profile.added_user_data_bytes(own_image=image is not None)
    return check_user_data(text, added_bytes=added, not_secret=not_secret)


def _check_moving_image(plan: FleetPlan, image: ResolvedImage | None) -> list[Finding]:
    if image is None or plan.image is None or not image.moves_unasked:
        return []
    return check_moving_image(
        plan.image.parameter,
        efa=plan.efa,
        node_count=None if Field.NODES in plan.request.unknown else plan.maximum,
        serves_models=plan.request.serves_models,
    )


def _check_image(image: NodeImage | None, profile: OrchestratorProfile) -> list[Finding]:
    if profile.image is not ImageChoice.REQUEST or image is not None:
        return []
    parameter = "/aws/service/eks/optimized-ami/<version>/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    return [
        NO_IMAGE.finding(
            cause="nothing else names the image of these nodes",
            got="no image",
            allowed="an image of EKS for the cluster's version of Kubernetes",
            fix=f'image=NodeImage.from_parameter("{parameter}")',
            path="image",
        )
    ]


def _report_plan(scope: Construct, plan: FleetPlan) -> None:
    """Report what is wrong with the parts of a fleet that a template has: first what it cannot be made without."""
    report(scope, plan.about(Topic.TYPE, Topic.INTERFACES, Topic.IMAGE))
    report(
        scope,
        [
            *plan.about(Topic.EFA, Topic.EFA_UNUSED),
            *errors_in(plan.about(Topic.CAPACITY, Topic.RESERVATION_GROUP)),
        ],
    )


def _shared_interfaces(scope: Construct, interfaces: list[LaunchTemplateData]) -> cdk.IResolvable:
    """The interfaces, sent to CDK once for all templates of a stack that have the same: up to 33 of six fields."""
    shared = _SHARED_INTERFACES.setdefault(stack_of(scope), {})
    key = repr(interfaces)
    if key not in shared:
        shared[key] = cdk.Token.as_any(interfaces)
    return shared[key]
