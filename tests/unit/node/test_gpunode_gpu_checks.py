"""The checks of GPUs, against an nvidia-smi with the texts of the real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.checks.accelerators import (
    check_clocks,
    check_driver,
    check_gpus,
    check_recovery,
)
from cdk_gpu_clusters.node.gpunode.checks.check import Check, Result, Severity, Undetermined
from cdk_gpu_clusters.node.gpunode.checks.links import check_fabric, check_nvlink, check_pcie
from cdk_gpu_clusters.node.gpunode.checks.memory import check_ecc, check_row_remapping, check_sram
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from fakes import gpu_health

H100 = {"accelerator": "gpu", "accelerator_count": "4", "model": "H100", "nvlink": "900"}
MANAGER = "LoadState=loaded\nUnitFileState=enabled\nActiveState=active\nConditionResult=yes\n"
VOLATILE, AGGREGATE = "ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.aggregate.total"

Health = Callable[..., Node]


@pytest.fixture
def health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Health:
    """A node with four H100s: `health({2: {...}})` with what is wrong with them."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    systemctl = tools / "systemctl"
    systemctl.write_text(f"#!/bin/sh\ncat <<'END'\n{MANAGER}END\n")
    systemctl.chmod(0o755)

    def make(
        gpus: dict[int, dict[str, Any]] | None = None,
        *,
        manager: str = MANAGER,
        settings: dict[str, str] | None = None,
        count: int = 4,
        **state: Any,
    ) -> Node:
        rows = [(gpus or {}).get(index, {}) for index in range(count)]
        gpu_health.install(tools, {"gpus": rows, **state})
        systemctl.write_text(f"#!/bin/sh\ncat <<'END'\n{manager}END\n")
        return Node(Settings({**H100, **(settings or {})}), Metadata(), "i-1", Aws("us-east-1"))

    return make


def told(results: list[Result]) -> list[tuple[str, str]]:
    return [(result.severity.name, result.found) for result in results]


ALL = {
    "gpus": check_gpus,
    "driver": check_driver,
    "ecc": check_ecc,
    "sram": check_sram,
    "row-remapping": check_row_remapping,
    "nvlink": check_nvlink,
    "fabric": check_fabric,
    "pcie": check_pcie,
    "clocks": check_clocks,
}


@pytest.mark.parametrize("name", ALL)
def test_healthy_gpus_are_well(health: Health, name: str) -> None:
    [result] = ALL[name](health())
    assert (result.check, result.severity) == (name, Severity.OK)
    assert not result.fix


FAULTS: list[tuple[Check, dict[int, dict[str, Any]], str, str]] = [
    (check_gpus, {1: {"lost": True}}, "REPLACE", "3 GPUs answer; lost: 1, NVIDIA H100"),
    (check_gpus, {2: {"name": "NVIDIA A100-SXM4-40GB"}}, "MONITOR", "GPU 2: NVIDIA A100"),
    (check_gpus, {3: {"memory.total": "65000"}}, "MONITOR", "65000 MiB"),
    (check_ecc, {2: {VOLATILE: "3", AGGREGATE: "5"}}, "RESET", "GPU 2: 3 uncorrected errors since"),
    (check_ecc, {2: {AGGREGATE: "5"}}, "MONITOR", "GPU 2: 5 uncorrected errors in its life, none since"),
    (check_sram, {0: {"sram": "Yes"}}, "REPLACE", "1 GPUs over the error threshold"),
    (check_row_remapping, {1: {"remapped_rows.failure": "1"}}, "REPLACE", "00000000:1B:00.0"),
    (check_row_remapping, {1: {"remapped_rows.pending": "1"}}, "RESET", "00000000:1B:00.0"),
    (check_row_remapping, {1: {"remapped_rows.pending": "Yes"}}, "RESET", "00000000:1B:00.0"),
    (check_nvlink, {0: {"links": [26.562] * 17 + [0]}}, "MONITOR", "GPU 0: 17 of 18 links up"),
    (check_nvlink, {0: {"links": [26.562] * 12}}, "MONITOR", "12 of 12 links up, 637 GB/s"),
    (check_nvlink, {3: {"links": [0] * 18}}, "RESET", "GPU 3: no link is up"),
    (check_fabric, {1: {"fabric.state": "state  In Progress", "fabric.status": "status N/A"}}, "MONITOR", "In Progress"),
    (check_fabric, {1: {"fabric.status": "status Unknown"}}, "RESET", "GPU 1: Completed, Unknown"),
    (check_pcie, {0: {"pcie.link.width.current": "8"}}, "MONITOR", "GPU 0: x8"),
    (check_pcie, {0: {"pcie.link.gen.current": "1"}}, "MONITOR", "GPU 0: generation 1, in use"),
    (check_clocks, {2: {"clocks_event_reasons.hw_thermal_slowdown": "Active"}}, "MONITOR", "GPU 2: slowed down by"),
    (check_recovery, {0: {"recovery": "None"}, 1: {"recovery": "Drain and Reset"}}, "RESET", "Drain and Reset"),
    (check_recovery, {1: {"recovery": "Reboot"}}, "REBOOT", "Reboot"),
    (check_recovery, {1: {"recovery": "Something new"}}, "UNKNOWN", "Something new"),
    (check_recovery, {1: {"reset_status.reset_required": "Yes"}}, "RESET", "GPU 1"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "gpus", "severity", "found"), FAULTS)
