"""Which GPUs of a node serve a language model, and how many copies of it a node holds."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.catalogue.mig import MigProfile, mig_gpu_of
from cdk_gpu_clusters.catalogue.models import ModelShape
from cdk_gpu_clusters.rules.model_gpus import ModelGpus
from cdk_gpu_clusters.rules.model_memory import Precision, cache_bytes, serving_weight_bytes

_BYTES_PER_GB = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingJob:
    """What is served.

    Attributes:
        shape: Shape of the model.
        parameters: Its parameters.
        precision: How its weights are stored.
        context_tokens: Tokens of one request, prompt and answer.
        concurrent_requests: Requests that one copy of the model works on at once.
        replicas: Copies of the model.
        reserve: Part of a GPU's memory that is left free, from 0 to 1; vLLM leaves 0.1
            (`gpu_memory_utilization` is 0.9).
    """

    shape: ModelShape
    parameters: int
    precision: Precision
    context_tokens: int
    concurrent_requests: int
    replicas: int
    reserve: float

    @property
    def weight_bytes(self) -> int:
        """Memory of the weights of one copy, in bytes."""
        return serving_weight_bytes(self.parameters, self.precision)

    @property
    def cache_bytes(self) -> int:
        """Memory of the key-value cache of one copy, in bytes."""
        return cache_bytes(self.shape, tokens=self.context_tokens * self.concurrent_requests)

    @property
    def total_bytes(self) -> int:
        """Memory of one copy, in bytes."""
        return self.weight_bytes + self.cache_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """Copies of a model on nodes of one type.

    Attributes:
        instance_type: Type of the nodes.
        nodes: Number of nodes.
        devices_per_replica: GPUs, or MIG instances, that hold one copy.
        replicas_per_node: Copies that a node holds.
        mig_profile: Profile of the instances; None for whole GPUs.
        bytes_per_device: Memory that a device needs.
        usable_bytes_per_device: Memory that it has, without the reserve.
    """

    instance_type: InstanceType
    nodes: int
    devices_per_replica: int
    replicas_per_node: int
    mig_profile: MigProfile | None
    bytes_per_device: int
    usable_bytes_per_device: int


def plan_serving(job: ServingJob, instance_type: InstanceType) -> list[ServingPlan]:
    """How nodes of a type serve a model: with whole GPUs, and with MIG instances where one is enough; empty if not.

    A copy stays in one node, on the smallest group of GPUs that holds it.

    Args:
        job: What is served.
        instance_type: A type of the catalogue.
    """
    gpus = ModelGpus.of(instance_type)
    if gpus is None:
        return []
    return [plan for plan in (_on_gpus(job, gpus), _on_slices(job, gpus)) if plan is not None]


def _on_gpus(job: ServingJob, gpus: ModelGpus) -> ServingPlan | None:
    usable = gpus.usable_bytes(job.reserve)
    heads = job.shape.attention_heads
    for size in gpus.tensor_groups(heads, over_pcie=True):
        # A key-value head is held by several GPUs where there are fewer heads than GPUs.
        shared = min(size, job.shape.key_value_heads)
        needed = job.weight_bytes // size + job.cache_bytes // shared
        if needed <= usable:
            return _plan(job, gpus, None, size, gpus.count // size, needed, usable)
    return None


def _on_slices(job: ServingJob, gpus: ModelGpus) -> ServingPlan | None:
    gpu = mig_gpu_of(gpus.instance_type)
    plain = [one for one in gpu.profiles.values() if not one.attributes] if gpu else []
    for profile in sorted(plain, key=lambda one: (one.memory_gb, one.compute_slices)):
        usable = int(profile.memory_gb * _BYTES_PER_GB * (1 - job.reserve))
        if job.total_bytes <= usable and profile.max_instances > 1:
            per_node = profile.max_instances * gpus.count
            return _plan(job, gpus, profile, 1, per_node, job.total_bytes, usable)
    return None


def _plan(
    job: ServingJob,
    gpus: ModelGpus,
    profile: MigProfile | None,
    size: int,
    per_node: int,
    needed: int,
    usable: int,
) -> ServingPlan:
    return ServingPlan(
        instance_type=gpus.instance_type,
        nodes=ceil(job.replicas / per_node),
        devices_per_replica=size,
        replicas_per_node=per_node,
        mig_profile=profile,
        bytes_per_device=needed,
        usable_bytes_per_device=usable,
    )
