"""The report page: one self-contained file with its style and its drawings as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.plan import ClusterPlan
from cdk_gpu_clusters_stacks.plan.model import FleetReport, StorePlan, SubnetUse, UsdRange
from cdk_gpu_clusters_stacks.plan.text import compute_environment_words, parallelcluster_words

from .anatomy import anatomy
from .boxes import UNKNOWN, gbps, nodes_text, number, place, range_text, usd, zones_text
from .drawing import drawings, svg
from .hyperpod import hyperpod_rows, instance_group_rows
from .legend import legend
from .slurm import compute_node_group_rows, slurm_queue_rows, slurm_rows
from .topology import cluster_rows, node_group_rows, topology

#: Width of a picture, in pixels.
_PICTURE = 640


def report_html(plan: ClusterPlan) -> str:
    """The report of a cluster, as one HTML page."""
    return document(
        f"{plan.name}: GPU cluster report",
        [
            *_header(plan),
            card("Topology", topology_figure(plan)),
            *_kubernetes(plan),
            *_slurm(plan),
            *_batch(plan),
            *_hyperpod(plan),
            *_anatomies(plan),
            '<div class="pair">',
            card("Cost", _cost(plan)),
            card("Addresses", _addresses(plan)),
            "</div>",
            card("Checks", _checks(plan)),
            card("Stacks", _stacks(plan)),
            card("Prices", _prices(plan)),
        ],
    )


def document(title: str, body: Iterable[str]) -> str:
    """A page with the report's style that needs nothing else: no network, no script.

    Args:
        title: Its title, as plain text.
        body: What it shows, as HTML.
    """
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title><style>{_style_sheet()}</style></head><body><main>",
            *body,
            "</main></body></html>\n",
        ]
    )


def topology_picture(plan: ClusterPlan) -> str:
    """The topology of a cluster as one SVG file with its own colours."""
    made = topology(plan)
    placed = place(made.box, _PICTURE)
    title, words = f"Topology of {plan.name}", _topology_words(plan)
    return svg(placed, made.flows, title=title, description=words, style="picture", style_sheet=_style_sheet())


def _style_sheet() -> str:
    return files(__package__).joinpath("style.css").read_text("utf-8")


def card(title: str, body: str) -> str:
    """A part of a page below its heading; the body is HTML."""
    key = title.lower().replace(" ", "-")
    return (
        f'<section class="card" aria-labelledby="{escape(key)}"><h2 id="{escape(key)}">{escape(title)}</h2>'
        f"{body}</section>"
    )


def topology_figure(plan: ClusterPlan) -> str:
    """The topology of a cluster with its legend, as HTML that needs the report's style sheet."""
    made = topology(plan)
    return drawings(made.box, f"Topology of {plan.name}", _topology_words(plan), made.flows) + legend(plan, made.flows)


def _header(plan: ClusterPlan) -> Iterator[str]:
    where = [
        f"{plan.orchestrator} cluster",
        plan.region,
        f"account {plan.account}" if plan.account else "account of the credentials",
        plan.network.availability_zone,
    ]
    yield f"<header><h1>{escape(plan.name)}</h1><p class='soft'>{escape(' · '.join(where))}</p></header>"
    mark = "<dd class='left-out'>partial: some items have no price</dd>" if plan.cost.missing else ""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd>{mark if is_price else ''}</div>"
        for name, value, is_price in _tiles(plan)
    )
    yield f'<dl class="tiles">{cells}</dl>'
    if plan.cost.missing:
        yield f"<p class='soft'><small>Not included in the prices: {escape('; '.join(plan.cost.missing))}.</small></p>"


def _tiles(plan: ClusterPlan) -> Iterator[tuple[str, str, bool]]:
    """Name and value of each total, and whether it is a price."""
    totals = plan.totals
    ranges = [
        ("nodes", totals.minimum_nodes, totals.maximum_nodes, ""),
        ("accelerators", totals.minimum_accelerators, totals.accelerators, ""),
        ("accelerator memory", totals.minimum_accelerator_memory_gib, totals.accelerator_memory_gib, " GiB"),
        ("MIG slices", totals.minimum_mig_slices, totals.mig_slices, ""),
        ("model servers", totals.minimum_model_servers, totals.model_servers, ""),
    ]
    for name, least, most, unit in ranges:
        if most:
            yield name, range_text(least, most) + unit, False
    efa = [fleet.node.network.efa_gbps for fleet in plan.fleets]
    if known := [one for one in efa if one]:
        yield "EFA per node, at most", gbps(max(known)), False
    yield "list price per hour", usd(plan.cost.usd_per_hour), True
    if plan.cost.usd_per_run:
        yield "list price, all runs", usd(plan.cost.usd_per_run), True


