"""`inference.fleets.<name>`: model servers behind a load balancer."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from cdk_gpu_clusters.kubernetes.canary import Canary
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace
from cdk_gpu_clusters.rules.model_servers import ServerSlots

from ._base import AsTuple, Environment, Line, SpecModel, Text, VariableName
from .changes import NO_CHANGE, TEMPLATES, Resource, makes, replaces, updates
from .data import SECURITY_GROUP_ID, BucketName, KeyArn
from .fleet import NodesSpec
from .network import ipv4_range

# `server`: the model server, a container.


class SecretSpec(SpecModel):
    """A secret that the node fetches when a server starts; its value is nowhere else."""

    arn: Text = Field(
        description="ARN of a Secrets Manager secret or a Parameter Store parameter, in the cluster's Region. A KMS "
        "key of your own must let the nodes decrypt.",
        examples=["arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf"],
    )
    json_field: Text | None = Field(
        default=None, description="Field of a secret that is JSON. Default: the complete text."
    )


class RegistryLoginSpec(SpecModel):
    """Who may pull the image from a registry that is not ECR."""

    arn: Text = Field(description="ARN of a Secrets Manager secret whose JSON has the fields username and password.")


class WeightsSpec(SpecModel):
    """The model's weights: a folder that is there, or objects that are copied at each boot."""

    path: Text | None = Field(
        default=None,
        description="Folder of the node, which every server sees read-only at the same path. With `s3_uri` the folder "
        "to copy to; its disk must hold the model. Default with `s3_uri`: /opt/gpu-cluster/model, on the root volume.",
        examples=["/fsx/models/llama"],
    )
    s3_uri: Text | None = Field(
        default=None,
        description="Bucket and prefix to copy from before the servers start. The nodes may read it. Default: nothing "
        "is copied.",
        examples=["s3://my-models/llama"],
    )
    encryption_key_arn: KeyArn | None = Field(
        default=None,
        description="Customer managed KMS key of the bucket, with which the nodes may decrypt then. Default: they have "
        "none, and read nothing that such a key encrypts.",
    )


class ServerSpec(SpecModel):
    """One model server; a node runs one for each of its slots."""

    image: Text = Field(
        description="Reference of the container image, as docker pull takes it. From a private ECR repository the "
        "nodes may pull.",
        examples=["vllm/vllm-openai:v0.11.0"],
    )
    command: Annotated[tuple[Line, ...], AsTuple] = Field(
        default=(), description="Arguments of the container. Default: the image's own."
    )
    port: int = Field(default=8000, description="Port on which a server listens inside its container.")
    health_path: Text = Field(
        default="/health",
        description="Path that a server answers with a status of 200 to 299 when it can take requests.",
    )
    environment: Environment = Field(
        default={},
        description="Plain variables of every server; no secrets, because they are in the user data.",
    )
    secrets: dict[VariableName, SecretSpec] = Field(
        default={}, description="Variables whose values the node fetches when a server starts."
    )
    registry_login: RegistryLoginSpec | None = Field(
        default=None, description="Login to the image's registry. Default: none; ECR needs none."
    )
    weights: WeightsSpec | None = Field(
        default=None,
        description="Where the servers find the model. Default: the image has it, or the server loads it itself.",
    )
    cache_path: Text | None = Field(
        default=None,
        description="Folder of the local disks that every server of a node may write at the same path, for what they "
        "download and compile. A variable points a server to it, such as HF_HOME. Default: none.",
        examples=["/scratch/cache"],
    )
    shared_memory_gib: int | None = Field(
        default=None,
        description="Size of a container's /dev/shm. Default: 8 for servers of several accelerators, Docker's 64 MiB "
        "for others.",
    )
    max_concurrent_requests: int | None = Field(
        default=None,
        description="Requests that a server gets at once; further ones wait on the node. Default: no limit.",
    )


# `canary`: how a new version of a model is tried on Amazon EKS.

_DEFAULTS: dict[str, Any] = {one.name: one.default for one in fields(Canary)}


