"""What EKS refuses in a cluster beyond its schema.

Sources, read 2026-11-22: EKS API model (botocore 1.44.5), CreateCluster, UpdateClusterConfig, UpdateClusterVersion and
DeleteCluster; Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "View Amazon EKS networking
requirements for VPC and subnets", "Update existing cluster to new Kubernetes version", "Grant IAM users access to
Kubernetes with EKS access entries"; a newer copy of "Cluster API server endpoint" (IPv6 ranges). Wordings of the
service from reports: rancher/rancher issue 24380 (zones), terraform-aws-modules/terraform-aws-eks issue 3206
(CONFIG_MAP), awslabs/aws-devops-essential issue 25 (version), gruntwork-io/cloud-nuke issue 148 (node groups
attached), kubernetes-sigs/cluster-api-provider-aws issue 2176. That both endpoints may not be off is known from
clients that avoid the error only. What the scheduler may score: the guide's "Advanced Kubernetes control plane
configuration" (@ 2db60f8); the words are ours.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue.kubernetes import add_ons, kubernetes_versions

from ..faults import Fault
from ..node_groups import group_behind, version_of
from ..world import Json, Resource, Type, World
from .networks import group_faults, subnet_faults

_PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_VPC = "ResourcesVpcConfig"
_SERVICES = "KubernetesNetworkConfig/ServiceIpv4Cidr"
_LEAST_PREFIX, _MOST_PREFIX = 12, 24
_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
_LEAST_ZONES = 2
_SCORED = ("cpu", "memory", "nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore")


def authentication_mode(properties: Json) -> str:
    """How a cluster knows its users; CONFIG_MAP is what CloudFormation and the API take for none."""
    return str(properties.get("AccessConfig", {}).get("AuthenticationMode", "CONFIG_MAP"))


def cluster_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::Cluster`."""
    given = properties[_VPC]
    subnets = given.get("SubnetIds", [])
    yield from subnet_faults(subnets, world, f"{_VPC}/SubnetIds")
    yield from group_faults(given.get("SecurityGroupIds", []), subnets, world, f"{_VPC}/SecurityGroupIds")
    yield from _zone_faults(subnets, world)
    yield from version_faults(properties.get("Version"), world)
    yield from role_faults(properties["RoleArn"], "eks", "clusterRole", world, "RoleArn")
    yield from _endpoint_faults(given, properties)
    yield from _service_faults(properties.get("KubernetesNetworkConfig", {}), subnets, world)
    creator = properties.get("AccessConfig", {}).get("BootstrapClusterCreatorAdminPermissions", True)
    if authentication_mode(properties) == "CONFIG_MAP" and not creator:
        name = "bootstrapClusterCreatorAdminPermissions"
        message = f"{name} must be true if cluster authentication mode is set to CONFIG_MAP"
        yield Fault("cluster-access", message, "AccessConfig")
    yield from _scheduler_faults(properties.get("KubeSchedulerConfig", {}))
    for one in properties.get("EncryptionConfig", []):
        if one.get("Resources", ["secrets"]) != ["secrets"]:
            message = f"the only supported value is secrets, got {one['Resources']}"
            yield Fault("cluster-encryption", message, "EncryptionConfig/0/Resources")


def cluster_change_faults(physical_id: str, old: Json, new: Json, world: World) -> Iterator[Fault]:
    """Faults of a change that EKS makes in place."""
    yield from _scheduler_faults(new.get("KubeSchedulerConfig", {}))
    yield from _version_change_faults(physical_id, old.get("Version"), new.get("Version"), world)
    before, after = authentication_mode(old), authentication_mode(new)
    if _MODES.index(after) - _MODES.index(before) not in (0, 1):
        message = f"the authentication mode goes from {before} to the next of {', '.join(_MODES)} only, not to {after}"
        yield Fault("cluster-access", message, "AccessConfig/AuthenticationMode")
    zones = [{world.zone_of_subnet(one) for one in each[_VPC]["SubnetIds"]} for each in (old, new)]
    vpcs = [{world.vpc_of_subnet(one) for one in each[_VPC]["SubnetIds"]} for each in (old, new)]
    if zones[0] != zones[1] or vpcs[0] != vpcs[1]:
        message = "other subnets of a cluster are in the same VPC and in the same Availability Zones as the first ones"
        yield Fault("cluster-subnets", message, f"{_VPC}/SubnetIds")


