"""Checks of fleets whose new versions are tried on some servers first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.kubernetes.canary import KIND, PLACES, STATISTICS, check_canary
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace, check_pod_names
from cdk_gpu_clusters.rules.vllm import is_vllm

from ._document import Fault, faults_at
from ._rules import CANARY_METRICS, CANARY_ROLLOUTS
from .inference import CanarySpec, InferenceFleetSpec
from .planned_fleet import COUNTS, PlannedFleet
from .served_models import ServedModel, served_models

_READ_OF_SERVERS = COUNTS | {
    "capacity",
    "devices_per_server",
    "mig",
    "nodes_per_server",
    "server",
    "server.command",
}
#: Rules read no workspace.
_ANY_WORKSPACE = PrometheusWorkspace(workspace_id="", region="")


def check_canaries(fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find canaries that nothing would run or judge, or that a fleet has no servers for."""
    return [
        fault
        for one in fleets
        if isinstance(one.spec, InferenceFleetSpec) and one.spec.canary is not None and "canary" not in one.broken
        for fault in _check_canary(one, one.spec, one.spec.canary)
    ]


def _check_canary(view: PlannedFleet, spec: InferenceFleetSpec, canary: CanarySpec) -> Iterator[Fault]:
    key = (*view.key, "canary")
    if not view.profile.joins_eks:
        finding = CANARY_ROLLOUTS.finding(
            cause="only Argo Rollouts in a cluster of Amazon EKS tries new versions",
            got="canary without orchestrator: eks",
            fix="write orchestrator: eks, or remove canary",
            severity=Severity.WARNING,
        )
        yield from faults_at(key, [finding], at_key=True)
        return
    if spec.nodes_per_server is not None:
        finding = KIND.finding(
            cause="Argo Rollouts does not change the LeaderWorkerSet of a server over several nodes",
            got=f"nodes_per_server: {spec.nodes_per_server}",
            allowed="canary without nodes_per_server",
            fix="remove canary, and try the new version in a fleet of its own (docs: serving models, a model over "
            "several nodes)",
        )
        yield from faults_at(key, [finding], at_key=True)
        return
    eks, parts = view.parts.eks, view.parts
    if not parts.eks_is_broken and (eks is None or not eks.software.argo_rollouts):
        finding = CANARY_ROLLOUTS.finding(
            cause="nothing would run its servers",
            got="no eks.software.argo_rollouts",
            fix="write eks.software.argo_rollouts: true, or remove canary",
        )
        yield from faults_at(key, [finding], at_key=True)
    if not view.broken & {"server", "server.image"} and not is_vllm(spec.server.image):
        finding = CANARY_METRICS.finding(
            cause="each version would be taken back for want of metrics",
            got=spec.server.image,
            allowed="an image whose name has vllm in it",
            fix="serve by vLLM, or remove canary",
        )
        yield from faults_at((*view.key, "server", "image"), [finding])
    unknown = view.broken & _READ_OF_SERVERS
    if unknown or view.server_plan[0] is None or view.plan.interfaces_or_none is None:
        return
    found: dict[Finding, None] = {}
    for model in served_models(view.name, spec, view.node_pool):
        found |= dict.fromkeys(_findings(model, spec, canary))
        names = [replace(one, fix="shorten the name of the fleet", path="") for one in check_pod_names(model.name)]
        yield from faults_at(view.key, names, at_key=True)
    for one in found:
        path = one.path.split(".")
        yield from faults_at((*view.key, *path), [replace(one, path="")], at_key=path == ["canary"])


def _findings(model: ServedModel, spec: InferenceFleetSpec, canary: CanarySpec) -> Iterator[Finding]:
    """What the construct would refuse, in words of the file."""
    for one in check_canary(
        canary.canary(_ANY_WORKSPACE),
        fewest=model.fewest,
        most=model.most,
        places=model.places,
        command=spec.server.command,
    ):
        if one.id == PLACES.id and one.path == "canary.spare_servers":
            allowed = f"0 to {max(0, model.places - 1)}, for {model.places} places"
            got = str(canary.spare_servers)
            yield replace(one, got=got, allowed=allowed, fix="write fewer, or give the fleet more nodes")
        elif one.id == PLACES.id:
            yield replace(one, fix="give the fleet places for two servers at all times, or remove canary")
        elif one.id == STATISTICS.id:
            fix = "take it out of the command, or write canary: { errors_only: true }"
            yield replace(one, allowed="a server with statistics, or errors_only: true", fix=fix)
        else:
            yield one
