"""The load balancer in front of a fleet of model servers."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
import jsii
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import report, selected_subnets, zone_of
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.node.model_server import NODE_HEALTH_PATH
from cdk_gpu_clusters.rules.inference import (
    check_balancer_zones,
    check_drain_timeout,
    check_fleet_zones,
    check_idle_timeout,
    check_tls,
    check_zones_of_nodes,
)
from cdk_gpu_clusters.rules.zones import is_zone_id

# Elastic Load Balancing guide, "Access logs for your Application Load Balancer": the service that delivers them.
_LOG_SERVICE = "logdelivery.elasticloadbalancing.amazonaws.com"
_LOG_DAYS = 90

_LOGS = AcceptedFinding(
    cause="`InferenceLoadBalancer`: bucket of the access logs",
    reason="Records that expire, encrypted by S3: the log service writes under no KMS key, and logs of logs never end.",
    aws_solutions=("S1",),
    nist_hipaa_pci=(
        "S3BucketLoggingEnabled",
        "S3BucketReplicationEnabled",
        "S3BucketVersioningEnabled",
        "S3DefaultEncryptionKMS",
    ),
)
_NO_WEB_ACL = AcceptedFinding(
    cause="`InferenceLoadBalancer`",
    reason="You choose the web ACL: associate one with load_balancer.load_balancer_arn.",
    nist_pci=("ALBWAFEnabled",),
)
_MAY_BE_DELETED = AcceptedFinding(
    cause="`InferenceLoadBalancer` without `deletion_protection`",
    reason="It holds no data, and protection keeps its stack from being deleted; deletion_protection=True asks for it.",
    nist_hipaa=("ELBDeletionProtectionEnabled",),
)
_PLAIN_HTTP = AcceptedFinding(
    cause="`InferenceLoadBalancer` with `plain_http`: listener",
    reason="The user asked for a listener without TLS, which is refused unless the load balancer is internal.",
    nist_hipaa_pci=("ALBHttpToHttpsRedirection", "ELBv2ACMCertificateRequired"),
)


@jsii.implements(ec2.IConnectable)
class InferenceLoadBalancer(Construct):
    """An Application Load Balancer with one listener, one target group of nodes, and access logs.

    * Internal unless `internet_facing`; TLS with the certificate given.
    * Requests go to the node with the fewest outstanding ones.
    * A node is healthy while enough of its model servers are (the answer of the balancer on the node).
    * Only `clients` may connect, and what `connections` allows later.

    Example:
        >>> balancer = InferenceLoadBalancer(
        ...     stack, "Models", vpc=two_zone_vpc, node_port=8080, plain_http=True,
        ...     clients=[ec2.Peer.ipv4("10.0.0.0/16")],
        ... )

    Attributes:
        load_balancer: The load balancer.
        listener: Its one listener.
        target_group: The nodes.
        access_logs: Bucket of the access logs.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        node_port: int,
        vpc_subnets: ec2.SubnetSelection | None = None,
        internet_facing: bool = False,
        certificate: acm.ICertificate | None = None,
        plain_http: bool = False,
        clients: Sequence[ec2.IConnectable] = (),
        idle_timeout: cdk.Duration | None = None,
        drain_timeout: cdk.Duration | None = None,
        access_logs: s3.IBucket | None = None,
        deletion_protection: bool = False,
    ) -> None:
        """Define the load balancer.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network.
            node_port: Port of the nodes' own balancers.
            vpc_subnets: Its subnets, in at least two zones; one private subnet of each zone if left out, or public
                ones where it faces the internet.
            internet_facing: Whether it has public addresses.
            certificate: Certificate of the TLS listener on port 443.
            plain_http: Listen on port 80 without TLS instead; only for an internal load balancer.
            clients: Who may connect.
            idle_timeout: How long a connection may be silent, 1 to 4,000 seconds; 300 seconds if left out.
            drain_timeout: How long running requests of a leaving node get, 1 to 3,600 seconds; 5 minutes if left out.
            access_logs: Bucket of the access logs, encrypted with S3's own keys; a new one that keeps them 90 days
                and stays when the stack is deleted, if left out.
            deletion_protection: Whether the load balancer refuses to be deleted.

        Raises:
            ConfigError: GPU-INF-012, -013, -014 and -017.
        """
        super().__init__(scope, construct_id)
        idle = int((idle_timeout or cdk.Duration.minutes(5)).to_seconds())
        drain = int((drain_timeout or cdk.Duration.minutes(5)).to_seconds())
        subnets = balancer_subnets(vpc, vpc_subnets, internet_facing=internet_facing)
        report(
            self,
            check_load_balancer(
                subnets,
                idle_seconds=idle,
                drain_seconds=drain,
                has_certificate=certificate is not None,
                plain_http=plain_http,
                internet_facing=internet_facing,
            ),
        )
        self.load_balancer: elbv2.ApplicationLoadBalancer = elbv2.ApplicationLoadBalancer(
            self,
            "Resource",
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=subnets),
            internet_facing=internet_facing,
            idle_timeout=cdk.Duration.seconds(idle),
            drop_invalid_header_fields=True,
            deletion_protection=deletion_protection,
        )
        _NO_WEB_ACL.at(self.load_balancer)
        if not deletion_protection:
            _MAY_BE_DELETED.at(self.load_balancer)
        self.access_logs: s3.IBucket = access_logs or self._log_bucket()
        self._log_to(self.access_logs)
        self.target_group: elbv2.ApplicationTargetGroup = elbv2.ApplicationTargetGroup(
            self,
            "Nodes",
            vpc=vpc,
            port=node_port,
            protocol=elbv2.ApplicationProtocol.HTTP,
            target_type=elbv2.TargetType.INSTANCE,
            deregistration_delay=cdk.Duration.seconds(drain),
            load_balancing_algorithm_type=elbv2.TargetGroupLoadBalancingAlgorithmType.LEAST_OUTSTANDING_REQUESTS,
            health_check=elbv2.HealthCheck(
                path=NODE_HEALTH_PATH,
                interval=cdk.Duration.seconds(10),
                timeout=cdk.Duration.seconds(5),
                healthy_threshold_count=2,
                unhealthy_threshold_count=2,
                healthy_http_codes="200",
            ),
        )
        self.listener: elbv2.ApplicationListener = self.load_balancer.add_listener(
            "Listener",
            port=80 if certificate is None else 443,
            protocol=elbv2.ApplicationProtocol.HTTP if certificate is None else elbv2.ApplicationProtocol.HTTPS,
            certificates=None
            if certificate is None
            else [elbv2.ListenerCertificate.from_certificate_manager(certificate)],
            ssl_policy=None if certificate is None else elbv2.SslPolicy.RECOMMENDED_TLS,
            open=False,
            default_target_groups=[self.target_group],
        )
        if certificate is None:
            _PLAIN_HTTP.at(self.listener)
        self._connections = self.listener.connections
        for client in clients:
            self._connections.allow_default_port_from(client, "clients of the models")

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """Who may connect, on the listener's port."""
        return self._connections

    @property
    def url(self) -> str:
        """Address of the service, known at deployment; the name in the certificate is the user's own."""
        secure = self.listener.port == 443
        return f"http{'s' if secure else ''}://{self.load_balancer.load_balancer_dns_name}"

    def _log_bucket(self) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "AccessLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,  # the only kind that the service writes to
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[s3.LifecycleRule(expiration=cdk.Duration.days(_LOG_DAYS))],
            removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        if bucket.policy is not None:
            # As long as the bucket stays.
            bucket.policy.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        _LOGS.at(bucket)
        return bucket

    def _log_to(self, bucket: s3.IBucket) -> None:
        # Not log_access_logs(): that needs the Region, and writes a Region's account of the service into the policy.
        # The policy is the guide's ("Enable access logs for your Application Load Balancer"). It has no condition: the
        # path holds the account, and no page says which condition keys the service sends.
        stack = cdk.Stack.of(self)
        added = bucket.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(_LOG_SERVICE)],
                actions=["s3:PutObject"],
                resources=[bucket.arn_for_objects(f"AWSLogs/{stack.account}/*")],
            )
        )
        if added.policy_dependable is not None:
            self.load_balancer.node.add_dependency(added.policy_dependable)
        self.load_balancer.set_attribute("access_logs.s3.enabled", "true")
        self.load_balancer.set_attribute("access_logs.s3.bucket", bucket.bucket_name)