def cluster_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EKS::Cluster`."""
    cluster = world.cluster(physical_id)
    if cluster is not None and cluster.properties.get("DeletionProtection"):
        yield Fault("cluster-protected", f"deletion protection is on for {physical_id!r}")
    attached = [one.physical_id for one in world.node_groups(physical_id)]
    if attached:
        message = f"Cluster has nodegroups attached: {', '.join(attached)}"
        yield Fault("cluster-node-groups", message)


def missing_cluster_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of the cluster that a node group, add-on, access entry or pod identity is for."""
    name = properties["ClusterName"]
    if world.cluster(name) is None:
        yield Fault("cluster-missing", f"No cluster found for name: {name}.", "ClusterName")


def _zone_faults(subnets: list[str], world: World) -> Iterator[Fault]:
    zones = {world.zone_of_subnet(subnet) or subnet for subnet in subnets}
    if len(zones) < _LEAST_ZONES:
        message = f"Subnets specified must be in at least two different AZs, got {', '.join(sorted(zones)) or 'none'}"
        yield Fault("cluster-zones", message, f"{_VPC}/SubnetIds")
    vpcs = {world.vpc_of_subnet(subnet) for subnet in subnets} - {None}
    if len(vpcs) > 1:
        yield Fault("cluster-vpcs", "the subnets are in several VPCs", f"{_VPC}/SubnetIds")


def _endpoint_faults(given: Json, properties: Json) -> Iterator[Fault]:
    public = given.get("EndpointPublicAccess", True)
    if not public and not given.get("EndpointPrivateAccess", False):
        message = "Private and public endpoint access cannot be false"
        yield Fault("cluster-endpoint", message, _VPC)
    family = properties.get("KubernetesNetworkConfig", {}).get("IpFamily", "ipv4")
    wrong = [one for one in given.get("PublicAccessCidrs", []) if not _is_network(one, family)]
    if wrong:
        message = f"The following CIDRs are invalid in publicAccessCidrs: {wrong}"
        yield Fault("cluster-public-cidrs", message, f"{_VPC}/PublicAccessCidrs")


def _scheduler_faults(config: Json) -> Iterator[Fault]:
    strategy = config.get("NodeResourcesFit", {}).get("ScoringStrategy", {})
    unknown = [one["Name"] for one in strategy.get("Resources", []) if one["Name"] not in _SCORED]
    if unknown:
        message = f"the scheduler scores {', '.join(_SCORED)}, got {', '.join(unknown)}"
        yield Fault("cluster-scheduler", message, "KubeSchedulerConfig/NodeResourcesFit/ScoringStrategy/Resources")


def _is_network(text: str, family: str) -> bool:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return False
    return network.version == 4 or family == "ipv6"


def _service_faults(given: Json, subnets: list[str], world: World) -> Iterator[Fault]:
    text = given.get("ServiceIpv4Cidr")
    if text is None:
        return
    if given.get("IpFamily") == "ipv6":
        yield Fault("cluster-service-cidr", "an ipv6 cluster takes no ServiceIpv4Cidr", _SERVICES)
        return
    try:
        services = ipaddress.IPv4Network(text)
    except ValueError:
        yield Fault("cluster-service-cidr", f"{text!r} is no IPv4 range", _SERVICES)
        return
    if not any(services.subnet_of(block) for block in _PRIVATE):
        message = f"{text} is not within {', '.join(map(str, _PRIVATE))}"
        yield Fault("cluster-service-cidr", message, _SERVICES)
    if not _LEAST_PREFIX <= services.prefixlen <= _MOST_PREFIX:
        message = f"the prefix is /{_LEAST_PREFIX} to /{_MOST_PREFIX}, got /{services.prefixlen}"
        yield Fault("cluster-service-cidr", message, _SERVICES)
    for vpc in {world.vpc_of_subnet(subnet) for subnet in subnets} - {None}:
        made = world.find("AWS::EC2::VPC", str(vpc))
        block = made.properties.get("CidrBlock") if made else None
        if block and services.overlaps(ipaddress.IPv4Network(block)):
            message = f"{text} overlaps with {block} of {vpc}"
            yield Fault("cluster-service-cidr", message, _SERVICES)


def _version_change_faults(physical_id: str, before: str | None, after: str | None, world: World) -> Iterator[Fault]:
    if before is None or after is None or before == after:
        return
    if minor_of(after) - minor_of(before) != 1:
        message = f"Kubernetes is updated by one minor version at a time, got {before} to {after}"
        yield Fault("cluster-version-step", message, "Version")
    behind = [one.physical_id for one in world.node_groups(physical_id) if version_of(world, one) != before]
    if behind:
        message = f"node groups that are not at {before} yet: {', '.join(behind)}"
        yield Fault("cluster-version-nodes", message, "Version")


# Kubernetes versions as EKS takes them: those of the catalogue, until their extended support ends. Wording of the
# service: awslabs/aws-devops-essential issue 25, read 2026-11-22.


def version_faults(version: str | None, world: World) -> Iterator[Fault]:
    """Faults of the version of a cluster; EKS chooses one where none is given."""
    today = world.clock.now().date()
    offered = [
        row.version
        for row in kubernetes_versions()
        if row.extended_support_ends is None or today < row.extended_support_ends
    ]
    if version is not None and version not in offered:
        message = f"unsupported Kubernetes version {version!r}; offered: {', '.join(offered)}"
        yield Fault("kubernetes-version", message, "Version")


def minor_of(version: str) -> int:
    """The minor number of a version, such as 35; 0 for none."""
    return int(version.partition(".")[2] or 0)


# What EKS asks of the IAM roles that it is given. A role that no stack made is not known here, and only its ARN is
# looked at. Wording of the service: eksctl-io/eksctl issue 3290; pod identity: EKS API model (botocore 1.44.5),
# CreatePodIdentityAssociation, and CDK's own check. Read 2026-11-22.

_ROLE = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/.+")


def role_faults(arn: str, service: str, name: str, world: World, path: str) -> Iterator[Fault]:
    """Faults of a role that a service must be able to assume.

    The service is without its domain (`eks`, `ec2`, `pods.eks`), and empty for the cluster's OpenID Connect provider;
    the name is what EKS calls the role.
    """
    if not _ROLE.fullmatch(arn):
        yield Fault("eks-role", f"{arn!r} is not the ARN of an IAM role", path)
        return
    for role in world.of_type("AWS::IAM::Role"):
        if role.attributes.get("Arn") != arn or not service:
            continue
        wanted = f"{service}.amazonaws.com"
        if not any(one.removesuffix(".cn") == wanted for one in _trusted(role.properties)):
            message = (
                f"Following required service principals [{wanted}] were not found in the trust relationships of "
                f"{name} {arn}"
            )
            yield Fault("eks-role-trust", message, path)


def _trusted(role: Json) -> Iterator[str]:
    for statement in role["AssumeRolePolicyDocument"].get("Statement", []):
        principal = statement.get("Principal", {})
        services = principal.get("Service", []) if isinstance(principal, dict) else []
        yield from [services] if isinstance(services, str) else services


# What EKS refuses in access entries and pod identity associations beyond their schemas. Sources, read 2026-11-22:
# EKS API model (botocore 1.44.5), CreateAccessEntry, AssociateAccessPolicy and CreatePodIdentityAssociation; Amazon
# EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "Grant IAM users access to Kubernetes with EKS access
# entries". Wordings of the service: terraform-aws-modules/terraform-aws-eks issues 2969, 3048 and 3293,
# hashicorp/terraform-provider-aws issue 36447, aws/eks-distro issue 2805.

_PRINCIPAL = re.compile(r"arn:aws[\w-]*:iam::(\d{12}):(role|user)/.+")
_POLICY = re.compile(r"arn:aws[\w-]*:eks::aws:cluster-access-policy/\w+")
_STANDARD = "STANDARD"
_NODE_TYPES = ("EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "HYBRID_LINUX", "HYPERPOD_LINUX")
_AUTO_MODE = "EC2"
_RESERVED_NAMES = ("system:", "eks:", "aws:", "amazon:", "iam:")


def access_entry_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::AccessEntry`."""
    yield from missing_cluster_faults(properties, world)
    cluster = world.cluster(properties["ClusterName"])
    if cluster is not None and authentication_mode(cluster.properties) == "CONFIG_MAP":
        needed = "must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation"
        yield Fault("access-mode", f"The cluster's authentication mode {needed}.", "ClusterName")
    yield from _principal_faults(properties, world)
    yield from _type_faults(properties)
    for position, policy in enumerate(properties.get("AccessPolicies", [])):
        yield from _policy_faults(policy, f"AccessPolicies/{position}")


def pod_identity_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::PodIdentityAssociation`."""
    yield from missing_cluster_faults(properties, world)
    yield from role_faults(properties["RoleArn"], "pods.eks", "the role", world, "RoleArn")
    keys = ("ClusterName", "Namespace", "ServiceAccount")
    wanted = [properties[key] for key in keys]
    if any([one.properties[key] for key in keys] == wanted for one in world.of_type(Type.POD_IDENTITY)):
        message = f"the service account {wanted[2]} in {wanted[1]} has an association already"
        yield Fault("pod-identity-twice", message, "ServiceAccount")
    if "Policy" in properties and properties.get("DisableSessionTags") is not True:
        message = "a policy needs DisableSessionTags set to true"
        yield Fault("pod-identity-policy", message, "Policy")


