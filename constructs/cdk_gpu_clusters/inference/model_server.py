"""A model server: its image, its settings, its secrets and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ssm as ssm

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import resolved_or_none
from cdk_gpu_clusters._object_access import grant_objects
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.node.model_server import DEFAULT_WEIGHTS_PATH
from cdk_gpu_clusters.rules.inference import check_counts
from cdk_gpu_clusters.rules.model_servers import (
    check_command,
    check_container_image,
    check_container_port,
    check_health_path,
    check_secret_arn,
    check_variables,
    check_weights,
)
from cdk_gpu_clusters.rules.secrets import NAME_ITS_ARN, check_container_secrets
from cdk_gpu_clusters.rules.vllm import check_vllm_server

_IMAGES_AND_SECRETS = AcceptedFinding(
    cause="`InferenceFleet`: what images and secrets add to the role of the nodes",
    reason="A login to ECR has no resource level; CDK attaches what the role needs to the role itself.",
    aws_solutions=("IAM5",),
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSecret:
    """A secret that a node fetches when a server starts; make one with a class method.

    It is never in the template, the user data or a file: the server gets it as a variable.

    Attributes:
        source: The secret or parameter, or its ARN.
        json_field: Field of a JSON secret, None for the complete text.
    """

    source: secretsmanager.ISecret | ssm.IParameter | str
    json_field: str | None = None

    @classmethod
    def from_secret(cls, secret: secretsmanager.ISecret, json_field: str | None = None) -> ServerSecret:
        """A secret of Secrets Manager.

        Args:
            secret: The secret.
            json_field: Field of its JSON text; the complete text if left out.
        """
        return cls(source=secret, json_field=json_field)

    @classmethod
    def from_parameter(cls, parameter: ssm.IParameter) -> ServerSecret:
        """A parameter of Parameter Store, such as a secure string."""
        return cls(source=parameter)

    @classmethod
    def from_arn(cls, arn: str, json_field: str | None = None) -> ServerSecret:
        """A secret or a parameter by its ARN; a customer managed key needs a grant of its own.

        Args:
            arn: ARN of the secret or parameter.
            json_field: Field of its JSON text; the complete text if left out.

        Example:
            >>> arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-AbCdEf"
            >>> ServerSecret.from_arn(arn, "token").json_field
            'token'
        """
        return cls(source=arn, json_field=json_field)

    @property
    def arn(self) -> str:
        """ARN of the secret or parameter."""
        if isinstance(self.source, str):
            return self.source
        source = self.source
        return str(source.parameter_arn if hasattr(source, "parameter_arn") else source.secret_arn)

    def grant_read(self, role: iam.IRole) -> None:
        """Let a role read it."""
        if not isinstance(self.source, str):
            self.source.grant_read(role)
            return
        action = "secretsmanager:GetSecretValue" if ":secretsmanager:" in self.source else "ssm:GetParameter"
        role.add_to_principal_policy(iam.PolicyStatement(actions=[action], resources=[self.source]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeights:
    """Where the servers find the model; make one with a class method.

    Attributes:
        path: Folder of the node, which every server sees read-only at the same path.
        bucket: Bucket to copy from at boot, None for a folder that is there.
        prefix: What the keys begin with.
    """

    path: str
    bucket: s3.IBucket | None = None
    prefix: str = ""

    @classmethod
    def from_path(cls, path: str) -> ModelWeights:
        """A folder that is there when the node is ready, such as one of a mounted file system.

        Example:
            >>> ModelWeights.from_path("/fsx/models/llama").path
            '/fsx/models/llama'
        """
        return cls(path=path)

    @classmethod
    def from_bucket(cls, bucket: s3.IBucket, prefix: str = "", *, path: str = DEFAULT_WEIGHTS_PATH) -> ModelWeights:
        """Objects of a bucket, copied once at each boot before the servers start.

        Args:
            bucket: The bucket; the nodes may read the prefix.
            prefix: What the keys begin with; all objects if left out.
            path: Folder of the node to copy to. The root volume must hold the model; below `/scratch` the local NVMe
                disks hold it, on types that have some.
        """
        return cls(path=path, bucket=bucket, prefix=prefix.strip("/"))

    @property
    def uri(self) -> str | None:
        """`s3://bucket/prefix`, None for a folder that is there."""
        return None if self.bucket is None else f"s3://{self.bucket.bucket_name}/{self.prefix}"

    def grant_read(self, role: iam.IRole) -> None:
        """Let a role read what it copies."""
        if self.bucket is not None:
            grant_objects(role, self.bucket, prefix=f"{self.prefix}/" if self.prefix else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """One model server, as a container; a node runs one for each of its slots.

    Besides its own variables a server has `MODEL_SERVER_INDEX`, its number on the node from 0.

    Example:
        >>> ModelServer(image="vllm/vllm-openai:v0.11.0", command=["--model", "/fsx/models/llama"]).port
        8000

    Attributes:
        image: Reference of the image, or an ECR repository.
        tag: Tag or `sha256:…` digest in the repository; only with a repository, and required there.
        command: Arguments of the container in place of the image's own; empty for these.
        port: Port on which a server listens inside its container.
        health_path: Path that a server answers with a status of 200 to 299 when it can take requests.
        environment: Plain variables; no secrets, because they are in the user data.
        secrets: Variables whose values the node fetches when a server starts.
        registry_login: Secret with `username` and `password` of the image's registry; ECR needs none.
        weights: Where the servers find the model; None if the image has it or the server loads it itself.
        cache_path: Folder of the local disks, such as `/scratch/cache`, which every server of the node may write at the
            same path, for what servers download and compile. It outlives a server, and is empty on a new node. Point
            the server to it by a variable, such as `HF_HOME` or `VLLM_CACHE_ROOT`. None for no cache.
        shared_memory_gib: Size of a container's /dev/shm. 8 for servers of several accelerators, whose processes
            exchange data through it (vLLM documentation, "Using Docker"; the size is this library's choice), and
            Docker's 64 MiB for others, if left out.
        max_concurrent_requests: Requests that a server gets at once; further ones wait in the node's balancer. No
            limit if left out.
    """

    image: str | ecr.IRepository
    tag: str | None = None
    command: Sequence[str] = ()
    port: int = 8000
    health_path: str = "/health"
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, ServerSecret] = field(default_factory=dict)
    registry_login: ServerSecret | None = None
    weights: ModelWeights | None = None
    cache_path: str | None = None
    shared_memory_gib: int | None = None
    max_concurrent_requests: int | None = None

    @property
    def reference(self) -> str:
        """Reference of the image as Docker pulls it; may be a token."""
        if isinstance(self.image, str):
            return self.image
        return self.image.repository_uri_for_tag_or_digest(self.tag)

    def check(self, not_secret: Sequence[str] = ()) -> list[Finding]:
        """Find what is wrong with the server, as far as it is known at synthesis.

        Args:
            not_secret: Names of variables and options, and values, that only look like secrets.
        """
        logins = {} if self.registry_login is None else {"registry_login": self.registry_login}
        arns = [resolved_or_none(secret.arn) for secret in (*self.secrets.values(), *logins.values())]
        return [
            *self._check_image(),
            *check_container_port(self.port),
            *check_health_path(self.health_path),
            *check_command(self.command),
            *check_variables(self.environment, self.secrets),
            *check_container_secrets(self.environment, self.command, not_secret=not_secret, fix=NAME_ITS_ARN),
            *(finding for arn in arns if arn is not None for finding in check_secret_arn(arn)),
            *([] if self.weights is None else check_weights(self.weights.path, resolved_or_none(self.weights.uri))),
            *check_counts(
                shared_memory_gib=self.shared_memory_gib,
                max_concurrent_requests=self.max_concurrent_requests,
            ),
        ]

    def check_gpus(self, instance_type: InstanceType, devices_per_server: int) -> list[Finding]:
        """Find GPUs that do not fit the server, if it is vLLM and its texts are known at synthesis."""
        uri = "" if self.weights is None else resolved_or_none(self.weights.uri or self.weights.path)
        image, command = resolved_or_none(self.image), [resolved_or_none(argument) for argument in self.command]
        if not isinstance(image, str):
            return []
        return check_vllm_server(
            image,
            [argument or "" for argument in command],
            weights=uri or "",
            instance_type=instance_type,
            devices_per_server=devices_per_server,
        )

    def _check_image(self) -> list[Finding]:
        if not isinstance(self.image, str):
            return check_container_image(None, tag=self.tag)
        return [] if resolved_or_none(self.image) is None else check_container_image(self.image, tag=self.tag)

    def grant_use(self, role: iam.IRole) -> None:
        """Let a role pull the image, and read the secrets and the weights."""
        if not isinstance(self.image, str):
            grant_pull(self.image, role)
        elif self.secrets or self.registry_login is not None:
            _IMAGES_AND_SECRETS.at(role)
        for secret in self.secrets.values():
            secret.grant_read(role)
        if self.registry_login is not None:
            self.registry_login.grant_read(role)
        if self.weights is not None:
            self.weights.grant_read(role)


def grant_pull(repository: ecr.IRepository, role: iam.IRole) -> None:
    """Let a role pull the images of a repository."""
    repository.grant_pull(role)
    _IMAGES_AND_SECRETS.at(role, "Resource::*")
