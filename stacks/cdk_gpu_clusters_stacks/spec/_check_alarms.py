"""Checks of a fleet's alarms."""

from __future__ import annotations

from dataclasses import replace

from cdk_gpu_clusters.rules.fleet_alarms import check_alarms, check_emails

from ._check_balancer import check_arn
from ._document import Key
from ._fault import Fault, faults_at
from ._rules import SILENT_ALARMS
from .inference import InferenceFleetSpec
from .nodes import NodesSpec

# As `GpuFleet` has it.
_READY_SECONDS = 30 * 60


def check_alarms_of(key: Key, spec: NodesSpec, region: str | None) -> list[Fault]:
    """Find numbers that AWS refuses, people that nobody reaches, and alarms that are off and tell somebody.

    Args:
        key: Where the fleet stands in the file.
        spec: The fleet.
        region: Region of the cluster, if it is sound.
    """
    alarms, here = spec.alarms, (*key, "alarms")
    faults: list[Fault] = []
    ready, more = _READY_SECONDS, ""
    if isinstance(spec, InferenceFleetSpec):
        ready, more = spec.ready_timeout_seconds or ready, ", or raise ready_timeout_seconds"
    if alarms.settings is not None:
        for finding in check_alarms(alarms.settings, ready_timeout_seconds=ready):
            name = finding.path.rpartition(".")[2]
            faults += faults_at((*here, name), [replace(finding, fix=f"lower {name}{more}", path="")])
    elif alarms.tells:
        finding = SILENT_ALARMS.finding(
            cause="alarms that are not there tell nobody",
            got="enabled: false with topic_arn or emails",
            allowed="one of the two",
            fix="remove enabled, or topic_arn and emails",
        )
        faults += faults_at((*here, "enabled"), [finding])
    if alarms.topic_arn is not None and region is not None:
        faults += check_arn((*here, "topic_arn"), alarms.topic_arn, region, "topic")
    if alarms.emails:
        for finding in check_emails(alarms.emails):
            index = int(finding.path.rpartition("[")[2].rstrip("]"))
            faults += faults_at((*here, "emails", index), [replace(finding, path="")])
    return faults
