"""VPC endpoints of closed networks."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.case import Resource, target_of
from cdk_gpu_clusters.template_rules.lookups.cluster import network_of_cluster, part_of_cluster
from cdk_gpu_clusters.template_rules.lookups.network import SUBNET
from cdk_gpu_clusters.template_rules.lookups.policies import Statement, statements_in
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, define_template_rule

_ENDPOINT = "AWS::EC2::VPCEndpoint"
_NETWORK = "AWS::EC2::VPC"
_NAT = "AWS::EC2::NatGateway"
# What leads out of a VPC, with the name of the VPC.
_WAYS_OUT = {
    "AWS::EC2::VPCGatewayAttachment": "VpcId",
    "AWS::EC2::EgressOnlyInternetGateway": "VpcId",
    "AWS::EC2::TransitGatewayAttachment": "VpcId",
    "AWS::EC2::TransitGatewayVpcAttachment": "VpcId",
    "AWS::EC2::VPCPeeringConnection": "VpcId",
}
_WITH_POLICIES = ("Gateway", "Interface")
# Endpoint services of other accounts take no policy.
_OF_OTHERS = "com.amazonaws.vpce."


@define_template_rule(
    "GPU-NET-146",
    "an endpoint of a closed network of GPU nodes has a policy",
    source='AWS PrivateLink guide, "Control access to VPC endpoints using endpoint policies": the default policy '
    'allows full access; "Building a data perimeter on AWS"',
    severity=Severity.WARNING,
    cause="the network has no way to the internet, but its endpoint carries requests to resources of every account: a "
    "job with credentials of another account can copy data there",
    fix="add a PolicyDocument that allows identities and resources of your own account or organization, with "
    "aws:PrincipalAccount and aws:ResourceAccount; name the buckets of AWS that nodes read",
    url="https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html",
    on=(_ENDPOINT,),
    looks_at=("PolicyDocument", "VpcEndpointType", _NAT, *_WAYS_OUT),
)
def endpoint_policy(resource: Resource) -> Iterator[Fault]:
    if (resource.get("VpcEndpointType").text() or "Gateway") not in _WITH_POLICIES:
        raise NotApplicable
    if (resource.get("ServiceName").template_text() or "").startswith(_OF_OTHERS):
        raise NotApplicable
    document = resource.get("PolicyDocument")
    if document.exists and not any(map(_allows_all, statements_in(document))):
        return
    network = target_of(resource.get("VpcId"), _NETWORK)
    if network is None:
        part_of_cluster(resource)
        raise resource.get("VpcId").undecidable("this VPC is not in the template")
    if _has_way_out(network):
        raise NotApplicable
    network_of_cluster(network)
    got = "a policy that allows everything" if document.exists else "no policy: full access, by default"
    at = document if document.exists else resource
    yield Fault(at=at, got=got, allowed="a policy with conditions on accounts")


def _allows_all(statement: Statement) -> bool:
    if not statement.is_allowing or statement.is_limited:
        return False
    return "*" in statement.actions and any(value.template_text() == "*" for value in statement.resources)


def _has_way_out(network: Resource) -> bool:
    ways = network.case.resources_naming(network, *_WAYS_OUT)
    if any(network.is_target_of(one.get(_WAYS_OUT[one.type])) for one in ways):
        return True
    subnets = [target_of(one.get("SubnetId"), SUBNET) for one in network.case.resources(_NAT)]
    return any(subnet is not None and network.is_target_of(subnet.get("VpcId")) for subnet in subnets)
