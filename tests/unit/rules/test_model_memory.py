"""Memory of models: published cases, each with its arithmetic, and what must hold for every model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue.instances import instance_type, instance_types
from cdk_gpu_clusters.catalogue.models import ModelShape, model_shapes, nearest_shape
from cdk_gpu_clusters.rules.model_sizing import (
    Precision,
    ServingJob,
    ServingPlan,
    Strategy,
    TrainingJob,
    TrainingPlan,
    activation_bytes,
    adapter_parameters,
    cache_bytes,
    layer_activation_bytes,
    plan_serving,
    plan_training,
    serving_weight_bytes,
    training_state,
)

GB = 10**9
SHAPES = {shape.name: shape for shape in model_shapes()}


def serve(model: str, type_name: str, precision: Precision = Precision.FP16, **requests: int) -> list[ServingPlan]:
    shape = SHAPES[model]
    values = {"context_tokens": 4096, "concurrent_requests": 1, "replicas": 1, **requests}
    job = ServingJob(shape=shape, parameters=shape.parameters, precision=precision, reserve=0.1, **values)
    return plan_serving(job, instance_type(type_name))


def train(model: str, type_name: str, *, nodes: int | None = None, batch: int = 1024) -> TrainingPlan | None:
    shape = SHAPES[model]
    job = TrainingJob(
        shape=shape,
        state=training_state(shape.parameters),
        sequence_length=4096,
        global_batch_sequences=batch,
        reserve=0.1,
    )
    return plan_training(job, instance_type(type_name), nodes=nodes)


@pytest.mark.parametrize("shape", model_shapes(), ids=lambda shape: shape.name)
def test_a_shape_has_the_parameters_that_it_is_published_with(shape: ModelShape) -> None:
    """Layers, embeddings and the last norm add up to the published number, to the parameter."""
    embeddings = (1 if shape.tied_embeddings else 2) * shape.vocabulary * shape.hidden_size
    assert shape.layers * shape.parameters_per_layer + embeddings + shape.hidden_size == shape.parameters


def test_the_shape_of_a_size_is_the_nearest() -> None:
    assert nearest_shape(7 * GB).name == "Llama 2 7B"
    assert nearest_shape(13 * GB).name == "Llama 2 13B"
    assert nearest_shape(400 * GB).name == "Llama 3.1 405B"


# ----- published cases


def test_llama_2_7b_in_fp16_fits_a_g5_xlarge() -> None:
    """6.74e9 x 2 = 13.5 GB of weights and 2.1 GB of cache for 4,096 tokens, in the 24 GB of one A10G less a tenth."""
    assert serving_weight_bytes(SHAPES["Llama 2 7B"].parameters, Precision.FP16) == 2 * 6_738_415_616
    assert cache_bytes(SHAPES["Llama 2 7B"], tokens=4096) == 2 * 2 * 32 * 32 * 128 * 4096
    (plan,) = serve("Llama 2 7B", "g5.xlarge")
    assert (plan.nodes, plan.devices_per_replica) == (1, 1)
    assert round(plan.bytes_per_device / GB, 1) == 15.6
    assert round(plan.usable_bytes_per_device / GB, 1) == 21.6


def test_llama_2_70b_in_fp16_does_not_fit_a_g5_12xlarge_and_quantized_does() -> None:
    """68.98e9 x 2 = 138 GB are more than 4 x 24 GB = 96 GB; x 1 = 69 GB, over four GPUs 17.2 GB each, are less."""
    assert serve("Llama 2 70B", "g5.12xlarge") == []
    (eight_bits,) = serve("Llama 2 70B", "g5.12xlarge", Precision.INT8)
    assert eight_bits.devices_per_replica == 4
    assert round(eight_bits.bytes_per_device / GB, 1) == 17.6
    (four_bits,) = serve("Llama 2 70B", "g5.12xlarge", Precision.INT4)
    assert four_bits.devices_per_replica == 2


def test_70b_with_adam_exceeds_one_p4de_node_and_fits_eight() -> None:
    """70e9 x (2 + 4 + 12) = 1,260 GB; a node has 8 x 85.9 = 687 GB; over 64 GPUs 19.7 GB each, and activations."""
    state = training_state(70 * GB)
    assert (state.weights, state.gradients, state.optimizer) == (140 * GB, 280 * GB, 840 * GB)
    accelerator = instance_type("p4de.24xlarge").accelerator
    assert accelerator is not None
    assert state.total > 8 * accelerator.memory_mib_each * 1024**2
    assert train("Llama 2 70B", "p4de.24xlarge", nodes=1) is None
    plan = train("Llama 2 70B", "p4de.24xlarge", nodes=8)
    assert plan is not None
    assert (plan.gpus, plan.strategy) == (64, Strategy.FSDP)
    assert plan.bytes_per_gpu <= plan.usable_bytes_per_gpu


@pytest.mark.parametrize("shape", model_shapes(), ids=lambda shape: shape.name)
def test_activations_are_near_the_published_count(shape: ModelShape) -> None:
    """Korthikanti et al. count 34 bytes per token and hidden unit of a GPT layer without scores and dropout masks of
    attention; a gated layer, which is wider in all, needs somewhat more, and recomputation keeps its input only."""
    per_unit = layer_activation_bytes(shape) / shape.hidden_size
    assert 34 < per_unit < 46
    kept = activation_bytes(shape, sequence_length=2048, micro_batch=1, recompute=False)
    recomputed = activation_bytes(shape, sequence_length=2048, micro_batch=1, recompute=True)
    output = 4 * 2048 * (shape.hidden_size + shape.vocabulary)
    layer = layer_activation_bytes(shape) * 2048
    assert kept - output == shape.layers * layer
    assert recomputed - output == shape.layers * 2 * 2048 * shape.hidden_size + layer
    halved = activation_bytes(shape, sequence_length=2048, micro_batch=1, recompute=False, tensor_parallel=2)
    assert halved == kept // 2


def test_adapters_are_a_thousandth_of_the_model() -> None:
    """Llama 2 7B at rank 16: 32 layers x 4 projections x 16 x (4096 + 4096) = 16.8 million."""
    assert adapter_parameters(SHAPES["Llama 2 7B"], 16) == 32 * 4 * 16 * 8192
    state = training_state(7 * GB, trained_parameters=10**7)
    assert state.optimizer == 12 * 10**7
    assert state.weights == 2 * (7 * GB + 10**7)


# ----- what must hold for all


@given(
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from(sorted(instance_types())),
    st.sampled_from([1, 7, 64, 1024]),
)
def test_the_fewest_nodes_fit_and_one_less_does_not(model: str, type_name: str, batch: int) -> None:
    plan = train(model, type_name, batch=batch)
    if plan is None:
        return
    assert plan.bytes_per_gpu <= plan.usable_bytes_per_gpu
    assert plan.data_parallel <= batch
    assert plan.data_parallel * plan.tensor_parallel * plan.pipeline_parallel == plan.gpus
    assert plan.nodes == 1 or plan.instance_type.supports_efa
    if plan.tensor_parallel > 1:
        assert plan.instance_type.accelerator is not None
        assert plan.instance_type.accelerator.nvlink_gbytes_per_s_per_gpu
    if plan.nodes > 1:
        assert train(model, type_name, nodes=plan.nodes - 1, batch=batch) is None


@given(
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from(sorted(instance_types())),
    st.sampled_from(list(Precision)),
    st.integers(1, 40),
)
def test_replicas_fit_their_devices_and_nodes(model: str, type_name: str, precision: Precision, replicas: int) -> None:
    for plan in serve(model, type_name, precision, replicas=replicas):
        assert plan.bytes_per_device <= plan.usable_bytes_per_device
        assert plan.nodes * plan.replicas_per_node >= replicas > (plan.nodes - 1) * plan.replicas_per_node


def test_a_small_batch_makes_pipelines() -> None:
    plan = train("Llama 3.1 405B", "p5.48xlarge", batch=4, nodes=32)
    assert plan is not None
    assert plan.strategy is Strategy.THREE_D
    assert plan.data_parallel <= 4


def test_types_without_whole_nvidia_gpus_are_left_out() -> None:
    for type_name in ("trn1.32xlarge", "g6f.large", "m8g.4xlarge"):
        assert serve("Llama 3.2 1B", type_name) == []
        assert train("Llama 3.2 1B", type_name) is None


def test_a_small_model_is_served_by_mig_instances_too() -> None:
    whole, sliced = serve("Llama 3.2 1B", "p5.48xlarge", replicas=56)
    assert whole.mig_profile is None
    assert sliced.mig_profile is not None
    assert (sliced.mig_profile.name, sliced.replicas_per_node, sliced.nodes) == ("1g.10gb", 56, 1)
