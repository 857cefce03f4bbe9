"""`server` of an inference fleet: the model server, as a container."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ._base import AsTuple, Environment, Line, SpecModel, Text, VariableName


class SecretSpec(SpecModel):
    """A secret that the node fetches when a server starts; its value stands nowhere else."""

    arn: Text = Field(
        description="ARN of a Secrets Manager secret or a Parameter Store parameter, in the cluster's Region. A KMS "
        "key of your own must let the nodes decrypt.",
        examples=["arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf"],
    )
    json_field: Text | None = Field(
        default=None, description="Field of a secret that is JSON. Default: the whole text."
    )


class RegistryLoginSpec(SpecModel):
    """Who may pull the image from a registry that is not ECR."""

    arn: Text = Field(
        description="ARN of a Secrets Manager secret whose JSON has the fields username and password."
    )


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
        description="Bucket and prefix to copy from before the servers start. The nodes may read it; a KMS key of "
        "your own must let them decrypt. Default: nothing is copied.",
        examples=["s3://my-models/llama"],
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
        description="Plain variables of every server; no secrets, for they stand in the user data.",
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
    shared_memory_gib: int | None = Field(
        default=None,
        description="Size of a container's /dev/shm. Default: 8 for servers of several accelerators, Docker's 64 MiB "
        "for others.",
    )
    max_concurrent_requests: int | None = Field(
        default=None,
        description="Requests that a server gets at once; further ones wait on the node. Default: no limit.",
    )
