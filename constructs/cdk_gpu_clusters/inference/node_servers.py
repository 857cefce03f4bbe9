"""The model servers of a node, as an inference fleet sets them up."""

from __future__ import annotations

from collections.abc import Collection

from constructs import Construct

from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.fleet.plan import FleetPlan, Topic
from cdk_gpu_clusters.inference.model_server import ModelServer
from cdk_gpu_clusters.node.model_server import ServerSettings
from cdk_gpu_clusters.node.storage import SCRATCH_MOUNT_POINT
from cdk_gpu_clusters.rules.inference import check_servers_required, servers_required
from cdk_gpu_clusters.rules.model_servers import (
    DeviceKind,
    ServerPlan,
    ServerSlots,
    check_mig_slots,
    plan_scratch,
    plan_servers,
)

# /dev/shm of a server of several accelerators, whose processes exchange data through it: this library's choice.
_GROUP_SHARED_MEMORY_GIB = 8


def plan_or_report(
    scope: Construct,
    fleet: FleetPlan,
    server: ModelServer,
    slots: ServerSlots | None,
    port: int,
    first_server_port: int,
    findings: list[Finding],
) -> ServerPlan:
    """Plan the servers of a node; their faults are reported together with those found before.

    Args:
        scope: The construct that the faults are reported at.
        fleet: What was decided about the nodes.
        server: The model server.
        slots: How their accelerators are shared out.
        port: Port of the node's balancer.
        first_server_port: Port of the first server.
        findings: What was found before.

    Raises:
        ConfigError: Every error.
    """
    split = fleet.mig
    if fleet.request.mig is not None and split is None:
        report(scope, [*fleet.about(Topic.MIG), *findings])
    if split is not None:
        whole = split.whole_gpus_per_node
        findings = [*check_mig_slots(slots, split.slices_per_node, whole_gpus=whole), *findings]
        slots = slots or ServerSlots.per_mig_slice(split.slices_per_node)
    try:
        plan = plan_servers(fleet.instance_type, slots, port=port, first_server_port=first_server_port)
    except ConfigError as error:
        report(scope, [*error.findings, *findings])
        raise  # not reached: the findings of a ConfigError are errors
    if plan.kind is DeviceKind.GPU:
        findings = [*server.check_gpus(fleet.instance_type, len(plan.devices[0])), *findings]
    report(scope, [*plan.findings, *findings])
    return plan


def required_servers(scope: Construct, plan: ServerPlan, requested: int | None) -> int:
    """Servers that must be up for a node to be healthy: half of them if the user does not say.

    Args:
        scope: Whose fault a wrong number is.
        plan: The servers of a node.
        requested: The requested number; None for half of them.

    Raises:
        ConfigError: GPU-INF-018.
    """
    required = servers_required(plan.server_count, requested)
    report(scope, check_servers_required(required, plan.server_count))
    return required


def server_scratch(
    server: ModelServer, record: InstanceType, requested: bool | None, mount_points: Collection[str]
) -> tuple[bool, list[Finding]]:
    """Whether the local disks of a node become one file system, and what is wrong with what lies on it.

    Args:
        server: The model server.
        record: Type of the nodes.
        requested: The requested setting; None to follow the weights.
        mount_points: Where other file systems are mounted.
    """
    weights = server.weights
    return plan_scratch(
        None if weights is None else weights.path,
        record,
        scratch=SCRATCH_MOUNT_POINT,
        requested=requested,
        mount_points=mount_points,
        copied=weights is not None and weights.bucket is not None,
        cache_path=server.cache_path,
    )


def server_settings(
    server: ModelServer, plan: ServerPlan, *, required: int, idle_seconds: int, drain_seconds: int
) -> ServerSettings:
    """The settings of a node's model servers.

    Args:
        server: The model server.
        plan: How many servers a node runs, and with which devices.
        required: Servers that must be up for the node to be healthy.
        idle_seconds: How long a request or a stream may be silent.
        drain_seconds: How long running requests of a leaving node get.
    """
    shared = server.shared_memory_gib
    if shared is None and len(plan.devices[0]) > 1:
        shared = _GROUP_SHARED_MEMORY_GIB
    weights = server.weights
    return ServerSettings(
        image=server.reference,
        plan=plan,
        container_port=server.port,
        health_path=server.health_path,
        command=server.command,
        environment=server.environment,
        secrets={name: (secret.arn, secret.json_field or "") for name, secret in server.secrets.items()},
        registry_login="" if server.registry_login is None else server.registry_login.arn,
        weights_path="" if weights is None else weights.path,
        weights_uri="" if weights is None else weights.uri or "",
        cache_path=server.cache_path or "",
        shared_memory_gib=shared,
        minimum_servers=required,
        idle_timeout_seconds=idle_seconds,
        drain_seconds=drain_seconds,
        requests_per_server=server.max_concurrent_requests,
    )
