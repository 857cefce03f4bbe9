"""NVML by ctypes, against NVIDIA's own binding: layouts, constants, names, and what both read from one library."""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Iterator
from inspect import getsource
from pathlib import Path
from typing import Any

import pynvml
import pytest

from cdk_gpu_clusters.node.gpunode import nvidia_smi, nvml
from cdk_gpu_clusters.node.gpunode.checks.accelerators import check_gpus, check_mig, check_recovery
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.checks.links import check_nvlink
from cdk_gpu_clusters.node.gpunode.checks.memory import check_ecc, check_sram
from cdk_gpu_clusters.node.gpunode.metrics import collect
from cdk_gpu_clusters.node.gpunode.metrics.names import GPU_POWER_DRAW_WATTS, MIG_DEVICES_IN_USE, MIG_MEMORY_USED
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.nvml import answers, binding, session
from fakes import gpu_health
from fakes.nvml_library import GIB, NvmlLibrary, mig_device, node_of

NODE = Node(
    Settings({"accelerator": "gpu", "accelerator_count": "2", "nvlink": "900"}), Metadata(), "i-1", Aws("us-east-1")
)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    nvml.disable()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the entire PATH; what nvidia-smi is started for is in `started`."""
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/started\necho "by the program"\n')
    tool.chmod(0o755)
    return tmp_path


def use(library: NvmlLibrary) -> None:
    nvml.enable(session.Session(library.load, idle_seconds=0.05))


def started(programs: Path) -> list[str]:
    file = programs / "started"
    return file.read_text().splitlines() if file.exists() else []


STRUCTURES = {
    binding.PciInfo: pynvml.nvmlPciInfo_t,
    binding.Memory: pynvml.c_nvmlMemory_t,
    binding.MemoryV2: pynvml.c_nvmlMemory_v2_t,
    binding.Utilization: pynvml.c_nvmlUtilization_t,
    binding.SramErrorStatus: pynvml.c_nvmlEccSramErrorStatus_v1_t,
    binding.FabricInfo: pynvml.c_nvmlGpuFabricInfo_t,
    binding.FabricInfoV3: pynvml.c_nvmlGpuFabricInfo_v3_t,
    binding.RepairStatus: pynvml.c_nvmlRepairStatus_t,
    binding.UnrepairableMemory: pynvml.c_nvmlUnrepairableMemory_v1_t,
    binding.Value: pynvml.c_nvmlValue_t,
    binding.FieldValue: pynvml.c_nvmlFieldValue_t,
}


def layout(structure: Any) -> list[tuple[str, int, int]]:
    return [(name, getattr(structure, name).offset, getattr(structure, name).size) for name, _ in structure._fields_]


def test_every_structure_has_the_layout_of_nvidias_binding() -> None:
    kinds = (ctypes.Structure, ctypes.Union)
    own = [one for one in vars(binding).values() if isinstance(one, type) and issubclass(one, kinds)]
    assert set(own) == set(STRUCTURES)
    for ours, theirs in STRUCTURES.items():
        assert layout(ours) == layout(theirs), ours.__name__
        assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)


def test_versions_of_structures() -> None:
    assert {one.__name__: binding.struct_version(one) for one in binding.VERSIONS} == {
        "MemoryV2": pynvml.nvmlMemory_v2,
        "SramErrorStatus": pynvml.nvmlEccSramErrorStatus_v1,
        "FabricInfoV3": pynvml.nvmlGpuFabricInfo_v3,
        "RepairStatus": pynvml.nvmlRepairStatus_v1,
        "UnrepairableMemory": pynvml.nvmlUnrepairableMemory_v1,
    }


def test_every_constant_is_nvidias() -> None:
    own = {name: value for name, value in vars(binding).items() if name.isupper() and isinstance(value, int)}
    assert len(own) > 25
    assert own == {name: getattr(pynvml, f"NVML_{name}") for name in own}
    for word, bit in binding.CLOCKS_EVENT_REASONS.items():
        name = "".join(part.capitalize() for part in word.split("_"))
        assert bit == getattr(pynvml, f"nvmlClocksEventReason{name}")
    values = [name for name in vars(pynvml) if name.startswith("NVML_VALUE_TYPE_") and not name.endswith("COUNT")]
    assert sorted(getattr(pynvml, name) for name in values) == list(range(len(binding.VALUE_MEMBERS)))
    assert tuple(name for name, _ in pynvml.c_nvmlValue_t._fields_) == binding.VALUE_MEMBERS


def test_every_function_is_one_that_nvidias_binding_calls() -> None:
    ours = set(
        re.findall(
            r'"(nvml(?:Device|Error|Init|Shutdown|System)\w*)"',
            getsource(binding) + getsource(answers) + getsource(session),
        )
    )
    theirs = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', Path(pynvml.__file__).read_text()))
    # NVIDIA's binding uses nvmlInitWithFlags, of which nvmlInit_v2 is the form without flags (nvml.h).
    assert ours - theirs == {"nvmlInit_v2"}
    assert len(ours) > 30


def test_states_have_the_order_of_nvidias_enumerations() -> None:
    states = [name for name in vars(pynvml) if name.startswith("NVML_GPU_FABRIC_STATE_")]
    assert len(answers._FABRIC_STATES) == len(states)
    for index, word in enumerate(answers._FABRIC_STATES[1:], 1):
        assert getattr(pynvml, f"NVML_GPU_FABRIC_STATE_{word.upper().replace(' ', '_')}") == index
    for index, word in enumerate(answers._FABRIC_HEALTH[1:], 1):
        assert getattr(pynvml, f"NVML_GPU_FABRIC_HEALTH_SUMMARY_{word.upper().replace(' ', '_')}") == index
    actions = {
        value: name.rpartition("ACTION_")[2]
        for name, value in vars(pynvml).items()
        if name.startswith("NVML_GPU_RECOVERY_")
    }
    assert sorted(actions) == list(range(len(answers._RECOVERY_ACTIONS)))
    for index, word in enumerate(answers._RECOVERY_ACTIONS):
        assert word.upper().replace(" ", "_") in actions[index].replace("RECOVER_IMEX", "RECOVER_IMEX")


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlLibrary]:
    """One library that NVIDIA's binding uses, too."""
    library = node_of({}, {"errors": (3, 4), "reasons": 0x48, "remapped": (1, 1, 1, 0), "pcie": (8, 16, 4, 5)})
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    pynvml.nvmlInit()
    yield library
    pynvml.nvmlShutdown()


