"""Amazon EKS: clusters and managed node groups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, errors_in
from cdk_gpu_clusters.rules import eks_cluster
from cdk_gpu_clusters.template_rules.case import Case, Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.cluster import is_kubernetes_node
from cdk_gpu_clusters.template_rules.lookups.groups import (
    EKS_NODE_GROUP,
    launch_of_node_group,
    market_faults,
    records_of,
    user_data_faults,
)
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    accelerated_launch,
    own_types_of,
    specification_of,
    values_at,
)
from cdk_gpu_clusters.template_rules.lookups.network import (
    INGRESS,
    SECURITY_GROUP,
    Groups,
    groups_of_launch,
    ingress_rules,
)
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)

_FORBIDDEN = (
    "NetworkInterfaces/*/SubnetId",
    "IamInstanceProfile",
    "InstanceInitiatedShutdownBehavior",
    "HibernationOptions",
    "InstanceRequirements",
)


@define_template_rule(
    "GPU-EKS-011",
    "the launch template of a managed node group leaves subnet, role, shutdown, hibernation and requirements to EKS",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
    cause="EKS refuses a launch template with a setting that EKS makes itself",
    fix="leave it out: Subnets, NodeRole and InstanceTypes of the node group set it",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=("AWS::EC2::LaunchTemplate/LaunchTemplateData", "LaunchTemplate"),
)
def left_to_eks(resource: Resource) -> Iterator[Fault]:
    data = launch_of_node_group(resource).data
    for path in _FORBIDDEN:
        for value in values_at(data, path):
            yield Fault(at=value, got=path.rpartition("/")[2], allowed="nothing")


@define_template_rule(
    "GPU-EKS-012",
    "CAPACITY_BLOCK has market type capacity-block in the launch template, and SPOT has no market type there",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates" and "Capacity Blocks for ML"',
    cause="EKS refuses a node group whose capacity type is not that of its launch template",
    fix="set CapacityType to CAPACITY_BLOCK with MarketType capacity-block, or to SPOT without a market type",
    url="https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html",
    on=(EKS_NODE_GROUP,),
    looks_at=("CapacityType", "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions"),
)
def capacity_type(resource: Resource) -> Iterator[Fault]:
    return market_faults(resource, "CapacityType")


@define_template_rule(
    "GPU-EKS-013",
    "instance types are in the node group or in its launch template, not in both",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
    cause="EKS refuses a node group that names instance types in both places",
    fix="leave InstanceTypes out of the node group, or InstanceType out of the launch template",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=("InstanceTypes", "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceType"),
)
def one_place_for_types(resource: Resource) -> Iterator[Fault]:
    own_types = own_types_of(resource)
    in_template = launch_of_node_group(resource).data.get("InstanceType")
    if own_types and in_template.exists:
        yield Fault(at=own_types[0], got="types in both places", allowed="one of the two")


@define_template_rule(
    "GPU-EKS-014",
    "a node group with a launch template has no DiskSize and no RemoteAccess",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
    cause="EKS takes disk and remote access from the launch template, and refuses them beside it",
    fix="set it in the launch template: BlockDeviceMappings, KeyName",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=("DiskSize", "RemoteAccess", "LaunchTemplate"),
)
def disk_and_access(resource: Resource) -> Iterator[Fault]:
    if not resource.get("LaunchTemplate").exists:
        raise NotApplicable
    for name in ("DiskSize", "RemoteAccess"):
        if resource.get(name).exists:
            yield Fault(at=resource.get(name), got=f"{name} beside LaunchTemplate", allowed="one of the two")


@define_template_rule(
    "GPU-EKS-015",
    "a node group whose launch template names an image has AmiType CUSTOM or none, and no version of its own",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
    cause="EKS takes no image type and no version beside an image of the launch template",
    fix="leave AmiType, Version and ReleaseVersion out, or ImageId",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=("AmiType", "Version", "ReleaseVersion", "AWS::EC2::LaunchTemplate/LaunchTemplateData/ImageId"),
)
def custom_image(resource: Resource) -> Iterator[Fault]:
    if not launch_of_node_group(resource).data.get("ImageId").exists:
        raise NotApplicable
    for name in ("AmiType", "Version", "ReleaseVersion"):
        value = resource.get(name)
        if value.exists and not (name == "AmiType" and value.text() == "CUSTOM"):
            yield Fault(at=value, got=f"{name} beside ImageId", allowed="one of the two")


_SIZES = ("MinSize", "MaxSize", "DesiredSize")


@define_template_rule(
    "GPU-EKS-050",
    "a node group states all of its sizes, or none",
    source="Amazon EKS API reference and CloudFormation reference, NodegroupScalingConfig, desiredSize",
    cause="EKS creates a node group with all of its sizes or with none",
    fix="set MinSize, MaxSize and DesiredSize; a group that scales starts at its MinSize",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html",
    on=(EKS_NODE_GROUP,),
    looks_at=("ScalingConfig",),
)
def all_sizes(resource: Resource) -> Iterator[Fault]:
    sizes = resource.get("ScalingConfig")
    missing = [name for name in _SIZES if not sizes.get(name).exists]
    if len(missing) in (1, 2):
        yield Fault(at=sizes, got=f"no {' and no '.join(missing)}", allowed=", ".join(_SIZES))


# What the names of AMI types end with; AL2_x86_64_GPU carried both drivers.
_DRIVERS = {"NVIDIA": ("NVIDIA", "NVIDIA_FIPS", "_GPU"), "AWS": ("NEURON", "_GPU")}


@define_template_rule(
    "GPU-EKS-016",
    "the AMI type of a node group is for its processors, and carries the drivers of its accelerators",
    source="botocore 1.44.5, eks service model: AMITypes",
    cause="nodes come up without the driver, and Kubernetes sees no accelerator",
    fix="use an AMI type with NVIDIA or NEURON in its name, for the processors of the type",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html",
    on=(EKS_NODE_GROUP,),
    looks_at=("AmiType", "InstanceTypes", "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceType"),
)
def ami_type(resource: Resource) -> Iterator[Fault]:
    ami_type = resource.get("AmiType")
    name = ami_type.text()
    if name == "CUSTOM":
        raise NotApplicable
    if specification_of(resource).exists and launch_of_node_group(resource).data.get("ImageId").exists:
        raise NotApplicable
    for value, record in records_of(resource):
        if record.accelerator is None:
            continue
        if name is None:
            raise ami_type.undecidable("EKS chooses the image by itself")
        wanted = _DRIVERS[record.accelerator.manufacturer]
        processor = "ARM_64" if record.architecture == "arm64" else "x86_64"
        if not name.endswith(wanted) or processor not in name:
            allowed = f"AL2023_{processor}_{wanted[0]}"
            yield Fault(at=ami_type, got=f"{name} with {value.text()}", allowed=allowed)


_NAMED = "ResourcesVpcConfig/SecurityGroupIds/*"


@define_template_rule(
    "GPU-EKS-017",
    "a launch template with security groups has that of the cluster, too",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
    severity=Severity.WARNING,
    cause="EKS does not add the security group of the cluster in this case: nodes may not reach the control plane",
    fix="add the attribute ClusterSecurityGroupId of the cluster to the groups of every interface",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/SecurityGroupIds",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces/*/Groups",
        "AWS::EKS::Cluster/ResourcesVpcConfig/SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
    ),
)
def cluster_group(resource: Resource) -> Iterator[Fault]:
    launch = launch_of_node_group(resource)
    groups = applicable(groups_of_launch(launch))
    if any(_is_of_cluster(value) for value, _ in groups):
        return
    for value, group in groups:
        if group is None:
            raise value.undecidable("this may be the security group of the cluster")
    if _is_allowed_in(resource.case, groups):
        return
    yield Fault(at=launch.data, got="other security groups only", allowed="ClusterSecurityGroupId among them")


def _is_allowed_in(case: Case, groups: Groups) -> bool:
    """Whether a security group of the control plane, its own or one that the cluster names, lets the nodes in."""
    named = [item for one in case.resources("AWS::EKS::Cluster") for item in values_at(one.properties, _NAMED)]
    own = [group for value in named if (group := target_of(value, SECURITY_GROUP))]
    rules = [rule for group in own for rule in group.once(ingress_rules)]
    beside = [one for one in case.resources(INGRESS) if _is_of_cluster(one.get("GroupId"))]
    peers = [*(rule.peer for rule in rules), *(one.get("SourceSecurityGroupId") for one in beside)]
    return any(target_of(peer, SECURITY_GROUP) in [group for _, group in groups] for peer in peers if peer.exists)


def _is_of_cluster(value: Value) -> bool:
    return value.reference is not None and value.reference.attribute == "ClusterSecurityGroupId"


@define_template_rule(
    "GPU-EKS-018",
    "the user data of a managed node group of Amazon Linux is a MIME archive, which EKS adds its part to",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
    cause="EKS refuses user data that it cannot add its own part to",
    fix="write a multipart MIME archive, with the script as one of its parts",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=("AmiType", "AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData"),
)
def user_data_archive(resource: Resource) -> Iterator[Fault]:
    launch = launch_of_node_group(resource)
    ami_type = resource.get("AmiType").text() or ""
    if launch.data.get("ImageId").exists or not ami_type.startswith("AL2"):
        raise NotApplicable  # Bottlerocket reads TOML, Windows PowerShell
    return user_data_faults(launch)


@template_rule(
    eks_cluster.VERSION,
    cause="EKS creates no cluster of this version",
    fix="use a version in standard support",
    url="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html",
    on=("AWS::EKS::Cluster",),
    looks_at=("Version",),
)
def offered_version(resource: Resource) -> Iterator[Fault]:
    version = resource.get("Version")
    text = applicable(version.text())  # without one, EKS takes its newest
    # A version that is newer than the catalogue is no fault.
    yield from faults_of(eks_cluster.VERSION, errors_in(eks_cluster.check_version(text)), version, own_fix=True)


_NETWORK = "ResourcesVpcConfig"


@template_rule(
    eks_cluster.PUBLIC_CIDRS,
    severity=Severity.WARNING,
    cause="anyone on the internet reaches the API server, and only its authentication protects the cluster",
    fix="set EndpointPrivateAccess to true and EndpointPublicAccess to false, or name networks in PublicAccessCidrs",
    url="https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",
    on=("AWS::EKS::Cluster",),
    looks_at=(f"{_NETWORK}/EndpointPublicAccess", f"{_NETWORK}/PublicAccessCidrs"),
)
def public_endpoint(resource: Resource) -> Iterator[Fault]:
    network = resource.get(_NETWORK)
    public = network.get("EndpointPublicAccess")
    if public.flag() is False:
        return
    blocks = network.get("PublicAccessCidrs")
    if not blocks.items():
        at = next((one for one in (blocks, public, network) if one.exists), resource)
        yield Fault(at=at, got="a public endpoint for every address", allowed="named networks, or none")
    for block in blocks.items():
        text = block.text()
        if text is not None and text.endswith("/0"):
            yield Fault(at=block, got=text, allowed="named networks, or none")


_TYPES = ("Logging", "ClusterLogging", "EnabledTypes")


@define_template_rule(
    "GPU-EKS-028",
    "an EKS cluster writes the audit log of its API server",
    source='Amazon EKS user guide, "Send control plane logs to CloudWatch Logs"',
    severity=Severity.WARNING,
    cause="no record shows afterwards who deleted a job or read a secret",
    fix="enable the log type audit, and give the log group /aws/eks/<cluster>/cluster a retention",
    url="https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html",
    on=("AWS::EKS::Cluster",),
    looks_at=("/".join(_TYPES),),
)
def audit_logs(resource: Resource) -> Iterator[Fault]:
    types = resource.get(*_TYPES)
    enabled = [item.get("Type").text() for item in types.items()]
    if "audit" not in enabled:
        got = ", ".join(str(one) for one in enabled) or "no logs, by default"
        yield Fault(at=types if types.exists else resource, got=got, allowed="audit among the types")


@define_template_rule(
    "GPU-EKS-029",
    "the secrets of an EKS cluster are encrypted with a customer managed KMS key",
    source='Amazon EKS user guide, "Encrypt Kubernetes secrets with KMS on existing clusters"; CloudFormation '
    "schema of AWS::EKS::Cluster: EncryptionConfig is create-only (cfn-lint 1.58.0)",
    severity=Severity.INFO,
    cause="no key policy of yours controls who decrypts secrets; adding a key later replaces the cluster",
    fix="add EncryptionConfig with a KMS key that is retained",
    url="https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html",
    on=("AWS::EKS::Cluster",),
    looks_at=("EncryptionConfig/*/Provider/KeyArn",),
)
def secrets_key(resource: Resource) -> Iterator[Fault]:
    configuration = resource.get("EncryptionConfig")
    if not any(item.get("Provider", "KeyArn").exists for item in configuration.items()):
        at = configuration if configuration.exists else resource
        yield Fault(at=at, got="no key", allowed="Provider.KeyArn for the resource secrets")


@define_template_rule(
    "GPU-EKS-052",
    "answers of the metadata service of a GPU node do not reach the pods of Kubernetes",
    source='Amazon EKS best practices guide, "Restrict access to the instance profile assigned to the worker node"',
    severity=Severity.WARNING,
    cause="every pod can take the role of its node, with what it may pull, describe and change",
    fix="set HttpPutResponseHopLimit to 1, and give pods that call AWS a role of their own with EKS Pod Identity",
    url="https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/MetadataOptions/HttpPutResponseHopLimit",
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/TagSpecifications",
        "AWS::EKS::Nodegroup/LaunchTemplate",
        "AWS::AutoScaling::AutoScalingGroup/Tags",
    ),
)
def pod_hops(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    limit = launch.data.get("MetadataOptions", "HttpPutResponseHopLimit")
    if not limit.exists or (limit.is_known and limit.integer() == 1):
        return  # without one, it depends on the image and the account
    if not is_kubernetes_node(launch):
        raise NotApplicable
    yield Fault(at=limit, got=f"{limit.integer()} hops", allowed="1")
