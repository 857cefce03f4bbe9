"""Launches: launch templates and instances, and what they launch with (interfaces, volumes, image, user data)."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import cast, get_args

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.images import ImageParameter, image_parameters
from cdk_gpu_clusters.catalogue.instances import instance_type, instance_type_names
from cdk_gpu_clusters.rules.interfaces import InterfaceType, NetworkInterface
from cdk_gpu_clusters.template_rules.case import Case, Resource, Value, target_of
from cdk_gpu_clusters.template_rules.choices import Undecidable, any_surely, assume_either
from cdk_gpu_clusters.template_rules.resolve import Unknown
from cdk_gpu_clusters.template_rules.rule import NotApplicable, applicable

LAUNCH_TEMPLATE = "AWS::EC2::LaunchTemplate"
INSTANCE = "AWS::EC2::Instance"
#: The resource types that a rule about launches checks.
LAUNCHES = (LAUNCH_TEMPLATE, INSTANCE)

_BATCH = "AWS::Batch::ComputeEnvironment"
#: Where resources name a launch template: paths with `*` for every item of a list, the last key being the
#: specification; and where they name instance types that take the place of the template's own.
_USERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "AWS::AutoScaling::AutoScalingGroup": (
        (
            "LaunchTemplate",
            "MixedInstancesPolicy/LaunchTemplate/LaunchTemplateSpecification",
            "MixedInstancesPolicy/LaunchTemplate/Overrides/*/LaunchTemplateSpecification",
        ),
        ("MixedInstancesPolicy/LaunchTemplate/Overrides/*/InstanceType",),
    ),
    "AWS::EC2::EC2Fleet": (
        ("LaunchTemplateConfigs/*/LaunchTemplateSpecification",),
        ("LaunchTemplateConfigs/*/Overrides/*/InstanceType",),
    ),
    "AWS::EC2::SpotFleet": (
        ("SpotFleetRequestConfigData/LaunchTemplateConfigs/*/LaunchTemplateSpecification",),
        ("SpotFleetRequestConfigData/LaunchTemplateConfigs/*/Overrides/*/InstanceType",),
    ),
    "AWS::EC2::Instance": (("LaunchTemplate",), ("InstanceType",)),
    "AWS::EKS::Nodegroup": (("LaunchTemplate",), ("InstanceTypes/*",)),
    "AWS::PCS::ComputeNodeGroup": (("CustomLaunchTemplate",), ("InstanceConfigs/*/InstanceType",)),
    _BATCH: (
        ("ComputeResources/LaunchTemplate",),
        ("ComputeResources/InstanceTypes/*",),
    ),
}
_ID_KEYS = ("LaunchTemplateId", "Id", "TemplateId")
_NAME_KEYS = ("LaunchTemplateName", "Name")
# Families of EC2's accelerated computing, by their letters: p5, g6e, trn2, inf2, dl1 …
_ACCELERATED = re.compile(r"(p|g|gr|trn|inf|dl)[0-9]")


@dataclass(frozen=True, slots=True)
class Use:
    """A resource that launches from a launch template.

    Attributes:
        resource: Such as an Auto Scaling group.
        specification: Where it names the template.
        instance_types: Types that it names itself.
    """

    resource: Resource
    specification: Value
    instance_types: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a launch.

    Attributes:
        value: The value that holds it.
    """

    value: Value

    @property
    def interface_type(self) -> str:
        """`interface` (EC2's default), `efa` or `efa-only`."""
        return self.value.get("InterfaceType").text() or "interface"

    @property
    def is_efa(self) -> bool:
        """Whether EFA traffic goes through it."""
        return self.interface_type in ("efa", "efa-only")

    @property
    def groups(self) -> list[Value]:
        """Its security groups."""
        return self.value.get("Groups" if self.value.get("Groups").exists else "GroupSet").items()


@dataclass(frozen=True, slots=True)
class Launch:
    """The contents of one launch template, or of one instance.

    Attributes:
        resource: The launch template or instance.
        data: `LaunchTemplateData`, or the properties of an instance; they have the same keys.
    """

    resource: Resource
    data: Value

    def interfaces(self) -> list[Interface]:
        """Its network interfaces; none where EC2 makes the one by itself."""
        return [Interface(value) for value in self.data.get("NetworkInterfaces").items()]

    def has_efa(self) -> bool:
        """Whether any of its interfaces is an EFA."""
        return any(interface.is_efa for interface in self.interfaces())

    def uses(self) -> list[Use]:
        """Who launches from it."""
        return self.resource.once(_uses)

    def instance_types(self) -> list[Value]:
        """The types that are launched: those of its users, or its own where a user names none; may be empty."""
        own = self.data.get("InstanceType")
        uses = self.uses()
        named = [value for use in uses for value in use.instance_types]
        own_counts = own.exists and (not uses or any(not use.instance_types for use in uses))
        return [own, *named] if own_counts else named

    def records(self) -> list[tuple[Value, InstanceType]]:
        """The types that are launched, with what the catalogue knows of them.

        Raises:
            Undecidable: If no type is named, or the catalogue does not know one.
        """
        types = self.instance_types()
        if not types:
            raise self.data.undecidable("no instance type is named in this template")
        return [(value, record_of(value)) for value in types]