def _principal_faults(properties: Json, world: World) -> Iterator[Fault]:
    arn, path = properties["PrincipalArn"], "PrincipalArn"
    found = _PRINCIPAL.fullmatch(arn)
    kind = properties.get("Type", _STANDARD)
    if found is None:
        message = f"The specified principalArn is invalid: invalid principal. Got {arn!r}"
        yield Fault("access-principal", message, path)
        return
    if ":role/aws-service-role/" in arn:
        message = "not allowed to modify access entries with a principalArn value of a Service Linked Role"
        yield Fault("access-principal", message, path)
    if kind != _STANDARD and (found[1], found[2]) != (world.account, "role"):
        message = f"the principal of an entry of type {kind} is a role of the cluster's account, got {arn}"
        yield Fault("access-principal", message, path)
    cluster = properties["ClusterName"]
    nodes = {one.properties["NodeRole"] for one in world.node_groups(cluster)}
    if arn in nodes or any(
        (one.properties["ClusterName"], one.properties["PrincipalArn"]) == (cluster, arn)
        for one in world.of_type(Type.ACCESS_ENTRY)
    ):
        message = f"The specified access entry resource is already in use on this cluster: {arn}"
        yield Fault("access-twice", message, path)


def _type_faults(properties: Json) -> Iterator[Fault]:
    kind = properties.get("Type", _STANDARD)
    if kind not in (_STANDARD, _AUTO_MODE, *_NODE_TYPES):
        message = f"{kind!r} is not one of {', '.join((_STANDARD, *_NODE_TYPES, _AUTO_MODE))}"
        yield Fault("access-type", message, "Type")
        return
    if kind in _NODE_TYPES:
        for name in ("KubernetesGroups", "AccessPolicies"):
            if properties.get(name):
                message = f"an entry of type {kind} takes no {name}: EKS gives nodes what they need"
                yield Fault("access-type", message, name)
    username = properties.get("Username", "")
    if kind == _STANDARD and username.startswith(_RESERVED_NAMES):
        message = f"it can't start with {', '.join(_RESERVED_NAMES)}, got {username!r}"
        yield Fault("access-username", message, "Username")


