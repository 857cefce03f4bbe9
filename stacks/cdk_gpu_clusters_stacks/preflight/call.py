"""The read-only AWS calls that preflight makes, each with the permissions that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation of an AWS API.

    Attributes:
        service: boto3's name of the service, such as `ec2`.
        operation: boto3's name of the operation, such as `describe_subnets`.
        actions: IAM actions that it needs, the one that an answer of AWS names first.
        page_size: Items of a page where AWS would otherwise answer all of a large account at once.
        place: Where it is asked: in the cluster's Region, or in the first Region of the partition, which is always
            enabled.
    """

    service: str
    operation: str
    actions: tuple[str, ...]
    page_size: int | None = None
    place: Literal["region", "partition"] = "region"

    @property
    def name(self) -> str:
        """Name for people, such as `ec2:DescribeSubnets`."""
        return self.actions[0]


def _ec2(operation: str, *, page_size: int | None = None) -> Call:
    action = "".join(word.capitalize() for word in operation.split("_"))
    return Call(service="ec2", operation=operation, actions=(f"ec2:{action}",), page_size=page_size)


CALLER = Call(
    service="sts", operation="get_caller_identity", actions=("sts:GetCallerIdentity",), place="partition"
)

REGIONS = _ec2("describe_regions")
ZONES = _ec2("describe_availability_zones")
TYPES = _ec2("describe_instance_types")
OFFERINGS = _ec2("describe_instance_type_offerings")
RESERVATIONS = _ec2("describe_capacity_reservations")
PLACEMENT_GROUPS = _ec2("describe_placement_groups")
IMAGES = _ec2("describe_images")
INSTANCES = _ec2("describe_instances", page_size=1000)
VOLUMES = _ec2("describe_volumes", page_size=500)
INTERFACES = _ec2("describe_network_interfaces", page_size=1000)
VPCS = _ec2("describe_vpcs")
VPC_ATTRIBUTE = _ec2("describe_vpc_attribute")
SUBNETS = _ec2("describe_subnets")
ROUTE_TABLES = _ec2("describe_route_tables")
ENDPOINTS = _ec2("describe_vpc_endpoints")
ENDPOINT_SERVICES = _ec2("describe_vpc_endpoint_services")
SECURITY_GROUPS = _ec2("describe_security_groups")
SECURITY_GROUP_RULES = _ec2("describe_security_group_rules")
ADDRESSES = _ec2("describe_addresses")
INTERNET_GATEWAYS = _ec2("describe_internet_gateways")
NAT_GATEWAYS = _ec2("describe_nat_gateways")

# The three beside the first are what its API reference asks for, too.
GROUP_MEMBERS = Call(
    service="resource-groups",
    operation="list_group_resources",
    actions=(
        "resource-groups:ListGroupResources",
        "cloudformation:DescribeStacks",
        "cloudformation:ListStackResources",
        "tag:GetResources",
    ),
)

QUOTA = Call(
    service="service-quotas", operation="get_service_quota", actions=("servicequotas:GetServiceQuota",)
)
DEFAULT_QUOTA = Call(
    service="service-quotas",
    operation="get_aws_default_service_quota",
    actions=("servicequotas:GetAWSDefaultServiceQuota",),
)

PARAMETER = Call(service="ssm", operation="get_parameter", actions=("ssm:GetParameter",))
PARAMETERS = Call(service="ssm", operation="describe_parameters", actions=("ssm:DescribeParameters",))
SECRET = Call(
    service="secretsmanager", operation="describe_secret", actions=("secretsmanager:DescribeSecret",)
)
STACKS = Call(
    service="cloudformation", operation="describe_stacks", actions=("cloudformation:DescribeStacks",)
)
FILE_SYSTEMS = Call(service="fsx", operation="describe_file_systems", actions=("fsx:DescribeFileSystems",))
BUCKET = Call(service="s3", operation="head_bucket", actions=("s3:ListBucket",))
DIRECTORY_BUCKETS = Call(
    service="s3", operation="list_directory_buckets", actions=("s3express:ListAllMyDirectoryBuckets",)
)
KEY = Call(service="kms", operation="describe_key", actions=("kms:DescribeKey",))
ROLE = Call(service="iam", operation="get_role", actions=("iam:GetRole",), place="partition")
USER = Call(service="iam", operation="get_user", actions=("iam:GetUser",), place="partition")
EKS_CLUSTER = Call(service="eks", operation="describe_cluster", actions=("eks:DescribeCluster",))
EKS_CLUSTERS = Call(service="eks", operation="list_clusters", actions=("eks:ListClusters",))
EKS_VERSIONS = Call(
    service="eks", operation="describe_cluster_versions", actions=("eks:DescribeClusterVersions",)
)
ADD_ON_VERSIONS = Call(
    service="eks", operation="describe_addon_versions", actions=("eks:DescribeAddonVersions",)
)
CERTIFICATE = Call(service="acm", operation="describe_certificate", actions=("acm:DescribeCertificate",))
CONTAINER_IMAGE = Call(service="ecr", operation="describe_images", actions=("ecr:DescribeImages",))
LOAD_BALANCERS = Call(
    service="elbv2",
    operation="describe_load_balancers",
    actions=("elasticloadbalancing:DescribeLoadBalancers",),
)
