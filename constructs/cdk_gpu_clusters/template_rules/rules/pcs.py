"""AWS PCS: clusters and compute node groups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.node.user_data import ADDED_BY_PCS_BYTES, USER_DATA_LIMIT_BYTES, check_user_data_size
from cdk_gpu_clusters.rules.interfaces import PCS_DEVICE_INDEX, PCS_EFA_ONLY, PCS_SHARED_CARD, check_pcs_interfaces
from cdk_gpu_clusters.rules.pcs import (
    CONTROLLER_SUBNET,
    NAME,
    RESERVATION,
    SCALE,
    SIZE,
    STATIC_MIG,
    check_cluster_size,
    check_controller_subnet,
    check_pcs_name,
    check_reservation,
    check_scale,
)
from cdk_gpu_clusters.rules.pcs_scripts import SCRIPT_FORM, SCRIPT_PIN, VERIFIED_NODES, check_lifecycle_scripts
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
from cdk_gpu_clusters.template_rules.lookups.launches import layout_of, own_types_of, user_data_of, values_at
from cdk_gpu_clusters.template_rules.lookups.network import SUBNET, zone_in
from cdk_gpu_clusters.template_rules.lookups.pcs import PCS_QUEUE, kind_and_mig_of, level_of, scripts_of
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
from cdk_gpu_clusters.template_rules.template import uses_of


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


@define_template_rule(
    "GPU-PCS-039",
    "the user data of PCS nodes leaves room for the part of AWS PCS",
    source='AWS PCS guide, "Working with Amazon EC2 user data": it is merged with that of AWS PCS; '
    "awslabs/awsome-distributed-ai @ 95b939c, architectures/aws-pcs/assets/add-cng.yaml: the longest that is known to "
    "work has 10,645 bytes",
    severity=Severity.WARNING,
    cause="EC2 refuses more than 16,384 bytes with the part of AWS PCS, whose length is not published",
    fix="keep long scripts in S3, and fetch them in a short one or in a lifecycle script",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_ec2-user-data.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData",),
)
def room_in_user_data(resource: Resource) -> Iterator[Fault]:
    data = user_data_of(launch_of_node_group(resource))
    if check_user_data_size(data.text):
        raise NotApplicable  # another rule reports it
    for finding in check_user_data_size(data.text, added_bytes=ADDED_BY_PCS_BYTES):
        most = USER_DATA_LIMIT_BYTES - ADDED_BY_PCS_BYTES
        yield Fault(at=data.value, got=finding.got, allowed=f"at most {most:,} bytes beside those")


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


@template_rule(
    NAME,
    cause="PCS refuses a name of another length, or with other characters",
    fix="shorten the name, or leave it out",
    url="https://docs.aws.amazon.com/pcs/latest/APIReference/API_CreateComputeNodeGroup.html",
    on=(PCS_CLUSTER, PCS_NODE_GROUP, PCS_QUEUE),
    looks_at=("Name",),
)
def pcs_name(resource: Resource) -> Iterator[Fault]:
    name = resource.get("Name")
    findings = check_pcs_name(applicable(name.text()), level_of(resource))
    yield from faults_of(NAME, findings, name, own_fix=True)


@template_rule(
    CONTROLLER_SUBNET,
    cause="PCS takes one subnet for the controller, and none in a Local Zone",
    fix="name one subnet of an Availability Zone; nodes can be in other ones",
    url="https://docs.aws.amazon.com/pcs/latest/APIReference/API_NetworkingRequest.html",
    on=(PCS_CLUSTER,),
    looks_at=("Networking/SubnetIds", "AWS::EC2::Subnet/AvailabilityZone"),
)
def controller_subnet(resource: Resource) -> Iterator[Fault]:
    subnets = resource.get("Networking", "SubnetIds")
    named = applicable(subnets.items())
    target = target_of(named[0], SUBNET)
    zone = None if target is None else zone_in(target)
    known = zone.text() if zone is not None and zone.is_known else None
    yield from faults_of(CONTROLLER_SUBNET, check_controller_subnet(len(named), known), subnets, own_fix=True)


@define_template_rule(
    "GPU-PCS-026",
    "PCS clusters of one template are made one after the other",
    source="botocore 1.44.5, pcs service model: CreateCluster: one cluster in the state Creating for each Region and "
    "account",
    cause="PCS makes one cluster at a time in a Region and account: the second one fails, and the stack rolls back",
    fix="give one of them DependsOn with the other one",
    url="https://docs.aws.amazon.com/pcs/latest/APIReference/API_CreateCluster.html",
    on=(PCS_CLUSTER,),
    looks_at=("DependsOn", "other clusters of the template"),
)
def one_cluster_at_a_time(resource: Resource) -> Iterator[Fault]:
    others = [one for one in resource.case.resources(PCS_CLUSTER) if one.case is resource.case and one != resource]
    for other in applicable(others):
        if other.logical_id < resource.logical_id and not (_waits(resource, other) or _waits(other, resource)):
            yield Fault(at=resource, got=f"{resource.logical_id} beside {other.logical_id}", allowed="one at a time")


def _waits(one: Resource, other: Resource) -> bool:
    """Whether a resource is made after another one, directly or over others."""
    resources = one.case.template.resources
    seen: set[str] = set()
    waiting = [one.logical_id]
    while waiting:
        name = waiting.pop()
        if name == other.logical_id:
            return True
        if name not in seen and name in resources:
            seen.add(name)
            waiting += uses_of(resources[name])
    return False


@template_rule(
    SCALE,
    cause="PCS refuses these numbers of nodes",
    fix="lower MinInstanceCount, or raise MaxInstanceCount",
    url="https://docs.aws.amazon.com/pcs/latest/APIReference/API_ScalingConfigurationRequest.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("ScalingConfiguration",),
)
def scale(resource: Resource) -> Iterator[Fault]:
    counts = resource.get("ScalingConfiguration")
    findings = check_scale(counts.get("MinInstanceCount").integer(), counts.get("MaxInstanceCount").integer())
    yield from faults_of(SCALE, findings, counts, own_fix=True)


@template_rule(
    STATIC_MIG,
    severity=Severity.WARNING,
    cause="Slurm knows the slices of a node only after its first start: a job that makes PCS start a node can run "
    "without a slice",
    fix="set MinInstanceCount to MaxInstanceCount",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/mig-configuration.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("ScalingConfiguration", "AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData"),
)
def static_mig(resource: Resource) -> Iterator[Fault]:
    _, mig = kind_and_mig_of(resource)
    applicable(mig)
    counts = resource.get("ScalingConfiguration")
    least, most = counts.get("MinInstanceCount").integer(), counts.get("MaxInstanceCount").integer()
    yield from faults_of(STATIC_MIG, check_scale(least, most, is_split=True), counts, own_fix=True)


_LAUNCH_TEMPLATES = "https://docs.aws.amazon.com/pcs/latest/userguide/working-with_launch-templates_overview.html"
_TARGET = ("CapacityReservationSpecification", "CapacityReservationTarget", "CapacityReservationId")


@template_rule(
    RESERVATION,
    cause="PCS refuses a launch template with names of security groups, or with the id of an On-Demand reservation",
    fix="give SecurityGroupIds, and CapacityReservationResourceGroupArn",
    url=_LAUNCH_TEMPLATES,
    on=(PCS_NODE_GROUP,),
    looks_at=("AWS::EC2::LaunchTemplate/LaunchTemplateData",),
)
def forbidden_by_pcs(resource: Resource) -> Iterator[Fault]:
    data = launch_of_node_group(resource).data
    names, target = data.get("SecurityGroups"), data.get(*_TARGET)
    if names.exists:
        yield Fault(at=names, got="names of security groups", allowed="SecurityGroupIds")
    if target.exists:
        findings = check_reservation(target.shown(), data.get("InstanceMarketOptions", "MarketType").text())
        yield from faults_of(RESERVATION, findings, target, own_fix=True)


_IGNORED = (
    "InstanceRequirements",
    "IamInstanceProfile",
    "DisableApiTermination",
    "DisableApiStop",
    "HibernationOptions",
    "ElasticGpuSpecifications",
    "ElasticInferenceAccelerators",
    "CpuOptions/ThreadsPerCore",
)


@define_template_rule(
    "GPU-PCS-029",
    "the launch template of a PCS node group leaves to PCS what PCS sets itself",
    source='AWS PCS user guide, "Overview of launch templates in AWS PCS"',
    severity=Severity.WARNING,
    cause="PCS ignores this setting of the launch template: its own one holds",
    fix="leave it out; IamInstanceProfileArn and InstanceConfigs of the node group name role and types",
    url=_LAUNCH_TEMPLATES,
    on=(PCS_NODE_GROUP,),
    looks_at=("AWS::EC2::LaunchTemplate/LaunchTemplateData",),
)
def ignored_by_pcs(resource: Resource) -> Iterator[Fault]:
    data = launch_of_node_group(resource).data
    for path in _IGNORED:
        for value in values_at(data, path):
            yield Fault(at=value, got=path.rpartition("/")[2], allowed="nothing")


@define_template_rule(
    "GPU-PCS-035",
    "the types of a PCS node group with EFA have EFA, as many vCPUs and GPUs, and one architecture",
    source='AWS PCS user guide, "Create compute node groups with EFA"',
    cause="PCS lays out the same interfaces on every node, and refuses types that differ",
    fix="keep one type, or types with the same architecture, vCPUs and GPUs",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_networking_efa_create-cng.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("InstanceConfigs/*/InstanceType", "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces"),
)
def alike_types(resource: Resource) -> Iterator[Fault]:
    if len(own_types_of(resource)) < 2 or not launch_of_node_group(resource).has_efa():
        raise NotApplicable
    first, *others = records_of(resource)
    for value, record in others:
        if _shape(record) != _shape(first[1]):
            yield Fault(at=value, got=f"{record.name} beside {first[1].name}", allowed=first[1].name)


def _shape(record: InstanceType) -> tuple[object, ...]:
    accelerator = record.accelerator
    gpus = 0 if accelerator is None else accelerator.count
    return record.vcpus, gpus, record.architecture, record.network.efa is not None


def _script_findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    stages = applicable(list(scripts_of(resource)))
    specification = resource.get("CustomLaunchTemplate")
    has_efa = specification.exists and launch_of_node_group(resource).has_efa()
    return [
        (at, check_lifecycle_scripts(scripts, before_slurmd=stage == "NodeBootstrapped", has_efa=has_efa))
        for stage, at, scripts in stages
    ]


_scripts = SharedCheck(
    find=_script_findings,
    url="https://docs.aws.amazon.com/pcs/latest/userguide/cng-node-lifecycle-actions-configure.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("NodeLifecycleActions/Stages", "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces"),
)

script_form: TemplateRule = _scripts.rule(
    SCRIPT_FORM,
    cause="PCS refuses the scripts of this stage",
    fix="give each script a name of its own, of 1 to 64 characters, and at most 20 arguments of 256 characters",
)
script_pin: TemplateRule = _scripts.rule(
    SCRIPT_PIN,
    severity=Severity.WARNING,
    cause="whoever can write to the bucket runs code as root on the nodes",
    fix="give the SHA-256 of the script as Checksum",
)
verified_nodes: TemplateRule = _scripts.rule(
    VERIFIED_NODES,
    severity=Severity.WARNING,
    cause="a node whose script has failed takes jobs, and a job over several nodes fails or waits for it",
    fix="set OnError to TERMINATE",
)