def test_both_bindings_read_the_same(theirs: NvmlLibrary, programs: Path) -> None:
    use(theirs)
    rows = nvidia_smi.query([field for field in answers.FIELDS if field != "index"]).rows
    assert len(rows) == 2
    for index, row in enumerate(rows):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
        assert {
            "name": pynvml.nvmlDeviceGetName(gpu),
            "uuid": pynvml.nvmlDeviceGetUUID(gpu),
            "driver_version": pynvml.nvmlSystemGetDriverVersion(),
            "pci.bus_id": pynvml.nvmlDeviceGetPciInfo(gpu).busId.upper(),
            "memory.total": str(memory.total // 2**20),
            "memory.used": str(memory.used // 2**20),
            "utilization.gpu": str(pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu),
            "power.draw": f"{pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000:.2f}",
            "clocks.sm": str(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM)),
            "clocks.max.sm": str(pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM)),
            "ecc.mode.current": ["Disabled", "Enabled"][pynvml.nvmlDeviceGetEccMode(gpu)[0]],
            "mig.mode.current": ["Disabled", "Enabled"][pynvml.nvmlDeviceGetMigMode(gpu)[0]],
            "ecc.errors.uncorrected.volatile.total": str(
                pynvml.nvmlDeviceGetTotalEccErrors(
                    gpu, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
                )
            ),
            "ecc.errors.uncorrected.aggregate.total": str(
                pynvml.nvmlDeviceGetTotalEccErrors(
                    gpu, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_AGGREGATE_ECC
                )
            ),
            "remapped_rows.pending": str(pynvml.nvmlDeviceGetRemappedRows(gpu)[2]),
            "remapped_rows.failure": str(pynvml.nvmlDeviceGetRemappedRows(gpu)[3]),
            "pcie.link.width.current": str(pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
            "pcie.link.width.max": str(pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
            "pcie.link.gen.current": str(pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
            "pcie.link.gen.max": str(pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
            "clocks_event_reasons.hw_slowdown": "Active"
            if reasons & pynvml.nvmlClocksEventReasonHwSlowdown
            else "Not Active",
            "clocks_event_reasons.hw_thermal_slowdown": "Active"
            if reasons & pynvml.nvmlClocksEventReasonHwThermalSlowdown
            else "Not Active",
            "clocks_event_reasons.gpu_idle": "Active"
            if reasons & pynvml.nvmlClocksEventReasonGpuIdle
            else "Not Active",
        }.items() <= row.items()
    assert started(programs) == []


def test_cells_are_those_of_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake nvidia-smi has the texts of the real one; NVML must give the same cells."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    gpu_health.install(tmp_path, {"gpus": [{}]})
    fields = [
        "name", "memory.total", "mig.mode.current", "ecc.mode.current", "ecc.errors.uncorrected.volatile.total",
        "retired_pages.pending", "pcie.link.gen.current", "pcie.link.width.max", "clocks_event_reasons.hw_slowdown",
        "clocks.max.sm", "temperature.gpu",
    ]  # fmt: skip
    printed = nvidia_smi.query(fields).rows
    use(node_of({}))
    assert nvidia_smi.query(fields).rows == printed
    [row] = nvidia_smi.query(["remapped_rows.pending", "remapped_rows.failure"], what="remapped-rows").rows
    assert row == {"gpu_bus_id": "00000000:1B:00.0", "remapped_rows.pending": "0", "remapped_rows.failure": "0"}


def test_checks_of_a_healthy_node_start_no_program(programs: Path) -> None:
    use(node_of({}, {}))
    for check in (check_gpus, check_ecc, check_sram, check_recovery, check_nvlink):
        assert [result.severity for result in check(NODE)] == [Severity.OK], check.__name__
    assert collect.measure_gpus()[GPU_POWER_DRAW_WATTS] == [312.34, 312.34]
    assert started(programs) == []


def test_faults_are_found_by_the_same_checks(programs: Path) -> None:
    use(node_of({"sram": 1, "fields": {230: 2}}, {"errors": (1, 1), "links": [26562] * 17 + [0]}))
    worst = {
        check.__name__: max(result.severity for result in check(NODE))
        for check in (check_sram, check_recovery, check_ecc, check_nvlink)
    }
    assert worst == {
        "check_sram": Severity.REPLACE,
        "check_recovery": Severity.REBOOT,
        "check_ecc": Severity.RESET,
        "check_nvlink": Severity.MONITOR,
    }
    assert started(programs) == []


@pytest.mark.parametrize(("code", "severity"), [(15, Severity.REPLACE), (16, Severity.RESET)])
@pytest.mark.parametrize("function", ["handle", "nvmlDeviceGetMemoryInfo_v2"])
def test_a_gpu_that_fails_hides_no_other(programs: Path, code: int, severity: Severity, function: str) -> None:
    use(node_of({"fail": {function: code}}, {}))
    answer = nvidia_smi.query(["uuid", "memory.total"])
    assert [row["uuid"] for row in answer.rows] == ["GPU-00000001"]
    assert len(answer.without_row) == 1
    assert max(result.severity for result in check_gpus(NODE)) is severity
    assert started(programs) == []


def test_what_a_driver_does_not_have_is_not_available(programs: Path) -> None:
    old = ("nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons")
    use(node_of({"retired_pending": 3, "fields": {}}, absent=old))
    [row] = nvidia_smi.query(
        [
            "fabric.state",
            "retired_pages.pending",
            "memory.total",
            "clocks_event_reasons.gpu_idle",
            "reset_status.reset_required",
        ]
    ).rows
    assert list(row.values()) == ["0", "[N/A]", "[N/A]", "81559", "Not Active", "[N/A]"]


def test_any_other_error_is_no_value(programs: Path) -> None:
    use(node_of({"fail": {"nvmlDeviceGetTotalEccErrors": 999}}, {}))
    results = check_ecc(NODE)
    assert Severity.UNKNOWN in [result.severity for result in results]
    assert Severity.OK not in [result.severity for result in results]


def test_mig_devices(programs: Path) -> None:
    split = {"mig": 1, "devices": [mig_device(7, busy=True), mig_device(8)]}
    use(node_of(split, {}))
    assert nvidia_smi.mig_device_count() == 2
    node = Node(Settings({"mig_count": "2"}), Metadata(), "i-1", Aws("us-east-1"))
    assert [result.severity for result in check_mig(node)] == [Severity.OK]
    found = collect.measure_mig_devices()
    assert (found[MIG_MEMORY_USED], found[MIG_DEVICES_IN_USE]) == ([GIB, GIB], [1])
    [whole] = [row for row in nvidia_smi.query(["utilization.gpu"]).rows if row["utilization.gpu"] != "[N/A]"]
    assert whole["index"] == "1"
    assert started(programs) == []


def test_speed_of_links_of_older_drivers(programs: Path) -> None:
    use(node_of({"no speeds": True}, {"no speeds": True}))
    assert [result.severity for result in check_nvlink(NODE)] == [Severity.OK]


@pytest.mark.parametrize("init", [9, 18, 999])
def test_library_that_does_not_start_leaves_it_to_the_program(programs: Path, init: int) -> None:
    use(node_of({}, init=init))
    assert nvidia_smi.call("-L").output == "by the program\n"


def test_no_gpus_and_no_library_and_unknown_questions_are_for_the_program(programs: Path) -> None:
    use(node_of())
    assert nvidia_smi.call("-L").output == "by the program\n"

    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    nvml.enable(session.Session(missing))
    assert nvidia_smi.call("-L").output == "by the program\n"
    use(node_of({}))
    assert nvidia_smi.query(["fan.speed"]).outcome.output == "by the program\n"
    assert nvidia_smi.call("topo", "-m").output == "by the program\n"
    assert len(started(programs)) == 4


def test_library_of_another_release_is_loaded_again(programs: Path) -> None:
    libraries = [node_of({}, init=18), node_of({})]
    nvml.enable(session.Session(lambda _: libraries.pop(0)))
    assert nvidia_smi.call("-L").output == "by the program\n"
    assert nvidia_smi.call("-L").output.startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")


def test_library_is_shut_down_between_rounds(programs: Path) -> None:
    """An open library would keep others from resetting a GPU or reloading the driver."""
    library = node_of({})
    use(library)
    for _ in range(3):
        nvidia_smi.call("-L")
    assert library.is_open
    nvml.wait()
    assert not library.is_open
    assert (library.calls.count("nvmlInit_v2"), library.calls.count("nvmlShutdown")) == (1, 1)
    assert nvidia_smi.call("-L").ok


def test_call_that_hangs_is_skipped_until_it_returns(programs: Path) -> None:
    library, hang = node_of({}), threading.Event()
    library.before = lambda name: hang.wait(30) if name == "nvmlDeviceGetName" else None
    use(library)
    begin = time.monotonic()
    assert nvidia_smi.call("-L", timeout_seconds=0.2).hung
    # Nothing else asks the driver meanwhile, neither NVML nor the program.
    calls = len(library.calls)
    assert nvidia_smi.query(["uuid"], timeout_seconds=20).outcome.hung
    assert nvidia_smi.call("topo", "-m").hung
    assert time.monotonic() - begin < 10
    assert (len(library.calls), started(programs)) == (calls, [])
    hang.set()
    nvml.wait()
    assert nvidia_smi.call("-L").ok


def test_slow_program_is_left_alone_and_gets_no_company(programs: Path) -> None:
    tool = programs / "nvidia-smi"
    tool.write_text(
        f"#!/bin/sh\ntrap 'echo signal >>{programs}/started' TERM\necho start >>{programs}/started\n/bin/sleep 1.5\necho end >>{programs}/started\n"
    )
    assert nvidia_smi.call("-L", timeout_seconds=0.3).hung
    second = nvidia_smi.call("-q", timeout_seconds=0.3)
    assert (second.hung, second.words) == (True, "nvidia-smi is still running")
    deadline = time.monotonic() + 20
    while "end" not in started(programs) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert started(programs) == ["start", "end"]
    time.sleep(0.1)
    assert nvidia_smi.call("-L", timeout_seconds=10).ok
