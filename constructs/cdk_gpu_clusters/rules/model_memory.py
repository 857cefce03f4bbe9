"""Memory that a language model takes: while it trains, and while it serves.

Sources:

- weights, gradients and optimizer: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3 (mixed-precision Adam: 16-bit
  weights, and 32-bit weights, momentum and variance), with gradients accumulated in 32 bits, as FSDP and Megatron do:
  2 + 4 + 12 bytes for each parameter;
- activations: counted as in Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, arXiv
  2205.05198, section 4.1, for 16-bit activations, attention that stores no scores (selective recomputation,
  FlashAttention) and a gated feed-forward layer: the count for that is our own;
- key-value cache: a key and a value for each layer, token and key-value head.

All are estimates for planning: frameworks add buffers, fragments and CUDA contexts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdk_gpu_clusters.catalogue.models import ModelShape
from cdk_gpu_clusters.errors import ConfigError, define_rule

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

    Args:
        shape: Shape of the model.
        rank: Rank of the adapters.

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
        shape.layers * _LAYER_INPUT_BYTES * tokens * shape.hidden_size + layer
        if recompute
        else shape.layers * layer
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
