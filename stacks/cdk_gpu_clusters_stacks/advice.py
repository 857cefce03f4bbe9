"""Advice for a model: its memory with the arithmetic, the types that hold it, and what they cost a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from cdk_gpu_clusters.catalogue.instances import InstanceType, instance_type, instance_types
from cdk_gpu_clusters.catalogue.models import ModelShape, model_shape, nearest_shape
from cdk_gpu_clusters.catalogue.prices import newest_price
from cdk_gpu_clusters.rules.model_sizing import (
    GRADIENT_BYTES,
    OPTIMIZER_BYTES,
    WEIGHT_BYTES,
    Precision,
    ServingJob,
    ServingPlan,
    TrainingJob,
    TrainingPlan,
    adapter_parameters,
    plan_serving,
    plan_training,
    training_state,
)
from cdk_gpu_clusters_stacks.starter import Purpose, Starter, StarterCapacity

__all__ = ["Advice", "AdviceRow", "advice_text", "advise_serving", "advise_training"]


# The content of advice for a model.


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRow:
    """One way to run the model.

    Attributes:
        how: How the model is divided, in words.
        gb_per_device: Memory that a GPU, or MIG instance, needs, in GB (10^9 bytes).
        usable_gb_per_device: What it has, without the reserve.
        usd_per_day: On-demand price of all nodes; None where no source gives one.
        devices_per_replica: Devices that hold one copy; 1 where it is trained.
        mig_profile: Profile of the MIG instances; None for unsplit GPUs.
        mig_instances_per_gpu: Instances of it on each GPU.
    """

    instance_type: str
    nodes: int
    gpus: int
    how: str
    gb_per_device: float
    usable_gb_per_device: float
    usd_per_day: Decimal | None
    price_as_of: str | None
    price_source: str | None
    devices_per_replica: int = 1
    mig_profile: str | None = None
    mig_instances_per_gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What is advised.

    Attributes:
        mode: Training or serving.
        arithmetic: Lines that show where the memory goes.
        rows: Ways that fit, the cheapest first, those of unknown price last.
        notes: What to bear in mind.
    """

    mode: Purpose
    region: str
    parameters: int
    shape: ModelShape
    arithmetic: tuple[str, ...]
    rows: tuple[AdviceRow, ...]
    notes: tuple[str, ...]

    def starter(self) -> Starter:
        """A cluster file for the first row."""
        row = self.rows[0]
        block = instance_type(row.instance_type).supports_capacity_block and self.mode is Purpose.TRAIN
        layout = ",".join([row.mig_profile] * row.mig_instances_per_gpu) if row.mig_profile else None
        return Starter(
            name="model",
            region=self.region,
            instance_type=row.instance_type,
            nodes=row.nodes,
            purpose=self.mode,
            capacity=StarterCapacity.CAPACITY_BLOCK if block else StarterCapacity.ON_DEMAND,
            devices_per_server=row.devices_per_replica,
            mig=layout,
        )


# Numbers of advice as people write them: GB of 10^9 bytes, billions of parameters.

BYTES_PER_GB = 10**9


def gb_text(count: int) -> str:
    """Bytes in GB, such as `1,260.0 GB`."""
    return f"{count / BYTES_PER_GB:,.1f} GB"


def parameters_text(count: int) -> str:
    """Parameters, such as `70B` and `350M`."""
    return f"{count / 10**9:.4g}B" if count >= 10**9 else f"{count / 10**6:.4g}M"


# What advice chooses from: shapes of models, instance types, and the cheapest rows.

_HOURS_PER_DAY = 24
#: Rows of a table: more only repeats dearer ways.
_MOST_ROWS = 12

ESTIMATE = (
    "An estimate: frameworks add buffers and fragments of their own. The fewest nodes that hold the model are rarely "
    "the fastest."
)


def choose_shape(model: str | None, parameters: int) -> ModelShape:
    """The shape of a published model by its name, or of the one that is nearest in size.

    Raises:
        ConfigError: GPU-MODEL-001 if there is no such name.
    """
    return nearest_shape(parameters) if model is None else model_shape(model)


def choose_types(type_name: str | None, region: str) -> Sequence[InstanceType]:
    """The type of that name, or all that the Region offers."""
    if type_name is not None:
        return [instance_type(type_name)]
    # UltraServers come by agreement with AWS, and as a block only: they are looked at when they are asked for.
    return [one for one in instance_types().values() if region in one.regions and not one.ultraserver_only]


