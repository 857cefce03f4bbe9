"""The boot waits for the fabric of the GPUs, and restarts the fabric manager once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.boot import stages
from cdk_gpu_clusters.node.gpunode.boot.stage import State, Verdict
from cdk_gpu_clusters.node.gpunode.boot.stages import probe_fabric, probe_health, probe_imex, probe_mig, stages_of
from cdk_gpu_clusters.node.gpunode.checks.check import Result, Severity
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from fakes import gpu_health

NODE = Node(
    Settings({"accelerator": "gpu", "accelerator_count": "8", "nvlink": "1800", "mig_count": "7"}),
    Metadata(),
    "i-1",
    Aws("us-east-1"),
)
# As NVIDIA's fabric manager prints them: NVIDIA/gpu-operator issue 610, and pytorch/ci-infra pull request 552.
NOTHING_TO_DO = (
    "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do "
    "[NV_WARN_NOTHING_TO_DO]"
)
TOO_EARLY = "[ERROR] not all local fabric manager instances finished their configuration"


class FabricNode:
    """A node whose fabric is to be set."""

    def __init__(self, root: Path) -> None:
        self.root, self.tools = root, root / "tools"
        self.tools.mkdir()
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text("boot-1\n")
        self.manager("active")

    def gpus(self, state: str, status: str = "N/A", count: int = 8) -> None:
        gpu_health.install(self.tools, {"gpus": [{"fabric.state": state, "fabric.status": status}] * count})

    def manager(self, state: str, journal: str = "") -> None:
        """Its unit, as EKS's images have it on every type."""
        self.tool(
            "systemctl",
            f"[ $1 = show ] || {{ echo $* >>{self.root}/orders; exit 0; }}\n"
            f"printf 'LoadState=loaded\\nUnitFileState=enabled\\nActiveState={state}\\nConditionResult=yes\\n'",
        )
        self.tool("journalctl", f"cat <<'END'\n{journal}\nEND")

    def switches(self) -> None:
        device = self.root / "sys/bus/pci/devices/0000:07:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x068000\n")

    @property
    def orders(self) -> list[str]:
        file = self.root / "orders"
        return file.read_text().splitlines() if file.exists() else []

    def tool(self, name: str, body: str) -> None:
        (self.tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.tools / name).chmod(0o755)


@pytest.fixture
def fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FabricNode:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"), prepend=":")
    return FabricNode(tmp_path)


RESTART = ["restart nvidia-fabricmanager.service"]


def test_gpus_that_have_joined_need_nothing(fabric: FabricNode) -> None:
    fabric.gpus("Completed", "Success")
    assert probe_fabric(NODE).state is State.OK


@pytest.mark.parametrize(("state", "status"), [("Completed", "Success"), ("N/A", "N/A")], ids=["gb200", "p3dn"])
def test_a_node_without_switches_joins_though_its_fabric_manager_failed(
    fabric: FabricNode, state: str, status: str
) -> None:
    fabric.gpus(state, status)
    fabric.manager("failed", NOTHING_TO_DO)
    assert probe_fabric(NODE).state is State.OK
    assert fabric.orders == []


