"""What a few groups of nodes run on Kubernetes, as files that are applied: a change of them is seen as a difference."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from cdk_gpu_clusters.kubernetes.mig import mig_fan_out, mig_workflow
from cdk_gpu_clusters.kubernetes.model_deployment import ServerScaling, model_deployment
from cdk_gpu_clusters.kubernetes.model_server import SecretKey, ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import multi_node_model
from cdk_gpu_clusters.kubernetes.nccl_test import nccl_test
from cdk_gpu_clusters.kubernetes.objects import yaml_text
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.ray import RayPods, gpu_ray_job
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters.kubernetes.volumes import lustre_volume
from kubernetes_pools import CORPUS, MIXED, Objects, check_everywhere, pool_of, slices, trainers


class YamlFile(SingleFileSnapshotExtension):
    """One file for each record, as kubectl would read it."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT

    def serialize(self, data: Any, **_: Any) -> str:
        return str(data)


VLLM = ServerPod(
    image="vllm/vllm-openai:v0.21.0",
    command=["/weights", "--tensor-parallel-size", "4"],
    secrets={"HF_TOKEN": SecretKey(name="hub", key="token")},
    weights_path="/weights",
    weights_uri="s3://my-models/llama",
)
LLAMA: dict[str, Any] = {
    "node_count": 16,
    "image": "111122223333.dkr.ecr.us-east-1.amazonaws.com/llama:v3",
    "command": ["train.py", "--epochs", "3"],
    "checkpoint_directory": "/fsx/llama",
}
UPSCALE: dict[str, Any] = {"image": "upscaler:v1", "command": ["python", "upscale.py"]}
RACK = pool_of("p6e-gb200.36xlarge", node_count=18)
FILES: dict[str, Objects] = {
    "p5-queues-and-volume": [*queues([trainers(), slices(MIXED)]), *lustre_volume(CORPUS)],
    "p5-nccl-test": nccl_test(trainers()),
    "p5-torchrun": torchrun_job("llama", trainers(), **LLAMA),
    "p5-torchrun-by-trainer": torchrun_job("llama", trainers(), trainer=True, **LLAMA),
    "p5-model-over-two-nodes": multi_node_model(
        "large", trainers(), ServerPod(image=VLLM.image, weights_path="/fsx/large"), nodes_per_server=2
    ),
    "p5-ray-job": gpu_ray_job(
        "tune",
        trainers(),
        RayPods(image=LLAMA["image"], ray_version="2.58.0"),
        node_count=4,
        command=["python", "tune.py"],
    ),
    "p6e-queues-and-torchrun-in-a-domain": [
        *queues([RACK]),
        *torchrun_job("llama", RACK, node_count=18, image=LLAMA["image"], command=["train.py"], compute_domain=True),
    ],
    "p4d-uniform-fan-out": mig_fan_out("upscale", slices(), **UPSCALE),
    "p4d-mixed-fan-out": mig_fan_out("upscale", slices(MIXED), **UPSCALE),
    "p4d-mixed-workflow": mig_workflow("upscale", slices(MIXED), **UPSCALE),
    "p4d-server-on-each-slice": model_deployment("chat", slices(), ServerPod(image=VLLM.image)),
    "g6e-servers-of-four-gpus": model_deployment(
        "chat", pool_of("g6e.48xlarge"), VLLM, devices_per_server=4, scaling=ServerScaling(min_servers=2)
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_manifests_stay_as_they_are(name: str, snapshot: SnapshotAssertion) -> None:
    check_everywhere(FILES[name])
    text = yaml_text(FILES[name])
    assert list(yaml.safe_load_all(text)) == FILES[name]
    assert snapshot(extension_class=YamlFile, name=name) == text