def _topology_words(plan: ClusterPlan) -> str:
    fleets = [
        f"{fleet.name}: {nodes_text(fleet.minimum_nodes, fleet.maximum_nodes)} of {fleet.node.instance_type} in "
        f"{zones_text(fleet.availability_zones)}, {fleet.capacity.words}"
        for fleet in plan.fleets
    ]
    stores = [f"store {store.name}" for store in plan.stores]
    mounts = [
        f"{fleet.name} mounts {mount.store} over {'EFA' if mount.over_efa else 'TCP'}"
        for fleet in plan.fleets
        for mount in fleet.mounts
    ]
    return "; ".join([*fleets, *stores, *mounts])


def _kubernetes(plan: ClusterPlan) -> Iterator[str]:
    """A card for the cluster of EKS, if the fleets join one."""
    if plan.kubernetes is None:
        return
    # Commands are in backticks, as `gpu-clusters plan` prints them.
    cluster = [
        (escape(name), re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words)))
        for name, words in cluster_rows(plan.kubernetes)
    ]
    groups = [tuple(map(escape, row)) for row in node_group_rows(plan)]
    heads = ("node group", "bought as, image", "pods per node", "resources per node, taints", "size, updates")
    made = table(heads, groups, numbers=(2,))
    yield card("Kubernetes", f"{table(('Amazon EKS', ''), cluster)}<h3>Node groups</h3>{made}")


def _slurm(plan: ClusterPlan) -> Iterator[str]:
    """A card for the Slurm cluster, if the fleets join one."""
    if plan.parallelcluster is not None:
        rows = [(escape(name), escape(words)) for name, words in parallelcluster_words(plan.parallelcluster)]
        queues = [tuple(map(escape, row)) for row in slurm_queue_rows(plan)]
        heads = ("fleet", "bought as", "settings of the nodes", "size, updates")
        yield card(
            "Slurm", f"{table(('AWS ParallelCluster', ''), rows)}<h3>Queues of fleets</h3>{table(heads, queues)}"
        )
    if plan.slurm is None:
        return
    cluster = [(escape(name), escape(words)) for name, words in slurm_rows(plan.slurm)]
    groups = [tuple(map(escape, row)) for row in compute_node_group_rows(plan)]
    made = table(("fleet", "node group", "bought as", "settings of the nodes", "size, updates"), groups)
    yield card("Slurm", f"{table(('AWS PCS', ''), cluster)}<h3>Compute node groups</h3>{made}")


def _batch(plan: ClusterPlan) -> Iterator[str]:
    """A card for the compute environments of AWS Batch, if the fleets are such."""
    rows = [
        (fleet.name, *("; ".join(words) for words in compute_environment_words(fleet.compute_environment)))
        for fleet in plan.fleets
        if fleet.compute_environment is not None
    ]
    if rows:
        yield card(
            "AWS Batch", table(("fleet", "compute environment", "job"), [tuple(map(escape, row)) for row in rows])
        )


def _hyperpod(plan: ClusterPlan) -> Iterator[str]:
    """A card for the cluster of SageMaker HyperPod, if the fleets belong to one."""
    if plan.hyperpod is None:
        return
    cluster = [(escape(name), escape("; ".join(lines))) for name, lines in hyperpod_rows(plan.hyperpod)]
    groups = [tuple(map(escape, row)) for row in instance_group_rows(plan)]
    made = table(("fleet", "type", "group", "updates"), groups)
    yield card("HyperPod", f"{table(('SageMaker HyperPod', ''), cluster)}<h3>Instance groups</h3>{made}")


