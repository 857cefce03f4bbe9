"""AWS PCS: clusters and compute node groups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.interfaces import PCS_DEVICE_INDEX, PCS_EFA_ONLY, PCS_SHARED_CARD, check_pcs_interfaces
from cdk_gpu_clusters.rules.pcs import SIZE, check_cluster_size
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.groups import (
    PCS_CLUSTER,
    PCS_NODE_GROUP,
    launch_of_node_group,
    market_faults,
    most_nodes_of,
    records_of,
    user_data_faults,
)
from cdk_gpu_clusters.template_rules.lookups.launches import layout_of, own_types_of, values_at
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


def _interface_findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    launch = launch_of_node_group(resource)
    interfaces = applicable(layout_of(launch))
    at = launch.data.get("NetworkInterfaces")
    # the difference is the same for every type
    return [(at, check_pcs_interfaces(record, interfaces)) for _, record in records_of(resource)[:1]]


_interfaces = SharedCheck(
    find=_interface_findings,
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_networking_multi-nic.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces", "InstanceConfigs/*/InstanceType"),
    own_fix=True,
)

no_efa_only: TemplateRule = _interfaces.rule(
    PCS_EFA_ONLY,
    severity=Severity.WARNING,
    cause="PCS does not pass efa-only on, according to samples of AWS",
    fix="use efa, or try one node and count its EFA devices",
)
one_interface_per_card: TemplateRule = _interfaces.rule(
    PCS_SHARED_CARD,
    severity=Severity.WARNING,
    cause="the PCS guide gives every interface its own network card",
    fix="keep one interface per card",
)
pcs_device_index: TemplateRule = _interfaces.rule(
    PCS_DEVICE_INDEX,
    severity=Severity.WARNING,
    cause="the PCS guide gives device index 0 to the primary interface alone",
    fix="use device index 1 on every card but card 0",
)


@define_template_rule(
    "GPU-PCS-011",
    "interfaces in the launch template of a PCS node group are in its subnet",
    source='AWS PCS guide, "Multiple network interfaces"',
    cause="PCS launches into the subnet of the node group, and no interface can be in another one",
    fix="name the same subnet in both, or leave it out of the interfaces",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_networking_multi-nic.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("SubnetIds", "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces/*/SubnetId"),
)
def own_subnet(resource: Resource) -> Iterator[Fault]:
    named = values_at(launch_of_node_group(resource).data, "NetworkInterfaces/*/SubnetId")
    own = resource.get("SubnetIds").items()
    if not named or not own:
        raise NotApplicable
    for value in named:
        if not any(value.is_same_as(subnet) for subnet in own):
            yield Fault(at=value, got=value.text() or "another subnet", allowed="the subnet of the node group")


@define_template_rule(
    "GPU-PCS-012",
    "CAPACITY_BLOCK has market type capacity-block in the launch template, and SPOT has no market type there",
    source='AWS PCS guide, "Configure a compute node group to use a Capacity Block"',
    cause="PCS refuses a node group whose purchase option is not that of its launch template",
    fix="set PurchaseOption to CAPACITY_BLOCK with MarketType capacity-block, or to SPOT without a market type",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/capacity-blocks-configure-cng.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("PurchaseOption", "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions"),
)
def purchase_option(resource: Resource) -> Iterator[Fault]:
    return market_faults(resource, "PurchaseOption")


@define_template_rule(
    "GPU-PCS-013",
    "the launch template of a PCS node group of a Capacity Block names the type of the node group",
    source='AWS PCS guide, "Configure a compute node group to use a Capacity Block"',
    cause="PCS refuses a Capacity Block of another type than that of the node group",
    fix="set InstanceType of the launch template to the type of the block and of the node group",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/capacity-blocks-configure-cng.html",
    on=(PCS_NODE_GROUP,),
    looks_at=(
        "InstanceConfigs/*/InstanceType",
        "PurchaseOption",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceType",
    ),
)
def block_type(resource: Resource) -> Iterator[Fault]:
    if resource.get("PurchaseOption").text() != "CAPACITY_BLOCK":
        raise NotApplicable
    named = launch_of_node_group(resource).data.get("InstanceType")
    own = own_types_of(resource)
    if not named.exists:
        raise NotApplicable  # another rule asks for it
    if not all(named.is_same_as(value) for value in own):
        yield Fault(at=named, got=named.text() or "", allowed=", ".join(value.text() or "" for value in own))


@define_template_rule(
    "GPU-PCS-014",
    "the role of PCS nodes has a name that starts with AWSPCS, or the path /aws-pcs/",
    source='AWS PCS guide, "IAM instance profiles for AWS PCS"; AWS PCS API reference, iamInstanceProfileArn',
    cause="PCS refuses the instance profile",
    fix="set Path to /aws-pcs/ on the role, or begin its RoleName with AWSPCS",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/security-instance-profiles_create.html",
    on=(PCS_NODE_GROUP,),
    looks_at=(
        "IamInstanceProfileArn",
        "AWS::IAM::InstanceProfile/Roles",
        "AWS::IAM::Role/Path",
        "AWS::IAM::Role/RoleName",
    ),
)
def role_name(resource: Resource) -> Iterator[Fault]:
    profile = target_of(resource.get("IamInstanceProfileArn"))
    if profile is None:
        resource.get("IamInstanceProfileArn").text()
        raise NotApplicable  # an ARN names the profile, not its role
    for value in profile.get("Roles").items():
        role = target_of(value)
        if role is None:
            if (value.text() or "").startswith("AWSPCS"):
                continue
            raise value.undecidable("this role is not in the template")
        name, path = role.get("RoleName"), role.get("Path")
        if "/aws-pcs/" not in (path.text() or "") and not (name.text() or "").startswith("AWSPCS"):
            got = name.text() or "a name that CloudFormation makes of the stack's"
            yield Fault(at=role, got=got, allowed="Path /aws-pcs/, or a RoleName that starts with AWSPCS")


@define_template_rule(
    "GPU-PCS-015",
    "the user data of PCS nodes is a MIME archive, which PCS adds its part to",
    source='AWS PCS guide, "Working with Amazon EC2 user data"',
    cause="PCS refuses user data that it cannot add its own part to",
    fix="write a multipart MIME archive: text/cloud-config for what comes before the node registers",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_ec2-user-data.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData",),
)
def pcs_user_data(resource: Resource) -> Iterator[Fault]:
    return user_data_faults(launch_of_node_group(resource))


@template_rule(
    SIZE,
    cause="PCS makes no nodes beyond the size of the cluster, and the size can never be changed",
    fix="choose a larger Size before you create the cluster, or fewer nodes",
    url="https://docs.aws.amazon.com/pcs/latest/APIReference/API_CreateCluster.html",
    on=(PCS_CLUSTER,),
    looks_at=("Size", "AWS::PCS::ComputeNodeGroup/ScalingConfiguration/MaxInstanceCount"),
)
def cluster_size(resource: Resource) -> Iterator[Fault]:
    size = resource.get("Size")
    groups = [one for one in resource.case.resources(PCS_NODE_GROUP) if resource.is_target_of(one.get("ClusterId"))]
    nodes = sum(map(most_nodes_of, applicable(groups)))
    yield from faults_of(SIZE, check_cluster_size(size.text() or "", nodes), size)
