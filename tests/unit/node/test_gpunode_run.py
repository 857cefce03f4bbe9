"""`gpunode run`: ranks run next to their GPUs, with the node's NCCL settings, and are known to the drain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node import gpunode
from cdk_gpu_clusters.node.gpunode.devices import as_ranges, read_cpu_list
from cdk_gpu_clusters.node.gpunode.topology import run_command
from cdk_gpu_clusters.node.gpunode.topology.run_command import Gpu, NoGpuError, gpu_of, local_rank
from fakes import gpu_health

PACKAGE = Path(str(gpunode.__file__)).parent
ALLOWED = sorted(os.sched_getaffinity(0))
# torch/distributed/run.py: the interpreter is PYTHON_EXEC, or its own.
TORCHRUN = f"""#!{sys.executable}
import os, subprocess, sys
count, script = int(sys.argv[2]), sys.argv[3:]
python = os.getenv("PYTHON_EXEC", sys.executable)
ranks = [
    subprocess.Popen([python, "-u", *script], env={{**os.environ, "LOCAL_RANK": str(rank)}})
    for rank in range(count)
]
sys.exit(max(rank.wait() for rank in ranks))
"""
REPORT = """
import json, os, sys
row = {"cpus": sorted(os.sched_getaffinity(0)), "python": sys.executable, "arguments": sys.argv[1:]}
row["variables"] = {name: os.environ[name] for name in os.environ if name.startswith(("NCCL_", "FI_"))}
row["job"] = os.path.basename(os.environ.get("GPUNODE_JOB", ""))
row["pid"] = os.getpid()
folder, rank = os.environ["GPU_CLUSTER_ROOT"], os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "none"))
open(f"{folder}/report-{rank}", "w").write(json.dumps(row))
sys.exit(7)
"""


class GpuNode:
    """A node with two GPUs on two NUMA nodes, and programs that see no others than ours."""

    def __init__(self, root: Path) -> None:
        self.root, self.tools = root, root / "tools"
        self.tools.mkdir()
        gpu_health.install(self.tools, {"gpus": [{}, {}]})
        for index, cpu in enumerate((ALLOWED[0], ALLOWED[-1])):
            device = f"sys/bus/pci/devices/{gpu_health.address(index).lower()[4:]}"
            self.write(f"{device}/local_cpulist", f"{cpu},4096-4099\n")
            self.write(f"{device}/numa_node", f"{index}\n")
        self.tool("numactl", f'#!/bin/sh\necho "$1" >>{root}/numactl-calls\nshift\nexec "$@"\n')
        self.tool("torchrun", TORCHRUN)
        self.write("report.py", REPORT)
        self.write("etc/nccl.conf", "# a comment\nFI_PROVIDER=efa\nNCCL_SOCKET_IFNAME=^docker,lo,veth\n")
        (root / "run/gpu-cluster/jobs").mkdir(parents=True)
        (root / "usr/local/libexec/gpu-cluster").mkdir(parents=True)
        wrapper = root / "usr/local/libexec/gpu-cluster/pinned-python"
        wrapper.write_text((PACKAGE.parent / "scripts/pinned-python.sh").read_text())
        wrapper.chmod(0o755)
        (root / "usr/local/bin").mkdir(parents=True)
        command = root / "usr/local/bin/gpunode"
        command.write_text(
            f"#!{sys.executable} -I\nimport sys\nsys.path.insert(0, {str(PACKAGE.parent)!r})\n"
            "from gpunode.cli import main\nsys.exit(main())\n"
        )
        command.chmod(0o755)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def tool(self, name: str, script: str) -> None:
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "NCCL_"))}
        return subprocess.run(
            [self.root / "usr/local/bin/gpunode", "run", *arguments],
            env={**kept, "PATH": f"{self.tools}:{kept['PATH']}", "GPU_CLUSTER_ROOT": str(self.root), **variables},
            cwd=self.root, check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def report(self, rank: str) -> dict[str, Any]:
        row: dict[str, Any] = json.loads((self.root / f"report-{rank}").read_text())
        return row


@pytest.fixture
def node(tmp_path: Path) -> GpuNode:
    return GpuNode(tmp_path)


def test_ranks_of_torchrun_run_next_to_their_gpus(node: GpuNode) -> None:
    """By the launcher's own interpreter, which may be one of a virtual environment."""
    done = node.run("--pin", "--", "torchrun", "--nproc-per-node", "2", "report.py", "--epochs", "1")
    assert (done.returncode, done.stderr) == (7, "")
    for rank, cpu in (("0", ALLOWED[0]), ("1", ALLOWED[-1])):
        report = node.report(rank)
        assert (report["cpus"], report["python"]) == ([cpu], sys.executable)
        assert report["arguments"] == ["--epochs", "1"]
    calls = (node.root / "numactl-calls").read_text().split()
    assert sorted(set(calls)) == ["--preferred=0", "--preferred=1"]


def test_a_task_of_slurm_is_pinned_itself(node: GpuNode) -> None:
    variables = {"SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x4)"}
    done = node.run("--pin", "--verbose", "--", sys.executable, "report.py", **variables)
    cpus = f"processors {ALLOWED[-1]}, memory of NUMA node 1"
    assert (done.returncode, done.stderr) == (7, f"gpunode run: local rank 1: GPU1: {cpus}\n")
    assert node.report("1")["cpus"] == [ALLOWED[-1]]


def test_the_only_task_of_a_node_starts_the_ranks(node: GpuNode) -> None:
    node.write("job.sh", "#!/bin/sh\nexec torchrun --nproc-per-node 2 report.py\n")
    variables = {"SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1(x4)"}
    assert node.run("--pin", "--", "sh", "job.sh", **variables).returncode == 7
    assert [node.report(rank)["cpus"] for rank in "01"] == [[ALLOWED[0]], [ALLOWED[-1]]]


