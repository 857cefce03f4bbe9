"""The read-only AWS calls of preflight with their permissions, and why a call got no answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from cdk_gpu_clusters_stacks.aws_errors import AwsError, Trouble, aws_error


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


CALLER = Call(service="sts", operation="get_caller_identity", actions=("sts:GetCallerIdentity",), place="partition")

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

QUOTA = Call(service="service-quotas", operation="get_service_quota", actions=("servicequotas:GetServiceQuota",))
DEFAULT_QUOTA = Call(
    service="service-quotas",
    operation="get_aws_default_service_quota",
    actions=("servicequotas:GetAWSDefaultServiceQuota",),
)

PARAMETER = Call(service="ssm", operation="get_parameter", actions=("ssm:GetParameter",))
PARAMETERS = Call(service="ssm", operation="describe_parameters", actions=("ssm:DescribeParameters",))
SECRET = Call(service="secretsmanager", operation="describe_secret", actions=("secretsmanager:DescribeSecret",))
STACKS = Call(service="cloudformation", operation="describe_stacks", actions=("cloudformation:DescribeStacks",))
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
EKS_VERSIONS = Call(service="eks", operation="describe_cluster_versions", actions=("eks:DescribeClusterVersions",))
ADD_ON_VERSIONS = Call(service="eks", operation="describe_addon_versions", actions=("eks:DescribeAddonVersions",))
CERTIFICATE = Call(service="acm", operation="describe_certificate", actions=("acm:DescribeCertificate",))
CONTAINER_IMAGE = Call(service="ecr", operation="describe_images", actions=("ecr:DescribeImages",))
LOAD_BALANCERS = Call(
    service="elbv2",
    operation="describe_load_balancers",
    actions=("elasticloadbalancing:DescribeLoadBalancers",),
)


# Why AWS gave no answer to a call, in words for a person.

_ACTION = re.compile(r"not authorized to perform:? ([\w-]+:\w+)")


class Unusable(Exception):
    """The credentials cannot be used at all: one line with cause and fix."""


class NoAnswer(Exception):
    """A call without an answer, so that a check cannot tell.

    Attributes:
        cause: Why there is none.
        fix: What to do.
        permission: IAM action that is missing, empty for other causes.
    """

    def __init__(self, cause: str, *, fix: str = "", permission: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix
        self.permission = permission


class Denied(NoAnswer):
    """The caller may not make the call."""


class Absent(NoAnswer):
    """What was asked for does not exist."""


class RegionSilent(NoAnswer):
    """The Region is not enabled for the account, or has no endpoint of the service."""


def no_answer(call: Call, error: Exception, *, region: str) -> NoAnswer | Unusable:
    """Say why a call has no answer.

    Args:
        call: The call.
        error: What boto3 raised.
        region: Where it was asked.
    """
    found = aws_error(error)
    if found.trouble is Trouble.NO_CREDENTIALS:
        return Unusable(f"no usable credentials: {error}; {_SIGN_IN}")
    if found.trouble is Trouble.NO_ENDPOINT:
        return RegionSilent(
            f"{call.service} in {region} did not answer: {error}",
            fix=f"check that {region} has the service, and that this machine reaches it",
        )
    if not found.code:
        return NoAnswer(f"{call.name} failed: {type(error).__name__}: {error}", fix="run preflight again")
    return _refused(call, found, region)


_SIGN_IN = "sign in again, or give --profile"


def _refused(call: Call, found: AwsError, region: str) -> NoAnswer | Unusable:
    code, message, trouble = found.code, found.message, found.trouble
    if trouble is Trouble.EXPIRED:
        return Unusable(f"the credentials have expired ({code}); {_SIGN_IN}")
    if call.service == "sts" and trouble is Trouble.UNKNOWN_CREDENTIALS:
        return Unusable(f"AWS does not know the credentials ({code}: {message}); {_SIGN_IN}")
    if trouble is Trouble.DENIED:
        named = _ACTION.search(message)
        action = named[1] if named else call.actions[0]
        why = " by a policy of the organization" if "service control policy" in message else ""
        return Denied(
            f"{action} is not allowed{why}",
            fix=f"allow {action}, see --print-policy",
            permission=action,
        )
    if trouble in (Trouble.REGION_OFF, Trouble.UNKNOWN_CREDENTIALS):
        return RegionSilent(
            f"{call.service} in {region} refuses credentials that STS takes ({code})",
            fix=f"enable {region} in the account, or the service in it",
        )
    if trouble is Trouble.THROTTLED:
        return NoAnswer(f"{call.name} was throttled to the last retry ({code})", fix="run preflight again")
    if trouble is Trouble.ABSENT:
        return Absent(message)
    return NoAnswer(f"{call.name} failed: {code}: {message}", fix="run preflight again")
