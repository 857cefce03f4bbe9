"""What a language model needs: memory to train and to serve it, and the GPUs and nodes that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue.mig import MigProfile, mig_gpu_of
from cdk_gpu_clusters.catalogue.models import ModelShape
from cdk_gpu_clusters.errors import ConfigError, define_rule

_BYTES_PER_MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGpus:
    """The GPUs of a node.

    Attributes:
        instance_type: Type of the node.
        count: GPUs of a node.
        bytes_each: Memory of one.
        nvlink: Whether they are joined by NVLink.
    """

    instance_type: InstanceType
    count: int
    bytes_each: int
    nvlink: bool

    @classmethod
    def of(cls, instance_type: InstanceType) -> ModelGpus | None:
        """The GPUs of a type; None without NVIDIA GPUs, or with shares of one: the formulas are for complete GPUs.

        Args:
            instance_type: A type of the catalogue.
        """
        found = instance_type.accelerator
        if found is None or found.kind is not AcceleratorKind.GPU or found.partition_fraction != 1:
            return None
        return cls(
            instance_type=instance_type,
            count=found.count,
            bytes_each=found.memory_mib_for_sizing * _BYTES_PER_MIB,
            nvlink=bool(found.nvlink_gbytes_per_s_per_gpu),
        )

    def usable_bytes(self, reserve: float) -> int:
        """Memory of one GPU without a reserve.

        Args:
            reserve: Part that is left free, from 0 to 1.
        """
        return int(self.bytes_each * (1 - reserve))

    def tensor_groups(self, heads: int, *, over_pcie: bool = False) -> list[int]:
        """Sizes of groups that can share a layer: powers of two that divide the heads and the GPUs of a node.

        Args:
            heads: Heads that are divided.
            over_pcie: Whether GPUs without NVLink may share layers, too: slow in training, usual in serving.
        """
        sizes = [1]
        while sizes[-1] * 2 <= self.count and (self.nvlink or over_pcie):
            sizes.append(sizes[-1] * 2)
        return [size for size in sizes if heads % size == 0 and self.count % size == 0]


# Memory that a language model takes: while it trains, and while it serves.
#
# Sources:
#
# - weights, gradients and optimizer: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3 (mixed-precision Adam:
#   16-bit weights, and 32-bit weights, momentum and variance), with gradients accumulated in 32 bits, as FSDP and
#   Megatron do: 2 + 4 + 12 bytes for each parameter;
# - activations: counted as in Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, arXiv
#   2205.05198, section 4.1, for 16-bit activations, attention that stores no scores (selective recomputation,
#   FlashAttention) and a gated feed-forward layer: the count for that is our own;
# - key-value cache: a key and a value for each layer, token and key-value head.
#
# All are estimates for planning: frameworks add buffers, fragments and CUDA contexts of their own.

ADAPTER_RANK = define_rule(
    "GPU-MODEL-002",
    "the rank of LoRA adapters is less than the width of the model",
    source="Hu et al., LoRA, arXiv 2106.09685: matrices of low rank",
)
WEIGHT_BYTES = 2
GRADIENT_BYTES = 4
OPTIMIZER_BYTES = 12
_ACTIVATION_BYTES = 2
#: Tensors of a layer that the backward pass needs, by their width: of the hidden size the inputs of both norms, their
#: outputs, the queries and what attention gives; keys and values; in the feed-forward layer the gate before and after
#: its activation, the other half, and their product.
_HIDDEN_TENSORS, _KEY_VALUE_TENSORS, _INTERMEDIATE_TENSORS = 6, 2, 4
#: Of these, what is kept where a layer is recomputed: its 16-bit input.
_LAYER_INPUT_BYTES = 2
#: Bytes per token, and hidden unit or token of the vocabulary, at the output: norm, projection and 32-bit logits.
_OUTPUT_BYTES = 4


class Precision(StrEnum):
    """How weights are stored to serve."""

    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def bytes_per_parameter(self) -> float:
        """Bytes of one parameter; quantized weights have scales besides, which are left out."""
        return {"fp16": 2.0, "int8": 1.0, "int4": 0.5}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """What training keeps of all parameters, in bytes, before it is sharded.

    Attributes:
        weights: 16-bit weights.
        gradients: 32-bit gradients.
        optimizer: 32-bit weights, momentum and variance of Adam.
    """

    weights: int
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        """All of it, in bytes."""
        return self.weights + self.gradients + self.optimizer


def training_state(parameters: int, *, trained_parameters: int | None = None) -> TrainingState:
    """The state of mixed-precision training with Adam.

    Args:
        parameters: Parameters of the model.
        trained_parameters: Those that are trained, such as the ones of adapters, which come on top. All of the model's
            by default.

    Example:
        >>> training_state(70_000_000_000).total // 10**9
        1260
    """
    trained = parameters if trained_parameters is None else trained_parameters
    added = 0 if trained_parameters is None else trained_parameters
    return TrainingState(
        weights=WEIGHT_BYTES * (parameters + added),
        gradients=GRADIENT_BYTES * trained,
        optimizer=OPTIMIZER_BYTES * trained,
    )


def adapter_parameters(shape: ModelShape, rank: int) -> int:
    """Parameters of LoRA adapters of that rank on the four projections of attention of every layer.

    Source: Hu et al., LoRA, arXiv 2106.09685: two matrices for each, in times rank and rank times out.

    Raises:
        ConfigError: GPU-MODEL-002 for a rank that is not less than the width of the model.
    """
    if not 0 < rank < shape.hidden_size:
        raise ConfigError(
            [
                ADAPTER_RANK.finding(
                    cause=f"{shape.name} is {shape.hidden_size} wide: adapters of this rank would save nothing",
                    got=str(rank),
                    allowed=f"1 to {shape.hidden_size - 1}",
                    fix="use a rank such as 8 to 256, or train all parameters",
                )
            ]
        )
    query, key = shape.attention_heads * shape.head_size, shape.key_value_heads * shape.head_size
    per_layer = sum(rank * (shape.hidden_size + out) for out in (query, key, key, query))
    return shape.layers * per_layer


def layer_activation_bytes(shape: ModelShape) -> int:
    """What the backward pass needs of one layer for each token, in bytes.

    Example:
        >>> from cdk_gpu_clusters.catalogue.models import model_shape
        >>> layer_activation_bytes(model_shape("Llama 2 7B")) == 12 * 4096 + 4 * 4096 + 8 * 11008
        True
    """
    key_value_size = shape.key_value_heads * shape.head_size
    return _ACTIVATION_BYTES * (
        _HIDDEN_TENSORS * shape.hidden_size
        + _KEY_VALUE_TENSORS * key_value_size
        + _INTERMEDIATE_TENSORS * shape.intermediate_size
    )


def activation_bytes(
    shape: ModelShape, *, sequence_length: int, micro_batch: int, recompute: bool, tensor_parallel: int = 1
) -> int:
    """Activations of one micro-batch on one GPU, in bytes.

    Args:
        shape: Shape of the model.
        sequence_length: Tokens of a sequence.
        micro_batch: Sequences that one GPU (or tensor-parallel group) works on at once.
        recompute: Whether layers are recomputed in the backward pass: then each keeps its input only, and one layer
            at a time has all of its activations.
        tensor_parallel: GPUs that share each layer, with sequence parallelism.
    """
    tokens = sequence_length * micro_batch
    layer = layer_activation_bytes(shape) * tokens
    layers = (
        shape.layers * _LAYER_INPUT_BYTES * tokens * shape.hidden_size + layer if recompute else shape.layers * layer
    )
    output = _OUTPUT_BYTES * tokens * (shape.hidden_size + shape.vocabulary)
    return (layers + output) // tensor_parallel


def gathered_layer_bytes(shape: ModelShape) -> int:
    """What a GPU holds unsharded at once where weights are sharded (FSDP): two layers of 16-bit weights, in bytes.

    One is used while the next is fetched.
    """
    return 2 * WEIGHT_BYTES * shape.parameters_per_layer


def serving_weight_bytes(parameters: int, precision: Precision) -> int:
    """Weights of a model that serves, in bytes.

    Example:
        >>> serving_weight_bytes(70_000_000_000, Precision.FP16) // 10**9
        140
    """
    return int(parameters * precision.bytes_per_parameter)


def cache_bytes(shape: ModelShape, *, tokens: int) -> int:
    """The 16-bit key-value cache of so many tokens, over all requests, in bytes."""
    return 2 * WEIGHT_BYTES * shape.layers * shape.key_value_heads * shape.head_size * tokens


# How many nodes of a type train a language model, and how it is divided over their GPUs.
#
# A GPU holds its share of the state (FSDP shards all of it), the layers that are gathered at the moment, and the
# activations of one micro-batch. What follows needs no source: a division fits where that is less than the memory that
# is left beside a reserve, and there can be no more data-parallel groups than sequences in the global batch.


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


# Which GPUs of a node serve a language model, and how many copies of it a node holds.

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
        mig_profile: Profile of the instances; None for complete GPUs.
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
    """How nodes of a type serve a model: with complete GPUs, and with MIG instances if one is enough; empty if not.

    A copy stays in one node, on the smallest group of GPUs that holds it.
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
