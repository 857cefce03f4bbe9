"""The read-only AWS calls of preflight with their permissions, and why a call got no answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from cdk_gpu_clusters_stacks.aws_errors import Trouble, aws_error


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of an AWS API.

    Attributes:
        service: boto3's name of the service, such as `ec2`.
        operation: boto3's name of the operation, such as `describe_subnets`.
        actions: IAM actions that it needs, the one that an answer of AWS names first.
        page_size: Items of a page where AWS would otherwise answer all of a large account at once.
        place: Where it is asked: in the cluster's Region, or in the first Region of the partition, which is always
            enabled.
        most: Items that are read at most, for lists that a busy account never ends; None for all.
    """

    service: str
    operation: str
    actions: tuple[str, ...]
    page_size: int | None = None
    place: Literal["region", "partition"] = "region"
    most: int | None = None

    @property
    def name(self) -> str:
        """Name for people, such as `ec2:DescribeSubnets`."""
        return self.actions[0]


def define_call(
    service: str,
    operation: str,
    *actions: str,
    page_size: int | None = None,
    place: Literal["region", "partition"] = "region",
    most: int | None = None,
) -> Call:
    """A call. Its IAM action has the name of the operation, unless others are given."""
    name = "".join(word.capitalize() for word in operation.split("_"))
    return Call(service, operation, actions or (f"{service}:{name}",), page_size, place, most)


_call = define_call

CALLER = _call("sts", "get_caller_identity", place="partition")

REGIONS = _call("ec2", "describe_regions")
ZONES = _call("ec2", "describe_availability_zones")
TYPES = _call("ec2", "describe_instance_types")
OFFERINGS = _call("ec2", "describe_instance_type_offerings")
RESERVATIONS = _call("ec2", "describe_capacity_reservations")
PLACEMENT_GROUPS = _call("ec2", "describe_placement_groups")
IMAGES = _call("ec2", "describe_images")
INSTANCES = _call("ec2", "describe_instances", page_size=1000)
VOLUMES = _call("ec2", "describe_volumes", page_size=500)
INTERFACES = _call("ec2", "describe_network_interfaces", page_size=1000)
STATUS_CHECKS = _call("ec2", "describe_application_status_checks")
STATUS_CHECK_TARGETS = _call("ec2", "describe_application_status_check_associations")
VPCS = _call("ec2", "describe_vpcs")
VPC_ATTRIBUTE = _call("ec2", "describe_vpc_attribute")
SUBNETS = _call("ec2", "describe_subnets")
ROUTE_TABLES = _call("ec2", "describe_route_tables")
ENDPOINTS = _call("ec2", "describe_vpc_endpoints")
ENDPOINT_SERVICES = _call("ec2", "describe_vpc_endpoint_services")
SECURITY_GROUPS = _call("ec2", "describe_security_groups")
SECURITY_GROUP_RULES = _call("ec2", "describe_security_group_rules")
ADDRESSES = _call("ec2", "describe_addresses")
INTERNET_GATEWAYS = _call("ec2", "describe_internet_gateways")
NAT_GATEWAYS = _call("ec2", "describe_nat_gateways")

# The three beside the first are what its API reference asks for, too.
GROUP_MEMBERS = _call(
    "resource-groups",
    "list_group_resources",
    "resource-groups:ListGroupResources",
    "cloudformation:DescribeStacks",
    "cloudformation:ListStackResources",
    "tag:GetResources",
)

QUOTA = _call("service-quotas", "get_service_quota", "servicequotas:GetServiceQuota")
DEFAULT_QUOTA = _call("service-quotas", "get_aws_default_service_quota", "servicequotas:GetAWSDefaultServiceQuota")
QUOTAS = _call("service-quotas", "list_service_quotas", "servicequotas:ListServiceQuotas", page_size=100)
DEFAULT_QUOTAS = _call(
    "service-quotas", "list_aws_default_service_quotas", "servicequotas:ListAWSDefaultServiceQuotas", page_size=100
)

