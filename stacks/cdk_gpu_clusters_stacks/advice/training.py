"""How to train a model."""

from __future__ import annotations

from cdk_gpu_clusters.rules.model_sizing import (
    GRADIENT_BYTES,
    OPTIMIZER_BYTES,
    WEIGHT_BYTES,
    TrainingJob,
    TrainingPlan,
    adapter_parameters,
    plan_training,
    training_state,
)
from cdk_gpu_clusters_stacks.advice.choices import ESTIMATE, cheapest, choose_shape, choose_types, price_row
from cdk_gpu_clusters_stacks.advice.model import Advice, AdviceRow
from cdk_gpu_clusters_stacks.advice.numbers import gb_text, parameters_text
from cdk_gpu_clusters_stacks.starter import Purpose

SOURCES = (
    "Sources: ZeRO, arXiv 1910.02054 (state); Reducing Activation Recomputation, arXiv 2205.05198 (activations); "
    "LoRA, arXiv 2106.09685 (adapters)."
)


def advise_training(
    parameters: int,
    *,
    model: str | None = None,
    region: str,
    type_name: str | None = None,
    nodes: int | None = None,
    sequence_length: int,
    global_batch_sequences: int,
    lora_rank: int | None = None,
    reserve: float,
) -> Advice:
    """Advise how to train a model.

    Args:
        parameters: Parameters of the model.
        model: Name of the published model whose shape is taken. The nearest in size by default.
        region: Region of offers and prices.
        type_name: The only type to look at. All that the Region offers by default.
        nodes: The only number of nodes to look at. The fewest that fit by default.
        sequence_length: Tokens of a sequence.
        global_batch_sequences: Sequences of one step, over all GPUs.
        lora_rank: Rank of adapters that alone are trained. Everything is trained by default.
        reserve: Part of a GPU's memory that is left free, from 0 to 1.

    Raises:
        ConfigError: GPU-MODEL-001 for an unknown model, GPU-INST-001 for an unknown type.
    """
    shape = choose_shape(model, parameters)
    trained = None if lora_rank is None else adapter_parameters(shape, lora_rank)
    state = training_state(parameters, trained_parameters=trained)
    job = TrainingJob(
        shape=shape,
        state=state,
        sequence_length=sequence_length,
        global_batch_sequences=global_batch_sequences,
        reserve=reserve,
    )
    plans = [plan_training(job, one, nodes=nodes) for one in choose_types(type_name, region)]
    count = parameters if trained is None else trained
    what = "" if trained is None else " of the adapters"
    weights = parameters if trained is None else parameters + trained
    arithmetic = (
        f"weights    {parameters_text(weights)} x {WEIGHT_BYTES} bytes = {gb_text(state.weights)}",
        f"gradients  {parameters_text(count)} x {GRADIENT_BYTES} bytes{what} = {gb_text(state.gradients)}",
        f"optimizer  {parameters_text(count)} x {OPTIMIZER_BYTES} bytes{what} = {gb_text(state.optimizer)}",
        f"state      {gb_text(state.total)}, divided over all GPUs (FSDP)",
        f"activations of one sequence of {sequence_length} tokens on each GPU, and the layers it gathers, come on top",
    )
    return Advice(
        mode=Purpose.TRAIN,
        region=region,
        parameters=parameters,
        shape=shape,
        arithmetic=arithmetic,
        rows=cheapest(_training_row(plan, region) for plan in plans if plan),
        notes=(ESTIMATE, SOURCES),
    )


def _training_row(plan: TrainingPlan, region: str) -> AdviceRow:
    parts = [plan.strategy.value]
    if plan.tensor_parallel > 1:
        parts.append(f"TP {plan.tensor_parallel}")
    if plan.pipeline_parallel > 1:
        parts.append(f"PP {plan.pipeline_parallel}")
    if plan.recompute:
        parts.append("layers recomputed")
    return price_row(
        plan.instance_type,
        plan.nodes,
        ", ".join(parts),
        plan.bytes_per_gpu,
        plan.usable_bytes_per_gpu,
        region,
    )