def check_load_balancer(
    subnets: Sequence[ec2.ISubnet],
    *,
    idle_seconds: int,
    drain_seconds: int,
    has_certificate: bool,
    plain_http: bool,
    internet_facing: bool,
) -> list[Finding]:
    """Find what is wrong with a load balancer, as its parameters say it."""
    return [
        *check_tls(has_certificate=has_certificate, plain_http=plain_http, internet_facing=internet_facing),
        *check_idle_timeout(idle_seconds),
        *check_drain_timeout(drain_seconds),
        *check_balancer_zones(zone_count(subnets)),
    ]


def zone_count(subnets: Sequence[ec2.ISubnet]) -> int:
    """Availability Zones of subnets; those whose zone only the deployment knows count as one each."""
    zones = [zone_of(subnet) for subnet in subnets]
    return len({zone for zone in zones if zone is not None}) + zones.count(None)


def check_node_zones(nodes: Sequence[ec2.ISubnet], balancer: Sequence[ec2.ISubnet], *, pinned: bool) -> list[Finding]:
    """Find nodes in one zone only, and nodes that the load balancer does not reach, as far as zones are known.

    Args:
        nodes: Subnets of the nodes.
        balancer: Subnets of the load balancer.
        pinned: Whether reserved capacity lies in one zone.
    """
    findings = check_fleet_zones(zone_count(nodes), pinned=pinned)
    zones = [zone_of(subnet) for subnet in balancer]
    enabled = [zone for zone in zones if zone is not None]
    placed = sorted({zone for subnet in nodes if (zone := zone_of(subnet)) is not None})
    if len(enabled) < len(zones) or len({is_zone_id(zone) for zone in (*enabled, *placed)}) > 1:
        return findings
    return findings + check_zones_of_nodes(placed, enabled)


def balancer_subnets(
    vpc: ec2.IVpc, requested: ec2.SubnetSelection | None, *, internet_facing: bool
) -> list[ec2.ISubnet]:
    """The subnets of a load balancer: the user's, or one of each zone.

    Args:
        vpc: Network.
        requested: The requested setting; None if it is left open.
        internet_facing: Whether it has public addresses.
    """
    kind = ec2.SubnetType.PUBLIC if internet_facing else ec2.SubnetType.PRIVATE_WITH_EGRESS
    return selected_subnets(vpc, requested or ec2.SubnetSelection(subnet_type=kind, one_per_az=True)).subnets