PARAMETER = _call("ssm", "get_parameter")
PARAMETERS = _call("ssm", "describe_parameters")
SECRET = _call("secretsmanager", "describe_secret")
STACKS = _call("cloudformation", "describe_stacks")
FILE_SYSTEMS = _call("fsx", "describe_file_systems")
BUCKET = _call("s3", "head_bucket", "s3:ListBucket")
DIRECTORY_BUCKETS = _call("s3", "list_directory_buckets", "s3express:ListAllMyDirectoryBuckets")
KEY = _call("kms", "describe_key")
KEY_POLICY = _call("kms", "get_key_policy")
EBS_KEY = _call("ec2", "get_ebs_default_kms_key_id")
ROLE = _call("iam", "get_role", place="partition")
USER = _call("iam", "get_user", place="partition")
EKS_CLUSTER = _call("eks", "describe_cluster")
EKS_CLUSTERS = _call("eks", "list_clusters")
EKS_VERSIONS = _call("eks", "describe_cluster_versions")
EKS_ADD_ON = _call("eks", "describe_addon")
POD_IDENTITIES = _call("eks", "list_pod_identity_associations")
ADD_ON_VERSIONS = _call("eks", "describe_addon_versions")
PCS_CLUSTER = _call("pcs", "get_cluster")
PCS_CLUSTERS = _call("pcs", "list_clusters")
HYPERPOD_CLUSTERS = _call("sagemaker", "list_clusters", page_size=100)
HYPERPOD_CLUSTER = _call("sagemaker", "describe_cluster")
HYPERPOD_TAGS = _call("sagemaker", "list_tags")
TRAINING_PLAN = _call("sagemaker", "describe_training_plan")
CERTIFICATE = _call("acm", "describe_certificate")
CONTAINER_IMAGE = _call("ecr", "describe_images")
LOAD_BALANCERS = _call("elbv2", "describe_load_balancers", "elasticloadbalancing:DescribeLoadBalancers")


# Why AWS gave no answer to a call, in words for a person.

_ACTION = re.compile(r"not authorized to perform:? ([\w-]+:\w+)")
_SIGN_IN = "sign in again, or give --profile"


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


class Unreachable(RegionSilent):
    """Nothing answers where the service has its endpoint."""


def no_answer(call: Call, error: Exception, *, region: str) -> NoAnswer | Unusable:
    """Say why a call has no answer.

    Args:
        call: The call.
        error: What boto3 raised.
        region: Where it was asked.
    """
    found = aws_error(error)
    code, message, trouble = found.code, found.message, found.trouble
    if trouble is Trouble.NO_CREDENTIALS:
        return Unusable(f"no usable credentials: {error}; {_SIGN_IN}")
    if trouble is Trouble.EXPIRED:
        return Unusable(f"the credentials have expired ({code}); {_SIGN_IN}")
    if call.service == "sts" and trouble is Trouble.UNKNOWN_CREDENTIALS:
        return Unusable(f"AWS does not know the credentials ({code}: {message}); {_SIGN_IN}")
    if "not enabled for cost explorer" in message:  # beside a code that means a missing permission
        return NoAnswer(message, fix="enable Cost Explorer in Billing, or let the payer account give access to it")
    if trouble is Trouble.DENIED:
        return _denied(call, message)
    if trouble is Trouble.NO_ENDPOINT:
        return Unreachable(
            f"{call.service} in {region} did not answer: {error}",
            fix=f"check that {region} has the service, and that this machine reaches it",
        )
    if trouble in (Trouble.REGION_OFF, Trouble.UNKNOWN_CREDENTIALS):
        return RegionSilent(
            f"{call.service} in {region} refuses credentials that STS takes ({code})",
            fix=f"enable {region} in the account, or the service in it",
        )
    if trouble is Trouble.THROTTLED:
        return NoAnswer(f"{call.name} was throttled to the last retry ({code})", fix="try again")
    if trouble is Trouble.ABSENT:
        return Absent(message)
    what = f"{code}: {message}" if code else f"{type(error).__name__}: {error}"
    return NoAnswer(f"{call.name} failed: {what}", fix="try again")


def _denied(call: Call, message: str) -> Denied:
    named = _ACTION.search(message)
    action = named[1] if named else call.name
    why = " by a policy of the organization" if "service control policy" in message else ""
    return Denied(f"{action} is not allowed{why}", fix=f"allow {action}, see --print-policy", permission=action)
