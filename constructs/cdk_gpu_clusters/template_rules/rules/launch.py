"""Launch templates and instances: types, images, volumes, metadata service, user data."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import instance_type, instance_type_names
from cdk_gpu_clusters.catalogue.instances import UNKNOWN_TYPE
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity
from cdk_gpu_clusters.node import user_data
from cdk_gpu_clusters.rules import images
from cdk_gpu_clusters.rules.fleet import ROOT_IOPS, ROOT_SIZE, ROOT_THROUGHPUT, check_root_volume
from cdk_gpu_clusters.rules.harmful_variables import HARMFUL_VARIABLE, check_variable
from cdk_gpu_clusters.rules.secrets import SECRET, check_secrets
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.cluster import is_kubernetes_node
from cdk_gpu_clusters.template_rules.lookups.groups import COMPUTE_ENVIRONMENT, EKS_NODE_GROUP, PCS_NODE_GROUP
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    Launch,
    accelerated_launch,
    image_of,
    image_parameter_of,
    is_family,
    looks_accelerated,
    own_types_of,
    user_data_of,
    values_at,
    volumes_of,
)
from cdk_gpu_clusters.template_rules.lookups.network import SECURITY_GROUP, ingress_rules
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    SharedCheck,
    TemplateRule,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)


def _image_findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    launch = accelerated_launch(resource)
    image = image_of(launch)
    at = launch.data.get("ImageId")
    return [(at, images.check_image(record, image)) for _, record in launch.records()]


_image = SharedCheck(
    find=_image_findings,
    url="https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/ImageId", "LaunchTemplateData/InstanceType"),
)

# The defaults of a gp3 volume (Amazon EBS user guide, "General Purpose SSD volumes").
_BASE_IOPS = 3000
_BASE_THROUGHPUT_MIB_PER_S = 125


def _gp3_findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    """What `check_root_volume` finds in the gp3 volumes of known size."""
    found = []
    for volume in volumes_of(accelerated_launch(resource)):
        if volume.get("VolumeType").text() == "gp3" and volume.get("VolumeSize").exists:
            iops, throughput = volume.get("Iops").integer(), volume.get("Throughput").integer()
            findings = check_root_volume(
                size_gib=volume.get("VolumeSize").integer() or 0,
                iops=_BASE_IOPS if iops is None else iops,
                throughput_mib_per_s=_BASE_THROUGHPUT_MIB_PER_S if throughput is None else throughput,
            )
            found.append((volume, findings))
    return applicable(found)


_volume = SharedCheck(
    find=_gp3_findings,
    url="https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/BlockDeviceMappings/*/Ebs/VolumeType",
        "LaunchTemplateData/BlockDeviceMappings/*/Ebs/VolumeSize",
        "LaunchTemplateData/BlockDeviceMappings/*/Ebs/Iops",
        "LaunchTemplateData/BlockDeviceMappings/*/Ebs/Throughput",
    ),
    own_fix=True,
)

image_family: TemplateRule = _image.rule(
    images.FAMILY_LISTED,
    cause="the driver of the image may not know the GPU",
    fix="choose an image whose release note lists the family",
)
image_architecture: TemplateRule = _image.rule(
    images.ARCHITECTURE_FITS,
    cause="EC2 refuses to start an instance from an image of another architecture",
    fix="choose the image of the type's architecture",
)
image_driver: TemplateRule = _image.rule(
    images.DRIVER_FITS,
    cause="the nodes start, but their accelerators cannot be used",
    fix="choose an image with the drivers of the accelerator",
)
image_software: TemplateRule = _image.rule(
    images.SOFTWARE_NEW_ENOUGH,
    severity=Severity.WARNING,
    cause="the driver or the EFA software of the image is older than the family needs",
    fix="choose another operating system, or check the image that the parameter gives today",
)


# Where node groups name an image beside their launch template.
_IMAGES = {
    COMPUTE_ENVIRONMENT: ("ComputeResources/ImageId", "ComputeResources/Ec2Configuration/*/ImageIdOverride"),
    PCS_NODE_GROUP: ("AmiId",),
}


@template_rule(
    images.IMAGE_ID_FORM,
    cause="EC2 starts no instance from a name that is no image id",
    fix="give ami- and its digits, or resolve:ssm: and the name of a parameter",
    url="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestLaunchTemplateData.html",
    on=(*LAUNCHES, *_IMAGES),
    looks_at=(
        "LaunchTemplateData/ImageId",
        "AWS::Batch::ComputeEnvironment/ComputeResources/ImageId",
        "AWS::Batch::ComputeEnvironment/ComputeResources/Ec2Configuration/*/ImageIdOverride",
        "AWS::PCS::ComputeNodeGroup/AmiId",
    ),
)
def image_id(resource: Resource) -> Iterator[Fault]:
    for image in applicable([image for image in _images_of(resource) if image.is_known]):
        name = image.text() or ""
        if not name.startswith("resolve:ssm:"):
            yield from faults_of(images.IMAGE_ID_FORM, images.check_image_id(name), image)


def _images_of(resource: Resource) -> list[Value]:
    if resource.type in LAUNCHES:
        return [accelerated_launch(resource).data.get("ImageId")]
    if not any(looks_accelerated(value) for value in own_types_of(resource)):
        raise NotApplicable
    return [value for path in _IMAGES[resource.type] for value in values_at(resource.properties, path)]


@template_rule(
    UNKNOWN_TYPE,
    cause="EC2 has no such size of the family",
    fix="correct the name; for a type newer than this release, update the library",
    url="https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/InstanceType", "instance types of the resources that use the launch template"),
)
def type_exists(resource: Resource) -> Iterator[Fault]:
    families = {name.partition(".")[0] for name in instance_type_names()}
    for value in accelerated_launch(resource).instance_types():
        name = value.text() or ""
        if is_family(value) or not looks_accelerated(value):
            continue
        if name.partition(".")[0] not in families:
            raise value.undecidable(f"the catalogue does not have the family of {name!r}")
        try:
            instance_type(name)
        except ConfigError as error:
            yield from faults_of(UNKNOWN_TYPE, error.findings, value)


volume_size: TemplateRule = _volume.rule(
    ROOT_SIZE,
    cause="EBS refuses a gp3 volume of that size, so that no node starts",
    fix="give 1 to 65,536 GiB",
)
volume_iops: TemplateRule = _volume.rule(
    ROOT_IOPS,
    cause="EBS refuses a gp3 volume with that many IOPS, so that no node starts",
    fix="change Iops, or make the volume larger",
)
volume_throughput: TemplateRule = _volume.rule(
    ROOT_THROUGHPUT,
    cause="EBS refuses a gp3 volume with that throughput, so that no node starts",
    fix="change Throughput, or raise Iops to four times the throughput",
)


# Where those who launch name the system of an image that they choose.
_SYSTEMS = {
    COMPUTE_ENVIRONMENT: "ComputeResources/Ec2Configuration/*/ImageType",
    EKS_NODE_GROUP: "AmiType",
}

_AL2023 = re.compile(r"al2023|amazon-linux-2023", re.IGNORECASE)


@define_template_rule(
    "GPU-LT-010",
    "the metadata service of a GPU node requires tokens (IMDSv2)",
    source='AWS EC2 user guide, "Configure the instance metadata options"; Amazon Linux 2023 user guide, "IMDSv2"',
    severity=Severity.WARNING,
    cause="without tokens, a forged request of a program on the node can read the node's credentials",
    fix="set MetadataOptions/HttpTokens to required",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/MetadataOptions/HttpTokens",
        "LaunchTemplateData/MetadataOptions/HttpEndpoint",
        "LaunchTemplateData/ImageId",
        "AWS::Batch::ComputeEnvironment/ComputeResources/Ec2Configuration/*/ImageType",
        "AWS::EKS::Nodegroup/AmiType",
    ),
)
def imdsv2(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    options = launch.data.get("MetadataOptions")
    tokens = options.get("HttpTokens")
    if options.get("HttpEndpoint").text() == "disabled" or tokens.text() == "required":
        return
    if tokens.exists or not _is_required_by_image(launch):
        yield Fault(at=tokens, got=tokens.text() or "nothing", allowed="required")


def _is_required_by_image(launch: Launch) -> bool:
    """Whether the image is one of Amazon Linux 2023, which requires tokens by default."""
    parameter = image_parameter_of(launch) if launch.data.get("ImageId").exists else None
    systems = [
        value.text()
        for use in launch.uses()
        if use.resource.type in _SYSTEMS
        for value in values_at(use.resource.properties, _SYSTEMS[use.resource.type])
    ]
    return any(_AL2023.search(name) for name in (parameter, *systems) if name)


@define_template_rule(
    "GPU-LT-011",
    "answers of the metadata service travel at most two hops",
    source='AWS EC2 user guide, "Configure the instance metadata options": 1 by default, 2 for containers',
    severity=Severity.INFO,
    cause="credentials of the node can be read from behind it: by containers of containers, and through proxies",
    fix="set HttpPutResponseHopLimit to 1, or to 2 for containers that need the node's credentials",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/MetadataOptions/HttpPutResponseHopLimit",),
)
def hop_limit(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    limit = launch.data.get("MetadataOptions", "HttpPutResponseHopLimit")
    hops = limit.integer()
    if hops is not None and hops > 2 and not is_kubernetes_node(launch):  # nodes of Kubernetes: GPU-EKS-052
        yield Fault(at=limit, got=str(hops), allowed="1, or 2 for containers")


@define_template_rule(
    "GPU-LT-012",
    "volumes of a GPU node are encrypted",
    source='Amazon EBS user guide, "Amazon EBS encryption"; AWS Foundational Security Best Practices, EC2.3',
    severity=Severity.WARNING,
    cause="what nodes write is on disk in clear text, unless the account encrypts volumes by default",
    fix="set Ebs/Encrypted to true",
    url="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/BlockDeviceMappings/*/Ebs/Encrypted",),
)
def encrypted_volumes(resource: Resource) -> Iterator[Fault]:
    for volume in volumes_of(accelerated_launch(resource)):
        if not (volume.get("Encrypted").flag() or volume.get("SnapshotId").exists):
            yield Fault(at=volume, got="not encrypted", allowed="Encrypted: true")


@define_template_rule(
    "GPU-LT-013",
    "a group follows the changes of a launch template in the same template",
    source="AWS::EC2::LaunchTemplate reference: an update makes a new version and leaves the default one; "
    "awslabs/awsome-distributed-ai, AWS PCS templates",
    severity=Severity.WARNING,
    cause="changes of the launch template never reach the nodes: an update makes a new version, which is not used",
    fix="set Version to the attribute LatestVersionNumber of the launch template",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-launchtemplate.html",
    on=LAUNCHES,
    looks_at=("Version, where resources name the launch template",),
)
def latest_version(resource: Resource) -> Iterator[Fault]:
    for use in applicable(accelerated_launch(resource).uses()):
        version = use.specification.get("Version")
        if version.reference:
            continue
        text = version.text()
        if text is None or text == "$Default" or text.isdigit():
            yield Fault(at=version, got=text or "no version", allowed="!GetAtt <template>.LatestVersionNumber")


_EVERYWHERE = ("0.0.0.0/0", "::/0")


@define_template_rule(
    "GPU-LT-014",
    "the security groups of a GPU node are not open to all addresses",
    source="AWS Foundational Security Best Practices, EC2.19; nodes are reached through Systems Manager or a "
    "load balancer",
    severity=Severity.WARNING,
    cause="anyone who finds the address of a node can try to log in, or use its services",
    fix="remove the rule; reach nodes with Session Manager, and servers through a load balancer",
    url="https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/SecurityGroupIds",
        "LaunchTemplateData/NetworkInterfaces/*/Groups",
        "AWS::EC2::SecurityGroup/SecurityGroupIngress",
        "AWS::EC2::SecurityGroupIngress",
    ),
)
def closed_group(resource: Resource) -> Iterator[Fault]:
    values = {value.identity(): value for value in _groups_of(accelerated_launch(resource))}.values()
    for value in applicable(list(values)):
        group = target_of(value, SECURITY_GROUP)
        if group is None:
            raise value.undecidable("the rules of this security group are not in the template")
        for rule in group.once(ingress_rules):
            if any(rule.value.get(key).template_text() in _EVERYWHERE for key in ("CidrIp", "CidrIpv6")):
                yield Fault(
                    at=rule.value, got="from everywhere", allowed="a security group, or the ranges of a network"
                )


def _groups_of(launch: Launch) -> list[Value]:
    own = launch.data.get("SecurityGroupIds").items()
    return [*own, *(value for interface in launch.interfaces() for value in interface.groups)]


_UNKNOWN = re.compile(r"\$\{[^}]*}")

# The longest value that is at hand, the ARN of a secret, is shorter.
_LONGEST = "x" * 256


@template_rule(
    user_data.SIZE,
    cause="EC2 refuses user data of more than 16,384 bytes",
    fix="keep long scripts in S3, and fetch them in a short one",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
)
def user_data_size(resource: Resource) -> Iterator[Fault]:
    data = user_data_of(accelerated_launch(resource))
    shortest, longest = data.text, data.text
    if not data.is_complete:
        shortest, longest = _UNKNOWN.sub("", data.text), _UNKNOWN.sub(_LONGEST, data.text)
    findings = user_data.check_user_data_size(shortest)
    yield from faults_of(user_data.SIZE, findings, data.value, own_fix=True)
    if not findings and user_data.check_user_data_size(longest):
        raise data.value.undecidable("it is near the limit, and parts of it are known at deployment only")


@template_rule(
    SECRET,
    cause="all users of the node can read user data, and so can anyone with permission to describe it",
    fix="keep it in Secrets Manager or Parameter Store, and fetch it on the node with the instance role",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
)
def user_data_secret(resource: Resource) -> Iterator[Fault]:
    data = user_data_of(accelerated_launch(resource))
    yield from faults_of(SECRET, check_secrets(data.text), data.value, own_fix=True)


_ASSIGNMENT = re.compile(r"(?m)^[ \t]*(?:-[ \t]+)?(?:export[ \t]+|ENV[ \t]+)?([A-Z][A-Z0-9_]*)=(\S*)")


@template_rule(
    HARMFUL_VARIABLE,
    severity=Severity.WARNING,
    cause="the variable was useful with older software; today it slows or breaks collective operations",
    fix="remove the variable",
    url="https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/efa-cheatsheet.md",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
)
def harmful_variable(resource: Resource) -> Iterator[Fault]:
    data = user_data_of(accelerated_launch(resource))
    for name, value in _ASSIGNMENT.findall(data.text):
        yield from faults_of(HARMFUL_VARIABLE, check_variable(name, value), data.value)