def _anatomies(plan: ClusterPlan) -> Iterator[str]:
    """A card for each kind of node; fleets with equal nodes share one."""
    drawn: list[tuple[FleetReport, list[str]]] = []
    for fleet in plan.fleets:
        same = next((names for other, names in drawn if _looks_alike(other, fleet)), None)
        if same is None:
            drawn.append((fleet, [fleet.name]))
        else:
            same.append(fleet.name)
    for fleet, names in drawn:
        node = fleet.node
        title = f"{fleet.purpose.capitalize()} node of {', '.join(names)}: {node.instance_type}"
        devices = f"{node.accelerator.count} {node.accelerator.name}" if node.accelerator else "no accelerator"
        words = f"{devices}, {count(len(node.network.cards), 'network card')}, " + (
            f"{count(node.mig.slices, 'MIG slice')}" if node.mig else "unsplit accelerators"
        )
        stages = "".join(f"<li>{escape(stage)}</li>" for stage in node.boot_stages)
        mig = ""
        if node.mig:
            resources = ", ".join(f"{name}: {many}" for name, many in node.mig.resources.items())
            mig = f"<p class='soft'>MIG_PARTITION={escape(node.mig.partition)}; Kubernetes: {escape(resources)}</p>"
        body = drawings(anatomy(fleet), title, words)
        yield card(title, f"{body}{mig}<h3>Boot stages</h3><ol class='stages'>{stages}</ol>")


def _looks_alike(one: FleetReport, other: FleetReport) -> bool:
    return (one.node, one.purpose, one.servers) == (other.node, other.purpose, other.servers)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """A table of escaped cells; on a narrow page each row becomes lines with the names of the columns."""

    def style(index: int) -> str:
        return ' class="num"' if index in numbers else ""

    def name(index: int) -> str:
        return f' data-name="{escape(heads[index])}"' if heads[index] else ""

    head = "".join(f"<th scope='col'{style(index)}>{escape(name)}</th>" for index, name in enumerate(heads))
    body = "".join(
        f"<tr><th scope='row'>{row[0]}</th>"
        + "".join(f"<td{style(index)}{name(index)}>{cell}</td>" for index, cell in enumerate(row[1:], 1))
        + "</tr>"
        for row in rows
    )
    return f'<table class="stack"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cost(plan: ClusterPlan) -> str:
    most = max((one.high for one in _hourly(plan) if one), default=0)
    rows = [_fleet_cost(fleet, most) for fleet in plan.fleets]
    rows += [_store_cost(store, most) for store in plan.stores if store.cost]
    rows += [
        (escape(name), usd(UsdRange(hour, hour)), usd(UsdRange(hour * 24, hour * 24)), "open-ended")
        for name, hour in (*_kubernetes_hours(plan), *_machine_hours(plan))
    ]
    total = f"{usd(plan.cost.usd_per_hour)} per hour, {usd(plan.cost.usd_per_day)} per day"
    if plan.cost.usd_per_run:
        total += f"; {usd(plan.cost.usd_per_run)} for runs with a start and an end"
    missing = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in plan.cost.missing.items())
    left_out = f"<h3>Not included</h3><ul class='soft'>{missing}</ul>" if missing else ""
    made = table(("item", "per hour", "per day", "per run"), rows, numbers=(1, 2, 3))
    return f"{made}<p><b>Total: {escape(total)}</b></p>{left_out}"


def _kubernetes_hours(plan: ClusterPlan) -> Iterator[tuple[str, float]]:
    """What of a cluster of EKS has a price."""
    cluster = plan.kubernetes
    if cluster is not None and cluster.usd_per_hour is not None:
        yield "control plane, in standard support", cluster.usd_per_hour
    if cluster is not None and cluster.system_nodes and cluster.system_nodes.usd_per_hour is not None:
        yield "system nodes", cluster.system_nodes.usd_per_hour


def _machine_hours(plan: ClusterPlan) -> Iterator[tuple[str, float]]:
    """What of a Slurm cluster has a price: its nodes that are in no fleet."""
    for name, nodes in plan.machines.items():
        if nodes.usd_per_hour is not None:
            yield name, nodes.usd_per_hour


def _hourly(plan: ClusterPlan) -> Iterator[UsdRange | None]:
    for fleet in plan.fleets:
        yield fleet.cost.usd_per_hour
    for store in plan.stores:
        if store.cost and store.cost.usd_per_hour:
            yield UsdRange(store.cost.usd_per_hour, store.cost.usd_per_hour)