def test_a_fault_is_found(
    health: Health, check: Check, gpus: dict[int, dict[str, Any]], severity: str, found: str
) -> None:
    [result] = check(health(gpus))
    assert result.severity.name == severity
    assert found in result.found
    assert result.fix


def test_too_few_rows_are_lost_gpus(health: Health) -> None:
    [result] = check_gpus(health(count=3))
    assert told([result]) == [("REPLACE", "3 GPUs answer")]
    assert result.expected == "4 GPUs"


def test_more_gpus_than_expected_are_another_type(health: Health) -> None:
    assert [result.severity.name for result in check_gpus(health(count=8))] == ["MONITOR"]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
        ("No devices were found", 6),
        ("Segmentation fault", 139),
        ("\x00\x01 0, 1,\n]]", 0),
        ("", 0),
    ],
)
@pytest.mark.parametrize("check", [check_gpus, check_ecc, check_pcie, check_clocks, check_driver, check_nvlink])
def test_a_driver_that_gives_no_answer_tells_nothing(health: Health, check: Check, text: str, status: int) -> None:
    with pytest.raises(Undetermined, match="nvidia-smi"):
        check(health(text=text, status=status))


def test_an_answer_cut_short_replaces_nothing(health: Health) -> None:
    """nvidia-smi died after two of four rows."""
    rows = "".join(f"{index}, NVIDIA H100 80GB HBM3, GPU-{index}, 81559\n" for index in range(2))
    with pytest.raises(Undetermined):
        check_gpus(health(text=rows, status=139))


