"""A fleet of model servers behind one load balancer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack, cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters._cdk import path_of, report
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters.compute.fleet_props import FleetProps, NodeProps, check_keywords, node_options
from cdk_gpu_clusters.compute.fleet_request import resolve_fleet
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.compute.node_role import grant_before
from cdk_gpu_clusters.fleet.plan import Topic
from cdk_gpu_clusters.inference.load_balancer import (
    InferenceLoadBalancer,
    balancer_subnets,
    check_load_balancer,
    check_node_zones,
)
from cdk_gpu_clusters.inference.model_server import ModelServer
from cdk_gpu_clusters.inference.node_servers import (
    plan_or_report,
    required_servers,
    server_scratch,
    server_settings,
)
from cdk_gpu_clusters.inference.scaling import InferenceMetrics, InferenceScaling
from cdk_gpu_clusters.node.model_server import model_server_files, model_server_part
from cdk_gpu_clusters.rules.inference import DRAIN_MARGIN_SECONDS, check_counts
from cdk_gpu_clusters.rules.model_servers import ServerPlan, ServerSlots


class InferenceFleetProps(NodeProps, total=False):
    """What only `InferenceFleet` takes, over and above `NodeProps`.

    Attributes:
        max_node_count: Most nodes; as many as the least if left out.
        slots: How the accelerators of a node are shared out. With `mig` one server for each slice if left out, else one
            for each accelerator.
        image: Machine image; the newest recommended one of the type at each deployment if left out.
        scratch: Whether local disks become one file system at `/scratch`. If left out, only if weights or a cache lie
            there.
        node_port: Port of the nodes' own balancers; 8080 if left out.
        first_server_port: Port of the first server of a node, on loopback; the others follow. 9000 if left out.
        min_servers_per_node: Servers that must be up for a node to stay in service; half of them if left out.
        load_balancer_subnets: Subnets of the load balancer; one of each zone if left out.
        internet_facing: Whether the load balancer has public addresses; false if left out.
        certificate: Certificate of the TLS listener.
        plain_http: Listen without TLS; only for an internal load balancer. False if left out.
        clients: Who may connect; no clients if left out.
        idle_timeout: How long a request or a stream may be silent, 1 to 4,000 seconds; 300 if left out.
        drain_timeout: How long running requests of a leaving node get, 1 to 3,600 seconds; 5 minutes if left out.
            A Spot instance has 90 seconds at most.
        access_logs: Bucket of the access logs; a new one if left out.
        requests_per_minute_per_node: Scale so that each node gets that many; no scaling if left out.
    """

    max_node_count: int | None
    slots: ServerSlots | None
    image: NodeImage | None
    scratch: bool | None
    node_port: int
    first_server_port: int
    min_servers_per_node: int | None
    load_balancer_subnets: ec2.SubnetSelection | None
    internet_facing: bool
    certificate: acm.ICertificate | None
    plain_http: bool
    clients: Sequence[ec2.IConnectable]
    idle_timeout: cdk.Duration | None
    drain_timeout: cdk.Duration | None
    access_logs: s3.IBucket | None
    requests_per_minute_per_node: float | None


@jsii.implements(ec2.IConnectable, iam.IGrantable)
class InferenceFleet(InferenceScaling, InferenceMetrics):
    """Nodes that each run one model server per slot, and one load balancer in front of them all.

    Makes a `GpuFleet`, an `InferenceLoadBalancer` and, on request, a scaling policy. On each node HAProxy balances
    the servers on one port, so that a node with 56 MIG slices is one target.

    * A node takes requests only when all its servers answered their health checks.
    * A new template version replaces nodes one at a time (`UpdatePolicy.ROLLING`).
    * A node that leaves gets no new requests, and its running ones have `drain_timeout` to end.
    * Up to 7 nodes in a zone are on different hardware, a spread placement group.
    * No EFA: nodes do not talk to each other. A model that needs several nodes is no case for this construct.

    Example:
        >>> service = InferenceFleet(
        ...     stack, "Chat", vpc=two_zone_vpc, instance_type="g6e.48xlarge",
        ...     min_node_count=2, max_node_count=8, slots=ServerSlots.tensor_parallel(4),
        ...     server=ModelServer(image="vllm/vllm-openai:v0.11.0", command=["--model", "/models/llama"]),
        ...     plain_http=True, clients=[ec2.Peer.ipv4("10.0.0.0/16")],
        ...     requests_per_minute_per_node=120,
        ... )
        >>> service.servers.server_count
        2

    Attributes:
        servers: The model servers of a node: devices and ports.
        fleet: The nodes.
        load_balancer: The load balancer with its listener and target group.
        role: Role of the nodes.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        instance_type: str | ec2.InstanceType,
        server: ModelServer,
        min_node_count: int,
        **options: Unpack[InferenceFleetProps],
    ) -> None:
        """Define the service.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network.
            instance_type: Type of every node, such as `g6e.48xlarge` or `inf2.48xlarge`.
            server: The model server.
            min_node_count: Least nodes.
            options: Those of `InferenceFleetProps`; all may be left out.

        Raises:
            ConfigError: GPU-INF-001 to -023, -026 and -027, and the faults of `GpuFleet`.
        """
        super().__init__(scope, construct_id)
        check_keywords(self, options, InferenceFleetProps)
        nodes: NodeProps = {"update_policy": UpdatePolicy.ROLLING, **node_options(options)}
        idle = int((options.get("idle_timeout") or cdk.Duration.minutes(5)).to_seconds())
        drain = int((options.get("drain_timeout") or cdk.Duration.minutes(5)).to_seconds())
        maximum, node_port = options.get("max_node_count"), options.get("node_port", 8080)
        rate = options.get("requests_per_minute_per_node")
        is_plain, is_public = options.get("plain_http", False), options.get("internet_facing", False)
        certificate, balancer_selection = options.get("certificate"), options.get("load_balancer_subnets")
        requested: FleetProps = {
            **cast("FleetProps", nodes),
            "min_node_count": min_node_count,
            "max_node_count": min_node_count if maximum is None else maximum,
            "efa": False,
        }
        fleet = resolve_fleet(
            self,
            name=f"{path_of(self)}/Fleet",
            vpc=vpc,
            instance_type=instance_type,
            options=requested,
            image=options.get("image"),
            drain_timeout=cdk.Duration.seconds(drain + DRAIN_MARGIN_SECONDS),
            serves_models=True,
        )
        report(self, fleet.plan.about(Topic.TYPE))
        record = fleet.plan.instance_type
        has_scratch, scratch_findings = server_scratch(
            server, record, options.get("scratch"), options.get("mounts") or {}
        )
        subnets = balancer_subnets(vpc, balancer_selection, internet_facing=is_public)
        self.servers: ServerPlan = plan_or_report(
            self,
            fleet.plan,
            server,
            options.get("slots"),
            node_port,
            options.get("first_server_port", 9000),
            [
                *server.check(options.get("not_secret", ())),
                *check_load_balancer(
                    subnets,
                    idle_seconds=idle,
                    drain_seconds=drain,
                    has_certificate=certificate is not None,
                    plain_http=is_plain,
                    internet_facing=is_public,
                ),
                *check_counts(requests_per_minute_per_node=rate),
                *scratch_findings,
            ],
        )
        required = required_servers(self, self.servers, options.get("min_servers_per_node"))
        self.load_balancer: InferenceLoadBalancer = InferenceLoadBalancer(
            self,
            "LoadBalancer",
            vpc=vpc,
            node_port=node_port,
            vpc_subnets=balancer_selection,
            internet_facing=is_public,
            certificate=certificate,
            plain_http=is_plain,
            clients=options.get("clients", ()),
            idle_timeout=cdk.Duration.seconds(idle),
            drain_timeout=cdk.Duration.seconds(drain),
            access_logs=options.get("access_logs"),
        )
        settings = server_settings(server, self.servers, required=required, idle_seconds=idle, drain_seconds=drain)
        nodes["node_files"] = [*model_server_files(settings), *options.get("node_files", ())]
        nodes["user_data_parts"] = [model_server_part(settings), *options.get("user_data_parts", ())]
        self.fleet: GpuFleet = GpuFleet(
            self,
            "Fleet",
            vpc=vpc,
            instance_type=record.name,
            scratch=has_scratch,
            target_groups=[self.load_balancer.target_group],
            _resolved=fleet,
            **nodes,
        )
        pinned = fleet.plan.terms.kind.is_reserved
        report(self, check_node_zones(fleet.subnets, subnets, pinned=pinned))
        # Nodes that join a target group without a load balancer would have no health.
        self.fleet.cfn_auto_scaling_group.node.add_dependency(self.load_balancer.listener)
        self.fleet.connections.allow_from(
            self.load_balancer.load_balancer, ec2.Port.tcp(node_port), "load balancer to the nodes' balancers"
        )
        self.role: iam.IRole = self.fleet.role
        server.grant_use(self.role)
        grant_before(self.role, self.fleet.cfn_auto_scaling_group)
        if rate is not None:
            self.scale_on_requests(rate)

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """Who may connect to the load balancer, on the listener's port."""
        return self.load_balancer.connections

    @property
    @jsii.member(jsii_name="grantPrincipal")
    def grant_principal(self) -> iam.IPrincipal:
        """The role of the nodes, which gets permissions granted to the fleet."""
        return self.role

    @property
    def url(self) -> str:
        """Address of the service, known at deployment."""
        return self.load_balancer.url

    def grant_read(self, bucket: s3.IBucket, *, prefix: str = "") -> iam.Grant:
        """Let the nodes read a bucket, or the objects whose keys begin with a prefix."""
        return self.fleet.grant_read(bucket, prefix=prefix)
