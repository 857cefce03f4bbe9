"""Alerting and recording rules for Prometheus, from the alerts that CloudWatch alarms are made of too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml
from constructs import Construct, IConstruct

from cdk_gpu_clusters._cdk import ClusterConstruct, errors_at
from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.node.alerts import RUNBOOK_URL, NodeAlert, prometheus_alerts, runbook_of
from cdk_gpu_clusters.node.gpunode.metrics import names
from cdk_gpu_clusters.node.gpunode.metrics.exposition import MEASURED_AT
from cdk_gpu_clusters.rules.metrics_workspace import check_runbooks
from cdk_gpu_clusters.rules.scrape import JOB

if TYPE_CHECKING:
    from aws_cdk import aws_aps as aps

NODE_SILENT: Final = "NodeSilent"
# An event is one point of a counter: the alert lasts as long as people may need to see it.
_EVENT_WINDOW = "15m"
# Three scrapes a minute apart may fail, as the values of a node that is busy may be three minutes old.
_SILENT_FOR = "5m"
# Of NVIDIA's DCGM exporter. In Kubernetes it labels a GPU or MIG device with the pod that has it. Prometheus renames
# these labels, because the pod of the exporter has the same ones.
_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
# This library's choice.
_IDLE_SHARE = 0.05
#: What is recorded for each fleet.
_RECORDED = (
    (names.GPU_UTILIZATION, "avg"),
    (names.GPU_MEMORY_USED_PERCENT, "max"),
    (names.GPU_POWER_DRAW_WATTS, "sum"),
    (names.EFA_RECEIVED, "sum"),
    (names.EFA_TRANSMITTED, "sum"),
    (names.LUSTRE_READ, "sum"),
    (names.LUSTRE_WRITTEN, "sum"),
    (names.UNHEALTHY_NODES, "sum"),
)


def prometheus_rules(*, idle_minutes: int | None = 60, runbook_url: str = RUNBOOK_URL) -> str:
    """A file of rules for Prometheus: alerts about nodes, and sums for each fleet.

    Where the DCGM exporter is scraped, the GPUs and MIG devices that pods of Kubernetes have are counted: all of them,
    and those whose engine was active for less than 5 percent of the time throughout `idle_minutes`.

    A failed boot has no rule. A node that failed its boot serves no `/metrics`, and the CloudWatch alarm reports it.

    Sources: Prometheus documentation, "Alerting rules", "Recording rules", "Recording rules" of its best practices
    (names), and scrape_config (`honor_labels`); NVIDIA/dcgm-exporter, issue 342 (labels of pods).

    Args:
        idle_minutes: How long all GPUs of a fleet are idle before the alert `Idle`, 5 to 1,440, and how long GPUs that
            are counted as idle are so; None for neither.
        runbook_url: Address of the page with the runbooks, where the section of an alert has its name in small letters.
            By default the page of this library, `docs/alerts.md` in its repository.

    Raises:
        ConfigError: GPU-ALM-001, GPU-AMP-006.

    Example:
        >>> print(prometheus_rules(idle_minutes=30).partition("  - alert: Idle")[2].splitlines()[1].strip())
        expr: min by (fleet) (gpu_cluster_idle_seconds) >= 1800
    """
    alerts = prometheus_alerts(idle_minutes)
    raise_for(check_runbooks(runbook_url))
    groups = [
        {"name": "gpu-cluster-alerts", "rules": [*(_alert(one, runbook_url) for one in alerts), _silent(runbook_url)]},
        {
            "name": "gpu-cluster-fleets",
            "rules": [
                {
                    "record": f"fleet:{metric.prometheus_name}:{operation}",
                    "expr": f"{operation} by (fleet) ({metric.prometheus_name})",
                }
                for metric, operation in _RECORDED
            ],
        },
        {
            "name": "gpu-cluster-gpus",
            "rules": [{"record": name, "expr": expression} for name, expression in _gpus(idle_minutes).items()],
        },
    ]
    return yaml.safe_dump({"groups": groups}, sort_keys=False, width=1000)


def _gpus(idle_minutes: int | None) -> dict[str, str]:
    """What is recorded of the number of GPUs: all and idle ones of fleets, allocated and idle ones of pods."""
    gpus, idle = names.GPU_MEMORY_USED.prometheus_name, names.IDLE_SECONDS.prometheus_name
    held = f'{_ACTIVE}{{exported_pod!=""}}'
    recorded = {"fleet:gpus:count": f"count by (fleet) ({gpus})"}
    if idle_minutes is not None:
        of_idle_nodes = f"{gpus} and on (fleet, instance_id) {idle} >= {60 * idle_minutes}"
        recorded["fleet:idle_gpus:count"] = f"count by (fleet) ({of_idle_nodes}) or 0 * count by (fleet) ({gpus})"
    recorded["cluster:allocated_gpus:count"] = f"count by (cluster) ({held})"
    if idle_minutes is not None:
        # One that a pod has for less than this time may be about to start; one of a pod that ended is not allocated.
        unused = f"max_over_time({held}[{idle_minutes}m]) < {_IDLE_SHARE} and {held} offset {idle_minutes}m and {held}"
        recorded["cluster:allocated_idle_gpus:count"] = (
            f"count by (cluster) ({unused}) or 0 * count by (cluster) ({held})"
        )
    return recorded


def _alert(alert: NodeAlert, runbook_url: str) -> dict[str, Any]:
    name = alert.metric.prometheus_name
    if alert.metric.per == "event":
        expression = f"sum by (fleet, instance_id) (increase({name}[{_EVENT_WINDOW}])) > 0"
    elif alert.statistic == "Minimum":  # all nodes of the fleet
        expression = f"min by (fleet) ({name}) >= {alert.threshold}"
    else:
        expression = f"max by (fleet, instance_id) ({name}) >= {alert.threshold}"
    return {
        "alert": alert.name,
        "expr": expression,
        "annotations": _annotations(alert.name, alert.meaning, runbook_url),
    }


def _silent(runbook_url: str) -> dict[str, Any]:
    meaning = "A node does not answer Prometheus, or has stopped measuring; its instance may have ended."
    up = f'up{{job="{JOB}"}}'
    # A node that answers without values raises no other alert.
    expression = f"{up} == 0 or ({up} == 1 unless on (job, instance) {MEASURED_AT})"
    annotations = _annotations(NODE_SILENT, meaning, runbook_url)
    return {"alert": NODE_SILENT, "expr": expression, "for": _SILENT_FOR, "annotations": annotations}


def _annotations(name: str, meaning: str, runbook_url: str) -> dict[str, str]:
    return {"summary": meaning, "runbook_url": runbook_of(name, runbook_url)}


class PrometheusRules(ClusterConstruct):
    """The rules of `prometheus_rules` in a workspace of Amazon Managed Service for Prometheus.

    Makes one `AWS::APS::RuleGroupsNamespace`. The alerts notify no one before the workspace has an alert manager
    definition, which is yours.

    Example:
        >>> arn = "arn:aws:aps:us-east-2:123456789012:workspace/ws-0123abcd"
        >>> rules = PrometheusRules(stack, "Rules", workspace_arn=arn, idle_minutes=30)
        >>> rules.cfn_rule_groups_namespace.name
        'gpu-clusters'

    Attributes:
        cfn_rule_groups_namespace: The resource, as an escape hatch.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workspace_arn: str,
        idle_minutes: int | None = 60,
        namespace_name: str = "gpu-clusters",
        runbook_url: str = RUNBOOK_URL,
    ) -> None:
        """Define the rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            workspace_arn: ARN of the workspace that the nodes' metrics are sent to. May be a token.
            idle_minutes: How long all GPUs of a fleet are idle before the alert `Idle`, 5 to 1,440. 60 by default; None
                for no such alert.
            namespace_name: Name of the group of rules, unique in the workspace. A change replaces it.
            runbook_url: As in `prometheus_rules`.

        Raises:
            ConfigError: GPU-ALM-001, GPU-AMP-006.
        """
        from aws_cdk import aws_aps as aps  # takes long to load

        super().__init__(scope, construct_id)
        with errors_at(self):
            data = prometheus_rules(idle_minutes=idle_minutes, runbook_url=runbook_url)
        self.cfn_rule_groups_namespace: aps.CfnRuleGroupsNamespace = aps.CfnRuleGroupsNamespace(
            self, "Resource", name=namespace_name, workspace=workspace_arn, data=data
        )
        self._read_node_anew()

    def _main_resource(self) -> IConstruct | None:
        return vars(self).get("cfn_rule_groups_namespace")