def test_a_missing_program_tells_nothing(health: Health, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = health()
    (tmp_path / "tools" / "nvidia-smi").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    with pytest.raises(Undetermined, match="not found: nvidia-smi"):
        check_gpus(node)


def test_idle_links_may_be_slow(health: Health) -> None:
    idle = {"pcie.link.gen.current": "1", "clocks_event_reasons.gpu_idle": "Active"}
    assert told(check_pcie(health({0: idle}))) == [("OK", "4 GPUs: generation 1 of 5, x16; generation 5 of 5, x16")]


def test_an_older_driver_does_not_know_every_section(health: Health) -> None:
    """Before 535 clock events were throttle reasons; the whole query fails for a field that the driver lacks."""
    hot = {1: {"clocks_throttle_reasons.hw_slowdown": "Active"}}
    assert [result.severity.name for result in check_clocks(health(hot, unknown=["clocks_event_reasons"]))] == [
        "MONITOR"
    ]
    assert check_pcie(health(unknown=["clocks_event_reasons"]))[0].severity is Severity.OK


def test_a_gpu_that_has_no_such_thing_is_no_finding(health: Health) -> None:
    """A T4 remaps no rows and has no SRAM threshold; drivers before 570 name no recovery action."""
    nothing = {index: {"sram": "N/A", "remapped_rows.failure": "[N/A]"} for index in range(4)}
    for check in (check_sram, check_row_remapping, check_recovery):
        assert list(check(health(nothing))) == []


def test_retired_pages_wait_for_a_reboot(health: Health) -> None:
    turing = {index: {"remapped_rows.failure": "[N/A]", "retired_pages.pending": "No"} for index in range(4)}
    assert [result.severity.name for result in check_row_remapping(health(turing))] == ["OK"]
    turing[1]["retired_pages.pending"] = "Yes"
    assert [result.severity.name for result in check_row_remapping(health(turing))] == ["REBOOT"]


def test_split_gpus_have_no_nvlink_to_others(health: Health) -> None:
    split = {index: {"mig.mode.current": "Enabled", "links": [0] * 12} for index in range(4)}
    assert told(check_nvlink(health(split))) == [("OK", "GPU 0-3 split by MIG: no NVLink to others")]


def test_whole_gpus_beside_split_ones_are_checked(health: Health) -> None:
    gpus = {0: {"mig.mode.current": "Enabled", "links": [0] * 18}, 2: {"links": [0] * 18}}
    assert told(check_nvlink(health(gpus))) == [("RESET", "GPU 2: no link is up")]


def test_volatile_errors_are_not_told_of_split_gpus(health: Health) -> None:
    """NVML tells them of MIG devices only."""
    split = {index: {"mig.mode.current": "Enabled", VOLATILE: "[N/A]"} for index in range(4)}
    split[1][AGGREGATE] = "2"
    assert told(check_ecc(health(split))) == [("MONITOR", "GPU 1: 2 uncorrected errors in its life")]


def test_ecc_switched_off_tells_nothing(health: Health) -> None:
    off = {index: {"ecc.mode.current": "Disabled", VOLATILE: "[N/A]", AGGREGATE: "[N/A]"} for index in range(4)}
    with pytest.raises(Undetermined, match="ECC is Disabled"):
        check_ecc(health(off))


def test_a_fabric_manager_that_does_not_run_needs_a_reset(health: Health) -> None:
    [result] = check_fabric(health(manager=MANAGER.replace("active", "failed")))
    assert told([result]) == [("RESET", "nvidia-fabricmanager has failed")]


def test_gpus_that_do_not_say_whether_they_joined(health: Health) -> None:
    """An A100 never says; then the manager's word counts, and without a manager nothing is known."""
    ampere = {index: {"fabric.state": "[N/A]", "fabric.status": "[N/A]"} for index in range(4)}
    [result] = check_fabric(health(ampere))
    assert result.severity is Severity.OK
    with pytest.raises(Undetermined):
        check_fabric(health(ampere, manager="LoadState=not-found\n"))
    with pytest.raises(Undetermined):
        check_fabric(health(manager="LoadState=not-found\n", unknown=["fabric"]))


@pytest.mark.parametrize(
    ("minimum", "layout", "severity"),
    [("", "", "OK"), ("550.90.07", "", "OK"), ("570.133.20", "", "MONITOR"), ("525.85.12", "580", "MONITOR")],
)
def test_a_driver_is_as_new_as_gpus_and_layout_need(
    health: Health, tmp_path: Path, minimum: str, layout: str, severity: str
) -> None:
    file = tmp_path / "etc/default/mig"
    file.parent.mkdir(parents=True)
    file.write_text(f'MIG_PARTITION="all:19"\nMIG_MINIMUM_DRIVER={layout}\n')
    [result] = check_driver(health(settings={"min_driver": minimum}))
    assert (result.severity.name, result.found) == (severity, "550.163.01")


@pytest.mark.parametrize(
    ("model", "printed"),
    [
        ("RTX PRO Server 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("GB200", "NVIDIA GB200"),
        ("A100", "NVIDIA A100-SXM4-40GB"),
        ("T4", "Tesla T4"),
    ],
)
def test_models_of_ec2_and_of_the_driver(health: Health, model: str, printed: str) -> None:
    gpus = {index: {"name": printed} for index in range(4)}
    assert check_gpus(health(gpus, settings={"model": model}))[0].severity is Severity.OK
