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
    (check_sram, {0: {"sram": "Yes"}}, "REPLACE", "00000000:1A:00.0: SRAM Threshold Exceeded"),
    (check_row_remapping, {1: {"remapped_rows.failure": "1"}}, "REPLACE", "00000000:1B:00.0"),
    (check_row_remapping, {1: {"remapped_rows.pending": "1"}}, "RESET", "00000000:1B:00.0"),
    (check_row_remapping, {1: {"remapped_rows.pending": "Yes"}}, "RESET", "00000000:1B:00.0"),
    (check_nvlink, {0: {"links": [26.562] * 17 + [0]}}, "MONITOR", "GPU 0: 17 of 18 links up"),
    (check_nvlink, {0: {"links": [26.562] * 12}}, "MONITOR", "12 of 18 links up, 637 GB/s"),
    (check_nvlink, {3: {"links": [0] * 18}}, "RESET", "GPU 3: no link is up"),
    (check_fabric, {1: {"fabric.state": "state  In Progress", "fabric.status": "status N/A"}}, "RESET", "In Progress"),
    (check_fabric, {1: {"fabric.status": "status Unknown"}}, "RESET", "GPU 1: Completed, Unknown"),
    (check_pcie, {0: {"pcie.link.width.current": "8"}}, "MONITOR", "GPU 0: x8"),
    (check_pcie, {0: {"pcie.link.gen.current": "1"}}, "MONITOR", "GPU 0: generation 1, in use"),
    (check_clocks, {2: {"clocks_event_reasons.hw_thermal_slowdown": "Active"}}, "MONITOR", "GPU 2: slowed down by"),
    (check_recovery, {0: {"recovery": "None"}, 1: {"recovery": "Drain and Reset"}}, "RESET", "Drain and Reset"),
    (check_recovery, {1: {"recovery": "Reboot"}}, "REBOOT", "Reboot"),
    (check_recovery, {1: {"recovery": "Something new"}}, "UNKNOWN", "Something new"),
    (check_recovery, {gpu: {"reset_status.reset_required": "Yes" if gpu == 1 else "No"} for gpu in range(4)}, "RESET",
     "GPU 1"),
    (check_ecc, {2: {VOLATILE: "[Unknown Error]"}}, "UNKNOWN", "1 of 4 GPUs gave no value"),
    (check_sram, {2: {"repairs": {"Channel Repair Pending": "Yes"}}}, "RESET", "1C:00.0: Channel Repair Pending"),
    (check_sram, {2: {"repairs": {"TPC Repair Pending": "Yes"}}}, "RESET", "1C:00.0: TPC Repair Pending"),
    (check_sram, {2: {"repairs": {"Unrepairable Memory": "Yes"}}}, "REPLACE", "1C:00.0: Unrepairable Memory"),
    (check_nvlink, {0: {"links": [26.562] * 17}}, "MONITOR", "17 of 18 links up, 903 GB/s"),
    (check_fabric, {1: {"fabric.state": "Not Started", "fabric.status": "N/A"}}, "RESET", "GPU 1: Not Started"),
    (check_fabric, {1: {"fabric.state": "gestartet", "fabric.status": "gut"}}, "UNKNOWN", "GPU 1: gestartet, gut"),
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
    """A power cap makes the clock event `gpu_idle` Not Active on an idle GPU, too."""
    idle = {"pcie.link.gen.current": "1", "utilization.gpu": "0", "clocks_event_reasons.gpu_idle": "Not Active"}
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
    turing[2] |= {"retired_pages.single_bit_ecc.count": "5", "retired_pages.double_bit.count": "55"}
    assert [result.severity.name for result in check_row_remapping(health(turing))] == ["REBOOT", "REPLACE"]


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


@pytest.fixture
def switches(tmp_path: Path) -> None:
    """NVSwitches on the PCI bus, as on p4d and p5."""
    device = tmp_path / "sys/bus/pci/devices/0000:07:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x068000\n")


@pytest.mark.usefixtures("switches")
def test_a_fabric_manager_that_does_not_run_needs_a_reset(health: Health) -> None:
    [result] = check_fabric(health(manager=MANAGER.replace("active", "failed")))
    assert result.severity is Severity.RESET
    assert result.found.startswith("nvidia-fabricmanager: failed")


def test_a_fabric_manager_without_switches_may_fail(health: Health) -> None:
    """EKS's image starts it on GB200, whose switches are elsewhere, and on p3dn, which has none."""
    failed = MANAGER.replace("active", "failed")
    assert told(check_fabric(health(manager=failed))) == [("OK", "4 GPUs have joined the fabric")]
    volta = {index: {"fabric.state": "[N/A]", "fabric.status": "[N/A]"} for index in range(4)}
    assert check_fabric(health(volta, manager=failed))[0].severity is Severity.OK


