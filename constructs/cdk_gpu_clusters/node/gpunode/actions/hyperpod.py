"""SageMaker HyperPod: the service replaces and reboots a node by its own signal, which this software writes.

On Slurm the signal is the reason of a node that is FAIL: new jobs stay away, running ones end by themselves, and then
the service acts. On Amazon EKS it is a label of the node.

Sources: awslabs/ai-on-sagemaker-hyperpod @ b13e484, website/docs/06-validation-and-testing/resiliency
(slurm-resiliency.md with the log of the service's own agent, eks-resiliency.md, overview.md);
awslabs/awsome-distributed-ai @ 95b939c, LifecycleScripts/base-config/utils/motd.txt; Amazon SageMaker AI developer
guide, "Resilience-related Kubernetes labels by SageMaker HyperPod".
"""

from __future__ import annotations

from typing import Any

from ..checks.check import Severity
from .kubernetes import Kubernetes
from .orchestrator import ActionError
from .slurm import Slurm

HEALTH_LABEL = "sagemaker.amazonaws.com/node-health-status"
_SCHEDULABLE = "Schedulable"
_LABELS = {Severity.REBOOT: "UnschedulablePendingReboot", Severity.REPLACE: "UnschedulablePendingReplacement"}
_REASONS = {Severity.REBOOT: "Action:Reboot", Severity.REPLACE: "Action:Replace"}


class HyperPodSlurm(Slurm):
    """Has the service replace or reboot this node of a Slurm cluster."""

    def taken_out(self, severity: Severity) -> set[str]:
        """Nodes that wait for the service, whoever asked for it, besides those that this software drained."""
        rows = self._rows()
        mine = self._mine(rows)[0].name
        signals = {reason for repair, reason in _REASONS.items() if repair >= severity}
        waiting = {row.name for row in rows if row.reason in signals}
        return (super().taken_out(severity) | waiting) - {mine}

    def take_out(self, severity: Severity, reason: str) -> None:  # noqa: ARG002 - the service takes no other words
        """Ask for another node once the jobs of this one have ended."""
        self._signal(Severity.REPLACE)

    def reboot(self) -> bool:
        """Ask for a reboot."""
        self._signal(Severity.REBOOT)
        return True

    def _signal(self, repair: Severity) -> None:
        self._run("scontrol", "update", f"NodeName={self.name}", "State=FAIL", f"Reason={_REASONS[repair]}")


class HyperPodKubernetes(Kubernetes):
    """Has the service replace or reboot this node of a cluster of Amazon EKS."""

    def why_out(self) -> str:
        """A cordon, a node that is being deleted, or one that the service has taken over."""
        mine = self._mine()
        status = str((mine["metadata"].get("labels") or {}).get(HEALTH_LABEL, _SCHEDULABLE))
        return super().why_out() or ("" if status == _SCHEDULABLE else f"HyperPod has this node {status}")

    def take_out(self, severity: Severity, reason: str) -> None:
        """Keep pods away, and ask for another node. The label comes last, since the node then ends."""
        self.hold(severity, reason)
        self._signal(Severity.REPLACE)

    def reboot(self) -> bool:
        """Ask for a reboot."""
        self._signal(Severity.REBOOT)
        return True

    def _signal(self, repair: Severity) -> None:
        self._cluster.label(self._mine()["metadata"]["name"], HEALTH_LABEL, _LABELS[repair])

    def _mine_of(self, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        """This node by its name, which ends in the id of its instance; its provider id is one of SageMaker."""
        for node in nodes:
            if str(node["metadata"]["name"]).endswith(self._node.instance_id):
                return node
        raise ActionError(f"none of {len(nodes)} nodes is {self._node.instance_id}")
