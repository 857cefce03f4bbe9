"""How to serve a model."""

from __future__ import annotations

from cdk_gpu_clusters.rules.model_sizing import Precision, ServingJob, ServingPlan, plan_serving
from cdk_gpu_clusters_stacks.advice.choices import ESTIMATE, cheapest, choose_shape, choose_types, price_row
from cdk_gpu_clusters_stacks.advice.model import Advice, AdviceRow
from cdk_gpu_clusters_stacks.advice.numbers import gb_text, parameters_text
from cdk_gpu_clusters_stacks.starter import Purpose


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
