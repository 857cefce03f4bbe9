"""Which VPC endpoints a network without internet access needs.

Service names are short (`ssm`, not `com.amazonaws.us-east-1.ssm`), as the prefix differs between partitions
and, in the China Regions, between services; CDK adds it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from cdk_gpu_clusters.errors import Finding, define_rule

MISSING_ENDPOINT = define_rule(
    "GPU-NET-121",
    "a network without internet access has an endpoint for every AWS service that its nodes call",
    source='AWS PrivateLink guide, "Access AWS services through AWS PrivateLink"; pages named per feature',
)

ENDPOINT_ACCESS = define_rule(
    "GPU-NET-122",
    "Endpoint policies are for closed networks, and name accounts, organizations and buckets in AWS's form",
    source="AWS Organizations API reference, Account and Organization: Id; Amazon S3 user guide, bucket names; a NAT"
    " gateway carries what the policy of an endpoint refuses",
)
_ACCOUNT = re.compile(r"\d{12}")
_ORGANIZATION = re.compile(r"o-[a-z0-9]{10,32}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

# Gateway endpoints cost nothing and take no address (AWS VPC user guide, "Gateway endpoints"). Directory buckets have
# one of their own (Amazon S3 user guide, "Networking for directory buckets").
_S3, _S3_EXPRESS = "s3", "s3express"
_GATEWAYS = (_S3, _S3_EXPRESS)


class NetworkFeature(StrEnum):
    """Something that nodes or their users do, and that calls AWS APIs from inside the network."""

    SESSION_MANAGER = "session-manager"
    LOGS = "logs"
    METRICS = "metrics"
    AUTO_SCALING = "auto-scaling"
    EC2 = "ec2"
    CONTAINER_IMAGES = "container-images"
    FSX = "fsx"
    STS = "sts"
    SECRETS = "secrets"
    PARAMETERS = "parameters"
    KMS = "kms"
    CLOUDFORMATION = "cloudformation"
    EKS = "eks"
    PCS = "pcs"
    BATCH = "batch"
    KARPENTER = "karpenter"
    KUBECTL = "kubectl"
    S3_EXPRESS = "s3-express"


# SSM Agent 3.3.40.0 and later use ssmmessages where ec2messages was needed before (AWS Systems Manager user guide,
# "Improve the security of EC2 instances by using VPC endpoints"). EKS: "Deploy private clusters with limited internet
# access". Karpenter: aws/karpenter-provider-aws @ 1d92708, getting started, "Private Clusters". PCS: "Access AWS
# Parallel Computing Service using an interface endpoint", for RegisterComputeNodeGroupInstance.
_NEEDS: Mapping[NetworkFeature, Mapping[str, str]] = MappingProxyType(
    {
        NetworkFeature.SESSION_MANAGER: {
            "ssm": "registers the node with Systems Manager",
            "ssmmessages": "carries sessions and commands",
        },
        NetworkFeature.LOGS: {"logs": "receives the node's logs"},
        NetworkFeature.METRICS: {"monitoring": "receives the node's metrics"},
        NetworkFeature.AUTO_SCALING: {"autoscaling": "completes the node's lifecycle actions and reads its group"},
        NetworkFeature.EC2: {"ec2": "finds the node's peers, tags and interfaces"},
        NetworkFeature.CONTAINER_IMAGES: {
            "ecr.api": "authorizes image pulls",
            "ecr.dkr": "serves image manifests; the layers come through the S3 gateway",
        },
        NetworkFeature.FSX: {"fsx": "describes the file systems that the node mounts"},
        NetworkFeature.STS: {"sts": "gives credentials for assumed roles"},
        NetworkFeature.SECRETS: {"secretsmanager": "reads secrets"},
        NetworkFeature.PARAMETERS: {"ssm": "reads parameters"},
        NetworkFeature.KMS: {"kms": "decrypts data under customer managed keys"},
        NetworkFeature.CLOUDFORMATION: {"cloudformation": "signals the stack"},
        NetworkFeature.EKS: {
            "ec2": "gives the node's interfaces and addresses to the VPC CNI",
            "ecr.api": "authorizes image pulls",
            "ecr.dkr": "serves image manifests; the layers come through the S3 gateway",
            "eks": "describes the cluster",
            "eks-auth": "gives pods their credentials",
            "sts": "gives credentials for assumed roles",
        },
        NetworkFeature.KARPENTER: {
            "ec2": "launches nodes and ends them",
            "eks": "describes the cluster",
            "sqs": "reports interruptions of nodes",
            "ssm": "names the images of EKS",
            "sts": "gives credentials for assumed roles",
        },
        NetworkFeature.KUBECTL: {
            "eks": "describes the cluster",
            "lambda": "starts the function that runs kubectl and Helm",
            "sts": "gives kubectl its token",
        },
        NetworkFeature.S3_EXPRESS: {_S3_EXPRESS: "holds objects in directory buckets"},
        NetworkFeature.PCS: {"pcs": "registers the node with its compute node group"},
        # Amazon ECS developer guide, "Amazon ECS interface VPC endpoints": agent, telemetry and the API.
        NetworkFeature.BATCH: {
            "ecr.api": "authorizes image pulls",
            "ecr.dkr": "serves image manifests; the layers come through the S3 gateway",
            "ecs": "registers the node with the cluster of its compute environment",
            "ecs-agent": "sends the node the containers to run",
            "ecs-telemetry": "takes the measurements of containers",
            "logs": "receives the output of jobs",
        },
    }
)


def endpoints_for(features: Iterable[NetworkFeature]) -> tuple[str, ...]:
    """The interface endpoints that a closed network needs, as short service names, sorted.

    The gateway endpoints of `gateways_for` come on top of these.

    Args:
        features: What the nodes do.

    Example:
        >>> endpoints_for([NetworkFeature.SESSION_MANAGER, NetworkFeature.LOGS])
        ('logs', 'ssm', 'ssmmessages')
    """
    return tuple(service for service in reasons_for(features) if service not in _GATEWAYS)


def gateways_for(features: Iterable[NetworkFeature]) -> tuple[str, ...]:
    """The gateway endpoints of a network, closed or not, as short service names.

    Every network has the one of S3, which holds packages, assets, container layers and checkpoints.

    Args:
        features: What the nodes do.

    Example:
        >>> gateways_for([NetworkFeature.S3_EXPRESS])
        ('s3', 's3express')
    """
    return (_S3, *(service for service in reasons_for(features) if service == _S3_EXPRESS))


def reasons_for(features: Iterable[NetworkFeature]) -> Mapping[str, tuple[str, ...]]:
    """Why each endpoint is needed: short service name to reasons, sorted by name.

    Example:
        >>> reasons_for([NetworkFeature.LOGS])["logs"]
        ("logs: receives the node's logs",)
    """
    reasons: dict[str, list[str]] = {}
    for feature in sorted(set(features)):
        for service, why in _NEEDS[feature].items():
            reasons.setdefault(service, []).append(f"{feature}: {why}")
    return MappingProxyType({service: tuple(reasons[service]) for service in sorted(reasons)})


def check_endpoints(features: Iterable[NetworkFeature], present: Collection[str]) -> list[Finding]:
    """Find endpoints that a network without internet access lacks.

    Args:
        features: What the nodes do.
        present: Short names of the services that have an endpoint in the network, gateways included.
    """
    needed = {
        _S3: ("packages, assets and data in S3",),
        **reasons_for(features),
    }
    return [
        MISSING_ENDPOINT.finding(
            cause=f"the network has no way to reach {service} ({'; '.join(why)})",
            got=", ".join(sorted(present)) or "no endpoint",
            allowed="an endpoint for each service, or a NAT gateway",
            fix=f"add the {'gateway' if service in _GATEWAYS else 'interface'} endpoint {service}",
        )
        for service, why in needed.items()
        if service not in present
    ]


def check_access_names(
    *, accounts: Iterable[str] = (), organization_id: str | None = None, buckets: Iterable[str] = ()
) -> list[Finding]:
    """Find what endpoint policies cannot name.

    Example:
        >>> [finding.path for finding in check_access_names(accounts=["1234"])]
        ['accounts']
    """
    named = [("accounts", one, _ACCOUNT) for one in accounts]
    named += [] if organization_id is None else [("organization_id", organization_id, _ORGANIZATION)]
    named += [("readable_buckets", one, _BUCKET) for one in buckets]
    return [
        ENDPOINT_ACCESS.finding(
            cause="AWS has no such name",
            got=value,
            allowed="accounts of 12 digits, an organization such as o-a1b2c3d4e5, names of buckets",
            fix="correct the name",
            path=path,
        )
        for path, value, form in named
        if not form.fullmatch(value)
    ]


def check_endpoint_access(*, closed: bool, given: bool) -> list[Finding]:
    """Find policies of endpoints that a NAT gateway goes around.

    Example:
        >>> [finding.id for finding in check_endpoint_access(closed=False, given=True)]
        ['GPU-NET-122']
    """
    if closed or not given:
        return []
    return [
        ENDPOINT_ACCESS.finding(
            cause="a network with a NAT gateway reaches everything",
            got="endpoint_access without egress: closed",
            fix="close the network, or leave endpoint_access out",
            path="endpoint_access",
        )
    ]
