"""The network of a cluster, for those who have none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, DependencyGroup, IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, path_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.endpoints import NetworkFeature, check_endpoint_access, endpoints_for
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget, usable_addresses

from .cluster_subnets import ClusterSubnets, cidr_of
from .egress import NatEgress, NetworkEgress
from .endpoint_access import EndpointAccess
from .endpoints import VpcEndpoints
from .flow_logs import VpcFlowLogs
from .network_zones import NetworkZones, check_network_zones
from .subnets import LARGEST_VPC_PREFIX, check_subnets, plan_subnets

# Where the VPC's block is known at deploy time only, it is divided as this one: only the size matters.
_STAND_IN = f"10.0.0.0/{LARGEST_VPC_PREFIX}"

_DEFAULT_GROUP = AcceptedFinding(
    cause="`ClusterNetwork`: default security group of the VPC",
    reason="CloudFormation cannot change the default security group. Containers of AWS Batch join it, whose nodes must "
    "reach each other; no other interface of this library does.",
    nist_hipaa_pci=("VPCDefaultSecurityGroupClosed",),
)
_NOT_RECORDED = AcceptedFinding(
    cause="`ClusterNetwork` with `flow_logs=False`",
    reason="The user switched flow logs off; with them, their default, nothing is found.",
    aws_solutions=("VPC7",),
    nist_hipaa_pci=("VPCFlowLogsEnabled",),
)


class ClusterNetwork(ClusterConstruct):
    """A VPC made for a GPU cluster.

    Makes:

    - the VPC, with DNS names;
    - one private **fleet subnet**, large, in the one zone where the accelerators are;
    - private **control** and **load-balancer** subnets in two or more zones of the Region;
    - an S3 gateway endpoint on all private route tables, so that datasets and checkpoints cost no NAT fee;
    - with `NetworkEgress.NAT` an internet gateway, and one NAT gateway in a public subnet in the fleet's zone;
    - with `NetworkEgress.CLOSED` interface endpoints of the AWS services that the features in use need, in the
      control subnets, behind one security group that takes HTTPS from the VPC. Policies limit all endpoints to your
      own identities and resources (`EndpointAccess`);
    - flow logs in CloudWatch Logs.

    No subnet gives public addresses. `subnets.py` divides the block; adding a control zone later
    moves nothing. `Tags.of(network).add(...)` reaches every resource.

    A fleet in a **Local Zone** (p6e-gb200: `us-east-1-dfw-2a`, which the account has to opt in to) gets its
    subnet there; everything else is in zones of the parent Region. That includes the NAT gateway, because
    whether a given Local Zone offers NAT gateways is unverified: traffic through it crosses zones and is
    charged as such.

    What CloudFormation cannot do: the VPC's default security group stays as EC2 makes it (members reach each
    other). Containers of multi-node jobs of AWS Batch join it, and need that. Nothing else here uses it: to close it,
    remove its rules once by hand or by an AWS Config rule.

    The ids of subnets and endpoints follow from the name of the zone or the service, not from a place in a list.

    Attributes:
        vpc: The VPC for other constructs. Its private subnets (isolated ones in a closed network) are the
            control and load-balancer subnets; the fleet subnet is named explicitly:
            `vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet])`.
        fleet_subnet: The subnet for accelerated nodes and for their file systems.
        nat: The NAT gateway and its parts, None in a closed network.
        endpoints: The VPC endpoints and their security group.
        flow_logs: The flow log, its role and its log group, None without them.
        fleet_subnet_cidr: The fleet subnet's block; a token if the VPC's block is one.
        cfn_vpc: The VPC's CloudFormation resource.

    Example:
        >>> import aws_cdk as cdk
        >>> from cdk_gpu_clusters.network.cluster_network import ClusterNetwork
        >>> stack = cdk.Stack(cdk.App(), "Network")
        >>> network = ClusterNetwork(stack, "Network", availability_zone="us-east-1a")
        >>> network.fleet_subnet_cidr
        '10.0.0.0/18'
        >>> network.free_fleet_addresses
        16379
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        availability_zone: str,
        cidr: str = "10.0.0.0/16",
        fleet_subnet_prefix: int | None = None,
        control_availability_zones: Sequence[str] | None = None,
        egress: NetworkEgress = NetworkEgress.NAT,
        endpoint_access: EndpointAccess | None = None,
        nat_availability_zone: str | None = None,
        features: Iterable[NetworkFeature] = (),
        flow_logs: bool = True,
        flow_log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        flow_log_encryption_key: kms.IKey | None = None,
    ) -> None:
        """Define the network.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            availability_zone: Zone of the fleet, by name (`us-east-1a`), by id (`use1-az1`, the same for
                every account) or a token. It is never chosen for you: it is where the reservation, the
                Capacity Block or the quota is. It cannot change later, because CloudFormation cannot replace
                a subnet whose block is in use: make a new network.
            cidr: The VPC's private IPv4 block, /16 to /20. A token is taken for a /16.
            fleet_subnet_prefix: Prefix length of the fleet subnet, up to half of the VPC. By default a
                quarter (/18 of a /16: 16,379 usable addresses). It cannot change later either.
            control_availability_zones: Two to seven zones of the Region for the control and load-balancer
                subnets; all names, all ids or all tokens. Tokens are distinguished by their position: only append.
                By default the first two zones that CloudFormation lists for the account (`Fn::GetAZs`); name
                them if services that you use are not in every zone.
            egress: How nodes reach what is outside.
            endpoint_access: What the endpoints of a closed network carry; only what belongs to the network's own
                account, and AWS's own buckets, if left out. Not with a NAT gateway, which carries everything.
            nat_availability_zone: Zone of the NAT gateway. By default the fleet's; for a Local Zone the first
                zone that CloudFormation lists.
            features: What the cluster uses; a closed network gets the endpoints for it. See `add_feature`.
            flow_logs: Whether to record the VPC's traffic in CloudWatch Logs.
            flow_log_retention: How long flow logs are kept; one month by default.
            flow_log_encryption_key: Key of the flow logs; by default the one of CloudWatch Logs.

        Raises:
            ConfigError: With every fault of the zones, the block and the sizes (`GPU-NET-...`).
        """
        super().__init__(scope, construct_id)
        self.availability_zone: str = availability_zone
        self.egress: NetworkEgress = NetworkEgress(egress)
        zones = NetworkZones.of(availability_zone, control_availability_zones, nat_availability_zone)
        size = resolved_or_none(cidr) or _STAND_IN
        keys = [key for key, _ in zones.control]
        faults = check_network_zones(
            resolved_or_none(stack_of(self).region),
            fleet=availability_zone,
            control=control_availability_zones,
            nat=nat_availability_zone,
            egress=self.egress,
        )
        faults += check_endpoint_access(closed=self.egress is NetworkEgress.CLOSED, given=endpoint_access is not None)
        faults += check_subnets(size, fleet_subnet_prefix=fleet_subnet_prefix, control_zones=keys)
        report(self, faults)
        plan = plan_subnets(size, fleet_subnet_prefix=fleet_subnet_prefix, control_zones=keys)

        self._cidr = cidr
        self.cfn_vpc: ec2.CfnVPC = self._define_vpc(cidr)
        vpc_id = self.cfn_vpc.ref
        self.subnets: ClusterSubnets = ClusterSubnets(
            self, "Subnets", vpc_id=vpc_id, vpc_cidr=cidr, zones=zones, plan=plan
        )
        self.fleet_subnet: ec2.ISubnet = self.subnets.fleet.subnet
        self.fleet_subnet_cidr: str = self.subnets.fleet.cidr_block
        self.nat: NatEgress | None = None
        if self.egress is NetworkEgress.NAT:
            self.nat = NatEgress(
                self,
                "Egress",
                vpc_id=vpc_id,
                availability_zone=zones.nat,
                cidr_block=cidr_of(plan.egress, cidr),
                private_route_tables=self.subnets.route_tables,
            )
        self.vpc: ec2.IVpc = self.subnets.import_vpc(self, "Vpc", isolated=self.nat is None)
        self.endpoints: VpcEndpoints = VpcEndpoints(
            self,
            "Endpoints",
            vpc=self.vpc,
            cidr_block=cidr,
            private_subnets=[self.fleet_subnet, *self.control_subnets, *self.load_balancer_subnets],
            endpoint_subnets=self.control_subnets,
            access=(endpoint_access or EndpointAccess()) if self.egress is NetworkEgress.CLOSED else None,
        )
        self.flow_logs: VpcFlowLogs | None = None
        if not flow_logs:
            _NOT_RECORDED.at(self.cfn_vpc)
        else:
            self.flow_logs = VpcFlowLogs(
                self,
                "FlowLogs",
                vpc_id=vpc_id,
                retention=flow_log_retention,
                encryption_key=flow_log_encryption_key,
            )
        self._egress_ready = DependencyGroup(self.endpoints, *(self.nat.routes if self.nat else ()))
        # CDK makes it a group, but types it as the interface.
        way_out = cast("DependencyGroup", self.fleet_subnet.internet_connectivity_established)
        way_out.add(self._egress_ready)
        for feature in features:
            self.add_feature(feature)

    @property
    def control_subnets(self) -> list[ec2.ISubnet]:
        """The subnets of head nodes, cluster control planes and endpoints: one for each control zone."""
        return [made.subnet for made in self.subnets.control]

    @property
    def load_balancer_subnets(self) -> list[ec2.ISubnet]:
        """The private subnets of internal load balancers: one for each control zone."""
        return [made.subnet for made in self.subnets.load_balancer]

    @property
    def public_subnet(self) -> ec2.ISubnet | None:
        """The NAT gateway's subnet; None in a closed network."""
        return self.nat.public.subnet if self.nat else None

    @property
    def s3_endpoint(self) -> ec2.GatewayVpcEndpoint:
        """The S3 gateway endpoint; `add_to_policy` narrows what goes through it."""
        return self.endpoints.s3

    @property
    def interface_endpoints(self) -> Mapping[str, ec2.InterfaceVpcEndpoint]:
        """The interface endpoints by service name, such as `ssm`; none with a NAT gateway, unless added."""
        return self.endpoints.interfaces

    @property
    def flow_log_group(self) -> logs.ILogGroup | None:
        """The log group of the flow logs; None without them."""
        return self.flow_logs.log_group if self.flow_logs else None

    @property
    def egress_ready(self) -> IDependable:
        """What a node needs to reach AWS services: routes and endpoints.

        A stack of its own needs nothing. A node in the network's own stack must not boot earlier: `GpuFleet` waits by
        itself, other nodes by `instance.node.add_dependency(network.egress_ready)`.
        """
        return self._egress_ready

    @property
    def free_fleet_addresses(self) -> int | None:
        """How many addresses of the fleet subnet instances can use; None if the VPC's block is a token."""
        return usable_addresses(self.fleet_subnet_cidr) if resolved_or_none(self._cidr) else None

    def add_feature(self, feature: NetworkFeature) -> None:
        """Say that the cluster uses a feature, so that a closed network gets the endpoints for it.

        The ids of other endpoints stay as they are. With a NAT gateway no interface endpoint is made: its route leads
        to every service; `network.endpoints.add_interface("ssm")` still makes an endpoint. The gateway endpoint
        of `NetworkFeature.S3_EXPRESS` is always made, since it costs less than a NAT gateway.
        """
        if NetworkFeature(feature) is NetworkFeature.S3_EXPRESS:
            self.endpoints.add_s3_express()
        if self.egress is NetworkEgress.CLOSED:
            for service in endpoints_for([NetworkFeature(feature)]):
                self.endpoints.add_interface(service)

    def check_nodes(self, nodes: int, addresses_per_node: int = 1) -> list[Finding]:
        """Findings if so many nodes do not fit into the fleet subnet (`GPU-IP-...`).

        Nothing is checked if the VPC's block or a number is a token. Several fleets in the subnet are checked
        together by `rules.ip_budget.check_ip_budget(network.fleet_subnet_cidr, demands)`.

        Args:
            nodes: The most nodes at one time.
            addresses_per_node: `InterfacePlan.ip_addresses_per_node` of their type.
        """
        if any(resolved_or_none(value) is None for value in (self._cidr, nodes, addresses_per_node)):
            return []
        demand = IpDemand(nodes=nodes, addresses_per_node=addresses_per_node, name="fleet")
        findings = check_ip_budget(self.fleet_subnet_cidr, [demand])
        return [finding.at(path_of(self)) for finding in findings]

    def _define_vpc(self, cidr: str) -> ec2.CfnVPC:
        vpc = ec2.CfnVPC(
            self,
            "Resource",
            cidr_block=cidr,
            enable_dns_hostnames=True,  # both are needed for the endpoints' private names
            enable_dns_support=True,
            tags=[CfnTag(key="Name", value=path_of(self))],
        )
        _DEFAULT_GROUP.at(vpc)
        return vpc