def _policy_faults(policy: Json, path: str) -> Iterator[Fault]:
    if not _POLICY.fullmatch(policy["PolicyArn"]):
        message = f"{policy['PolicyArn']!r} is not the ARN of an access policy of EKS"
        yield Fault("access-policy", message, f"{path}/PolicyArn")
    scope = policy["AccessScope"]
    if (scope["Type"] == "namespace") != bool(scope.get("Namespaces")):
        message = f"namespaces require the scope namespace, and only that one, got {scope}"
        yield Fault("access-scope", message, f"{path}/AccessScope")


# What EKS refuses in an add-on beyond its schema. Sources, read 2026-11-22: EKS API model (botocore 1.44.5),
# CreateAddon; wording of the service: aws/containers-roadmap issue 1429. The add-ons of the catalogue are known,
# which are not all that EKS has. Add-ons whose pods are replicas stay DEGRADED, and their creation times out, where
# no node takes them: maddevsio/aws-eks-base issue 112 and pulumi/pulumi-eks issue 1819 (coredns),
# hashicorp-education/learn-terraform-provision-eks-cluster issue 108 (aws-ebs-csi-driver), eksctl-io/eksctl issue
# 6954 (aws-efs-csi-driver), aws-ia/terraform-aws-eks-blueprints-addons issue 335 (snapshot-controller); of
# metrics-server and aws-fsx-csi-driver it is inferred, since their charts have a Deployment. CloudFormation makes
# what does not depend on each other in any order: here an add-on must come after the nodes that it needs.

