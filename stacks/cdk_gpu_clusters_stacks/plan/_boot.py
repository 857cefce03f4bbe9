"""How a node boots: asked of the node's own software, with the settings that it will get."""

from __future__ import annotations

from cdk_gpu_clusters.node.gpu_facts import gpu_facts
from cdk_gpu_clusters.node.gpunode.aws import Aws
from cdk_gpu_clusters.node.gpunode.boot.extra import extra_stages
from cdk_gpu_clusters.node.gpunode.boot.stages import stages_of
from cdk_gpu_clusters.node.gpunode.checks.verify import checks_of
from cdk_gpu_clusters.node.gpunode.metadata import Metadata
from cdk_gpu_clusters.node.gpunode.node import Node
from cdk_gpu_clusters.node.gpunode.settings import Settings
from cdk_gpu_clusters.node.mig import mig_settings
from cdk_gpu_clusters.node.model_server import ServerSettings, model_server_files
from cdk_gpu_clusters.node.node_environment import node_environment
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.storage import LustreMount
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.views import FleetView, plan_slots

#: Programs that add a stage of their own, after all others.
_READY_PROGRAMS = "/etc/gpu-cluster/ready.d/"


def boot_of(view: FleetView, efa_count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stages of a node's boot in their order, and the checks of its stage `verification`.

    Args:
        view: Its fleet.
        efa_count: Its EFA interfaces.
    """
    values = node_environment(_settings(view, efa_count))
    settings = Settings({name.removeprefix("GPU_").lower(): value for name, value in values.items()})
    node = Node(settings=settings, metadata=Metadata(), instance_id="", aws=Aws(""))
    here = {stage.name for stage in extra_stages()}  # programs of this machine, if it is a node itself
    stages = [stage.name for stage in stages_of(node) if stage.name not in here]
    return (*stages, *_own_stages(view)), tuple(checks_of(node))


def _settings(view: FleetView, efa_count: int) -> NodeSettings:
    accelerator = view.type.accelerator
    return NodeSettings(
        fleet_name="",
        accelerator_kind=None if accelerator is None else accelerator.kind,
        accelerator_count=0 if accelerator is None else accelerator.count or accelerator.logical_count,
        gpu_facts=gpu_facts(view.type),
        efa_interface_count=efa_count,
        mounts=tuple(
            LustreMount(mount_point=point, dns_name="", mount_name="") for point in view.spec.mounts
        ),
        scratch=None if view.on_eks else view.scratch,
        orchestrator="eks" if view.on_eks else None,
        mig=None if view.mig is None else mig_settings(view.mig),
    )


def _own_stages(view: FleetView) -> list[str]:
    """Stages that the fleet's own files add."""
    if view.on_eks or not isinstance(view.spec, InferenceFleetSpec):
        return []
    servers, _ = plan_slots(view, view.spec)
    if servers is None:
        return []
    server = view.spec.server
    settings = ServerSettings(
        image=server.image, plan=servers, container_port=server.port, health_path=server.health_path
    )
    paths = [file.path for file in model_server_files(settings)]
    return sorted(path.removeprefix(_READY_PROGRAMS) for path in paths if path.startswith(_READY_PROGRAMS))
