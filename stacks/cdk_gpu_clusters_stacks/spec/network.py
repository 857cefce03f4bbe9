"""`network`: a new VPC for the cluster, or an existing one."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag
from pydantic_core import PydanticCustomError

from ._base import AsTuple, SpecModel, Text
from .changes import NO_CHANGE, Resource, changes_with, makes, replaces, updates

VpcId = Annotated[str, StringConstraints(pattern=r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$")]
SubnetId = Annotated[str, StringConstraints(pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$")]

#: Stand for the zones of the account, whose names synthesis cannot know; any two divide the VPC the same way.
_ANY_ZONES = ("Zone1", "Zone2")

#: Tags under which pydantic reports the faults of a new and of an existing network.
NETWORK_FORMS = _NEW, _EXISTING = ("<new network>", "<existing network>")


def ipv4_range(text: str) -> str:
    """Refuse what is not an IPv4 range in CIDR form with its host bits at zero."""
    try:
        IPv4Network(text)
    except (AddressValueError, NetmaskValueError) as fault:
        raise PydanticCustomError("cidr", "not an IPv4 range in CIDR form") from fault
    except ValueError as fault:
        meant = IPv4Network(text, strict=False)
        raise PydanticCustomError(
            "cidr_host_bits", "host bits are set; the range is {meant}", {"meant": str(meant)}
        ) from fault
    if "/" not in text:
        raise PydanticCustomError("cidr", "not an IPv4 range in CIDR form")
    return text


Cidr = Annotated[str, AfterValidator(ipv4_range), Field(json_schema_extra={"format": "ipv4-cidr"})]

_ZONE = Field(
    description="Availability Zone, Local Zone or zone id that every fleet runs in, such as us-east-1a, use1-az4 "
    "or us-east-1-dfw-2a. EFA traffic stays inside one zone.",
    examples=["us-east-1a", "use1-az4"],
)


AccountId = Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
OrganizationId = Annotated[str, StringConstraints(pattern=r"^o-[a-z0-9]{10,32}$")]
_BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]


class EndpointAccessSpec(SpecModel):
    """What the endpoints of a closed network carry besides what belongs to its own account."""

    accounts: Annotated[tuple[AccountId, ...], AsTuple, updates(Resource.ENDPOINT_POLICIES)] = Field(
        default=(),
        description="Further accounts whose identities and resources are yours.",
        examples=[["210987654321"]],
    )
    organization_id: Annotated[OrganizationId | None, updates(Resource.ENDPOINT_POLICIES)] = Field(
        default=None, description="Organization whose accounts are all yours. Default: none.", examples=["o-a1b2c3d4e5"]
    )
    readable_buckets: Annotated[tuple[_BucketName, ...], AsTuple, updates(Resource.ENDPOINT_POLICIES)] = Field(
        default=(), description="Buckets of anybody that nodes may read, such as public data sets."
    )


class NewNetwork(SpecModel):
    """A VPC made for this cluster: one subnet for the fleets in one zone, small ones for endpoints and balancers."""

    availability_zone: Annotated[Text, replaces(Resource.FLEET_SUBNET, Resource.RESERVATION)] = _ZONE
    cidr: Annotated[Cidr, replaces(Resource.VPC, Resource.FLEET_SUBNET)] = Field(
        default="10.0.0.0/16", description="IPv4 range of the VPC, in CIDR form."
    )
    control_availability_zones: Annotated[Annotated[tuple[Text, ...], AsTuple] | None, makes(Resource.ZONE_SUBNETS)] = (
        Field(
            default=None,
            description="Two to seven zones of the Region, all by name or all by id, for load balancers, for inference "
            "nodes whose capacity is not reserved, and for VPC endpoints. Set it before the first deployment; zones "
            "can be added later. Default: the first two that CloudFormation lists for the account.",
            examples=[["us-east-1a", "us-east-1b"]],
        )
    )
    egress: Annotated[
        Literal["nat", "closed"], makes(Resource.NAT_GATEWAY, Resource.ENDPOINTS), updates(Resource.ENDPOINT_POLICIES)
    ] = Field(
        default="nat",
        description="`nat`: nodes reach the internet through a NAT gateway in the fleets' zone. "
        "`closed`: no internet at all; AWS services are reached through VPC endpoints.",
    )
    endpoint_access: Annotated[EndpointAccessSpec | None, updates(Resource.ENDPOINT_POLICIES)] = Field(
        default=None,
        description="Of a closed network: what its endpoints carry. Default: what belongs to its own account, and "
        "AWS's own buckets.",
    )
    fleet_subnet_prefix: Annotated[int | None, replaces(Resource.FLEET_SUBNET)] = Field(
        default=None,
        ge=16,
        le=28,
        description="Prefix length of the fleets' subnet, such as 18 for 16,379 usable addresses. "
        "Default: chosen by the network construct. Changing it later replaces the subnet.",
    )
    flow_logs: Annotated[bool, makes(Resource.FLOW_LOG)] = Field(
        default=True, description="Write VPC flow logs of all traffic to CloudWatch Logs."
    )

    @property
    def control_zones(self) -> tuple[str, ...]:
        """The zones of the load-balancer subnets; `Zone1` and `Zone2` where only the deployment knows them."""
        return self.control_availability_zones or _ANY_ZONES


class ExistingNetwork(SpecModel):
    """A VPC that exists already. Nothing is looked up: synthesis reads no account."""

    vpc_id: Annotated[
        VpcId,
        replaces(
            Resource.FABRIC_GROUP,
            Resource.FLEET_SECURITY_GROUP,
            Resource.BALANCER_SECURITY_GROUP,
            Resource.TARGET_GROUP,
        ),
    ] = Field(description="Id of the VPC.", examples=["vpc-0123456789abcdef0"])
    subnet_ids: Annotated[tuple[SubnetId, ...], AsTuple, changes_with("network")] = Field(
        min_length=1,
        description="Subnets for the fleets, all of them in `availability_zone`. One is best with EFA.",
        examples=[["subnet-0123456789abcdef0"]],
    )
    availability_zone: Annotated[Text, replaces(Resource.RESERVATION)] = _ZONE
    cidr: Annotated[Cidr | None, NO_CHANGE] = Field(
        default=None,
        description="IPv4 range of the subnet, so that its addresses can be counted against the nodes. "
        "Only with one subnet. Default: addresses are not counted.",
    )
    public: Annotated[bool, NO_CHANGE] = Field(
        default=False,
        description="True if the subnets are public, that is, give instances public addresses. "
        "EFA fleets cannot run there.",
    )
    service_subnets: Annotated[dict[Text, SubnetId], changes_with("network")] = Field(
        default={},
        description="Private subnets by zone, two or more, for load balancers, and for inference nodes whose capacity "
        "is not reserved. Default: none.",
        examples=[{"us-east-1a": "subnet-0123456789abcdef1", "us-east-1b": "subnet-0123456789abcdef2"}],
    )
    public_subnets: Annotated[dict[Text, SubnetId], changes_with("network")] = Field(
        default={},
        description="Public subnets by zone, two or more, for internet-facing load balancers. Default: none.",
        examples=[{"us-east-1a": "subnet-0123456789abcdef3", "us-east-1b": "subnet-0123456789abcdef4"}],
    )


def _form(value: object) -> str:
    if isinstance(value, ExistingNetwork):
        return _EXISTING
    keys = value.keys() if isinstance(value, dict) else ()
    return _EXISTING if {"vpc_id", "subnet_ids"} & set(keys) else _NEW


NetworkSpec = Annotated[
    Annotated[NewNetwork, Tag(_NEW)] | Annotated[ExistingNetwork, Tag(_EXISTING)], Discriminator(_form)
]
