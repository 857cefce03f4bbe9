"""How many nodes of a type train a language model, and how it is divided over their GPUs.

A GPU holds its share of the state (FSDP shards all of it), the layers that are gathered at the moment, and the
activations of one micro-batch. What follows needs no source: a division fits where that is less than the memory that
is left beside a reserve, and there can be no more data-parallel groups than sequences in the global batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.catalogue.models import ModelShape
from cdk_gpu_clusters.rules.model_gpus import ModelGpus
from cdk_gpu_clusters.rules.model_memory import TrainingState, activation_bytes, gathered_layer_bytes


class Strategy(StrEnum):
    """How training is divided."""

    ONE_GPU = "one GPU"
    FSDP = "FSDP"
    FSDP_TP = "FSDP + tensor parallelism"
    THREE_D = "3D: FSDP + tensor + pipeline parallelism"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What is trained, and how.

    Attributes:
        shape: Shape of the model.
        state: Its state, before it is sharded.
        sequence_length: Tokens of a sequence.
        global_batch_sequences: Sequences of one step, over all GPUs.
        reserve: Part of a GPU's memory that is left for CUDA, buffers and fragments, from 0 to 1.
    """

    shape: ModelShape
    state: TrainingState
    sequence_length: int
    global_batch_sequences: int
    reserve: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """A division that fits.

    Attributes:
        instance_type: Type of the nodes.
        nodes: Number of nodes.
        gpus: GPUs in all.
        tensor_parallel: GPUs that share each layer; always in one node, over NVLink.
        pipeline_parallel: Groups that share the layers; only where there would be more data-parallel groups than
            sequences.
        recompute: Whether layers are recomputed in the backward pass.
        bytes_per_gpu: Memory that a GPU needs.
        usable_bytes_per_gpu: Memory that it has, without the reserve.
    """

    instance_type: InstanceType
    nodes: int
    gpus: int
    tensor_parallel: int
    pipeline_parallel: int
    recompute: bool
    bytes_per_gpu: int
    usable_bytes_per_gpu: int

    @property
    def data_parallel(self) -> int:
        """Groups of GPUs that work on different sequences."""
        return self.gpus // (self.tensor_parallel * self.pipeline_parallel)

    @property
    def strategy(self) -> Strategy:
        """The division in a word."""
        if self.gpus == 1:
            return Strategy.ONE_GPU
        if self.pipeline_parallel > 1:
            return Strategy.THREE_D
        return Strategy.FSDP_TP if self.tensor_parallel > 1 else Strategy.FSDP


def plan_training(
    job: TrainingJob, instance_type: InstanceType, *, nodes: int | None = None, most_nodes: int = 512
) -> TrainingPlan | None:
    """The fewest nodes of a type that train a model, None if no number up to a limit does.

    Of divisions over the same nodes the one with the least tensor parallelism is taken, and layers are recomputed only
    where they must be. More than one node needs EFA.

    Args:
        job: What is trained.
        instance_type: A type of the catalogue.
        nodes: Number of nodes that is given. The fewest that fit by default.
        most_nodes: Where to stop looking for the fewest.
    """
    gpus = ModelGpus.of(instance_type)
    if gpus is None:
        return None
    most = (nodes or most_nodes) if instance_type.supports_efa else 1
    for number in [nodes] if nodes else _growing(most):
        if number <= most:
            for plan in _divisions(job, gpus, number):
                if plan.bytes_per_gpu <= plan.usable_bytes_per_gpu:
                    return _fewest(job, gpus, plan) if nodes is None else plan
    return None


def _growing(most: int) -> Iterator[int]:
    """1, 2, 4 … and the limit."""
    number = 1
    while number < most:
        yield number
        number *= 2
    yield most


def _fewest(job: TrainingJob, gpus: ModelGpus, found: TrainingPlan) -> TrainingPlan:
    """The fewest nodes that fit, where twice as few do not: fitting grows with the nodes."""
    for number in range(found.nodes // 2 + 1, found.nodes):
        for plan in _divisions(job, gpus, number):
            if plan.bytes_per_gpu <= plan.usable_bytes_per_gpu:
                return plan
    return found


def _divisions(job: TrainingJob, gpus: ModelGpus, nodes: int) -> Iterator[TrainingPlan]:
    """The divisions over so many nodes that the batch and the layers allow, the simplest and fastest first."""
    count = nodes * gpus.count
    for tensor_parallel in gpus.tensor_groups(job.shape.key_value_heads):
        pipeline = _pipeline(job, count // tensor_parallel)
        if pipeline is None:
            continue
        for recompute in (False, True):
            yield TrainingPlan(
                instance_type=gpus.instance_type,
                nodes=nodes,
                gpus=count,
                tensor_parallel=tensor_parallel,
                pipeline_parallel=pipeline,
                recompute=recompute,
                bytes_per_gpu=_bytes_per_gpu(job, count, tensor_parallel, recompute=recompute),
                usable_bytes_per_gpu=gpus.usable_bytes(job.reserve),
            )


def _pipeline(job: TrainingJob, groups: int) -> int | None:
    """Pipeline groups, so that no data-parallel group is without a sequence; None if the layers are too few."""
    stages = 1
    while groups // stages > job.global_batch_sequences or groups % stages:
        stages += 1
        if stages > min(groups, job.shape.layers):
            return None
    return stages


def _bytes_per_gpu(job: TrainingJob, count: int, tensor_parallel: int, *, recompute: bool) -> int:
    gathered = 0 if count == 1 else gathered_layer_bytes(job.shape) // tensor_parallel
    activations = activation_bytes(
        job.shape,
        sequence_length=job.sequence_length,
        micro_batch=1,
        recompute=recompute,
        tensor_parallel=tensor_parallel,
    )
    return job.state.total // count + gathered + activations
