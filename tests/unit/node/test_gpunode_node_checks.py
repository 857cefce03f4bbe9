"""The checks of what is not a GPU: EFA, NCCL's plugin, NUMA, Lustre, MIG devices, Neuron."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.checks import network
from cdk_gpu_clusters.node.gpunode.checks.accelerators import check_mig, check_neuron, check_neuron_memory
from cdk_gpu_clusters.node.gpunode.checks.check import Result, Undetermined
from cdk_gpu_clusters.node.gpunode.checks.links import check_numa
from cdk_gpu_clusters.node.gpunode.checks.network import (
    check_efa,
    check_efa_provider,
    check_lustre,
    check_nccl_plugin,
    check_nfs,
)
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from efa_sysfs import add_device
from fakes import gpu_health

Tool = Callable[[str, str], None]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a node."""
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    return tmp_path


@pytest.fixture
def tool(root: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Puts a shell script on the PATH."""
    tools = root / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools), prepend=":")

    def put(name: str, body: str) -> None:
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)

    return put


def node(**settings: str) -> Node:
    return Node(Settings(settings), Metadata(), "i-1", Aws("us-east-1"))


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def told(results: list[Result]) -> list[tuple[str, str, str]]:
    return [(result.check, result.severity.name, result.found) for result in results]


def efa_devices(root: Path, *names: str) -> None:
    for name in names:
        add_device(root, name)


DOMAINS = "\n".join(
    f"provider: efa\n    fabric: efa\n    domain: rdmap{number}s0-{kind}\n    version: 122.0"
    for number in (16, 32)
    for kind in ("rdm", "dgrm")
)


def test_efa_devices_and_their_provider(root: Path, tool: Tool) -> None:
    """P6-B200 shows NVLink controllers beside them, which are none."""
    efa_devices(root, "rdmap16s0", "rdmap32s0", "ibp64s0")
    tool("fi_info", f"cat <<'END'\n{DOMAINS}\nEND")
    assert told([*check_efa(node(efa_count="2")), *check_efa_provider(node())]) == [
        ("efa", "OK", "2 EFA devices"),
        ("efa-provider", "OK", "libfabric's provider efa has 2 devices"),
    ]


def test_the_installers_libfabric_is_asked_first(root: Path, tool: Tool) -> None:
    efa_devices(root, "rdmap16s0")
    tool("fi_info", "exit 61")
    own = root / "opt/amazon/efa/bin/fi_info"
    write(own, f"#!/bin/sh\ncat <<'END'\n{DOMAINS}\nEND\n")
    own.chmod(0o755)
    assert [result.severity.name for result in check_efa_provider(node(efa_count="1"))] == ["OK"]


def test_a_node_with_too_few_efa_devices_is_replaced(root: Path) -> None:
    efa_devices(root, "rdmap16s0")
    [result] = check_efa(node(efa_count="2"))
    assert (result.severity.name, result.found, result.expected) == (
        "REPLACE",
        "1 EFA devices",
        "2 EFA devices",
    )


def test_a_provider_that_libfabric_does_not_have(root: Path, tool: Tool) -> None:
    efa_devices(root, "rdmap16s0")
    tool("fi_info", "echo 'fi_getinfo: -61 (No data available)' >&2; exit 61")
    [provider] = check_efa_provider(node(efa_count="1"))
    assert provider.severity.name == "MONITOR"
    assert "fi_getinfo: -61" in provider.found


def test_without_libfabrics_tools_the_provider_is_not_known(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    efa_devices(root, "rdmap16s0")
    monkeypatch.setenv("PATH", str(root))
    [provider] = check_efa_provider(node(efa_count="1"))
    assert provider.severity.name == "UNKNOWN"


@pytest.mark.parametrize(
    "library",
    ["opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so", "opt/aws-ofi-nccl/lib/libnccl-net.so.0"],
)
def test_the_plugin_of_nccl(root: Path, library: str) -> None:
    [missing] = check_nccl_plugin(node())
    assert missing.severity.name == "MONITOR"
    write(root / library, "")
    assert told(check_nccl_plugin(node())) == [("nccl-plugin", "OK", f"/{library}")]


def test_numa_nodes_of_gpus_and_efa_devices(root: Path, tool: Tool) -> None:
    gpu_health.install(root / "tools", {"gpus": [{}, {}]})
    efa_devices(root, "rdmap16s0")
    write(root / "sys/devices/system/node/online", "0-1\n")
    write(root / "sys/class/infiniband/rdmap16s0/device/numa_node", "1\n")
    write(root / "sys/bus/pci/devices/0000:1a:00.0/numa_node", "0\n")
    write(root / "sys/bus/pci/devices/0000:1b:00.0/numa_node", "1\n")
    gpu = node(accelerator="gpu")
    assert told(check_numa(gpu)) == [("numa", "OK", "node 0: GPU0; node 1: GPU1 rdmap16s0")]
    write(root / "sys/bus/pci/devices/0000:1b:00.0/numa_node", "-1\n")
    assert told(check_numa(gpu)) == [("numa", "MONITOR", "no NUMA node: GPU1")]
    write(root / "sys/devices/system/node/online", "0\n")
    assert [result.severity.name for result in check_numa(gpu)] == ["OK"]


MOUNTS = "/fsx fs-0.fsx.us-east-1.amazonaws.com abcd relatime,flock\n"


def test_a_file_system_that_is_mounted_and_answers(root: Path) -> None:
    write(root / "etc/gpu-cluster/mounts", MOUNTS)
    (root / "fsx").mkdir()
    write(root / "proc/mounts", f"10.0.0.1@tcp:/abcd {root}/fsx lustre rw,flock 0 0\n")
    assert told(check_lustre(node())) == [("lustre", "OK", "/fsx answers")]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", "/fsx is not mounted"),
        ("tmpfs {root}/fsx tmpfs rw 0 0", "/fsx is tmpfs"),
        ("10.0.0.1@tcp:/abcd {root}/fsx lustre rw 0 0\ntmpfs {root}/fsx tmpfs rw 0 0", "/fsx is tmpfs"),
    ],
)
def test_a_file_system_that_is_not_mounted(root: Path, line: str, found: str) -> None:
    write(root / "etc/gpu-cluster/mounts", MOUNTS)
    write(root / "proc/mounts", line.format(root=root) + "\n")
    assert told(check_lustre(node())) == [("lustre", "MONITOR", found)]


HOME = "fs-0.fsx.us-east-1.amazonaws.com:/fsx"


@pytest.mark.parametrize(
    ("line", "result"),
    [
        (f"{HOME} {{root}}/home nfs4 rw,vers=4.2 0 0", ("nfs", "OK", "/home answers")),
        ("", ("nfs", "MONITOR", "/home is not mounted")),
        ("fs-9:/fsx {root}/home nfs4 rw 0 0", ("nfs", "MONITOR", "/home is fs-9:/fsx (nfs4)")),
        (
            f"{HOME} {{root}}/home nfs4 rw 0 0\ntmpfs {{root}}/home tmpfs rw 0 0",
            ("nfs", "MONITOR", "/home is tmpfs (tmpfs)"),
        ),
    ],
)
def test_home_directories_are_mounted_from_their_source(root: Path, line: str, result: tuple[str, str, str]) -> None:
    write(root / "etc/gpu-cluster/nfs-mounts", f"/home {HOME} nfsvers=4.2,hard\n")
    (root / "home").mkdir()
    write(root / "proc/mounts", line.format(root=root) + "\n")
    assert told(check_nfs(node())) == [result]


def test_a_file_system_that_hangs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_MOUNT_SECONDS", 0.1)
    write(root / "etc/gpu-cluster/mounts", MOUNTS)
    write(root / "proc/mounts", f"10.0.0.1@tcp:/abcd {root}/fsx lustre rw 0 0\n")
    hang = threading.Event()
    calls = list[str]()

    def statvfs(point: str) -> str:
        calls.append(point)
        hang.wait(30)
        return ""

    monkeypatch.setattr(network, "_statvfs", statvfs)
    for _ in range(3):
        [result] = check_lustre(node())
    hang.set()
    assert calls == [f"{root}/fsx"]  # no second one beside the first
    assert (result.severity.name, result.found) == ("MONITOR", "/fsx: no answer within 0.1 s")


def test_mig_devices_as_the_layout_has(root: Path, tool: Tool) -> None:
    listing = "GPU 0: NVIDIA A100 (UUID: GPU-0)\\n  MIG 3g.20gb     Device  0: (UUID: MIG-0)\\n"
    tool("nvidia-smi", f"printf '{listing}'")
    assert told(check_mig(node(mig_count="1"))) == [("mig", "OK", "1 MIG devices")]
    assert told(check_mig(node(mig_count="2"))) == [("mig", "REBOOT", "1 MIG devices")]


def test_neuron_devices(root: Path, tool: Tool) -> None:
    devices = json.dumps([{"neuron_device": number, "nc_count": 2} for number in range(2)])
    tool("neuron-ls", f"echo '{devices}'")
    assert told(check_neuron(node(accelerator_count="2"))) == [("neuron", "OK", "2 Neuron devices")]
    assert told(check_neuron(node(accelerator_count="16"))) == [("neuron", "REPLACE", "2 Neuron devices")]


@pytest.mark.parametrize("body", ["exit 1", "echo not-json", 'echo \'{"error": "no driver"}\''])
def test_a_neuron_driver_that_gives_no_list_tells_nothing(tool: Tool, body: str) -> None:
    tool("neuron-ls", body)
    with pytest.raises(Undetermined, match="neuron-ls"):
        check_neuron(node(accelerator_count="2"))


@pytest.mark.parametrize("place", ["stats/hardware", "hardware/ecc"])
@pytest.mark.parametrize(
    ("counter", "severity"),
    [
        ("sram_ecc_uncorrected", "REPLACE"),
        ("mem_ecc_uncorrected", "REPLACE"),
        ("mem_ecc_repairable_uncorrected", "REBOOT"),
    ],
)
def test_memory_errors_of_neuron_devices(root: Path, counter: str, severity: str, place: str) -> None:
    devices = root / "sys/devices/virtual/neuron_device"
    with pytest.raises(Undetermined):
        check_neuron_memory(node())
    for number in range(2):
        write(devices / f"neuron{number}" / place / counter, "0\n")
    assert [result.severity.name for result in check_neuron_memory(node())] == ["OK"]
    write(devices / "neuron1" / place / counter, "3\n")
    [result] = check_neuron_memory(node())
    assert result.severity.name == severity
    assert result.found.startswith("neuron1: 3 ")
