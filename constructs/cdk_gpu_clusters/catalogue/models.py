"""Shapes of published language models: what the memory of activations and of the key-value cache depends on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import log

from cdk_gpu_clusters.catalogue._files import read_json, record
from cdk_gpu_clusters.errors import ConfigError, define_rule

UNKNOWN_MODEL = define_rule(
    "GPU-MODEL-001",
    "a model whose shape is asked for is in the catalogue",
    source="the catalogue's shapes of published models",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The shape of a decoder-only transformer with gated feed-forward layers.

    Attributes:
        name: Such as `Llama 2 70B`.
        parameters: Number of parameters.
        layers: Transformer layers.
        hidden_size: Width of the residual stream.
        attention_heads: Query heads.
        key_value_heads: Heads of keys and values; fewer than query heads with grouped-query attention.
        head_size: Width of one head.
        intermediate_size: Width of the feed-forward layer.
        vocabulary: Tokens.
        tied_embeddings: Whether input and output embeddings are the same.
        source: Where it is published.
    """

    name: str
    parameters: int
    layers: int
    hidden_size: int
    attention_heads: int
    key_value_heads: int
    head_size: int
    intermediate_size: int
    vocabulary: int
    tied_embeddings: bool
    source: str

    @property
    def attention_parameters_per_layer(self) -> int:
        """Parameters of the four projections of one layer: query, key, value and output."""
        heads = 2 * self.attention_heads + 2 * self.key_value_heads
        return self.hidden_size * self.head_size * heads

    @property
    def parameters_per_layer(self) -> int:
        """Parameters of one layer, with the two vectors of its norms."""
        feed_forward = 3 * self.hidden_size * self.intermediate_size
        return self.attention_parameters_per_layer + feed_forward + 2 * self.hidden_size


@cache
def model_shapes() -> tuple[ModelShape, ...]:
    """Every published shape, the smallest first.

    Example:
        >>> [shape.layers for shape in model_shapes() if shape.name == "Llama 2 70B"]
        [80]
    """
    return tuple(record(ModelShape, row) for row in read_json("models.json")["models"])


def model_shape(name: str) -> ModelShape:
    """The shape of a published model, by its name in any case, such as `Llama 2 70B`.

    Raises:
        ConfigError: GPU-MODEL-001 if it is not in the catalogue.
    """
    found = next((shape for shape in model_shapes() if shape.name.lower() == name.strip().lower()), None)
    if found is None:
        raise ConfigError(
            [
                UNKNOWN_MODEL.finding(
                    cause="the shape of this model is not in the catalogue",
                    got=repr(name),
                    allowed=", ".join(shape.name for shape in model_shapes()),
                    fix="take one of these with a shape like it, or the one that is nearest in size",
                )
            ]
        )
    return found


def nearest_shape(parameters: int) -> ModelShape:
    """The published shape whose number of parameters is nearest, as a ratio.

    Example:
        >>> nearest_shape(70_000_000_000).name
        'Llama 3 70B'
    """
    return min(model_shapes(), key=lambda shape: abs(log(shape.parameters / parameters)))


def longest_context(name: str) -> int | None:
    """The longest context of a published model, in tokens; None if the catalogue does not have its family.

    Args:
        name: Name, path or address of the model, such as `meta-llama/Llama-3.3-70B-Instruct`.

    Example:
        >>> longest_context("s3://my-models/llama-3.3-70b-instruct")
        131072
    """
    found = re.search(r"llama[-_ ]?(\d(?:[._]\d)?)(?=[-_ ]|$)", name.lower())
    contexts = read_json("models.json")["longest_context_tokens"]
    return None if found is None else contexts.get(f"Llama {found[1].replace('_', '.')}")
