"""What is wrong with `monitoring`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.profile import GroupKind
from cdk_gpu_clusters.node.exporters import EXPORTERS
from cdk_gpu_clusters.rules.budget import (
    BRAKE_FLEETS,
    check_brake,
    check_budget,
    check_budget_of_nodes,
    check_recipient,
)
from cdk_gpu_clusters.rules.fleet import check_emails
from cdk_gpu_clusters.rules.grafana import check_grafana
from cdk_gpu_clusters.rules.metrics_workspace import WORKSPACE_RETENTION, check_workspace
from cdk_gpu_clusters.rules.scrape import (
    MOST_SUBNETS,
    SCRAPE_TARGET,
    SCRAPER_SUBNETS,
    SCRAPER_ZONE,
    check_controller,
    check_fleets,
    check_place,
)

from ._check_values import check_arn
from ._document import Fault, faults_at
from ._parts import SpecParts
from ._rules import PARALLELCLUSTER_MONITORING
from .monitoring import SLURM_LABEL, BrakeSpec, BudgetSpec, GrafanaSpec, MetricsSpec, MonitoringSpec
from .network import ExistingNetwork
from .planned_fleet import PlannedFleet

_BUDGET, _METRICS = ("monitoring", "budget"), ("monitoring", "metrics")
_BRAKE, _GRAFANA = (*_BUDGET, "brake"), ("monitoring", "grafana")


def check_monitoring(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find what AWS refuses of a budget, of a collector of metrics and of Grafana, and what they have no effect on."""
    if parts.monitoring is None:
        return []
    if parts.profile.joins_parallelcluster:
        return _check_budget_alone(parts.monitoring, parts, fleets)
    metrics, budget = parts.monitoring.metrics, parts.monitoring.budget
    faults = [] if metrics is None else [*_check_metrics(metrics, parts, fleets), *_check_installed(metrics, fleets)]
    if budget is not None:
        faults += _check_budget_section(budget, parts, fleets)
    return faults + _check_grafana(parts.monitoring.grafana, parts.region)


def _check_grafana(grafana: GrafanaSpec | None, region: str | None) -> list[Fault]:
    faults = list[Fault]()
    for one in [] if grafana is None else check_grafana(grafana.authentication, region=region):
        if one.path == "region":
            faults += faults_at(_GRAFANA, [replace(one, path="")])
        else:
            here = replace(one, path="", allowed="identity-center, saml or both")
            faults += faults_at((*_GRAFANA, one.path), [here])
    return faults


#: What reads the nodes of a deployment -> what does the same for nodes of AWS ParallelCluster.
_OF_NODES = {
    "dashboard": "remove it: ParallelCluster makes a dashboard of its own (Monitoring of its configuration)",
    "metrics": "remove it; orchestrator: pcs has a collector for nodes of Slurm",
    "brake": "remove brake: the budget still notifies",
}


