"""Advice as text."""

from __future__ import annotations

from cdk_gpu_clusters_stacks.advice.model import Advice
from cdk_gpu_clusters_stacks.advice.numbers import parameters_text


def advice_text(advice: Advice) -> str:
    """The memory of the model with its arithmetic, in lines.

    Args:
        advice: What is advised.
    """
    shape = advice.shape
    head = f"{parameters_text(advice.parameters)} parameters, of the shape of {shape.name} ({shape.source})"
    return "\n".join([head, *(f"  {line}" for line in advice.arithmetic), "", ""])