_OF_REPLICAS = frozenset(
    {
        "aws-ebs-csi-driver",
        "aws-efs-csi-driver",
        "aws-fsx-csi-driver",
        "coredns",
        "metrics-server",
        "snapshot-controller",
    }
)


def add_on_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::Addon`."""
    yield from missing_cluster_faults(properties, world)
    yield from _configuration_faults(properties.get("ConfigurationValues"))
    if "ServiceAccountRoleArn" in properties:
        yield from role_faults(properties["ServiceAccountRoleArn"], "", "", world, "ServiceAccountRoleArn")
    for position, one in enumerate(properties.get("PodIdentityAssociations", [])):
        path = f"PodIdentityAssociations/{position}/RoleArn"
        yield from role_faults(one["RoleArn"], "pods.eks", "the role", world, path)
    name = properties["AddonName"]
    known = [one.name for one in add_ons()]
    if name not in known:
        message = f"Addon {name!r} specified is not supported; the emulator knows {', '.join(known)}"
        yield Fault("add-on-unknown", message, "AddonName")
    nodes = [one for one in world.node_groups(properties["ClusterName"]) if _takes_pods(one, world)]
    if name in _OF_REPLICAS and not nodes:
        message = (
            f"InsufficientNumberOfReplicas: {name} needs nodes without taints, and the cluster has none yet; let the "
            "add-on depend on the node group that it runs on"
        )
        yield Fault("add-on-nodes", message, "AddonName")


def _takes_pods(node_group: Resource, world: World) -> bool:
    taints = node_group.properties.get("Taints", [])
    is_open = all(one["Effect"] == "PREFER_NO_SCHEDULE" for one in taints)
    return is_open and bool(group_behind(world, node_group).instances)


def _configuration_faults(text: str | None) -> Iterator[Fault]:
    """Faults of values in JSON; those in YAML are taken as they are."""
    if text is None or not text.lstrip().startswith("{"):
        return
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        message = f"ConfigurationValues cannot be read: {error}"
        yield Fault("add-on-configuration", message, "ConfigurationValues")
