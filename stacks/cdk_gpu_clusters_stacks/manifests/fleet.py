"""Jobs and model servers of one fleet, as Kubernetes runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.kubernetes.mig_fan_out import mig_fan_out, mig_workflow
from cdk_gpu_clusters.kubernetes.mig_slices import profile_label, profiles_of
from cdk_gpu_clusters.kubernetes.model_autoscaler import ServerScaling
from cdk_gpu_clusters.kubernetes.model_deployment import model_deployment, server_places
from cdk_gpu_clusters.kubernetes.model_server import SecretKey, ServerPod
from cdk_gpu_clusters.kubernetes.nccl_test import nccl_test
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, yaml_text
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec

#: A whole training script: each process says which it is, and all add up their numbers over the fabric.
_SCRIPT = (
    "import os, torch, torch.distributed as dist; dist.init_process_group('nccl'); "
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])); one = torch.ones(1, device='cuda'); dist.all_reduce(one); "
    "print(f'{int(one)} processes, this is {dist.get_rank()}'); dist.destroy_process_group()"
)
_NAME_OF_SLICE = "import torch; print(torch.cuda.get_device_name())"
_CHANGE = "CHANGE the image and the script to yours: as it stands, all processes add up their numbers once."


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Objects that are applied together.

    Attributes:
        objects: The objects.
        comments: What a reader should know of one, by its kind and name.
    """

    objects: list[KubernetesObject]
    comments: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The objects as YAML."""
        return yaml_text(self.objects, comments=self.comments)


def training_jobs(
    name: str, fleet: FleetSpec, pool: NodePool, *, image: str, trainer: bool
) -> dict[str, Manifest]:
    """Jobs for the nodes of a training fleet, by their name.

    Args:
        name: Name of the fleet.
        fleet: The fleet as the cluster file has it.
        pool: Its nodes.
        image: Image with PyTorch.
        trainer: Whether Kubeflow Trainer is installed.
    """
    if pool.mig is not None:
        return _fan_out(
            name,
            pool,
            image,
            ["python", "-c", _NAME_OF_SLICE],
        )
    if not _has_gpus(pool):
        return {}
    jobs = {"torchrun": _torchrun(name, fleet, pool, image, trainer=False)}
    if trainer:
        jobs["train-job"] = _torchrun(name, fleet, pool, image, trainer=True)
    if pool.node_count > 1:
        jobs["nccl-test"] = Manifest(
            objects=nccl_test(pool, name=f"{name}-nccl-test", node_count=2, image=image)
        )
    return jobs


def _torchrun(name: str, fleet: FleetSpec, pool: NodePool, image: str, *, trainer: bool) -> Manifest:
    objects = torchrun_job(
        f"{name}-job",
        pool,
        node_count=pool.node_count,
        image=image,
        command=["--no-python", "python", "-c", _SCRIPT],
        environment=fleet.environment,
        trainer=trainer,
    )
    first = objects[0]
    return Manifest(objects=objects, comments={f"{first['kind']}/{first['metadata']['name']}": _CHANGE})


def model_services(name: str, fleet: InferenceFleetSpec, pool: NodePool) -> dict[str, Manifest]:
    """The model servers of an inference fleet by their name; with MIG a deployment for each profile.

    Args:
        name: Name of the fleet.
        fleet: The fleet as the cluster file has it.
        pool: Its nodes.
    """
    if pool.mig is None:
        size = fleet.devices_per_server or 1
        return {name: _deployment(name, fleet, pool, size=size, profile=None)}
    profiles = profiles_of(pool.mig)
    if len(profiles) == 1:
        return {name: _deployment(name, fleet, pool, size=1, profile=profiles[0].name)}
    names = {f"{name}-{profile_label(one)}": one.name for one in profiles}
    return {each: _deployment(each, fleet, pool, size=1, profile=profile) for each, profile in names.items()}


def inference_jobs(name: str, fleet: InferenceFleetSpec, pool: NodePool) -> dict[str, Manifest]:
    """Jobs for the nodes of an inference fleet, by their name: over all slices, where there are some."""
    if pool.mig is None:
        return {}
    return _fan_out(name, pool, fleet.server.image, fleet.server.command)


def _deployment(
    name: str, fleet: InferenceFleetSpec, pool: NodePool, *, size: int, profile: str | None
) -> Manifest:
    server = _server(pool.name, fleet)
    places = server_places(pool, devices_per_server=size, profile=profile)
    scaling = None
    if fleet.scales and places is not None and _is_vllm(fleet.server.image):  # others have no such metric
        per_node = places.count // pool.node_count
        scaling = ServerScaling(min_servers=max(1, fleet.minimum_nodes) * per_node)
    objects = model_deployment(name, pool, server, devices_per_server=size, profile=profile, scaling=scaling)
    told = [
        f"Secret {one.name} is not made here: its key {one.key} holds what {fleet.server.secrets[variable].arn} has."
        for variable, one in server.secrets.items()
    ]
    if server.image_pull_secret is not None and fleet.server.registry_login is not None:
        told.append(
            f"Secret {server.image_pull_secret}, of type docker-registry, is not made here: it holds the login in "
            f"{fleet.server.registry_login.arn}."
        )
    return Manifest(objects=objects, comments={f"Deployment/{name}": "\n".join(told)})


def _server(name: str, fleet: InferenceFleetSpec) -> ServerPod:
    spec = fleet.server
    weights = spec.weights
    return ServerPod(
        image=spec.image,
        command=spec.command,
        port=spec.port,
        health_path=spec.health_path,
        environment=spec.environment,
        secrets={
            variable: SecretKey(name=f"{name}-server", key=one.json_field or variable)
            for variable, one in spec.secrets.items()
        },
        image_pull_secret=None if spec.registry_login is None else f"{name}-registry",
        weights_path=None if weights is None else weights.path or _MODEL,
        weights_uri=None if weights is None else weights.s3_uri,
        shared_memory_gib=spec.shared_memory_gib,
        start_seconds=fleet.ready_timeout_seconds or _START_SECONDS,
        drain_seconds=fleet.load_balancer.drain_timeout_seconds or _DRAIN_SECONDS,
    )


#: Defaults of the cluster file, for nodes of every orchestrator.
_MODEL, _START_SECONDS, _DRAIN_SECONDS = "/opt/gpu-cluster/model", 1800, 300


def _fan_out(name: str, pool: NodePool, of: str, command: Sequence[str]) -> dict[str, Manifest]:
    """A Job and an Argo Workflow that run a process on every slice."""
    return {
        "mig-job": Manifest(objects=mig_fan_out(f"{name}-all", pool, image=of, command=command)),
        "mig-workflow": Manifest(objects=mig_workflow(f"{name}-all", pool, image=of, command=command)),
    }


def _is_vllm(reference: str) -> bool:
    return "vllm" in reference.rpartition(":")[0]


def _has_gpus(pool: NodePool) -> bool:
    accelerator = pool.instance_type.accelerator
    return accelerator is not None and accelerator.kind is AcceleratorKind.GPU