def _check_budget_alone(spec: MonitoringSpec, parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find what reads nodes that are not there yet: a budget counts all that has the tag of the cluster."""
    asked = {"dashboard": spec.dashboard, "metrics": spec.metrics is not None}
    faults = list[Fault]()
    for name in [name for name, is_asked in asked.items() if is_asked]:
        faults += faults_at(("monitoring", name), [_of_no_nodes(name)])
    if spec.budget is not None:
        faults += _check_budget_section(spec.budget.model_copy(update={"brake": None}), parts, fleets)
    if spec.brake is not None:
        faults += faults_at(_BRAKE, [_of_no_nodes("brake")])
    return faults + _check_grafana(spec.grafana, parts.region)


def _of_no_nodes(name: str) -> Finding:
    return PARALLELCLUSTER_MONITORING.finding(
        cause="pcluster makes the nodes in a stack of its own, after the stacks of the file",
        got=f"{name} with orchestrator: parallelcluster",
        allowed="monitoring.budget and monitoring.grafana",
        fix=_OF_NODES[name],
    )


def _check_budget_section(budget: BudgetSpec, parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find a budget that AWS refuses or that the nodes exceed, and recipients without an address."""
    faults = _check_budget(budget, parts.region)
    if parts.region is not None:
        findings = check_budget_of_nodes(budget.usd_per_month, _usd_per_hour(fleets, parts.region))
        faults += faults_at((*_BUDGET, "usd_per_month"), [replace(one, path="") for one in findings])
    if budget.brake is not None:
        faults += _check_brake(budget.brake, parts, fleets)
    return faults


def _check_brake(brake: BrakeSpec, parts: SpecParts, fleets: Sequence[PlannedFleet]) -> Iterator[Fault]:
    planned = {one.name: one for one in fleets}
    names = [one.name for one in parts.fleets]
    # What is wrong with a fleet itself is found there.
    known = [one for one in planned.values() if "capacity" not in one.broken]
    terms = {one.name: one.plan.terms if one.profile.group is GroupKind.AUTO_SCALING_GROUP else None for one in known}
    judged = [(index, name) for index, name in enumerate(brake.fleets) if name in terms]
    findings = check_brake([(name, terms[name]) for _, name in judged], percent=brake.percent)
    for finding in findings:
        name, _, place = finding.path.rstrip("]").partition("[")
        if place:
            yield from faults_at((*_BRAKE, name, judged[int(place)][0]), [replace(finding, path="")])
        elif name == "percent" or not brake.fleets:
            yield from faults_at((*_BRAKE, name), [replace(finding, path="")])
    for index, name in enumerate(brake.fleets):
        if names and name not in names:
            unknown = BRAKE_FLEETS.finding(
                cause="no fleet has this name", got=name, allowed=", ".join(names), fix="name a fleet of the file"
            )
            yield from faults_at((*_BRAKE, "fleets", index), [unknown])


def _check_metrics(metrics: MetricsSpec, parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find nodes that no collector reads, a place without one, and a retention that AWS refuses."""
    if parts.profile.joins_batch:
        return faults_at(_METRICS, [_NO_GROUP], at_key=True)
    if parts.profile.joins_hyperpod:
        return faults_at(_METRICS, [_NOT_FOUND_ON_HYPERPOD])
    findings = []
    if not parts.profile.joins_eks:
        taken = [(SLURM_LABEL, True, None)] if parts.profile.joins_slurm else []
        findings += check_fleets([*taken, *((one.name, True, one.node_count) for one in fleets if one.serves_metrics)])
        if fleets and not any(one.serves_metrics for one in fleets):
            findings += _check_controller(parts) if parts.profile.joins_slurm else [_nothing_to_scrape()]
    if fleets:
        findings += _check_subnets(parts)
    faults = faults_at(_METRICS, [replace(one, path="") for one in findings])
    if parts.profile.joins_eks and metrics.zone_id is not None:
        faults += faults_at((*_METRICS, "zone_id"), [_zone_without_effect(metrics.zone_id)])
    return faults + _check_retention(metrics, parts.region)


_NO_GROUP = SCRAPE_TARGET.finding(
    cause="the collector finds nodes by their Auto Scaling group or by AWS PCS, and those of AWS Batch have neither",
    got="metrics with orchestrator: batch",
    allowed="orchestrator ec2, eks or pcs",
    fix="remove metrics: the dashboard and the alarms read what nodes report to CloudWatch",
)


def _check_installed(metrics: MetricsSpec, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find exporters that no node would install."""
    if not metrics.install_exporters or (metrics.exporters and any(one.exporters for one in fleets)):
        return []
    finding = EXPORTERS.finding(
        cause="no node would install an exporter"
        if metrics.exporters
        else "exporters names none, and so there is nothing to install",
        got=f"exporters: [{', '.join(metrics.exporters)}]",
        allowed="a fleet that is scraped, with GPUs for dcgm" if metrics.exporters else "dcgm, node",
        fix="remove install_exporters" if metrics.exporters else "add exporters: [dcgm, node]",
    )
    return faults_at((*_METRICS, "install_exporters"), [finding])


def _check_controller(parts: SpecParts) -> list[Finding]:
    """Of AWS PCS without nodes that serve metrics: whether the controller does; of an existing one it is not known."""
    if parts.pcs_is_broken or (parts.pcs is not None and (parts.pcs.metrics or parts.pcs.existing is not None)):
        return []
    return [replace(one, fix="add metrics: true to pcs") for one in check_controller("pcs", {})]


def _check_subnets(parts: SpecParts) -> list[Finding]:
    network = parts.network
    if network is None:
        return []
    if not isinstance(network, ExistingNetwork):
        return check_place(sorted(network.control_zones)[:MOST_SUBNETS], region=parts.region)
    fix = "add service_subnets of two zones to network"
    found = check_place(sorted(network.service_subnets)[:MOST_SUBNETS], region=parts.region)
    return [replace(one, fix=fix) if one.id == SCRAPER_SUBNETS.id else one for one in found]


_NOT_FOUND_ON_HYPERPOD = SCRAPE_TARGET.finding(
    cause="nodes of HyperPod are instances of an account of SageMaker, where the collector does not find them",
    got="monitoring.metrics on HyperPod",
    allowed="dashboard and budget",
    fix="remove metrics; the observability of SageMaker HyperPod collects metrics of its nodes",
)


def _nothing_to_scrape() -> Finding:
    return SCRAPE_TARGET.finding(
        cause="the watchdog is off on all nodes, and it serves their metrics",
        got="watch: {mode: off}",
        allowed="a fleet with a watchdog",
        fix="remove monitoring.metrics, or let the watchdog of a fleet run, with mode on or dry-run",
    )


def _zone_without_effect(zone_id: str) -> Finding:
    return SCRAPER_ZONE.finding(
        cause="the collector of a cluster of Amazon EKS writes no DNS records",
        got=zone_id,
        allowed="no zone_id with orchestrator: eks",
        fix="remove zone_id",
    )


def _check_retention(metrics: MetricsSpec, region: str | None) -> list[Fault]:
    days, is_workspace = metrics.retention_days, metrics.destination == "workspace"
    findings = check_workspace(alias=None, retention_days=days, region=region if is_workspace else None)
    if days is not None and not is_workspace:
        findings.append(
            WORKSPACE_RETENTION.finding(
                cause="CloudWatch has a retention of its own, and no workspace is made",
                got=f"{days:,} days",
                allowed="retention_days with destination: workspace",
                fix="remove it, or add destination: workspace",
                path="retention_days",
            )
        )
    faults: list[Fault] = []
    for one in findings:
        place = () if one.path == "region" else (one.path,)
        faults += faults_at((*_METRICS, *place), [replace(one, path="")])
    return faults


def _usd_per_hour(fleets: Sequence[PlannedFleet], region: str) -> Decimal:
    """What the least nodes cost at list price; without blocks, Spot nodes and prices that are unknown."""
    usd = Decimal()
    for fleet in fleets:
        if fleet.node_count is not None and not fleet.broken & {"capacity"} and not fleet.plan.terms.kind.is_block:
            hour = fleet.node_hour(region)
            usd += 0 if hour.low is None or hour.is_ceiling else hour.low * fleet.paid_nodes[0]
    return usd


def _check_budget(budget: BudgetSpec, region: str | None) -> list[Fault]:
    findings = [
        *check_budget(
            budget.usd_per_month,
            actual_percent=budget.actual_percent,
            forecast_percent=budget.forecast_percent,
            region=region,
        ),
        *check_recipient(has_emails=bool(budget.emails), has_topic=budget.topic_arn is not None),
        *(check_emails(budget.emails) if budget.emails else ()),
    ]
    faults: list[Fault] = []
    for finding in findings:
        if finding.path == "region":
            faults += faults_at(
                _BUDGET, [replace(finding, fix=f"remove monitoring.budget, and {finding.fix}", path="")]
            )
            continue
        name, _, index = finding.path.rstrip("]").partition("[")
        faults += faults_at((*_BUDGET, name, *([int(index)] if index else [])), [replace(finding, path="")])
    if budget.topic_arn is not None and region is not None:
        faults += check_arn((*_BUDGET, "topic_arn"), budget.topic_arn, region, "topic")
    return faults