class CanarySpec(SpecModel):
    """How a new version of a model is tried on some of its servers, and when it is taken back."""

    weights: Annotated[tuple[int, ...], AsTuple] = Field(
        default=_DEFAULTS["weights"],
        description="Servers that run the new version in each step, in percent of all, one at least. After the last "
        "step it gets all of them.",
    )
    step_minutes: int = Field(
        default=_DEFAULTS["step_minutes"],
        description="How often each step is judged, once a minute, after the five minutes in which metrics fill.",
    )
    max_error_percent: float = Field(
        default=_DEFAULTS["max_error_percent"],
        description="Most requests that the new version may answer with a status of 500 to 599, in percent.",
    )
    max_first_token_percent: int = Field(
        default=_DEFAULTS["max_first_token_percent"],
        description="Longest time to the first token, as the 95th percentile, in percent of that of the present "
        "version.",
    )
    errors_only: bool = Field(default=False, description="Whether errors alone are judged, and no time.")
    spare_servers: int = Field(
        default=_DEFAULTS["spare_servers"],
        description="Places of the fleet that stay free for servers of a new version. Default: none; it takes places "
        "of present servers, a quarter at a time.",
    )

    def canary(self, workspace: PrometheusWorkspace) -> Canary:
        """The canary, as model servers take it.

        Args:
            workspace: Where the metrics of its servers are.
        """
        return Canary(
            workspace=workspace,
            weights=self.weights,
            step_minutes=self.step_minutes,
            max_error_percent=self.max_error_percent,
            max_first_token_percent=None if self.errors_only else self.max_first_token_percent,
            spare_servers=self.spare_servers,
        )


# The fleet and its load balancer.

CertificateArn = Annotated[
    str,
    StringConstraints(
        pattern=r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/[A-Za-z0-9-]+$",
    ),
]


def _client(text: str) -> str:
    if not text.startswith("sg-"):
        return ipv4_range(text)
    if not re.fullmatch(SECURITY_GROUP_ID, text):
        raise PydanticCustomError("client", "not the id of a security group")
    return text


Client = Annotated[
    str,
    AfterValidator(_client),
    WithJsonSchema(
        {"type": "string", "anyOf": [{"pattern": SECURITY_GROUP_ID}, {"format": "ipv4-cidr", "pattern": "/"}]}
    ),
]


class LoadBalancerSpec(SpecModel):
    """The Application Load Balancer in front of the nodes: TLS with a certificate, or explicit plain HTTP."""

    certificate_arn: Annotated[CertificateArn | None, updates(Resource.LISTENER, Resource.BALANCER_SECURITY_GROUP)] = (
        Field(
            default=None,
            description="ACM certificate, in the cluster's Region, of the TLS listener on port 443.",
            examples=["arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab"],
        )
    )
    plain_http: Annotated[bool, updates(Resource.LISTENER)] = Field(
        default=False,
        description="True instead of a certificate: port 80, without TLS. Only for an internal load balancer.",
    )
    internet_facing: Annotated[bool, replaces(Resource.LOAD_BALANCER)] = Field(
        default=False,
        description="Whether it has public addresses. It is then in `public_subnets` of an existing network.",
    )
    clients: Annotated[tuple[Client, ...], AsTuple, updates(Resource.BALANCER_SECURITY_GROUP)] = Field(
        default=(),
        description="Who may connect: IPv4 ranges and ids of security groups. Default: none.",
        examples=[["10.0.0.0/16", "sg-0123456789abcdef0"]],
    )
    idle_timeout_seconds: Annotated[int | None, updates(Resource.LOAD_BALANCER, Resource.EC2_TEMPLATE)] = Field(
        default=None, description="How long a request or a stream may be silent, 1 to 4000. Default: 300."
    )
    drain_timeout_seconds: Annotated[
        int | None, updates(Resource.TARGET_GROUP, Resource.EC2_TEMPLATE, Resource.AUTO_SCALING_GROUP)
    ] = Field(
        default=None,
        description="How long running requests of a leaving node get, 1 to 3600. Default: 300. Spot instances have "
        "90 seconds at most.",
    )
    access_log_bucket: Annotated[BucketName | None, updates(Resource.LOAD_BALANCER), makes(Resource.ACCESS_LOGS)] = (
        Field(
            default=None,
            description="Existing bucket of the access logs, which lets the service write. Default: a new bucket, "
            "which keeps them for 90 days and outlives the fleet.",
        )
    )


