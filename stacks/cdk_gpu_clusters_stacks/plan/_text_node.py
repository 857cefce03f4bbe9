"""One node as text: equal cards and equal GPUs in one line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from cdk_gpu_clusters_stacks.counting import count

from ._layout import Row, known, number, ranges
from .node_model import AcceleratorPlan, CardPlan, MigGpuSlices, NodeMig, NodeNetwork, NodePlan


def node_rows(node: NodePlan) -> Iterator[Row]:
    """Rows about one node."""
    machine = f"{node.vcpus} vCPUs and {number(node.memory_gib)} GiB of memory, {node.architecture}"
    yield Row(
        "each node", [machine if node.accelerator is None else f"{machine}; {_accelerator(node.accelerator)}"]
    )
    if node.mig is not None:
        yield _mig(node.mig)
    yield _interfaces(node.network)
    yield Row("bandwidth", [_bandwidth(node.network)])
    yield Row("disks", [_disks(node)])


def boot_rows(node: NodePlan) -> Iterator[Row]:
    """Rows about its boot."""
    lines = [" -> ".join(node.boot_stages)]
    if node.boot_checks:
        lines.append(f"verification asks: {', '.join(node.boot_checks)}")
    yield Row("boot stages", lines)


def _accelerator(one: AcceleratorPlan) -> str:
    if one.share_of_gpu < 1:
        return f"{number(one.share_of_gpu)} of one {one.name}, {number(one.memory_gib_each)} GiB of it"
    words = [f"{one.count} x {one.name} with {number(one.memory_gib_each)} GiB"]
    if one.neuron_cores_each is not None:
        return f"{words[0]} and {count(one.neuron_cores_each, 'NeuronCore')} each"
    if one.nvlink_gbytes_per_s == 0:
        words.append("no NVLink" if one.count > 1 else "")
    else:
        words.append(
            f"NVLink {known(one.nvlink_gbytes_per_s, 'GB/s', one.unknown.get('nvlink_gbytes_per_s', ''))}"
        )
    words.append("NVSwitch" if one.nvswitch else "")
    words.append(f"part of UltraServer {one.ultraserver}" if one.ultraserver else "")
    return ", ".join(word for word in words if word)


def _interfaces(network: NodeNetwork) -> Row:
    groups: dict[str, list[int]] = defaultdict(list)
    for card in network.cards:
        groups[_card(card)].append(card.index)
    details = [
        (f"card{'s' if len(cards) > 1 else ''} {ranges(cards)}", text) for text, cards in groups.items()
    ]
    head = (
        f"{count(network.interface_count, 'interface')}, "
        f"{count(network.ip_addresses, 'IP address', 'IP addresses')} (policy {network.policy}; {network.basis})"
    )
    return Row("interfaces", [head], details)


def _card(card: CardPlan) -> str:
    if not card.interfaces:
        return "no interface"
    return ", ".join(f"{one.interface_type} (device {one.device_index})" for one in card.interfaces)


def _bandwidth(network: NodeNetwork) -> str:
    ena = _of(network, "ena_gbps", network.ena_gbps, "hardware_ena_gbps", network.hardware_ena_gbps)
    if not network.hardware_efa_interfaces:
        return f"no EFA on this type; IP {ena}"
    if not network.efa_interface_count:
        return f"no EFA, though the type has it; IP {ena}"
    efa = _of(network, "efa_gbps", network.efa_gbps, "hardware_efa_gbps", network.hardware_efa_gbps)
    return f"EFA {efa}, {count(network.efa_interface_count, 'interface')}; IP {ena}"


def _of(network: NodeNetwork, name: str, planned: float | None, most_name: str, most: float | None) -> str:
    if planned is None:
        return known(None, "", network.unknown[name])
    return f"{number(planned)} of {known(most, 'Gbps', network.unknown.get(most_name, ''))}"


def _disks(node: NodePlan) -> str:
    root, local = node.root_volume, node.local_disks
    speed = f"{number(root.iops)} IOPS, {number(root.throughput_mib_per_s)} MiB/s"
    text = f"root gp3 of {number(root.size_gib)} GiB, {speed}"
    if local is None:
        return f"{text}; no local disks"
    where = f"at {local.mount_point}" if local.mount_point else "left alone"
    return f"{text}; {local.count} x {number(local.size_gb_each)} GB local, {where}"


def _mig(mig: NodeMig) -> Row:
    doubt = (
        ""
        if mig.placements_verified
        else "; no listing of this GPU's placements was found: those of relatives"
    )
    head = f"{count(mig.slices, 'slice')} a node, driver {mig.minimum_driver} or newer{doubt}"
    groups: dict[str, list[int]] = defaultdict(list)
    for gpu in mig.gpus:
        groups[_slices(gpu, mig.memory_slices)].append(gpu.index)
    details = [(f"GPU{'s' if len(gpus) > 1 else ''} {ranges(gpus)}", text) for text, gpus in groups.items()]
    resources = ", ".join(f"{name}: {number(many)}" for name, many in mig.resources.items())
    details += [("MIG_PARTITION", mig.partition.replace(";", "; ")), ("Kubernetes", resources)]
    return Row("MIG", [head], details)


def _slices(gpu: MigGpuSlices, memory_slices: int) -> str:
    if not gpu.slices:
        return "whole"
    many = Counter(one.profile for one in gpu.slices)
    parts = []
    for profile, number_of in many.items():
        starts = [one.start for one in gpu.slices if one.profile == profile]
        where = f"at {', '.join(map(str, starts))}"
        parts.append(f"{profile} {where}" if number_of == 1 else f"{number_of} x {profile} {where}")
    return f"{'; '.join(parts)} of {memory_slices} memory slices"
