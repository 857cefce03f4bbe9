"""A network with a NAT gateway has a gateway endpoint for S3."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource, target_of
from cdk_gpu_clusters.template_rules.lookups.clusters import has_accelerated_nodes
from cdk_gpu_clusters.template_rules.lookups.network import subnet_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

S3_ENDPOINT = define_rule(
    "GPU-COST-003",
    "a network with a NAT gateway has a gateway endpoint for S3",
    source='Amazon VPC user guide, "Pricing for NAT gateways": gateway endpoints reduce what they process',
)


def _check(resource: Resource) -> Iterator[Fault]:
    gateways = [
        gateway
        for gateway in resource.case.resources("AWS::EC2::NatGateway")
        if _stands_in(gateway, resource)
    ]
    if not gateways:
        raise NotApplicable
    if any(resource.is_target_of(one.get("VpcId")) and _is_s3_gateway(one) for one in _endpoints(resource)):
        return
    accelerated = has_accelerated_nodes(resource.case)
    if accelerated is None:
        raise resource.properties.undecidable("this template does not say whether GPU nodes use the network")
    if not accelerated:
        raise NotApplicable
    yield Fault(
        at=gateways[0], got="no gateway endpoint for S3 in the VPC", allowed="one, in every route table"
    )


def _endpoints(network: Resource) -> list[Resource]:
    """The endpoints, also those of the template under a condition: somebody chose to go without."""
    ids = network.case.template.logical_ids("AWS::EC2::VPCEndpoint")
    chosen = [Resource(network.case, logical_id) for logical_id in ids]
    return [*chosen, *network.case.resources("AWS::EC2::VPCEndpoint")]


def _stands_in(gateway: Resource, network: Resource) -> bool:
    subnet = subnet_of(gateway.get("SubnetId"))
    return subnet is not None and target_of(subnet.get("VpcId")) == network


def _is_s3_gateway(endpoint: Resource) -> bool:
    kind = endpoint.get("VpcEndpointType").text() or "Gateway"
    return kind == "Gateway" and (endpoint.get("ServiceName").template_text() or "").endswith(".s3")


RULE = TemplateRule(
    rule=S3_ENDPOINT,
    severity=Severity.INFO,
    cause="data sets, weights and checkpoints that nodes read from S3 pass the NAT gateway, which bills each GB",
    fix="add an AWS::EC2::VPCEndpoint of type Gateway for S3 with the route tables of the nodes",
    url="https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-pricing.html",
    on=("AWS::EC2::VPC",),
    looks_at=(
        "AWS::EC2::NatGateway/SubnetId",
        "AWS::EC2::VPCEndpoint/ServiceName",
        "instance types of the template, and AWS::FSx::FileSystem/FileSystemType",
    ),
    check=_check,
    bad="""
Resources:
  Network:
    Type: AWS::EC2::VPC
    Properties: {CidrBlock: 10.0.0.0/16}
  Public:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: !Ref Network, CidrBlock: 10.0.0.0/24}
  Nat:
    Type: AWS::EC2::NatGateway
    Properties: {SubnetId: !Ref Public, AllocationId: eipalloc-0123456789abcdef0}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
        TagSpecifications: [{ResourceType: instance, Tags: [{Key: job, Value: train}]}]
""",
    good="""
Resources:
  Network:
    Type: AWS::EC2::VPC
    Properties: {CidrBlock: 10.0.0.0/16}
  Public:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: !Ref Network, CidrBlock: 10.0.0.0/24}
  Nat:
    Type: AWS::EC2::NatGateway
    Properties: {SubnetId: !Ref Public, AllocationId: eipalloc-0123456789abcdef0}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
        TagSpecifications: [{ResourceType: instance, Tags: [{Key: job, Value: train}]}]
  S3:
    Type: AWS::EC2::VPCEndpoint
    Properties:
      VpcId: !Ref Network
      VpcEndpointType: Gateway
      ServiceName: !Sub com.amazonaws.${AWS::Region}.s3
      RouteTableIds: [rtb-0123456789abcdef0]
""",
)
