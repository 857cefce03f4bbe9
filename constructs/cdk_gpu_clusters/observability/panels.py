"""What a dashboard shows: rows of panels, decided from what a cluster has, for any writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue.prices import Price
from cdk_gpu_clusters.errors import ConfigError, Finding, define_rule, raise_for
from cdk_gpu_clusters.node.gpunode.metrics import names
from cdk_gpu_clusters.node.gpunode.metrics.exposition import MEASURED_AT
from cdk_gpu_clusters.node.gpunode.metrics.names import Metric
from cdk_gpu_clusters.rules.capacity import parse_instant

AUTO_SCALING, FSX, RESERVATIONS = "AWS/AutoScaling", "AWS/FSx", "AWS/EC2CapacityReservations"
_TOKEN = "${Token["  # noqa: S105 - of CDK
MOST_METRICS_PER_PANEL, MOST_METRICS = 500, 2500

TOO_MANY_METRICS = define_rule(
    "GPU-DASH-001",
    "a dashboard has at most 2,500 metrics, and a panel 500",
    source='CloudWatch user guide, "CloudWatch service quotas": dashboards',
)

PATH_NOT_KNOWN = define_rule(
    "GPU-DASH-002",
    "a dashboard of Prometheus needs paths of fleets that are known before deployment",
    source='AWS CDK developer guide, "Tokens": a file that is written before deployment has no values of tokens',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a panel.

    Attributes:
        label: Its name in the legend.
        namespace: Namespace in CloudWatch.
        metric: Name in CloudWatch.
        dimensions: Names and values of its dimensions. A value may be a token.
        statistic: Over all values of a period.
        expression: Metric math that is drawn in place of the metric, which it has as `{metric}`.
    """

    label: str
    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str
    expression: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query in PromQL, which draws a line for each fleet.

    Attributes:
        legend: Name of each line, with the label `{{fleet}}`.
        expression: The query, with the variables `$fleet` and `$instance` of Grafana.
        metric: What it reads.
    """

    legend: str
    expression: str
    metric: Metric | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One graph.

    Attributes:
        title: Its title.
        unit: Unit of its values, as its axis has it.
        meaning: What it shows, in one sentence.
        series: Its lines in CloudWatch. None if CloudWatch does not have them.
        queries: Its lines in Prometheus. None if Prometheus does not have them.
        period_seconds: Length of time for each point.
        value_names: Words for its values.
    """

    title: str
    unit: str
    meaning: str
    series: tuple[Series, ...] = ()
    queries: tuple[Query, ...] = ()
    period_seconds: int = 60
    value_names: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels about one subject.

    Attributes:
        title: The subject.
        notes: Sentences above the panels; facts that no metric has.
        panels: The panels.
    """

    title: str
    notes: tuple[str, ...]
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardFleet:
    """A fleet, as a dashboard needs it.

    Example:
        >>> DashboardFleet(name="trainers", path="llama-fleet-trainers/Fleet", instance_type="p5.48xlarge").efa
        False

    Attributes:
        name: Its name in legends.
        path: Its name in the metrics of its nodes: `fleet_path` of the fleet or node group. May be a token.
        instance_type: Type of its nodes.
        group_name: Name of its Auto Scaling group, which sends group metrics: `fleet_name` of a `GpuFleet`. May be a
            token. No panel shows the number of nodes, or their price, without it.
        whole_gpus: Whether some GPUs are not split with MIG. True by default.
        mig: Whether some GPUs are split with MIG. False by default; ignored for types without MIG.
        efa: Whether the nodes have EFA interfaces. False by default; ignored for types without EFA.
        lustre: Whether the nodes mount FSx for Lustre. False by default.
        reservation_ids: Capacity Reservations that it launches into. May be tokens. None by default.
        ends_at: End of its Capacity Block or reservation, with a time zone. No end by default.
        prepaid: Whether its capacity is paid before use, as Capacity Blocks are. False by default.
        price: List price of a node; `newest_price` has it. Shown as unknown by default.
    """

    name: str
    path: str
    instance_type: str
    group_name: str | None = None
    whole_gpus: bool = True
    mig: bool = False
    efa: bool = False
    lustre: bool = False
    reservation_ids: tuple[str, ...] = ()
    ends_at: datetime | None = None
    prepaid: bool = False
    price: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardFileSystem:
    """A file system of FSx for Lustre, as a dashboard needs it.

    Example:
        >>> DashboardFileSystem(name="corpus", file_system_id="fs-0123456789abcdef0").name
        'corpus'

    Attributes:
        name: Its name in legends.
        file_system_id: Its id. May be a token.
    """

    name: str
    file_system_id: str


def plan_dashboard(
    fleets: Sequence[DashboardFleet], file_systems: Sequence[DashboardFileSystem] = ()
) -> tuple[Row, ...]:
    """The rows of a dashboard: only panels for which something sends data.

    Args:
        fleets: The fleets.
        file_systems: The file systems. None by default.

    Raises:
        ConfigError: GPU-DASH-001 for more metrics than CloudWatch shows; GPU-INST-001 or -002 for an unknown type;
            GPU-CAP-015 for an end without a time zone.

    Example:
        >>> fleet = DashboardFleet(name="trainers", path="app/Trainers", instance_type="p5.48xlarge", efa=True)
        >>> [row.title for row in plan_dashboard([fleet])]
        ['Nodes', 'GPUs', 'EFA']
    """
    read, types = _read(fleets)
    counted = [fleet for fleet in read if fleet.group_name is not None]
    candidates = (*_rows(read, types, file_systems), _cost(counted))
    rows = _with_data(candidates, lambda panel: panel.series)
    _check(rows)
    return rows


def plan_prometheus_dashboard(fleets: Sequence[DashboardFleet]) -> tuple[Row, ...]:
    """The rows of a dashboard of what Prometheus scrapes: only panels for which a target has data.

    Each fleet has `NodeWatch(metrics_port=...)`, and Prometheus scrapes its nodes.

    Args:
        fleets: The fleets. A path is no token. `group_name` and `reservation_ids` have no effect.

    Raises:
        ConfigError: GPU-INST-001 or -002 for an unknown type; GPU-CAP-015 for an end without a time zone; GPU-DASH-002
            for a path that is a token.

    Example:
        >>> fleet = DashboardFleet(name="trainers", path="app/Trainers", instance_type="p5.48xlarge")
        >>> [row.title for row in plan_prometheus_dashboard([fleet])]
        ['Nodes', 'GPUs', 'Cost']
        >>> plan_prometheus_dashboard([fleet])[0].panels[1].queries[0].expression
        'sum by (fleet) (gpu_cluster_unhealthy_nodes{fleet=~"$fleet",instance_id=~"$instance"})'
    """
    read, types = _read(fleets, [_path_finding(fleet) for fleet in fleets if _TOKEN in fleet.path])
    return _with_data((*_rows(read, types, ()), _cost(read)), lambda panel: panel.queries)


def _rows(
    fleets: Sequence[DashboardFleet], types: Sequence[InstanceType], file_systems: Sequence[DashboardFileSystem]
) -> tuple[Row, ...]:
    return (
        _nodes(fleets),
        _gpus(fleets, types),
        _efa([fleet for fleet in fleets if fleet.efa]),
        _lustre([fleet for fleet in fleets if fleet.lustre], file_systems),
        _capacity(fleets),
    )


def _path_finding(fleet: DashboardFleet) -> Finding:
    return PATH_NOT_KNOWN.finding(
        cause=f"the path of {fleet.name} is a token",
        got=fleet.path,
        allowed="text that is known before deployment",
        fix="give the text itself; `fleet_path` of a construct is one",
    )


def _read(
    fleets: Sequence[DashboardFleet], faults: Sequence[Finding] = ()
) -> tuple[list[DashboardFleet], list[InstanceType]]:
    """The fleets with their ends in UTC and without what their types do not have, and the types."""
    read, types, findings = list[DashboardFleet](), list[InstanceType](), list(faults)
    for fleet in fleets:
        try:
            one = instance_type(fleet.instance_type)
            ends_at = None if fleet.ends_at is None else parse_instant(fleet.ends_at, name=f"{fleet.name}.ends_at")
        except ConfigError as fault:
            findings += fault.findings
            continue
        splits = one.accelerator is not None and one.accelerator.mig_capable
        efa, mig = fleet.efa and one.supports_efa, fleet.mig and splits
        read.append(replace(fleet, ends_at=ends_at, efa=efa, mig=mig))
        types.append(one)
    raise_for(findings)
    return read, types


def _with_data(rows: Sequence[Row], lines: Callable[[Panel], Sequence[object]]) -> tuple[Row, ...]:
    kept = (replace(row, panels=tuple(panel for panel in row.panels if lines(panel))) for row in rows)
    return tuple(row for row in kept if row.panels or row.notes)


def _check(rows: Sequence[Row]) -> None:
    # Expressions count, and so do metrics that are not drawn (CloudWatch user guide, "Use metric math").
    sizes = [sum(1 if one.expression is None else 2 for one in panel.series) for row in rows for panel in row.panels]
    if sum(sizes) <= MOST_METRICS and max(sizes, default=0) <= MOST_METRICS_PER_PANEL:
        return
    found = TOO_MANY_METRICS.finding(
        cause="the dashboard has too many metrics",
        got=f"{sum(sizes)}, and {max(sizes)} in its largest panel",
        allowed=f"at most {MOST_METRICS}, and {MOST_METRICS_PER_PANEL} in a panel",
        fix="make several dashboards, each with a part of the fleets",
    )
    raise ConfigError([found])


def _of_nodes(fleet: DashboardFleet, metric: Metric, statistic: str, what: str = "") -> Series:
    return Series(
        label=f"{fleet.name}{what and f' {what}'}",
        namespace=names.NAMESPACE,
        metric=metric.name,
        dimensions=((names.FLEET, fleet.path),),
        statistic=statistic,
    )


_Line = tuple[Metric, str, str]
#: The operation over all nodes that is a statistic of CloudWatch over all values of a minute.
_OPERATIONS = {"Average": "avg", "Maximum": "max", "Minimum": "min", "Sum": "sum"}
_CHOSEN = 'fleet=~"$fleet",instance_id=~"$instance"'


def _each(fleets: Sequence[DashboardFleet], *lines: _Line) -> tuple[Series, ...]:
    return tuple(_of_nodes(fleet, *line) for fleet in fleets for line in lines)


def _asked(fleets: Sequence[DashboardFleet], *lines: _Line) -> tuple[Query, ...]:
    """The queries of lines, each for all fleets; none without fleets."""
    return tuple(map(_query, lines)) if fleets else ()


def _query(line: _Line) -> Query:
    metric, statistic, what = line
    read = f"{metric.prometheus_name}{{{_CHOSEN}}}"
    if metric.per == "event":
        read = f"increase({read}[5m])"
    expression = f"{_OPERATIONS[statistic]} by (fleet) ({read})"
    return Query(legend=f"{{{{fleet}}}}{what and f' {what}'}", expression=expression, metric=metric)


def _of_fleet(fleet: DashboardFleet, expression: str) -> Query:
    """A query about one fleet, with `{measured}` for when its nodes measured."""
    path = fleet.path.replace("\\", "\\\\").replace('"', '\\"')
    measured = f'{MEASURED_AT}{{fleet="{path}",{_CHOSEN}}}'
    return Query(legend="{{fleet}}", expression=expression.format(measured=measured))


def _panel(
    fleets: Sequence[DashboardFleet],
    *lines: _Line,
    title: str,
    unit: str,
    meaning: str,
    value_names: tuple[tuple[int, str], ...] = (),
) -> Panel:
    """A panel of metrics of nodes, which both CloudWatch and Prometheus have."""
    return Panel(
        title=title,
        unit=unit,
        meaning=meaning,
        series=_each(fleets, *lines),
        queries=_asked(fleets, *lines),
        value_names=value_names,
    )


def _of_groups(
    fleets: Sequence[DashboardFleet], line: Callable[[DashboardFleet, str], Iterator[Series]]
) -> tuple[Series, ...]:
    return tuple(one for fleet in fleets if fleet.group_name is not None for one in line(fleet, fleet.group_name))


def _count(fleet: DashboardFleet, group_name: str) -> Iterator[Series]:
    for metric, what in (("GroupInServiceInstances", "in service"), ("GroupDesiredCapacity", "desired")):
        yield _of_group(group_name, metric, f"{fleet.name} {what}")


def _of_group(group_name: str, metric: str, label: str, expression: str | None = None) -> Series:
    dimensions = (("AutoScalingGroupName", group_name),)
    return Series(
        label=label,
        namespace=AUTO_SCALING,
        metric=metric,
        dimensions=dimensions,
        statistic="Average",
        expression=expression,
    )


_MEASURING = Query(legend="{{fleet}}", expression=f"count by (fleet) ({MEASURED_AT}{{{_CHOSEN}}})")
_ACTIONS = ((0, "none"), (2, "watch"), (3, "reset"), (4, "reboot"), (5, "replace"))


def _nodes(fleets: Sequence[DashboardFleet]) -> Row:
    return Row(
        title="Nodes",
        notes=(),
        panels=(
            Panel(
                title="Nodes in service and desired",
                unit="nodes",
                meaning="Nodes that passed their boot checks, beside those that each group wants.",
                series=_of_groups(fleets, _count),
            ),
            Panel(
                title="Nodes that measure",
                unit="nodes",
                meaning="Nodes that Prometheus scraped and that measured in the last three minutes.",
                queries=(_MEASURING,) if fleets else (),
            ),
            _panel(
                fleets,
                (names.UNHEALTHY_NODES, "Sum", ""),
                title="Unhealthy nodes",
                unit="nodes",
                meaning="Nodes that need a GPU reset, a reboot or a replacement, or whose watchdog is silent.",
            ),
            _panel(
                fleets,
                (names.NODE_SEVERITY, "Maximum", ""),
                title="Required action",
                unit=", ".join(f"{value} {name}" for value, name in _ACTIONS),
                meaning="The action that the worst finding on any node requires.",
                value_names=_ACTIONS,
            ),
            Panel(
                title="Boot failures and Xids",
                unit="events in 5 minutes",
                meaning="Boots that failed, and Xids that require a reset, a reboot or another node.",
                series=_each(fleets, (names.BOOT_FAILURES, "Sum", "boot failures"), (names.XIDS, "Sum", "Xids")),
                period_seconds=300,
            ),
            # A node whose boot failed serves no metrics.
            Panel(
                title="Xids",
                unit="events in 5 minutes",
                meaning="Xids that require a reset, a reboot or another node. Prometheus estimates the number.",
                queries=_asked(fleets, (names.XIDS, "Sum", "")),
            ),
        ),
    )


def _gpus(fleets: Sequence[DashboardFleet], types: Sequence[InstanceType]) -> Row:
    with_gpus = [fleet for fleet, one in zip(fleets, types, strict=True) if _has_nvidia_gpus(one)]
    whole = [fleet for fleet in with_gpus if fleet.whole_gpus]
    split = [fleet for fleet in with_gpus if fleet.mig]
    of_gpus: _Line = (names.GPU_MEMORY_USED_PERCENT, "Maximum", "GPU")
    of_mig: _Line = (names.MIG_MEMORY_USED_PERCENT, "Maximum", "MIG device")
    return Row(
        title="GPUs",
        notes=(),
        panels=(
            _panel(
                whole,
                (names.GPU_UTILIZATION, "Average", "average"),
                (names.GPU_UTILIZATION, "Minimum", "minimum"),
                title="GPU utilization",
                unit="percent",
                meaning="Share of time in which a kernel ran: the average GPU and the least active one. GPUs that are "
                "split with MIG have no such metric.",
            ),
            _panel(
                split,
                (names.MIG_DEVICES_IN_USE, "Sum", ""),
                title="MIG devices in use",
                unit="devices",
                meaning="MIG devices on which a process runs.",
            ),
            Panel(
                title="GPU memory",
                unit="percent",
                meaning="Share of the memory in use, of the fullest GPU or MIG device.",
                series=(*_each(whole, of_gpus), *_each(split, of_mig)),
                queries=(*_asked(whole, of_gpus), *_asked(split, of_mig)),
            ),
            _panel(
                with_gpus,
                (names.GPU_POWER_DRAW_WATTS, "Average", ""),
                title="GPU power",
                unit="watts",
                meaning="Power that the average GPU draws.",
            ),
            _panel(
                with_gpus,
                (names.GPU_TEMPERATURE_CELSIUS, "Maximum", ""),
                title="GPU temperature",
                unit="degrees Celsius",
                meaning="Temperature of the hottest GPU.",
            ),
            _panel(
                with_gpus,
                (names.IDLE_SECONDS, "Minimum", "fleet"),
                (names.IDLE_SECONDS, "Maximum", "one node"),
                title="Idle time",
                unit="seconds",
                meaning="Time since any GPU of the fleet was active, and of the node that is idle for the longest.",
            ),
        ),
    )


def _has_nvidia_gpus(one: InstanceType) -> bool:
    return one.accelerator is not None and one.accelerator.kind is AcceleratorKind.GPU


def _efa(fleets: Sequence[DashboardFleet]) -> Row:
    return Row(
        title="EFA",
        notes=(),
        panels=(
            _panel(
                fleets,
                (names.EFA_TRANSMITTED, "Average", "transmitted"),
                (names.EFA_RECEIVED, "Average", "received"),
                title="EFA traffic",
                unit="bytes per second",
                meaning="Bytes that the average EFA device transmits and receives.",
            ),
            _panel(
                fleets,
                (names.EFA_RETRANSMITTED, "Maximum", "sent again"),
                (names.EFA_RECEIVE_DROPS, "Maximum", "dropped"),
                title="EFA retransmits and drops",
                unit="packets per second",
                meaning="Packets that the worst EFA device sent again, or received and dropped.",
            ),
        ),
    )


def _lustre(fleets: Sequence[DashboardFleet], file_systems: Sequence[DashboardFileSystem]) -> Row:
    def of_stores(metric: str, statistic: str) -> tuple[Series, ...]:
        return tuple(
            Series(
                label=store.name,
                namespace=FSX,
                metric=metric,
                dimensions=(("FileSystemId", store.file_system_id),),
                statistic=statistic,
            )
            for store in file_systems
        )

    return Row(
        title="Lustre",
        notes=(),
        panels=(
            _panel(
                fleets,
                (names.LUSTRE_READ, "Sum", "read"),
                (names.LUSTRE_WRITTEN, "Sum", "written"),
                title="Lustre traffic",
                unit="bytes per second",
                meaning="Bytes that all nodes of a fleet read and write.",
            ),
            Panel(
                title="Free storage",
                unit="bytes",
                meaning="Free storage of the fullest storage target: writes to it fail first.",
                series=of_stores("FreeDataStorageCapacity", "Minimum"),
            ),
            Panel(
                title="Metadata operations",
                unit="operations a minute",
                meaning="Operations such as create, open, close and delete.",
                series=of_stores("MetadataOperations", "Sum"),
            ),
        ),
    )


def _hours_left(fleet: DashboardFleet, ends_at: datetime) -> Series:
    """The time to an end. Nodes send this metric in each minute; only the times of its points are read.

    Source: CloudWatch user guide, "Metric math": EPOCH.
    """
    expression = f"({ends_at.timestamp():.0f} - EPOCH({{metric}})) / 3600"
    return replace(_of_nodes(fleet, names.UNHEALTHY_NODES, "Sum"), expression=expression)


def _capacity(fleets: Sequence[DashboardFleet]) -> Row:
    ends = (f"{fleet.name}: ends {fleet.ends_at:%Y-%m-%d %H:%M %Z}." for fleet in fleets if fleet.ends_at is not None)
    return Row(
        title="Capacity",
        notes=tuple(ends),
        panels=(
            Panel(
                title="Time to the end",
                unit="hours",
                meaning="Time to the end of the Capacity Block or reservation, while there are nodes.",
                series=tuple(_hours_left(fleet, fleet.ends_at) for fleet in fleets if fleet.ends_at is not None),
                queries=tuple(
                    _of_fleet(fleet, f"({fleet.ends_at.timestamp():.0f} - max by (fleet) ({{measured}})) / 3600")
                    for fleet in fleets
                    if fleet.ends_at is not None
                ),
            ),
            Panel(
                title="Unused reserved instances",
                unit="instances",
                meaning="Instances of Capacity Reservations that are paid for and do not run.",
                series=tuple(
                    Series(
                        label=fleet.name,
                        namespace=RESERVATIONS,
                        metric="AvailableInstanceCount",
                        dimensions=(("CapacityReservationId", reservation_id),),
                        statistic="Maximum",
                    )
                    for fleet in fleets
                    for reservation_id in fleet.reservation_ids
                ),
                period_seconds=300,
            ),
        ),
    )


def _cost(fleets: Sequence[DashboardFleet]) -> Row:
    """What nodes cost: in CloudWatch those that a group counts, in Prometheus those that measure."""

    def priced(fleet: DashboardFleet, group_name: str) -> Iterator[Series]:
        if fleet.price is not None and not fleet.prepaid:
            yield _of_group(group_name, "GroupInServiceInstances", fleet.name, f"{fleet.price.usd} * {{metric}}")

    return Row(
        title="Cost",
        notes=tuple(map(_price_note, fleets)),
        panels=(
            Panel(
                title="Price of nodes in service",
                unit="US dollars an hour",
                meaning="List price times nodes in service. It has no discount, storage or traffic.",
                series=_of_groups(fleets, priced),
            ),
            Panel(
                title="Price of nodes that measure",
                unit="US dollars an hour",
                meaning="List price times nodes that measure. It has no discount, storage or traffic.",
                queries=tuple(
                    _of_fleet(fleet, f"{fleet.price.usd} * count by (fleet) ({{measured}})")
                    for fleet in fleets
                    if fleet.price is not None and not fleet.prepaid
                ),
            ),
        ),
    )


def _price_note(fleet: DashboardFleet) -> str:
    if fleet.prepaid:
        return f"{fleet.name}: paid before use."
    if fleet.price is None:
        return f"{fleet.name}: price unknown."
    return f"{fleet.name}: {fleet.price.usd} US dollars an hour for a node, list price as of {fleet.price.as_of}."
