"""The cluster file, version 1, as a whole."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from cdk_gpu_clusters.rules.endpoints import NetworkFeature

from ._base import Name, SpecModel, Tags, Text
from .data import StoreSpec
from .eks import EksSpec
from .fleet import FleetSpec
from .inference import InferenceFleetSpec
from .network import NetworkSpec, fleet_features


def _digits(value: object) -> object:
    """An account id without quotes is a number to YAML; its digits are what was meant."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


AccountId = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{12}$"),
    BeforeValidator(_digits),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": "^[0-9]{12}$"}, {"type": "integer"}]}),
]


_FLEETS = "Fleets by name. Each becomes one stack; the order does not matter."


class TrainingSpec(SpecModel):
    """What trains: fleets of nodes on one network."""

    fleets: dict[Name, FleetSpec] = Field(default={}, description=_FLEETS)


class InferenceSpec(SpecModel):
    """What serves: fleets of nodes with model servers, each behind a load balancer of its own."""

    fleets: dict[Name, InferenceFleetSpec] = Field(default={}, description=_FLEETS)


class ClusterSpec(SpecModel):
    """One cluster: a name, a Region, a network, and fleets of nodes."""

    version: Literal[1] = Field(description="Version of this file format.")
    name: Name = Field(
        description="Name of the cluster; stacks are named after it.", examples=["llama-train"]
    )
    region: Text = Field(description="AWS Region.", examples=["us-east-1"])
    account: AccountId | None = Field(
        default=None,
        description="AWS account id, 12 digits. Default: the account of the credentials at deploy time.",
    )
    orchestrator: Literal["ec2", "eks"] = Field(
        default="ec2",
        description="What runs jobs on the nodes. `ec2`: plain EC2 Auto Scaling groups, jobs by hand or SSM. "
        "`eks`: managed node groups of Amazon EKS, jobs by Kubernetes.",
    )
    eks: EksSpec = Field(
        default=EksSpec(), description="The cluster of Amazon EKS. Only with `orchestrator: eks`."
    )
    tags: Tags = Field(default={}, description="Tags of every resource of the cluster, 50 at most.")
    network: NetworkSpec = Field(
        description="A new network (`availability_zone`) or an existing one (`vpc_id`, `subnet_ids`)."
    )
    data: dict[Name, StoreSpec] = Field(
        default={},
        description="Stores by name: file systems and buckets that outlive every fleet. Each made here is one stack.",
    )
    training: TrainingSpec = Field(
        default=TrainingSpec(), description="Training fleets. A cluster has a fleet here or in `inference`."
    )
    inference: InferenceSpec = Field(
        default=InferenceSpec(),
        description="Inference fleets. No name of a training fleet is theirs, too.",
    )

    @property
    def features(self) -> tuple[NetworkFeature, ...]:
        """What fleets do that calls AWS from inside the network."""
        return fleet_features(self.orchestrator, applies_software=self.eks.software.apply)
