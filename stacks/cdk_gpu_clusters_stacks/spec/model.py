"""The cluster file, version 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from cdk_gpu_clusters.fleet.profile import (
    BATCH,
    EC2,
    EKS_MANAGED,
    HYPERPOD_EKS,
    HYPERPOD_SLURM,
    PARALLELCLUSTER,
    PCS,
    OrchestratorProfile,
)
from cdk_gpu_clusters.rules.endpoints import NetworkFeature

from ._base import Name, SpecModel, Tags, Text
from .batch import BatchSpec
from .changes import NO_CHANGE, TEMPLATES, Resource, makes, replaces, updates
from .data import StoreSpec, has_directory_bucket
from .eks import EksSpec
from .fleet import FleetSpec
from .hyperpod import HyperPodSpec
from .inference import InferenceFleetSpec
from .monitoring import MonitoringSpec
from .network import NetworkSpec
from .parallelcluster import ParallelClusterSpec
from .pcs import PcsSpec


def _digits(value: object) -> object:
    """An account id without quotes is a number to YAML; its digits are what was meant."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


AccountId = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{12}$"),
    BeforeValidator(_digits),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": "^[0-9]{12}$"}, {"type": "integer"}]}),
]


#: Value of `orchestrator` -> what it takes, forbids and does by itself.
ORCHESTRATORS: Mapping[str, OrchestratorProfile] = {
    "ec2": EC2,
    "eks": EKS_MANAGED,
    "pcs": PCS,
    "batch": BATCH,
    "parallelcluster": PARALLELCLUSTER,
    "hyperpod-slurm": HYPERPOD_SLURM,
    "hyperpod-eks": HYPERPOD_EKS,
}

#: What fleets may use; a closed network gets the endpoints for it, whichever fleets there are.
FLEET_FEATURES = (
    NetworkFeature.SESSION_MANAGER,
    NetworkFeature.LOGS,
    NetworkFeature.METRICS,
    NetworkFeature.AUTO_SCALING,
    NetworkFeature.EC2,
    NetworkFeature.CONTAINER_IMAGES,
    NetworkFeature.SECRETS,
    NetworkFeature.PARAMETERS,
)

#: What nodes of EKS do beside it.
_EKS_FEATURES = (NetworkFeature.EKS, NetworkFeature.STS)

_FLEETS = "Fleets by name. Each becomes one stack; the order does not matter."


class TrainingSpec(SpecModel):
    """What trains: fleets of nodes on one network."""

    fleets: Annotated[dict[Name, FleetSpec], NO_CHANGE] = Field(default={}, description=_FLEETS)

    @property
    def has_pools(self) -> bool:
        """Whether Karpenter is to launch the nodes of one."""
        return any(one.managed_by == "karpenter" for one in self.fleets.values())


class InferenceSpec(SpecModel):
    """What serves: fleets of nodes with model servers, each behind a load balancer of its own."""

    fleets: Annotated[dict[Name, InferenceFleetSpec], NO_CHANGE] = Field(default={}, description=_FLEETS)

    @property
    def has_pools(self) -> bool:
        """Whether Karpenter is to launch the nodes of one."""
        return any(one.managed_by == "karpenter" for one in self.fleets.values())