def launch_of(resource: Resource) -> Launch:
    """The launch that a resource of `LAUNCHES` describes."""
    data = resource.get("LaunchTemplateData") if resource.type == LAUNCH_TEMPLATE else resource.properties
    return Launch(resource, data)


def own_types_of(resource: Resource) -> list[Value]:
    """The instance types that a resource which launches names itself."""
    return [value for path in _USERS[resource.type][1] for value in values_at(resource.properties, path)]


def specification_of(node_group: Resource) -> Value:
    """Where a node group of an orchestrator names its launch template; may be absent."""
    return node_group.get(*_USERS[node_group.type][0][0].split("/"))


def launches(case: Case) -> list[Launch]:
    """Every launch of the template."""
    return [launch_of(resource) for resource in case.resources(*LAUNCHES)]


def is_family(value: Value) -> bool:
    """Whether a value is a family such as `g6` in a compute environment: Batch then chooses among its sizes."""
    owner = value.case.resource(str(value.path[1]))
    return owner is not None and owner.type == _BATCH and "." not in (value.text() or "")


def record_of(value: Value) -> InstanceType:
    """What the catalogue knows of the instance type that a value names.

    Raises:
        Undecidable: If the type is not known, in the template or in the catalogue, or Batch chooses it.
    """
    name = value.text()
    if is_family(value):
        raise value.undecidable(f"Batch chooses a type of {name!r}")
    if name not in instance_type_names():
        raise value.undecidable(f"the catalogue has no instance type {name!r}")
    return instance_type(name)


def accelerated_launch(resource: Resource) -> Launch:
    """The launch of a resource, if it is one of GPUs or other accelerators.

    Raises:
        NotApplicable: If every type that it launches is a plain one.
        Fork: If no type is named, or one is not known: what is right for every type is not asked about.
    """
    launch = launch_of(resource)
    types = launch.instance_types()
    if resource.type == INSTANCE and not types:
        raise NotApplicable  # it takes everything from its launch template
    try:
        if not types:
            raise launch.data.undecidable("no instance type is named in this template")
        accelerated = any_surely(types, looks_accelerated)
    except Undecidable as unclear:
        question = resource.case.key(f"{resource.logical_id} launches accelerated nodes")
        accelerated = assume_either(resource.case.choices, question, unclear)
    if not accelerated:
        raise NotApplicable
    return launch


def looks_accelerated(value: Value) -> bool:
    """Whether a value names a type, or a family, with GPUs or other accelerators."""
    name = value.text() or ""
    if name in instance_type_names():
        return instance_type(name).accelerator is not None
    return _ACCELERATED.match(name) is not None


def efa_launch(resource: Resource) -> Launch:
    """The launch of a resource.

    Raises:
        NotApplicable: If it has no EFA.
    """
    launch = launch_of(resource)
    if not launch.has_efa():
        raise NotApplicable
    return launch


def launch_named_by(specification: Value) -> Launch:
    """The launch of the launch template that a specification names, by id or by name.

    Raises:
        Undecidable: If the launch template is not in the template.
    """
    for key in _ID_KEYS:
        if target := target_of(specification.get(key)):
            return launch_of(target)
    for template in specification.case.resources(LAUNCH_TEMPLATE):
        if _is_named(specification, template):
            return launch_of(template)
    raise specification.undecidable("this launch template is not in the template")


def values_at(value: Value, path: str) -> list[Value]:
    """The values at a path such as `Overrides/*/InstanceType`, `*` being every item of a list, that exist."""
    values = [value]
    for key in path.split("/"):
        if key == "*":
            values = [item for one in values for item in one.items()]
        else:
            values = [child for one in values if (child := one.get(key)).exists]
    return values