def test_a_fabric_in_progress_is_waited_for_and_the_manager_restarted_once(
    fabric: FabricNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric.gpus("In Progress")
    assert probe_fabric(NODE).state is State.WAITING
    assert fabric.orders == []
    monkeypatch.setattr(stages, "_JOIN_SECONDS", 0)
    for _ in range(3):
        verdict = probe_fabric(NODE)
        assert verdict.state is State.WAITING
        assert verdict.reason.startswith("GPU 0: In Progress; GPU 1: In Progress")
    assert fabric.orders == RESTART
    fabric.gpus("Completed", "Success")
    assert probe_fabric(NODE).state is State.OK


def test_a_fabric_manager_that_failed_is_restarted_at_once_and_once(fabric: FabricNode) -> None:
    """It gives up after 30 s if the GPUs are not ready for it."""
    fabric.switches()
    fabric.gpus("Not Started")
    fabric.manager("failed", TOO_EARLY)
    for _ in range(3):
        verdict = probe_fabric(NODE)
        assert verdict.state is State.WAITING
        assert "not all local fabric manager instances" in verdict.reason
    assert fabric.orders == RESTART


@pytest.mark.parametrize(("manager", "state"), [("active", State.OK), ("activating", State.WAITING)])
def test_gpus_that_report_no_fabric_wait_for_the_manager_of_their_switches(
    fabric: FabricNode, manager: str, state: State
) -> None:
    fabric.switches()
    fabric.gpus("N/A")
    fabric.manager(manager)
    assert probe_fabric(NODE).state is state


def test_a_restart_that_cannot_be_recorded_is_not_made(fabric: FabricNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be made again with every probe."""

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    fabric.gpus("In Progress")
    fabric.manager("failed", TOO_EARLY)
    monkeypatch.setattr(stages, "remember", full)
    with pytest.raises(OSError, match="No space"):
        probe_fabric(NODE)
    assert fabric.orders == []


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (Result("nvlink", Severity.MONITOR, "GPU 0: 17 of 18 links up", is_acceptable=False), State.WAITING),
        (Result("pcie", Severity.MONITOR, "GPU 0: x8", is_acceptable=False), State.WAITING),
        (Result("clocks", Severity.MONITOR, "GPU 0: slowed down"), State.OK),
        (Result("ecc", Severity.UNKNOWN, "no value"), State.OK),
        (Result("fabric", Severity.RESET, "GPU 0: In Progress"), State.WAITING),
    ],
)
def test_a_new_node_is_not_accepted_with_a_degraded_link(
    fabric: FabricNode, monkeypatch: pytest.MonkeyPatch, result: Result, state: State
) -> None:
    monkeypatch.setattr(stages, "verify", lambda *_: [result])
    assert probe_health(NODE).state is state


def test_mig_devices_that_nobody_can_list_are_not_missing(fabric: FabricNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "unit_probe", lambda _: lambda _: Verdict.ok(""))
    fabric.tool("nvidia-smi", "echo 'Failed to initialize NVML: Unknown Error'; exit 255")
    assert probe_mig(NODE).state is State.WAITING


def test_gpus_whose_switches_are_elsewhere_must_join(fabric: FabricNode) -> None:
    """As of GB200 (leptonai/gpud pull request 1108)."""
    values = {"accelerator": "gpu", "accelerator_count": "4", "nvlink": "1800", "model": "GB200"}
    node = Node(Settings(values), Metadata(), "i-1", Aws("us-east-1"))
    fabric.manager("failed", NOTHING_TO_DO)
    fabric.gpus("[N/A]", count=4)
    assert probe_fabric(node).state is State.WAITING
    fabric.gpus("Completed", "Success", count=4)
    assert probe_fabric(node).state is State.OK


def test_a_fabric_manager_that_joined_gpus_is_not_restarted(
    fabric: FabricNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric.switches()
    rows = [{"fabric.state": "Completed", "fabric.status": "Success"}] * 7
    gpu_health.install(fabric.tools, {"gpus": [*rows, {"fabric.state": "In Progress", "fabric.status": "N/A"}]})
    monkeypatch.setattr(stages, "_JOIN_SECONDS", -1)
    assert probe_fabric(NODE).state is State.WAITING
    assert fabric.orders == []


IMEX = Node(Settings({"accelerator": "gpu", "accelerator_count": "4", "imex_off": "1"}), Metadata(), "i-1", NODE.aws)


def test_the_service_of_imex_is_stopped_and_masked_where_the_dra_driver_has_its_own(fabric: FabricNode) -> None:
    assert probe_imex(IMEX).state is State.OK
    assert fabric.orders == ["mask --now nvidia-imex.service"]
    names = [one.name for one in stages_of(IMEX)]
    assert "imex" in names
    assert "imex" not in [one.name for one in stages_of(NODE)]


def test_a_node_on_which_imex_cannot_be_masked_takes_no_work(fabric: FabricNode) -> None:
    fabric.tool(
        "systemctl",
        "echo Failed to mask unit: File /etc/systemd/system/nvidia-imex.service already exists. >&2; exit 1",
    )
    verdict = probe_imex(IMEX)
    assert verdict.state is State.WAITING
    assert "already exists" in verdict.reason
