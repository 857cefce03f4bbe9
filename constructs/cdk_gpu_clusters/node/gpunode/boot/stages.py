"""The stages of a node's boot, in their order."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .. import cuda, nvidia_smi, paths
from ..acceptance import acceptance_stages
from ..accounts import has_list, probe_users
from ..checks.check import Result, Severity
from ..checks.verify import checks_of, verify
from ..command import NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, run
from ..devices import efa_devices, efa_provider, neuron_devices
from ..directory import DIRECTORY_SECONDS, probe_directory
from ..fabric import (
    FABRIC_MANAGER,
    Manager,
    Membership,
    gpus_of_fabric,
    has_switches,
    joins_elsewhere,
    manager_state,
    manager_words,
)
from ..node import Node, Settings
from ..state import recall, remember
from ..watch.mode import Mode, mode_of
from .stage import Stage, State, Verdict, probe_containers

# Anything that settles after a boot has settled by then.
_VERIFICATION_SECONDS = 120
# The fabric manager, without which CUDA does not start on NVSwitch systems, may have been started just now.
_CUDA_SECONDS = 120
# The fabric manager takes 30 s to give up (its "GFM Wait Timeout"), and is restarted once after that.
_FABRIC_SECONDS = 300
_JOIN_SECONDS, _RESTART_SECONDS = 60, 60
_IMEX = "nvidia-imex.service"


def stages_of(node: Node) -> list[Stage]:
    """The stages that its settings require of this node."""
    settings = node.settings
    kind = settings.text("accelerator") if settings.number("accelerator_count") else ""
    stages = _unit_stages(node, metadata_users=("metadata", "metadata"), scratch=("disks", "scratch"))
    if kind:
        stages.append(Stage("driver", probe_gpus if kind == "gpu" else probe_neuron))
    if kind == "gpu" and settings.number("nvlink"):
        stages.append(Stage("fabric-manager", probe_fabric, deadline_seconds=_FABRIC_SECONDS))
    if settings.number("imex_off"):
        stages.append(Stage("imex", probe_imex))
    if settings.number("mig_count"):
        stages.append(Stage("mig", probe_mig))
    if kind == "gpu":
        stages.append(Stage("cuda", probe_cuda, deadline_seconds=_CUDA_SECONDS))
    if settings.number("efa_count"):
        stages.append(Stage("efa", probe_efa))
    stages.append(Stage("limits", probe_limits))
    stages += _unit_stages(node, mounts=("lustre", "lustre"), nfs_mounts=("nfs", "nfs"))
    stages += user_stages(settings)
    stages.append(Stage("user-data", probe_user_scripts))
    # SageMaker HyperPod starts containerd and kubelet after the lifecycle script, which waits for these stages.
    if settings.text("orchestrator") != "hyperpod-eks":
        stages.append(Stage("containers", probe_containers))
    if checks_of(node):
        stages.append(Stage("verification", probe_health, deadline_seconds=_VERIFICATION_SECONDS))
    return [*stages, *acceptance_stages(node), *extra_stages()]


def _unit_stages(node: Node, **units: tuple[str, str]) -> list[Stage]:
    """Stages of units of their own: setting that requires the unit, name of the stage, name of the unit."""
    return [Stage(stage, unit_probe(unit)) for setting, (stage, unit) in units.items() if node.settings.text(setting)]


def user_stages(settings: Settings) -> list[Stage]:
    """The stages that give the node its users."""
    stages = [Stage("users", probe_users)] if has_list() else []
    if settings.text("directory_uris"):
        stages.append(Stage("directory", probe_directory, deadline_seconds=DIRECTORY_SECONDS))
    return stages


def probe_gpus(node: Node) -> Verdict:
    """Whether the driver answers for every GPU. A lost GPU does not count."""
    wanted = node.settings.number("accelerator_count")
    answer = nvidia_smi.query(["uuid", "memory.total"])
    good = [row for row in answer.rows if nvidia_smi.number(row["memory.total"]) is not None]
    if not answer.rows and not answer.without_row:
        words = answer.outcome.words or "lists no GPU"
        return Verdict.waiting(f"nvidia-smi: {words}", "is the image one with NVIDIA's driver?")
    words = f"{len(good)} of {wanted} GPUs answer"
    if len(good) >= wanted:
        return Verdict.ok(words)
    lost = f"; {'; '.join(answer.without_row)}" if answer.without_row else ""
    return Verdict.waiting(words + lost, "the host may be faulty: the node is replaced")


def probe_neuron(node: Node) -> Verdict:
    """Whether the driver answers for every Neuron device."""
    wanted = node.settings.number("accelerator_count")
    listed, outcome = neuron_devices()
    if listed is None:
        return Verdict.waiting(f"neuron-ls: {outcome.words}", "is the image one with the Neuron driver?")
    words = f"{len(listed)} of {wanted} Neuron devices answer"
    return Verdict.ok(words) if len(listed) >= wanted else Verdict.waiting(words)


def probe_mig(node: Node) -> Verdict:
    """Whether gpu-mig is done, and the driver lists as many MIG devices as the layout has."""
    unit = unit_probe("mig")(node)
    if unit.state is not State.OK:
        return unit
    wanted, seen = node.settings.number("mig_count"), nvidia_smi.mig_device_count()
    if seen is None:
        return Verdict.waiting("nvidia-smi -L lists no GPU", "journalctl -u gpu-mig")
    words = f"{seen} of {wanted} MIG devices"
    return Verdict.ok(words) if seen == wanted else Verdict.failed(words, "journalctl -u gpu-mig")


def probe_imex(_: Node) -> Verdict:
    """Whether the image's IMEX service is off, and stays so: NVIDIA's DRA driver starts daemons of its own.

    systemd also masks a service that the image does not have.
    """
    masked = run("systemctl", "mask", "--now", _IMEX, timeout_seconds=_RESTART_SECONDS)
    if not masked.ok:
        return Verdict.waiting(f"systemctl mask {_IMEX}: {masked.words}", f"journalctl -u {_IMEX}")
    return Verdict.ok(f"{_IMEX} is masked")


def probe_cuda(_: Node) -> Verdict:
    """Whether CUDA starts on each GPU and each MIG device."""
    status, words = cuda.start_on_devices()
    if status == cuda.STARTS_NOT:
        return Verdict.waiting(words, "reboot the node; if it stays so, replace it")
    return Verdict.ok(words)


def probe_efa(node: Node) -> Verdict:
    """Whether every EFA device is present, and libfabric, if it is installed, has the provider for them."""
    wanted, seen = node.settings.number("efa_count"), len(efa_devices())
    words = f"{seen} of {wanted} EFA devices"
    if seen < wanted:
        return Verdict.waiting(words, "are the EFA driver and the interfaces there?")
    outcome = efa_provider()
    if not outcome.ok and outcome.status != NOT_FOUND:
        return Verdict.waiting("fi_info -p efa finds no provider", "install the EFA software of the image again")
    return Verdict.ok(words)


def probe_fabric(node: Node) -> Verdict:
    """Whether the GPUs have joined the fabric, or have none.

    The fabric manager is restarted once: it fails if it starts before the GPUs are ready for it, and succeeds later
    (pytorch/ci-infra pull request 552).
    """
    gpus, manager = gpus_of_fabric(), manager_state()
    if gpus is None:
        return Verdict.waiting("nvidia-smi lists no GPU")
    needed = has_switches()
    missing = [Membership.NONE] if joins_elsewhere(node) else []
    apart = [gpu for gpu in gpus if gpu.membership in (*_APART, *missing)]
    joined = [gpu for gpu in gpus if gpu.membership is Membership.JOINED]
    if not apart and (manager in (Manager.RUNS, Manager.ABSENT) or not needed):
        if "since" in recall(_FABRIC):
            # A repair repeats this stage after a reset, and waits anew.
            remember(_FABRIC, {"restarted": recall(_FABRIC).get("restarted", False)})
        return Verdict.ok(f"{len(joined)} GPUs have joined the fabric" if joined else "the GPUs report no fabric")
    words = "; ".join(gpu.words for gpu in apart) or f"nvidia-fabricmanager: {manager.value}"
    if manager is not Manager.ABSENT:
        words += _restart_once(failed=manager is Manager.FAILED, may_restart=not joined)
    said = manager_words()
    return Verdict.waiting(f"{words}; fabric manager: {said}" if said else words, f"journalctl -u {FABRIC_MANAGER}")


_APART = (Membership.LIMITED, Membership.JOINING, Membership.FAILED, Membership.UNREADABLE)


def _restart_once(*, failed: bool, may_restart: bool) -> str:
    """Restart the fabric manager if it failed or took too long, once in this boot, before any work runs.

    One that has joined GPUs already is left alone: NCCL fails on them after a restart without a reset (NVIDIA/nccl
    issue 1488).
    """
    known, now = recall(_FABRIC), paths.uptime_seconds()
    since = known.get("since")
    if not isinstance(since, (int, float)):
        since = now
        remember(_FABRIC, {"since": since})
    if known.get("restarted"):
        return "; the fabric manager was restarted"
    if not failed and (not may_restart or now - since < _JOIN_SECONDS):
        return ""
    remember(_FABRIC, {"since": since, "restarted": True})
    run("systemctl", "restart", f"{FABRIC_MANAGER}.service", timeout_seconds=_RESTART_SECONDS)
    return "; the fabric manager is restarted"


_FABRIC = "fabric"
_TIMEOUT_SECONDS = 300
_NEVER = 2


def extra_stages() -> list[Stage]:
    """Stages that other parts of the node add, as programs in `/etc/gpu-cluster/ready.d`."""
    folder = paths.below("/etc/gpu-cluster/ready.d")
    programs = sorted(folder.iterdir()) if folder.is_dir() else []
    return [Stage(path.name, _probe_with(path)) for path in programs if os.access(path, os.X_OK)]


def _probe_with(program: Path) -> Callable[[Node], Verdict]:
    """A probe by a program, which prints a reason and exits with 0 for OK, 2 for never, otherwise for not yet."""

    def probe(_: Node) -> Verdict:
        outcome = run(str(program), timeout_seconds=_TIMEOUT_SECONDS)
        never = outcome.status in (_NEVER, NOT_EXECUTABLE, NOT_FOUND)
        state = State.OK if outcome.ok else State.FAILED if never else State.WAITING
        words = outcome.words if outcome.status != TIMED_OUT else f"no answer in {_TIMEOUT_SECONDS} s"
        return Verdict(state, words)

    return probe


def probe_user_scripts(_: Node) -> Verdict:
    """Whether cloud-init ran the user's scripts without a failure.

    cloud-init lists failed modules in its result; `scripts_user` runs the shell scripts of the user data.
    """
    result = paths.read_text(paths.below("/run/cloud-init/result.json"))
    if "scripts_user" in result or "scripts-user" in result:
        return Verdict.failed(
            "a shell script of the user data failed", "see /var/log/cloud-init-output.log on the node"
        )
    return Verdict.ok("cloud-init is done")


def probe_limits(node: Node) -> Verdict:
    """Whether the requested huge pages are available; the reason also has the limit of locked memory."""
    import resource  # Unix only, and `gpu-clusters plan` loads this module on every system

    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    memlock = "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
    wanted = node.settings.number("huge_pages")
    if not wanted:
        return Verdict.ok(f"memlock {memlock}")
    run("sysctl", "-qp", str(paths.below("/etc/sysctl.d/99-gpu-cluster.conf")))
    pages = int(paths.read_text(paths.below("/proc/sys/vm/nr_hugepages")).strip() or 0)
    words = f"memlock {memlock}, {pages} huge pages of {wanted}"
    if pages >= wanted:
        return Verdict.ok(words)
    return Verdict.failed(words, "memory is too small or too fragmented: request fewer huge pages")


def unit_probe(name: str) -> Callable[[Node], Verdict]:
    """A probe of the result that `gpu-NAME.service` left during this boot. An older result does not count."""

    def probe(_: Node) -> Verdict:
        result = recall(name, paths.state_folder)
        state, reason = str(result.get("state", "")), str(result.get("reason", ""))
        if state == "ok":
            return Verdict.ok(reason)
        if state == "failed":
            return Verdict.failed(reason, f"journalctl -u gpu-{name}")
        return Verdict.waiting(f"gpu-{name} has not finished: {state or 'not started'} {reason}".strip())

    return probe


# A GPU that needs a reset while it is idle must not get work first.
_FAILS_FROM = Severity.RESET


def probe_health(node: Node) -> Verdict:
    """Whether no check of `gpunode verify` finds a fault. An undetermined check does not hold the node back.

    Some faults that a node in service goes on with are none to begin with, such as a link that is down.

    If the watchdog does not act (GPU_WATCH), findings are only reported.
    """
    results = verify(node, checks_of(node))
    faults = [result for result in results if result.severity >= _FAILS_FROM or not result.is_acceptable]
    if faults and mode_of(node) is Mode.ON:
        return Verdict.waiting(_words(faults), faults[0].fix)
    notable = [result for result in results if result.severity is not Severity.OK]
    return Verdict.ok(_words(notable) or f"{len(results)} checks")


def _words(results: list[Result]) -> str:
    return "; ".join(f"{result.check}: {result.found} ({result.severity.name.lower()})" for result in results)
