"""Stages about the devices: accelerators, their MIG slices, and EFA."""

from __future__ import annotations

from .. import efa, neuron, nvidia_smi
from ..command import NOT_FOUND
from ..node import Node
from .stage import Verdict
from .units import unit_look


def look_at_gpus(node: Node) -> Verdict:
    """Whether the driver answers for every GPU; one that is lost does not count."""
    wanted = node.settings.number("accelerator_count")
    answer = nvidia_smi.query(["uuid", "memory.total"])
    if not answer.outcome.ok and not answer.rows:
        return Verdict.waiting(
            f"nvidia-smi: {answer.outcome.words}", "is the image one with NVIDIA's driver?"
        )
    words = f"{len(answer.rows)} of {wanted} GPUs answer"
    if len(answer.rows) >= wanted:
        return Verdict.ok(words)
    lost = f"; {'; '.join(answer.lost)}" if answer.lost else ""
    return Verdict.waiting(words + lost, "the host may be faulty: the node is replaced")


def look_at_neuron(node: Node) -> Verdict:
    """Whether the driver answers for every Neuron device."""
    wanted = node.settings.number("accelerator_count")
    listed, outcome = neuron.list_devices()
    if listed is None:
        return Verdict.waiting(f"neuron-ls: {outcome.words}", "is the image one with the Neuron driver?")
    words = f"{len(listed)} of {wanted} Neuron devices answer"
    return Verdict.ok(words) if len(listed) >= wanted else Verdict.waiting(words)


def look_at_mig(node: Node) -> Verdict:
    """Whether gpu-mig is done, and the driver shows as many slices as the layout has."""
    said = unit_look("mig")(node)
    if said.state is not said.state.OK:
        return said
    wanted, seen = node.settings.number("mig_count"), nvidia_smi.mig_device_count()
    words = f"{seen} of {wanted} MIG devices"
    return Verdict.ok(words) if seen == wanted else Verdict.failed(words, "journalctl -u gpu-mig")


def look_at_efa(node: Node) -> Verdict:
    """Whether every EFA device is there, and libfabric, where it is installed, has the provider for them."""
    wanted, seen = node.settings.number("efa_count"), len(efa.devices())
    words = f"{seen} of {wanted} EFA devices"
    if seen < wanted:
        return Verdict.waiting(words, "are the EFA driver and the interfaces there?")
    outcome = efa.ask_provider()
    if not outcome.ok and outcome.status != NOT_FOUND:
        return Verdict.waiting(
            "fi_info -p efa finds no provider", "install the EFA software of the image again"
        )
    return Verdict.ok(words)
