"""A plan as text: fleet by fleet, then stores, network, stacks and money. Plain, so that a pipe can take it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.counting import count

from ._layout import Footnotes, Row, Section, lay_out, number, usd
from ._text_fleet import fleet_section
from ._text_store import store_section
from .cost_model import PriceUsed
from .model import ClusterPlan, StackPlan
from .network_model import NetworkPlan, SubnetUse
from .text_kubernetes import kubernetes_section

#: Width of the text in characters, where nobody says another.
WIDTH = 110


def plan_text(plan: ClusterPlan, *, width: int = WIDTH) -> str:
    """A plan as text.

    Args:
        plan: The plan.
        width: Characters of a line; longer words are not broken.
    """
    notes = Footnotes()
    sections = [
        _head(plan),
        *([] if plan.kubernetes is None else [kubernetes_section(plan.kubernetes, notes)]),
        *(fleet_section(fleet, notes) for fleet in plan.fleets),
        *(store_section(store, notes) for store in plan.stores),
        _network(plan.network),
        Section(
            count(len(plan.stacks), "stack") + ", in the order of deployment", list(_stacks(plan.stacks))
        ),
        Section("Cost of all that has a price", list(_cost(plan))),
    ]
    prices = [Row(mark, [_price(price)]) for mark, price in notes.lines()]
    if prices:
        sections.append(Section("Prices (list prices: an estimate, not a bill)", prices))
    return lay_out(sections, width=width)


def _head(plan: ClusterPlan) -> Section:
    account = plan.account or "of the credentials at deployment"
    rows = [Row("where", [f"{plan.region}, account {account}"])]
    totals = plan.totals
    nodes = number(totals.maximum_nodes)
    if totals.minimum_nodes != totals.maximum_nodes:
        nodes = f"{number(totals.minimum_nodes)} to {nodes}"
    words = [f"{nodes} node{'' if nodes == '1' else 's'}"]
    if totals.accelerators:
        words.append(
            f"{count(totals.accelerators, 'accelerator')} with {number(totals.accelerator_memory_gib)} GiB of memory"
        )
    words += [count(totals.mig_slices, "MIG slice")] if totals.mig_slices else []
    words += [count(totals.model_servers, "model server")] if totals.model_servers else []
    rows.append(Row("in all", [", ".join(words)]))
    if plan.tags:
        rows.append(Row("tags", [", ".join(f"{key}={value}" for key, value in plan.tags.items())]))
    return Section(f"Cluster {plan.name}", rows)


def _network(network: NetworkPlan) -> Section:
    rows = [Row("VPC", [_vpc(network)])]
    if network.interface_endpoints:
        rows.append(Row("endpoints", [", ".join([*network.gateway_endpoints, *network.interface_endpoints])]))
    rows += [_subnet(subnet) for subnet in network.subnets if subnet.uses]
    return Section("Network and addresses", rows)


def _vpc(network: NetworkPlan) -> str:
    if not network.is_new:
        return f"{network.vpc_id}, existing; fleets in {network.availability_zone}"
    egress = "no internet access" if network.egress == "closed" else "internet through a NAT gateway"
    logs = "flow logs" if network.flow_logs else "no flow logs"
    return f"new, {network.cidr}; fleets in {network.availability_zone}; {egress}; {logs}"


def _subnet(subnet: SubnetUse) -> Row:
    where = subnet.availability_zone or f"zone unknown ({subnet.unknown['availability_zone']})"
    ids = f"{', '.join(subnet.subnet_ids)}, " if subnet.subnet_ids else ""
    head = f"{subnet.key}: {ids}{subnet.cidr or 'range unknown'}, {where}"
    if subnet.usable_addresses is None:
        room = f"{number(subnet.used_addresses)} used of unknown ({subnet.unknown['usable_addresses']})"
    else:
        room = (
            f"{number(subnet.used_addresses)} used of {number(subnet.usable_addresses)} addresses, "
            f"{number(subnet.free_addresses or 0)} free"
        )
    details = [(use.of or use.kind, f"{number(use.addresses)} ({use.words})") for use in subnet.uses]
    return Row("subnet", [head, room], details)


def _stacks(stacks: tuple[StackPlan, ...]) -> Iterator[Row]:
    for stack in stacks:
        stays = "; its data stay when it is deleted" if stack.outlives else ""
        yield Row(stack.kind, [f"{stack.name}{stays}"])


def _cost(plan: ClusterPlan) -> Iterator[Row]:
    cost = plan.cost
    if cost.usd_per_hour is None or cost.usd_per_day is None:
        yield Row("together", ["unknown: nothing here has a sourced price"])
    else:
        runs = (
            "" if cost.usd_per_run is None else f"; {usd(cost.usd_per_run)} for runs with a start and an end"
        )
        yield Row("together", [f"{usd(cost.usd_per_hour)} an hour, {usd(cost.usd_per_day)} a day{runs}"])
        yield Row("counted", ["; ".join(cost.includes)])
    yield Row("not counted", [f"{what}: {why}" for what, why in cost.missing.items()])


def _price(price: PriceUsed) -> str:
    place = {"*": "every Region that sells it", "": "Region not named"}.get(price.region, price.region)
    note = f"; {price.note}" if price.note else ""
    return (
        f"{price.subject}, {price.market}, {place}: {price.usd:g} USD per {price.unit}, {price.as_of}, "
        f"{price.verification}{note}. Source: {price.source}"
    )
