"""`mig` of a fleet: how the GPUs of its nodes are split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from cdk_gpu_clusters.rules.mig import MigLayout

from ._base import Text


def _texts(value: object) -> object:
    """One text, or one for each GPU; a layout of one profile id is a number to YAML."""
    given = tuple(value) if isinstance(value, list | tuple) else (value,)
    if any(isinstance(one, bool) or not isinstance(one, str | int) for one in given):
        raise PydanticCustomError("mig", "not a MIG layout")
    return tuple(str(one) for one in given)


_LAYOUT = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}

MigSpec = Annotated[
    tuple[Text, ...],
    BeforeValidator(_texts),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [*_LAYOUT["anyOf"], {"type": "array", "items": _LAYOUT, "minItems": 1}]}),
]


def mig_layouts(texts: Sequence[str] | None) -> MigLayout | list[MigLayout] | None:
    """The layouts as the library takes them: one for all GPUs, or one for each.

    Args:
        texts: Texts of `MIG_PARTITION` for one GPU each; a single one is for all GPUs. None: the GPUs stay whole.

    Example:
        >>> mig_layouts(("3g.20gb,4g.20gb",))
        MigLayout(profiles=('3g.20gb', '4g.20gb'))
    """
    if texts is None:
        return None
    layouts = [MigLayout(text) for text in texts]
    return layouts[0] if len(layouts) == 1 else layouts
