"""`inference.fleets.<name>`: model servers behind a load balancer."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from cdk_gpu_clusters.rules.model_servers import ServerSlots

from ._base import AsTuple, SpecModel
from .data import SECURITY_GROUP_ID, BucketName
from .network import ipv4_range
from .nodes import NodesSpec
from .server import ServerSpec

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
    """The Application Load Balancer in front of the nodes: TLS with a certificate, or plain HTTP said aloud."""

    certificate_arn: CertificateArn | None = Field(
        default=None,
        description="ACM certificate, in the cluster's Region, of the TLS listener on port 443.",
        examples=["arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab"],
    )
    plain_http: bool = Field(
        default=False,
        description="True instead of a certificate: port 80, without TLS. Only for an internal load balancer.",
    )
    internet_facing: bool = Field(
        default=False,
        description="Whether it has public addresses. It then stands in `public_subnets` of an existing network.",
    )
    clients: Annotated[tuple[Client, ...], AsTuple] = Field(
        default=(),
        description="Who may connect: IPv4 ranges and ids of security groups. Default: nobody.",
        examples=[["10.0.0.0/16", "sg-0123456789abcdef0"]],
    )
    idle_timeout_seconds: int | None = Field(
        default=None, description="How long a request or a stream may be silent, 1 to 4000. Default: 300."
    )
    drain_timeout_seconds: int | None = Field(
        default=None,
        description="How long running requests of a leaving node get, 1 to 3600. Default: 300. Spot instances have "
        "90 seconds at most.",
    )
    access_log_bucket: BucketName | None = Field(
        default=None,
        description="Existing bucket of the access logs, which lets the service write. Default: a new bucket, which "
        "keeps them for 90 days and outlives the fleet.",
    )


class InferenceFleetSpec(NodesSpec):
    """One group of equal nodes that run model servers, and their load balancer."""

    server: ServerSpec = Field(description="The model server.")
    devices_per_server: int | None = Field(
        default=None,
        description="GPUs or Neuron devices of each server: the size of a tensor-parallel group. Default: 1. Not with "
        "`mig`, where every slice has a server.",
    )
    load_balancer: LoadBalancerSpec = Field(
        default=LoadBalancerSpec(), description="The load balancer; it needs a certificate, or plain_http."
    )
    scratch: bool | None = Field(
        default=None,
        description="Whether the local disks of a node, where its type has some, become one file system at /scratch. "
        "Servers see nothing of it but their weights. Default: if weights lie there.",
    )
    placement: Literal["spread", "none"] | None = Field(
        default=None,
        description="Placement group of the nodes. Default: spread where EC2 can hold so many nodes apart, up to 7 "
        "in a zone; none for reserved capacity.",
    )
    update: Literal["never", "rolling"] = Field(
        default="rolling",
        description="What a changed launch template does to running nodes. `rolling`: they are replaced one at a "
        "time. `never`: they stay as they are.",
    )
    ready_timeout_seconds: int | None = Field(
        default=None,
        description="How long boot, image pull and model load may take, 30 to 7200. Default: 1800.",
    )
    min_servers_per_node: int | None = Field(
        default=None,
        description="Servers that must be up for a node to stay in service. Default: half of them.",
    )
    requests_per_minute_per_node: float | None = Field(
        default=None,
        description="Scale between `min_nodes` and `max_nodes` so that each node gets that many. Default: no scaling.",
    )

    @property
    def slots(self) -> ServerSlots | None:
        """How the file shares out the accelerators of a node; None where it leaves that to the library."""
        size = self.devices_per_server
        return None if size is None else ServerSlots.tensor_parallel(size)
