"""An inference fleet: one stack per fleet, named after it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters.inference.inference_fleet import InferenceFleet
from cdk_gpu_clusters.inference.model_server import ModelServer, ModelWeights, ServerSecret, grant_pull
from cdk_gpu_clusters.rules.model_servers import read_ecr_image
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.fleets import (
    FileSystems,
    FileSystemsOfFleet,
    add_tags,
    node_image,
    node_options,
    publish_fleet,
    tell_people,
)
from cdk_gpu_clusters_stacks.network import ClusterNetworkRef
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.inference import (
    InferenceFleetSpec,
    LoadBalancerSpec,
    ServerSpec,
    WeightsSpec,
)


class InferenceStack(cdk.Stack):
    """One `InferenceFleet` of the cluster file."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fleet: InferenceFleetSpec,
        place: ClusterNetworkRef,
        capacity: CapacityStack | None,
        mounts: FileSystems,
        env: cdk.Environment,
    ) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            fleet: The fleet as the cluster file has it.
            place: Network of the cluster.
            capacity: Reservation made for the fleet, None for other capacity.
            mounts: File systems by mount point.
            env: Account and Region.
        """
        super().__init__(scope, construct_id, env=env, description="Model servers of a GPU cluster")
        here, balancer = place.import_into(self), fleet.load_balancer
        file_systems = FileSystemsOfFleet(self, mounts)
        service_subnets = place.service_subnets(self)
        self.service = InferenceFleet(
            self,
            "Service",
            vpc=here.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=here.subnets if fleet.is_reserved else service_subnets),
            slots=fleet.slots,
            server=_server(self, fleet.server),
            image=node_image(fleet.image),
            scratch=fleet.scratch,
            min_servers_per_node=fleet.min_servers_per_node,
            load_balancer_subnets=ec2.SubnetSelection(
                subnets=place.service_subnets(self, public=True) if balancer.internet_facing else service_subnets
            ),
            internet_facing=balancer.internet_facing,
            certificate=_certificate(self, balancer),
            plain_http=balancer.plain_http,
            clients=[_client(self, client) for client in balancer.clients],
            idle_timeout=_seconds(balancer.idle_timeout_seconds),
            drain_timeout=_seconds(balancer.drain_timeout_seconds),
            ready_timeout=_seconds(fleet.ready_timeout_seconds),
            access_logs=_log_bucket(self, balancer),
            requests_per_minute_per_node=fleet.requests_per_minute_per_node,
            **node_options(self, fleet, file_systems, capacity),
        )
        self._let_pull(fleet.server.image)
        file_systems.let_fleet_in(self, self.service.fleet)
        tell_people(self, self.service.fleet.alarms, fleet)
        add_tags(self.service, fleet)
        publish(self, "Url", self.service.url, description="Address of the service")
        publish_fleet(self, self.service.fleet)

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
        shared_memory_gib=server.shared_memory_gib,
        max_concurrent_requests=server.max_concurrent_requests,
    )


def _weights(scope: Construct, weights: WeightsSpec) -> ModelWeights:
    if weights.s3_uri is None:
        return ModelWeights.from_path(weights.path or "")
    name, _, prefix = weights.s3_uri.removeprefix("s3://").partition("/")
    bucket = s3.Bucket.from_bucket_name(scope, "Weights", name)
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
