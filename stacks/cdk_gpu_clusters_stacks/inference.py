"""An inference fleet: one stack per fleet, named after it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters.compute.node_role import grant_before
from cdk_gpu_clusters.inference.inference_fleet import InferenceFleet
from cdk_gpu_clusters.inference.model_server import ModelServer, ModelWeights, ServerSecret, grant_pull
from cdk_gpu_clusters.rules.model_servers import read_ecr_image
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.data import weights_bucket
from cdk_gpu_clusters_stacks.fleets import NodesStack, Site, node_image
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.inference import (
    InferenceFleetSpec,
    LoadBalancerSpec,
    ServerSpec,
    WeightsSpec,
)
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet


class InferenceStack(NodesStack):
    """One `InferenceFleet` of the cluster file."""

    def __init__(
        self, site: Site, fleet: PlannedFleet, spec: InferenceFleetSpec, *, capacity: CapacityStack | None
    ) -> None:
        """Define the stack, as `NodesStack` has it."""
        super().__init__(site, fleet, description="Model servers of a GPU cluster", capacity=capacity)
        balancer, service_subnets = spec.load_balancer, site.place.service_subnets(self)
        public_subnets = site.place.service_subnets(self, public=True) if balancer.internet_facing else service_subnets
        self.service = InferenceFleet(
            self,
            "Service",
            vpc=self.here.vpc,
            vpc_subnets=ec2.SubnetSelection(
                subnets=service_subnets if fleet.is_in_service_subnets else self.here.subnets
            ),
            slots=spec.slots,
            server=_server(self, spec.server),
            image=node_image(spec.image),
            scratch=spec.scratch,
            min_servers_per_node=spec.min_servers_per_node,
            load_balancer_subnets=ec2.SubnetSelection(subnets=public_subnets),
            internet_facing=balancer.internet_facing,
            certificate=_certificate(self, balancer),
            plain_http=balancer.plain_http,
            clients=[_client(self, client) for client in balancer.clients],
            idle_timeout=_seconds(balancer.idle_timeout_seconds),
            drain_timeout=_seconds(balancer.drain_timeout_seconds),
            ready_timeout=_seconds(spec.ready_timeout_seconds),
            access_logs=_log_bucket(self, balancer),
            requests_per_minute_per_node=spec.requests_per_minute_per_node,
            **self.node_options(),
        )
        self._let_pull(spec.server.image)
        publish(self, "Url", self.service.url, description="Address of the service")
        self.complete_fleet(self.service, self.service.fleet)

    def _let_pull(self, image: str) -> None:
        """Let the nodes pull from a private ECR repository; other registries know no roles."""
        found = read_ecr_image(image)
        if found is None:
            return
        arn = self.format_arn(
            service="ecr",
            region=found.region,
            account=found.account,
            resource="repository",
            resource_name=found.repository,
        )
        repository = ecr.Repository.from_repository_attributes(
            self, "Image", repository_arn=arn, repository_name=found.repository
        )
        grant_pull(repository, self.service.role)
        grant_before(self.service.role, self.service.fleet.cfn_auto_scaling_group)


def _server(scope: Construct, server: ServerSpec) -> ModelServer:
    login = server.registry_login
    return ModelServer(
        image=server.image,
        command=server.command,
        port=server.port,
        health_path=server.health_path,
        environment=server.environment,
        secrets={name: ServerSecret.from_arn(secret.arn, secret.json_field) for name, secret in server.secrets.items()},
        registry_login=None if login is None else ServerSecret.from_arn(login.arn),
        weights=None if server.weights is None else _weights(scope, server.weights),
        cache_path=server.cache_path,
        shared_memory_gib=server.shared_memory_gib,
        max_concurrent_requests=server.max_concurrent_requests,
    )


def _weights(scope: Construct, weights: WeightsSpec) -> ModelWeights:
    if weights.s3_uri is None:
        return ModelWeights.from_path(weights.path or "")
    name, _, prefix = weights.s3_uri.removeprefix("s3://").partition("/")
    bucket = weights_bucket(scope, name, weights.encryption_key_arn)
    if weights.path is None:
        return ModelWeights.from_bucket(bucket, prefix)
    return ModelWeights.from_bucket(bucket, prefix, path=weights.path)


def _certificate(scope: Construct, balancer: LoadBalancerSpec) -> acm.ICertificate | None:
    arn = balancer.certificate_arn
    return None if arn is None else acm.Certificate.from_certificate_arn(scope, "Certificate", arn)


def _client(scope: Construct, client: str) -> ec2.IConnectable:
    if client.startswith("sg-"):
        return ec2.SecurityGroup.from_security_group_id(scope, client, client, mutable=False)
    return ec2.Peer.ipv4(client)


def _log_bucket(scope: Construct, balancer: LoadBalancerSpec) -> s3.IBucket | None:
    name = balancer.access_log_bucket
    return None if name is None else s3.Bucket.from_bucket_name(scope, "GivenLogs", name)


def _seconds(number: int | None) -> cdk.Duration | None:
    return None if number is None else cdk.Duration.seconds(number)