def test_torchrun_below_srun_is_no_rank(node: GpuNode) -> None:
    command = ("torchrun", "--nproc-per-node", "2", "report.py")
    assert node.run("--pin", "--", *command, SLURM_LOCALID="0").returncode == 7
    assert node.report("1")["cpus"] == [ALLOWED[-1]]


def test_without_pin_nothing_is_pinned(node: GpuNode) -> None:
    done = node.run("--", sys.executable, "report.py", LOCAL_RANK="0")
    assert (done.returncode, done.stderr, node.report("0")["cpus"]) == (7, "", ALLOWED)


def test_the_nodes_settings_stand_back_behind_the_users(node: GpuNode) -> None:
    node.run("--", sys.executable, "report.py", LOCAL_RANK="0", FI_PROVIDER="tcp")
    assert node.report("0")["variables"] == {
        "FI_PROVIDER": "tcp",
        "NCCL_SOCKET_IFNAME": "^docker,lo,veth",
    }


def test_a_job_is_known_to_the_drain_once(node: GpuNode) -> None:
    node.run("--pin", "--", "torchrun", "--nproc-per-node", "2", "report.py")
    [file] = (node.root / "run/gpu-cluster/jobs").iterdir()
    assert {node.report(rank)["job"] for rank in "01"} == {file.name}
    assert file.name not in {str(node.report(rank)["pid"]) for rank in "01"}


def test_a_job_runs_where_nobody_can_be_told_of_it(node: GpuNode) -> None:
    (node.root / "run/gpu-cluster/jobs").rmdir()
    assert node.run("--", sys.executable, "report.py").returncode == 7
    assert node.report("none")["job"] == ""


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--pin", "--"], 64, "no command"),
        (["--pin", "--", "mpirun", "-n", "8", "./train"], 64, "mpirun ... gpunode run --pin -- PROGRAM"),
        (["--", "no-such-program"], 127, "not found: no-such-program"),
        (["--", "./report.py"], 126, "./report.py: Permission denied"),
    ],
)
def test_what_cannot_be_started(node: GpuNode, arguments: list[str], status: int, words: str) -> None:
    done = node.run(*arguments)
    assert (done.returncode, words in done.stderr) == (status, True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "memory not pinned: numactl is not installed"),
        ("#!/bin/sh\necho 'set_mempolicy: Operation not permitted' >&2; exit 1\n", "Operation not permitted"),
    ],
)
def test_processors_are_pinned_where_memory_cannot_be(node: GpuNode, body: str | None, words: str) -> None:
    (node.tools / "numactl").unlink()
    if body:
        node.tool("numactl", body)
    alone = {"LOCAL_RANK": "0", "PATH": str(node.tools)}
    done = node.run("--pin", "--", sys.executable, "report.py", **alone)
    assert (done.returncode, words in done.stderr, node.report("0")["cpus"]) == (7, True, [ALLOWED[0]])


def test_a_job_runs_unpinned_where_its_gpu_cannot_be_told(node: GpuNode) -> None:
    done = node.run("--pin", "--", sys.executable, "report.py", LOCAL_RANK="2")
    assert "local rank 2: not pinned: local rank 2, but only 2 GPUs are visible" in done.stderr
    assert (done.returncode, node.report("2")["cpus"]) == (7, ALLOWED)


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"LOCAL_RANK": "0"}, 0),
        ({"LOCAL_RANK": "3", "SLURM_LOCALID": "0"}, 3),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "5", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, 5),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, None),
        ({"MPI_LOCALRANKID": "2"}, 2),
        ({"SLURM_LOCALID": "garbage"}, None),
    ],
)
def test_local_ranks(environment: Mapping[str, str], rank: int | None) -> None:
    assert local_rank(environment) == rank


@pytest.mark.parametrize(
    ("visible", "rank", "index"),
    [
        (None, 1, "1"),
        ("1,0", 0, "1"),
        ("1", 3, "1"),
        ("GPU-0001,GPU-0000", 1, "0"),
        ("MIG-b", 0, "1"),
    ],
)
def test_the_gpu_of_a_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, rank: int, index: str
) -> None:
    listing = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0000)\\n  MIG 3g.40gb     Device  0: (UUID: MIG-a)\\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0001)\\n  MIG 3g.40gb     Device  0: (UUID: MIG-b)\\n"
    )
    rows = "0, GPU-0000-aaaa, 00000000:1A:00.0\\n1, GPU-0001-bbbb, 00000000:1B:00.0\\n"
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncase $1 in -L) printf '{listing}' ;; *) printf '{rows}' ;; esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpu_of(rank, environment).index == index
    with pytest.raises(NoGpuError, match="no GPU answers to GPU-9"):
        gpu_of(0, {"CUDA_VISIBLE_DEVICES": "GPU-9"})


def test_a_gpu_whose_processors_are_not_given_to_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    gpu = Gpu("3", "00000000:1D:00.0")
    assert run_command.pin_to(gpu).words == "GPU3: not pinned: the kernel lists no processors near it"
    device = tmp_path / "sys/bus/pci/devices/0000:1d:00.0"
    device.mkdir(parents=True)
    (device / "local_cpulist").write_text("4096-4099\n")
    assert "only " in run_command.pin_to(gpu).words
    assert sorted(os.sched_getaffinity(0)) == ALLOWED


def test_lists_of_processors() -> None:
    assert as_ranges(read_cpu_list("0-3,8,10-11\n")) == "0-3,8,10-11"
    assert (read_cpu_list(""), read_cpu_list("none"), as_ranges(set())) == (set(), set(), "")