def price_row(
    one: InstanceType,
    nodes: int,
    how: str,
    needed: int,
    usable: int,
    region: str,
    *,
    devices_per_replica: int = 1,
    mig_profile: str | None = None,
    mig_instances_per_gpu: int = 0,
) -> AdviceRow:
    """A row with what its nodes cost a day, on demand."""
    price = newest_price(one.name, region)
    return AdviceRow(
        instance_type=one.name,
        nodes=nodes,
        gpus=nodes * (one.accelerator.count if one.accelerator else 0),
        how=how,
        gb_per_device=round(needed / BYTES_PER_GB, 1),
        usable_gb_per_device=round(usable / BYTES_PER_GB, 1),
        usd_per_day=None if price is None else price.usd * nodes * _HOURS_PER_DAY,
        price_as_of=None if price is None else price.as_of,
        price_source=None if price is None else price.source,
        devices_per_replica=devices_per_replica,
        mig_profile=mig_profile,
        mig_instances_per_gpu=mig_instances_per_gpu,
    )


def cheapest(rows: Iterable[AdviceRow]) -> tuple[AdviceRow, ...]:
    """The cheapest rows first, those of unknown price last."""
    ordered = sorted(
        rows, key=lambda row: (row.usd_per_day is None, row.usd_per_day or 0, row.nodes, row.instance_type)
    )
    return tuple(ordered[:_MOST_ROWS])


# How to train a model.

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


# How to serve a model.


def advise_serving(
    parameters: int,
    *,
    model: str | None = None,
    region: str,
    type_name: str | None = None,
    context_tokens: int,
    concurrent_requests: int,
    precision: str,
    replicas: int,
    reserve: float,
) -> Advice:
    """Advise how to serve a model.

    Args:
        parameters: Parameters of the model.
        model: Name of the published model whose shape is taken. The nearest in size by default.
        region: Region of offers and prices.
        type_name: The only type to look at. All that the Region offers by default.
        context_tokens: Tokens of one request, prompt and answer.
        concurrent_requests: Requests that one copy works on at once.
        precision: How weights are stored: fp16, int8 or int4.
        replicas: Copies of the model.
        reserve: Part of a GPU's memory that is left free, from 0 to 1.

    Raises:
        ConfigError: GPU-MODEL-001 for an unknown model, GPU-INST-001 for an unknown type.
    """
    shape = choose_shape(model, parameters)
    stored = Precision(precision)
    job = ServingJob(
        shape=shape,
        parameters=parameters,
        precision=stored,
        context_tokens=context_tokens,
        concurrent_requests=concurrent_requests,
        replicas=replicas,
        reserve=reserve,
    )
    plans = [plan for one in choose_types(type_name, region) for plan in plan_serving(job, one)]
    arithmetic = (
        (
            f"weights    {parameters_text(parameters)} x {stored.bytes_per_parameter:g} bytes ({stored.value}) = "
            f"{gb_text(job.weight_bytes)}"
        ),
        (
            f"cache      2 x {shape.layers} layers x {shape.key_value_heads} heads x {shape.head_size} x 2 bytes x "
            f"{context_tokens} tokens x {concurrent_requests} requests = {gb_text(job.cache_bytes)}"
        ),
        f"one copy   {gb_text(job.total_bytes)}",
    )
    return Advice(
        mode=Purpose.SERVE,
        region=region,
        parameters=parameters,
        shape=shape,
        arithmetic=arithmetic,
        rows=cheapest(_serving_row(plan, region) for plan in plans),
        notes=(ESTIMATE,),
    )


def _serving_row(plan: ServingPlan, region: str) -> AdviceRow:
    profile, count = plan.mig_profile, plan.devices_per_replica
    device = f"MIG {profile.name}" if profile else "GPU" if count == 1 else "GPUs"
    how = f"{count} {device} a copy, {plan.replicas_per_node} a node"
    gpus = plan.instance_type.accelerator.count if plan.instance_type.accelerator else 1
    return price_row(
        plan.instance_type,
        plan.nodes,
        how,
        plan.bytes_per_device,
        plan.usable_bytes_per_device,
        region,
        devices_per_replica=count,
        mig_profile=profile.name if profile else None,
        mig_instances_per_gpu=plan.replicas_per_node // gpus if profile else 0,
    )


# Advice as text.


def advice_text(advice: Advice) -> str:
    """The memory of the model with its arithmetic, in lines."""
    shape = advice.shape
    head = f"{parameters_text(advice.parameters)} parameters, of the shape of {shape.name} ({shape.source})"
    return "\n".join([head, *(f"  {line}" for line in advice.arithmetic), "", ""])