@pytest.mark.usefixtures("switches")
def test_gpus_that_do_not_report_whether_they_joined(health: Health) -> None:
    """An A100 never reports it. The fabric manager counts, and without one nothing is known."""
    ampere = {index: {"fabric.state": "[N/A]", "fabric.status": "[N/A]"} for index in range(4)}
    [result] = check_fabric(health(ampere))
    assert result.severity is Severity.OK
    with pytest.raises(Undetermined):
        check_fabric(health(ampere, manager="LoadState=not-found\n"))
    with pytest.raises(Undetermined):
        check_fabric(health(manager="LoadState=not-found\n", unknown=["fabric"]))


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.86"


@pytest.mark.parametrize(
    ("text", "status", "severity"),
    [(MISMATCH, 18, "REBOOT"), ("No devices were found\n", 6, "REPLACE")],
)
def test_a_driver_without_any_gpu_asks_for_an_action(
    health: Health, tmp_path: Path, text: str, status: int, severity: str
) -> None:
    [result] = check_gpus(health(text=text, status=status))
    assert result.severity.name == severity
    assert text.splitlines()[0][:40] in result.found
    # A package manager may be replacing the driver.
    comm = tmp_path / "proc/4711/comm"
    comm.parent.mkdir(parents=True)
    comm.write_text("dpkg\n")
    [result] = check_gpus(health(text=text, status=status))
    assert result.severity is Severity.UNKNOWN
    assert "dpkg is at work" in result.found


def rows_of(*cells: str) -> str:
    return "".join(f"{index}, {row}\n" for index, row in enumerate(cells))


H100_ROW = "NVIDIA H100 80GB HBM3, GPU-1, 81559"
NEEDS_RESET = "[GPU requires reset], [GPU requires reset], 0"


def test_a_gpu_that_requires_a_reset_is_reset_not_replaced(health: Health) -> None:
    [result] = check_gpus(health(text=rows_of(H100_ROW, NEEDS_RESET, H100_ROW, H100_ROW), status=0))
    assert (result.severity.name, result.fix) == ("RESET", "drain the node and reset the GPU")
    assert "1, [GPU requires reset]" in result.found


@pytest.mark.parametrize(
    "check", [check_ecc, check_sram, check_row_remapping, check_clocks, check_pcie, check_nvlink, check_fabric]
)
def test_a_check_reports_gpus_that_it_got_no_value_of(health: Health, check: Check) -> None:
    """Three of four GPUs must never read as a healthy node."""
    assert Severity.UNKNOWN in [result.severity for result in check(health(count=3))]
    [result] = check(health(count=4))
    assert result.severity is Severity.OK


def test_a_corrupted_inforom_is_watched_and_hides_no_row(health: Health) -> None:
    warning = "WARNING: infoROM is corrupted at gpu 00000000:1B:00.0\n"
    [result] = check_gpus(health(text=rows_of(*[H100_ROW] * 4) + warning, status=14))
    assert (result.severity.name, result.found) == ("MONITOR", warning.strip())
    lost, watched = check_gpus(health(text=rows_of(*[H100_ROW] * 3) + warning, status=14))
    assert (lost.severity.name, watched.severity.name) == ("REPLACE", "MONITOR")


def test_one_unknown_error_is_no_lost_gpu(health: Health) -> None:
    assert check_gpus(health({1: {"memory.total": "[Unknown Error]"}}))[0].severity is Severity.REPLACE
    results = check_clocks(health({1: {"clocks_event_reasons.hw_slowdown": "[Unknown Error]"}}))
    assert [result.severity.name for result in results] == ["OK"]


def test_links_that_are_down_are_not_accepted_at_the_boot(health: Health) -> None:
    assert not check_nvlink(health({0: {"links": [26.562] * 17}}))[0].is_acceptable
    narrow = {"pcie.link.width.current": "8"}
    assert not check_pcie(health({0: narrow}))[0].is_acceptable
    # Every GPU alike: the type connects them so.
    assert all(result.is_acceptable for result in check_pcie(health(dict.fromkeys(range(4), narrow))))


def test_the_number_of_links_follows_from_the_bandwidth(health: Health) -> None:
    """V100: 6 links; A100: 12; H100: 18; B200: 18 of twice the rate."""
    for speed, links, bandwidth in ((25.781, 6, "300"), (25, 12, "600"), (26.562, 18, "900"), (53.125, 18, "1800")):
        gpus = {index: {"links": [speed] * links} for index in range(4)}
        assert told(check_nvlink(health(gpus, settings={"nvlink": bandwidth}))) == [
            ("OK", f"4 GPUs with {links} links up")
        ]


def test_unreadable_nvlink_output_is_no_dead_link(health: Health) -> None:
    text = "".join(f"GPU {index}: NVIDIA H100 (UUID: GPU-{index})\n\t Verbindung 0: 26 GB/s\n" for index in range(4))
    with pytest.raises(Undetermined):
        check_nvlink(health(text="0, Disabled\n" + text, status=0))
    dead = "".join(
        f"GPU {index}: NVIDIA H100 (UUID: GPU-{index})\n"
        "NVML: Unable to retrieve NVLink information as all links are inActive\n"
        for index in range(4)
    )
    assert [result.severity.name for result in check_nvlink(health(text="0, Disabled\n" + dead, status=0))] == [
        "RESET"
    ] * 4


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