def _uses(template: Resource) -> list[Use]:
    own_name = template.get("LaunchTemplateName")
    # by its name it may be meant without a reference
    users = template.case.resources(*_USERS) if own_name.exists else template.case.resources_naming(template, *_USERS)
    found = []
    for user in users:
        for specification in (value for path in _USERS[user.type][0] for value in values_at(user.properties, path)):
            by_id = any(template.is_target_of(specification.get(key)) for key in _ID_KEYS)
            if by_id or _is_named(specification, template):
                found.append(Use(user, specification, tuple(own_types_of(user))))
    return found


def _is_named(specification: Value, template: Resource) -> bool:
    """Whether a specification has the name of a launch template."""
    own = template.get("LaunchTemplateName")
    names = (specification.get(key) for key in _NAME_KEYS)
    return own.exists and any(name.identity() == own.identity() for name in names if name.exists)


def layout_of(launch: Launch) -> list[NetworkInterface]:
    """The interfaces as the decision functions take them."""
    return launch.resource.once(_layout)


def _layout(resource: Resource) -> list[NetworkInterface]:
    return [
        NetworkInterface(
            one.value.get("NetworkCardIndex").integer() or 0,
            one.value.get("DeviceIndex").integer() or 0,
            _known_type(one),
        )
        for one in launch_of(resource).interfaces()
    ]


def _known_type(interface: Interface) -> InterfaceType:
    name = interface.interface_type
    if name not in get_args(InterfaceType):
        raise interface.value.get("InterfaceType").undecidable(f"there is no interface type {name!r}")
    return cast("InterfaceType", name)


_READ_AT_LAUNCH = re.compile(r"(?:\{\{)?resolve:ssm:([^:}]+)")
_VERSION = re.escape("{kubernetes_version}")


def volumes_of(launch: Launch) -> list[Value]:
    """The EBS volumes that a launch describes.

    Raises:
        NotApplicable: If it describes none.
    """
    return applicable(values_at(launch.data, "BlockDeviceMappings/*/Ebs"))


def image_parameter_of(launch: Launch) -> str | None:
    """The name of the parameter that a launch gets its image id from; None if it gets it in another way."""
    image = launch.data.get("ImageId")
    if found := _READ_AT_LAUNCH.match(image.shown()):
        return found[1]
    part = image.parts[0] if len(image.parts) == 1 else None
    if not isinstance(part, Unknown) or part.template is None:
        return None
    parameter = part.template.parameters.get(part.parameter)
    if not isinstance(parameter, dict) or not str(parameter.get("Type")).startswith("AWS::SSM::Parameter::Value"):
        return None
    default = parameter.get("Default")
    return default if isinstance(default, str) else None


def image_of(launch: Launch) -> ImageParameter:
    """What the catalogue knows of the image of a launch.

    Raises:
        NotApplicable: If it names none: the orchestrator chooses one.
        Undecidable: If the image is named by its id, or by a parameter that the catalogue does not know.
    """
    image = launch.data.get("ImageId")
    if not image.exists:
        raise NotApplicable
    name = image_parameter_of(launch)
    if name is None:
        raise image.undecidable("what an image holds is not known by its id")
    for row in image_parameters():
        if re.fullmatch(re.escape(row.parameter).replace(_VERSION, r"1\.\d+"), name):
            return row
    raise image.undecidable(f"the catalogue has no image parameter {name!r}")


_GZIP = b"\x1f\x8b"
# It begins where a word does: otherwise each letter of a long word, such as a script in base64, is tried in vain.
_FSTAB = re.compile(r"(?<!\S)\S+\s+/\S+\s+lustre\s+(\S+)")


@dataclass(frozen=True, slots=True)
class UserData:
    """What cloud-init gets.

    Attributes:
        value: The value that holds it.
        text: Its text, with `${Name}` for what only a deployment knows.
        is_complete: Whether all of it is known; if not, what is absent from the text may yet be there.
    """

    value: Value
    text: str
    is_complete: bool


def user_data_of(launch: Launch) -> UserData:
    """The user data of a launch.

    Raises:
        NotApplicable: If it has none.
        Undecidable: If the template holds nothing of it, or holds it compressed.
    """
    value = launch.data.get("UserData")
    if not value.exists:
        raise NotApplicable
    text = value.template_text()
    if text is None:
        value.text()  # raises Undecidable with the reason
        raise value.undecidable("a text belongs here")
    return UserData(value, _decoded(value, text) if value.is_known else text, value.is_known)


def lustre_lines_of_fstab(user_data: UserData) -> list[str]:
    """The mount options of each line for /etc/fstab that mounts Lustre."""
    return _FSTAB.findall(user_data.text)


def _decoded(value: Value, text: str) -> str:
    """The text behind Base64, if it is that; `Fn::Base64` gives the text itself."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    if content.startswith(_GZIP):
        raise value.undecidable("this user data is compressed")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return text