class InferenceFleetSpec(NodesSpec):
    """One group of equal nodes that run model servers, and their load balancer."""

    server: Annotated[ServerSpec, updates(Resource.EC2_TEMPLATE)] = Field(description="The model server.")
    devices_per_server: Annotated[int | None, updates(Resource.EC2_TEMPLATE)] = Field(
        default=None,
        description="GPUs or Neuron devices of each server: the size of a tensor-parallel group. Default: 1. Not with "
        "`mig`, where every slice has a server.",
    )
    nodes_per_server: Annotated[int | None, NO_CHANGE] = Field(
        default=None,
        ge=2,
        description="Nodes of one vLLM server over several nodes of an UltraServer, on EKS. Its pods share the memory "
        "of their GPUs over NVLink, in a ComputeDomain, and it takes all GPUs of its nodes. Default: a server has GPUs "
        "of one node.",
        examples=[18],
    )
    load_balancer: Annotated[LoadBalancerSpec, NO_CHANGE] = Field(
        default=LoadBalancerSpec(), description="The load balancer; it needs a certificate, or plain_http."
    )
    canary: Annotated[CanarySpec | None, updates(Resource.SOFTWARE)] = Field(
        default=None,
        description="How a new version is tried on some servers first, and taken back on errors, with "
        "`orchestrator: eks` and `eks.software.argo_rollouts`. `{}` takes all defaults. Default: a new version rolls "
        "through the servers.",
    )
    scratch: Annotated[bool | None, updates(*TEMPLATES)] = Field(
        default=None,
        description="Whether the local disks of a node, where its type has some, become one file system at /scratch. "
        "Servers see nothing of it but their weights and their cache. Default: if one of them lies there.",
    )
    placement: Annotated[
        Literal["spread", "none"] | None,
        updates(*TEMPLATES, Resource.NODE_GROUP_IDENTITY),
        replaces(Resource.PLACEMENT_GROUP, Resource.RESERVATION),
        makes(Resource.RESERVED_PLACEMENT),
    ] = Field(
        default=None,
        description="Placement group of the nodes. Default: spread where EC2 can hold so many nodes apart, up to 7 "
        "in a zone; none for reserved capacity.",
    )
    update: Annotated[Literal["never", "rolling"], updates(Resource.AUTO_SCALING_GROUP, Resource.NODE_GROUP)] = Field(
        default="rolling",
        description="What a changed launch template does to running nodes. `rolling`: they are replaced one at a "
        "time. `never`: they stay as they are.",
    )
    ready_timeout_seconds: Annotated[int | None, updates(Resource.EC2_TEMPLATE, Resource.AUTO_SCALING_GROUP)] = Field(
        default=None,
        description="How long boot, image pull and model load may take, 30 to 7200. Default: 1800.",
    )
    min_servers_per_node: Annotated[int | None, updates(Resource.EC2_TEMPLATE)] = Field(
        default=None,
        description="Servers that must be up for a node to stay in service. Default: half of them.",
    )
    requests_per_minute_per_node: Annotated[
        float | None, updates(Resource.SCALING_POLICY), makes(Resource.SCALING_POLICY)
    ] = Field(
        default=None,
        description="Scale between `min_nodes` and `max_nodes` so that each node gets that many. Default: no scaling.",
    )

    @property
    def slots(self) -> ServerSlots | None:
        """How the file shares out the accelerators of a node; None where it leaves that to the library."""
        size = self.devices_per_server
        return None if size is None else ServerSlots.tensor_parallel(size)