class ClusterSpec(SpecModel):
    """One cluster: a name, a Region, a network, and fleets of nodes."""

    version: Annotated[Literal[1], NO_CHANGE] = Field(description="Version of this file format.")
    name: Annotated[Name, updates(Resource.STACKS)] = Field(
        description="Name of the cluster; stacks are named after it.", examples=["llama-train"]
    )
    region: Annotated[Text, updates(Resource.STACKS)] = Field(description="AWS Region.", examples=["us-east-1"])
    account: Annotated[AccountId | None, updates(Resource.STACKS)] = Field(
        default=None,
        description="AWS account id, 12 digits. Default: the account of the credentials at deploy time.",
    )
    orchestrator: Annotated[
        Literal["ec2", "eks", "pcs", "batch", "parallelcluster", "hyperpod-slurm", "hyperpod-eks"],
        updates(Resource.FLEET),
        replaces(Resource.SCRAPER, Resource.HYPERPOD_CLUSTER),
        makes(Resource.MORE_ENDPOINTS, Resource.SCRAPER_GROUP, Resource.NODE_ADDRESSES, Resource.METRICS_ZONE),
    ] = Field(
        default="ec2",
        description="What runs jobs on the nodes. `ec2`: plain EC2 Auto Scaling groups, jobs by "
        "`gpu-clusters run`. `eks`: managed node groups of Amazon EKS, jobs by Kubernetes. `pcs`: compute node "
        "groups of AWS PCS, jobs by Slurm. `batch`: compute environments of AWS Batch, jobs by its queues. "
        "`parallelcluster`: queues of AWS ParallelCluster, jobs by Slurm; `gpu-clusters export` and `pcluster` make "
        "the cluster. `hyperpod-slurm` and `hyperpod-eks`: instance groups of SageMaker HyperPod, jobs by Slurm or by "
        "Kubernetes.",
    )
    eks: Annotated[EksSpec, NO_CHANGE] = Field(
        default=EksSpec(), description="The cluster of Amazon EKS. Only with `orchestrator: eks` or `hyperpod-eks`."
    )
    pcs: Annotated[PcsSpec, NO_CHANGE] = Field(
        default=PcsSpec(), description="The Slurm cluster of AWS PCS. Only with `orchestrator: pcs`."
    )
    batch: Annotated[BatchSpec, NO_CHANGE] = Field(
        default=BatchSpec(), description="Queues and jobs of AWS Batch. Only with `orchestrator: batch`."
    )
    parallelcluster: Annotated[ParallelClusterSpec, NO_CHANGE] = Field(
        default=ParallelClusterSpec(),
        description="The Slurm cluster of AWS ParallelCluster. Only with `orchestrator: parallelcluster`.",
    )
    hyperpod: Annotated[HyperPodSpec, NO_CHANGE] = Field(
        default=HyperPodSpec(),
        description="The cluster of SageMaker HyperPod. Only with an `orchestrator` of HyperPod.",
    )
    monitoring: Annotated[MonitoringSpec, NO_CHANGE] = Field(
        default=MonitoringSpec(), description="A dashboard, a budget and metrics for Prometheus of the cluster."
    )
    tags: Annotated[
        Tags,
        updates(
            Resource.TAGS,
            *TEMPLATES,
            Resource.AUTO_SCALING_GROUP,
            Resource.NODE_GROUP,
            Resource.COMPUTE_NODE_GROUP,
            Resource.SYSTEM_NODES,
            Resource.SYSTEM_TEMPLATE,
            Resource.LOGIN_NODES,
            Resource.LOGIN_TEMPLATE,
        ),
    ] = Field(default={}, description="Tags of every resource of the cluster, 50 at most.")
    termination_protection: Annotated[bool, NO_CHANGE] = Field(
        default=True,
        description="Whether the stacks of reservations, and of fleets on reserved capacity, refuse to be deleted. "
        "Stacks of stores always refuse.",
    )
    network: Annotated[
        NetworkSpec,
        updates(
            Resource.AUTO_SCALING_GROUP,
            Resource.LOAD_BALANCER,
            Resource.CONTROL_PLANE,
            Resource.SOFTWARE,
            Resource.KARPENTER,
            Resource.NODE_POOL,
            Resource.COMPUTE_NODE_GROUP,
            Resource.PCS_TEMPLATE,
            Resource.COMPUTE_ENVIRONMENT,
            Resource.LOGIN_NODES,
            Resource.LOGIN_TEMPLATE,
        ),
        replaces(
            Resource.NODE_GROUP,
            Resource.SYSTEM_NODES,
            Resource.SLURM_CLUSTER,
            Resource.HYPERPOD_CLUSTER,
            Resource.FILE_SYSTEM,
            Resource.SCRAPER,
        ),
    ] = Field(description="A new network (`availability_zone`) or an existing one (`vpc_id`, `subnet_ids`).")
    data: Annotated[dict[Name, StoreSpec], updates(Resource.DASHBOARD)] = Field(
        default={},
        description="Stores by name: file systems and buckets that outlive every fleet. Each made here is one stack.",
    )
    training: Annotated[
        TrainingSpec,
        updates(Resource.SOFTWARE, Resource.DASHBOARD, Resource.SCRAPER),
        makes(Resource.MORE_ENDPOINTS),
    ] = Field(default=TrainingSpec(), description="Training fleets. A cluster has a fleet here or in `inference`.")
    inference: Annotated[
        InferenceSpec,
        updates(Resource.SOFTWARE, Resource.DASHBOARD, Resource.SCRAPER),
        makes(Resource.MORE_ENDPOINTS),
    ] = Field(
        default=InferenceSpec(),
        description="Inference fleets. No name of a training fleet is theirs, too.",
    )

    @property
    def has_karpenter(self) -> bool:
        """Whether Karpenter launches the nodes of a fleet."""
        joins = ORCHESTRATORS[self.orchestrator].joins_eks
        return joins and (self.training.has_pools or self.inference.has_pools)

    @property
    def slurm_section(self) -> PcsSpec | ParallelClusterSpec | None:
        """The section of its Slurm cluster; None without one."""
        profile = ORCHESTRATORS[self.orchestrator]
        if profile.joins_parallelcluster:
            return self.parallelcluster
        return self.pcs if profile.joins_slurm else None

    @property
    def installs_software(self) -> bool:
        """Whether the deployment installs software in the cluster of Amazon EKS; HyperPod brings a chart of its own."""
        return ORCHESTRATORS[self.orchestrator].joins_eks and self.eks.software.apply

    @property
    def slinky_fleets(self) -> tuple[str, ...]:
        """Training fleets whose nodes belong to Slurm on Kubernetes, that of its default partition first."""
        slurm = self.eks.software.slurm if ORCHESTRATORS[self.orchestrator].joins_eks else None
        return () if slurm is None else slurm.fleet_names(self.training.fleets)

    @property
    def features(self) -> tuple[NetworkFeature, ...]:
        """What fleets do that calls AWS from inside the network."""
        features = list(FLEET_FEATURES)
        if ORCHESTRATORS[self.orchestrator].uses_eks:
            features += [*_EKS_FEATURES, *([NetworkFeature.KUBECTL] if self.installs_software else [])]
            features += [NetworkFeature.KARPENTER] if self.has_karpenter else []
        if ORCHESTRATORS[self.orchestrator].joins_slurm:
            features.append(NetworkFeature.PCS)
        if ORCHESTRATORS[self.orchestrator].joins_batch:
            features.append(NetworkFeature.BATCH)
        if any(map(has_directory_bucket, self.data.values())):
            features.append(NetworkFeature.S3_EXPRESS)
        return tuple(features)
