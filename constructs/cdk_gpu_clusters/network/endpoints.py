"""VPC endpoints of a cluster network: S3 and S3 Express by gateways, other AWS services by interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, place_of, resolved_or_none, stack_of

from .endpoint_access import EndpointAccess, Place

_HTTPS = 443

_BLOCK_IS_A_TOKEN = AcceptedFinding(
    cause="`ClusterNetwork`: security group of the endpoints, where `cidr` is a token",
    reason="The only rule is HTTPS from the VPC's own block, which the packs cannot read from a token.",
    aws_solutions=("EC23",),
    nist_hipaa_pci=("EC2RestrictedCommonPorts", "EC2RestrictedSSH"),
)


class VpcEndpoints(ClusterConstruct):
    """An S3 gateway endpoint on the private route tables, and further endpoints added by service.

    All interface endpoints share one security group, which takes HTTPS from the VPC's addresses. It is made
    with the first interface endpoint. Names of services resolve to the endpoints (private DNS).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        cidr_block: str,
        private_subnets: Sequence[ec2.ISubnet],
        endpoint_subnets: Sequence[ec2.ISubnet],
        access: EndpointAccess | None = None,
    ) -> None:
        """Define the S3 endpoint.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: The VPC.
            cidr_block: The VPC's block, from which the interface endpoints take HTTPS.
            private_subnets: Subnets whose route tables lead to S3 through the gateway endpoint.
            endpoint_subnets: Subnets of the interface endpoints, at most one in each zone.
            access: What the endpoints carry; everything if left out.
        """
        super().__init__(scope, construct_id)
        self._vpc = vpc
        self._access = access
        self._cidr_block = cidr_block
        self._endpoint_subnets = ec2.SubnetSelection(subnets=list(endpoint_subnets))
        self._private_subnets = ec2.SubnetSelection(subnets=list(private_subnets))
        self._interfaces: dict[str, ec2.InterfaceVpcEndpoint] = {}
        self._s3_express: ec2.GatewayVpcEndpoint | None = None
        self._security_group: ec2.SecurityGroup | None = None
        self.s3: ec2.GatewayVpcEndpoint = self._gateway("S3", ec2.GatewayVpcEndpointAwsService.S3)

    @property
    def interfaces(self) -> Mapping[str, ec2.InterfaceVpcEndpoint]:
        """The interface endpoints made so far, by service name such as `ssm` or `ecr.api`."""
        return MappingProxyType(self._interfaces)

    @property
    def security_group(self) -> ec2.SecurityGroup:
        """The security group of the interface endpoints: HTTPS from the VPC in, nothing out."""
        if self._security_group is None:
            self._security_group = self._define_security_group()
        return self._security_group

    def add_s3_express(self) -> ec2.GatewayVpcEndpoint:
        """Define the gateway endpoint of S3 Express One Zone, or give the one that was defined before.

        The endpoint of S3 does not lead to directory buckets: without this one, they are reached through the NAT
        gateway, at a price for each GB (Amazon S3 user guide, "Networking for directory buckets").
        """
        if self._s3_express is None:
            self._s3_express = self._gateway("S3Express", ec2.GatewayVpcEndpointAwsService.S3_EXPRESS)
        return self._s3_express

    def _gateway(self, construct_id: str, service: ec2.GatewayVpcEndpointAwsService) -> ec2.GatewayVpcEndpoint:
        endpoint = ec2.GatewayVpcEndpoint(
            self, construct_id, vpc=self._vpc, service=service, subnets=[self._private_subnets]
        )
        self._limit(endpoint, "s3express" if construct_id == "S3Express" else "s3")
        return endpoint

    def _limit(self, endpoint: ec2.VpcEndpoint, service: str) -> None:
        if self._access is not None:
            for statement in self._access.statements(service, Place(*place_of(stack_of(self)))):
                endpoint.add_to_policy(iam.PolicyStatement.from_json(statement))

    def add_interface(self, service: str) -> ec2.InterfaceVpcEndpoint:
        """Define the interface endpoint of a service, or give the one that was defined before.

        Args:
            service: The service's name in endpoint names, such as `ssm`, `ecr.api` or `sts`. The part before
                it, different in China and the isolated partitions, follows from the stack's Region; a stack
                without `env` gets `com.amazonaws`.
        """
        if service not in self._interfaces:
            self._interfaces[service] = made = ec2.InterfaceVpcEndpoint(
                self,
                service,
                vpc=self._vpc,
                service=ec2.InterfaceVpcEndpointAwsService(service),
                subnets=self._endpoint_subnets,
                security_groups=[self.security_group],
                open=False,
                private_dns_enabled=True,
            )
            self._limit(made, service)
        return self._interfaces[service]

    def _define_security_group(self) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self,
            "Access",
            vpc=self._vpc,
            description="AWS service endpoints: HTTPS from the VPC",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(ec2.Peer.ipv4(self._cidr_block), ec2.Port.tcp(_HTTPS), "HTTPS from the VPC")
        if resolved_or_none(self._cidr_block) is None:
            _BLOCK_IS_A_TOKEN.at(group)
        return group