def _fleet_cost(fleet: FleetReport, most: float) -> Sequence[str]:
    cost = fleet.cost
    share = cost.usd_per_hour.high / most if cost.usd_per_hour and most else 0
    style = "train" if fleet.purpose == "training" else "infer"
    name = f"{escape(fleet.name)}<br><small class='soft'>{escape(cost.billing)}</small>{_bar(share, style)}"
    per_run = usd(cost.usd_per_run) if cost.run_hours else "open-ended"
    return name, usd(cost.usd_per_hour), usd(cost.usd_per_day), per_run


def _store_cost(store: StorePlan, most: float) -> Sequence[str]:
    hour, day = (store.cost.usd_per_hour, store.cost.usd_per_day) if store.cost else (None, None)
    share = hour / most if hour and most else 0
    return (
        f"{escape(store.name)}{_bar(share, 'store')}",
        usd(UsdRange(hour, hour) if hour else None),
        usd(UsdRange(day, day) if day else None),
        "open-ended",
    )


def _bar(share: float, style: str) -> str:
    width = max(min(share, 1) * 100, 0)
    return f'<div class="bar {style}" aria-hidden="true"><i style="width:{width:.1f}%"></i></div>'


def _addresses(plan: ClusterPlan) -> str:
    empty = [one.key for one in plan.network.subnets if not one.uses]
    rest = f"<p class='soft'><small>Unused so far: {escape(', '.join(empty))}.</small></p>" if empty else ""
    return "".join(_subnet(one) for one in plan.network.subnets if one.uses) + rest


def _subnet(one: SubnetUse) -> str:
    usable = UNKNOWN if one.usable_addresses is None else number(one.usable_addresses)
    share = one.used_addresses / one.usable_addresses if one.usable_addresses else 0
    uses = "; ".join(f"{use.of or use.kind}: {number(use.addresses)} ({use.words})" for use in one.uses)
    where = " · ".join(filter(None, [one.cidr, one.availability_zone, *one.subnet_ids]))
    return (
        f"<h3>{escape(one.key)} <small class='soft'>{escape(where)}</small></h3>"
        f"{_bar(share, 'train')}<p><small>{number(one.used_addresses)} of {usable} addresses. "
        f"<span class='soft'>{escape(uses)}</span></small></p>"
    )


def _checks(plan: ClusterPlan) -> str:
    if not plan.findings:
        return "<p class='good'>All checks passed without a warning.</p>"
    rows = [
        (
            f'<span class="tag {one.severity.value}">{one.severity.value}</span>',
            f"<span class='id'>{escape(one.id)}</span>",
            escape(one.cause + (f", got {one.got}" if one.got else "")),
            escape(one.fix),
            escape(one.path).replace(".", ".<wbr>").replace("/", "/<wbr>"),
        )
        for one in plan.findings
    ]
    return table(("result", "rule", "finding", "fix", "where"), rows)


def _stacks(plan: ClusterPlan) -> str:
    rows = [
        (
            escape(one.name),
            escape(one.kind),
            "data is kept" if one.outlives else "-",
            escape(", ".join(one.depends_on) or "-"),
        )
        for one in plan.stacks
    ]
    return table(("stack, in the order of deployment", "kind", "after deletion", "depends on"), rows)


def _prices(plan: ClusterPlan) -> str:
    used = [price for fleet in plan.fleets for price in fleet.cost.prices]
    used += [price for store in plan.stores if store.cost for price in store.cost.prices]
    if plan.kubernetes is not None:
        nodes = plan.kubernetes.system_nodes
        used += [*plan.kubernetes.prices, *(nodes.prices if nodes else ())]
    used += [price for nodes in plan.machines.values() for price in nodes.prices]
    if not used:
        return "<p class='soft'>No item of this cluster has a known price.</p>"
    rows = [
        (
            escape(f"{one.subject}, {one.market}"),
            f"{one.usd:g}",
            escape(one.unit),
            escape(f"{one.as_of}, {one.verification}"),
            escape(one.source + (f"; {one.note}" if one.note else "")),
        )
        for one in dict.fromkeys(used)
    ]
    made = table(("price of", "USD", "unit", "as of", "source"), rows, numbers=(1,))
    return f"<p class='soft'>List prices with their dates: an estimate, not a bill.</p>{made}"
