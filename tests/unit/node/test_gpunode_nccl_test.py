"""`gpunode nccl-test`: what all_reduce_perf prints, what it is compared with, and what keeps it from running."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import cli
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.topology import nccl_test
from cdk_gpu_clusters.node.gpunode.topology.nccl_test import Row, read_rows, read_size, size_words
from cdk_gpu_clusters.node.gpunode.topology.peers import NotYetError, Peer, Peers
from fakes import gpu_health

GIB = 1024**3
OWN = "i-0123456789abcdef0"
# What nccl-tests 2.13 and later print, from published runs; MPI and NCCL print between the lines.
OUTPUT = """# nThread 1 nGpus 8 minBytes 8 maxBytes 17179869184 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid 348055 on ip-10-0-9-200 device  0 [0x11] NVIDIA H100 80GB HBM3
NCCL version 2.27.7+cuda12.9
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1     6.21    0.00    0.00      0     6.23    0.00    0.00      0
[0] NCCL INFO Connected all rings
  8589934592    2147483648     float     sum      -1    31427  273.33  478.33      0    31439  273.22  478.14      0
 17179869184    4294967296     float     sum      -1    62542  274.69  480.71      {wrong}    62498  274.89  481.06    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 319.706
#
"""
PROGRAM = f"""#!/bin/sh
echo "$@" >>"$0-calls"
env >"$0-environment"
cat <<'END'
{OUTPUT.format(wrong=0)}
END
"""
TABLE = [
    {"instance_type": "p5.48xlarge", "nodes": 2, "size_gib": size, "gbytes_per_s": speed, "source": "a page"}
    for size, speed in ((8, 400), (16, 500), (64, 900))
]


class TestNode:
    """A node with eight GPUs and nccl-tests."""

    __test__ = False

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.tools = root, root / "tools"
        self.tools.mkdir()
        monkeypatch.setenv("GPU_CLUSTER_ROOT", str(root))
        monkeypatch.setenv("PATH", f"{self.tools}:/bin:/usr/bin")
        self.gpus()
        self.program("usr/local/cuda-12.9/efa/test-cuda-12.9")
        self.write("all_reduce.json", json.dumps(TABLE))
        self.write("etc/nccl.conf", "FI_PROVIDER=efa\n")
        monkeypatch.setattr(nccl_test, "PUBLISHED", root / "all_reduce.json")
        metadata = Metadata()
        monkeypatch.setattr(metadata, "get", lambda _: "p5.48xlarge")
        node = Node(Settings(), metadata, OWN, Aws("us-east-1"))
        monkeypatch.setattr(nccl_test, "this_node", lambda: node)
        for name in ("FI_PROVIDER", "LD_LIBRARY_PATH"):
            monkeypatch.setenv(name, "")  # what the command sets goes with the test
            monkeypatch.delenv(name)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def gpus(self, **cells: str) -> None:
        gpu_health.install(self.tools, {"gpus": [cells] * 8})

    def program(self, folder: str, text: str = PROGRAM) -> Path:
        file = self.write(f"{folder}/all_reduce_perf", text)
        file.chmod(0o755)
        return file


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestNode:
    return TestNode(tmp_path, monkeypatch)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = cli.main(["nccl-test", *arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    said = capsys.readouterr()
    return status, said.out, said.err


def test_rows_are_read_from_between_other_lines() -> None:
    assert read_rows(OUTPUT.format(wrong=2)) == [
        Row(8, 0.0, 0),
        Row(8 * GIB, 478.33, 0),
        Row(16 * GIB, 481.06, 2),
    ]


def test_rows_of_older_versions_have_no_root_and_an_error_for_the_number_of_wrong_values() -> None:
    old = "        1024           256   float     sum    166.5    0.01    0.01  2e-07    167.0    0.01    0.02  5e-07"
    assert read_rows(old) == [Row(1024, 0.02, 0)]
    assert read_rows("") == []


def test_sizes() -> None:
    assert [size_words(size) for size in (8, 1024, 4 * 1024**2, 16 * GIB)] == [
        "8 B",
        "1 KiB",
        "4 MiB",
        "16 GiB",
    ]
    assert (read_size("16G"), read_size("8")) == (16 * GIB, 8)


def test_the_first_run_is_recorded_and_later_ones_are_compared_with_it(
    node: TestNode, capsys: pytest.CaptureFixture[str]
) -> None:
    status, table, _ = run(capsys)
    assert (status, table.splitlines()[-1]) == (0, "ok: recorded as this node's own")
    assert "    16 GiB    481.06 GB/s" in table.splitlines()
    assert "100 % of 481.06 GB/s at 16 GiB: this node on " in run(capsys)[1]
    slower = PROGRAM.replace("480.71", "420.00").replace("481.06", "421.00")
    node.program("usr/local/cuda-12.9/efa/test-cuda-12.9", slower)
    status, table, _ = run(capsys)
    assert (status, "too slow: 88 % of 481.06 GB/s" in table) == (2, True)
    assert run(capsys, "--tolerance", "15")[0] == 0
    assert run(capsys, "--record")[0] == 0
    assert "100 % of 421 GB/s" in run(capsys)[1]


def test_other_sizes_and_numbers_of_gpus_are_recorded_by_themselves(
    node: TestNode, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys)
    gpu_health.install(node.tools, {"gpus": [{}] * 4})
    assert "recorded as this node's own" in run(capsys)[1]
    kept = json.loads((node.root / "var/lib/gpu-cluster/nccl-baseline.json").read_text())
    assert list(kept) == ["1 nodes, 8 GPUs each, 16 GiB", "1 nodes, 4 GPUs each, 16 GiB"]


def test_a_node_that_may_not_record_says_so(node: TestNode, capsys: pytest.CaptureFixture[str]) -> None:
    node.write("var/lib", "a file in place of the folder")
    assert "not recorded: that needs root" in run(capsys)[1]


@pytest.mark.parametrize("text", ["garbage", "[]", '{"1 nodes, 8 GPUs each, 16 GiB": 7}'])
def test_a_broken_record_is_begun_anew(node: TestNode, capsys: pytest.CaptureFixture[str], text: str) -> None:
    node.write("var/lib/gpu-cluster/nccl-baseline.json", text)
    assert "recorded as this node's own" in run(capsys)[1]
    assert "this node on" in run(capsys)[1]


def test_json(node: TestNode, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, "--json")[1])
    assert (told["status"], told["expected_gbytes_per_s"]) == (0, None)
    assert told["rows"][-1] == {"size_bytes": 16 * GIB, "gbytes_per_s": 481.06, "wrong": 0}


def test_wrong_results_are_worse_than_slow_ones(node: TestNode, capsys: pytest.CaptureFixture[str]) -> None:
    node.program("usr/local/cuda-12.9/efa/test-cuda-12.9", PROGRAM.replace("      0    62498", "      7    62498"))
    status, table, _ = run(capsys)
    assert (status, "7 values are wrong" in table) == (3, True)
    assert not (node.root / "var/lib/gpu-cluster/nccl-baseline.json").exists()


@pytest.mark.parametrize(
    ("nodes", "kind", "found"),
    [(2, "p5.48xlarge", (500.0, 16 * GIB)), (3, "p5.48xlarge", None), (2, "p5en.48xlarge", None)],
)
def test_published_bandwidths_hold_for_their_type_nodes_and_size(
    node: TestNode, nodes: int, kind: str, found: tuple[float, int] | None
) -> None:
    """64 GiB was not measured."""
    rows = read_rows(OUTPUT.format(wrong=0))
    expected = nccl_test.published_baseline(kind, nodes, rows)
    assert (None if expected is None else (expected.gbytes_per_s, expected.size_bytes)) == found


@pytest.mark.parametrize("text", ["", "garbage", "[7]", '[{"nodes": 2}]'])
def test_a_broken_table_of_sources_says_nothing(node: TestNode, text: str) -> None:
    node.write("all_reduce.json", text)
    assert nccl_test.published_baseline("p5.48xlarge", 2, read_rows(OUTPUT.format(wrong=0))) is None


def test_the_program_of_the_newest_cuda_runs_with_the_nodes_settings(
    node: TestNode, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = node.program("usr/local/cuda-13.0/efa/test-cuda-13.0")
    node.program("usr/local/cuda-9.2/efa/test-cuda-9.2")
    run(capsys)
    assert Path(f"{newest}-calls").read_text() == "-b 8 -e 16G -f 2 -g 8\n"
    environment = Path(f"{newest}-environment").read_text().splitlines()
    assert "FI_PROVIDER=efa" in environment
    [libraries] = [line for line in environment if line.startswith("LD_LIBRARY_PATH=")]
    assert libraries.startswith(f"LD_LIBRARY_PATH={node.root}/usr/local/cuda-13.0/lib:")
    assert libraries.split(":")[2] == f"{node.root}/opt/amazon/efa/lib"


@pytest.mark.parametrize(("memory", "size"), [("81559", "16G"), ("23034", "4G"), ("15360", "2G"), ("2048", "256M")])
def test_messages_leave_gpus_some_of_their_memory(
    node: TestNode, capsys: pytest.CaptureFixture[str], memory: str, size: str
) -> None:
    node.gpus(**{"memory.total": memory})
    run(capsys)
    calls = node.root / "usr/local/cuda-12.9/efa/test-cuda-12.9/all_reduce_perf-calls"
    assert f" -e {size} " in calls.read_text()


class Fleet:
    """The fleet's nodes, in the order of the network."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.nodes = [Peer(f"10.0.0.{number}", name) for number, name in enumerate(names)]
        monkeypatch.setattr(nccl_test, "wait_for_peers", self.find)

    def find(self, _: Any, count: int, **__: Any) -> Peers:
        if count > len(self.nodes):
            raise NotYetError(f"{len(self.nodes)} of {count} nodes in service after 0 s")
        return Peers(self.nodes)


def mpirun(node: TestNode) -> Path:
    file = node.write(
        "opt/amazon/openmpi/bin/mpirun",
        PROGRAM + 'cp "$(echo "$@" | sed "s/.*--hostfile //; s/ .*//")" "$0-hosts"\n',
    )
    file.chmod(0o755)
    return file


def test_several_nodes_run_by_mpi_on_this_node_and_its_neighbours(
    node: TestNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Fleet(monkeypatch, "i-0", "i-1", OWN)
    program = mpirun(node)
    status, table, _ = run(capsys, "--nodes", "2")
    assert (status, table.splitlines()[-1]) == (0, "ok: 96 % of 500 GB/s at 16 GiB: a page")
    assert Path(f"{program}-hosts").read_text() == "10.0.0.1 slots=8\n10.0.0.2 slots=8\n"
    call = Path(f"{program}-calls").read_text()
    assert "-np 16 --map-by ppr:8:node" in call
    assert "-x LD_LIBRARY_PATH -x FI_PROVIDER" in call
    assert call.endswith("all_reduce_perf -b 8 -e 16G -f 2 -g 1\n")


PAIRS = """#!/bin/sh
case "$(cat "$(echo "$@" | sed "s/.*--hostfile //; s/ .*//")")" in
*"10.0.0.{slow}"*) speed={speed} ;;
*) speed=480.71 ;;
esac
echo " 17179869184    4294967296     float     sum      -1    62542  274.69  $speed      0    62498  274.89  1.00    N/A"
"""


@pytest.mark.parametrize(
    ("slow", "speed", "status", "words"),
    [
        ("9", "480", 0, "ok: 4 pairs have 450 GB/s and more"),
        ("2", "90", 2, "too slow: i-2"),
        ("2 slots=8\n10.0.0.3", "90", 2, "too slow: between i-2 and i-3"),
    ],
)
def test_pairs_find_the_slow_node(
    node: TestNode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    slow: str,
    speed: str,
    status: int,
    words: str,
) -> None:
    Fleet(monkeypatch, OWN, "i-1", "i-2", "i-3")
    mpirun(node).write_text(PAIRS.format(slow=slow, speed=speed))
    returned, table, _ = run(capsys, "--nodes", "4", "--pairs")
    assert (returned, table.splitlines()[-1]) == (status, words)
    assert table.splitlines()[0] == f"{OWN} i-1    480.71 GB/s"


def test_pairs_name_what_could_not_be_measured(
    node: TestNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Fleet(monkeypatch, OWN, "i-1", "i-2")
    mpirun(node).write_text("#!/bin/sh\necho 'ssh: connect to host 10.0.0.1 port 22: Connection refused'; exit 1\n")
    status, table, _ = run(capsys, "--nodes", "2", "--pairs")
    assert status == 1
    assert "Connection refused" in table
    assert "needs --nodes" in run(capsys, "--pairs")[2]


def test_what_keeps_several_nodes_from_it(
    node: TestNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(monkeypatch, OWN, "i-1")
    with monkeypatch.context() as without:
        without.setattr(nccl_test, "find_mpi", lambda: "")
        assert "several nodes need mpirun" in run(capsys, "--nodes", "2")[2]
    mpirun(node)
    assert "2 of 3 nodes in service" in run(capsys, "--nodes", "3")[2]
    fleet.nodes = fleet.nodes[1:] * 2
    assert "this node is not in service" in run(capsys, "--nodes", "2")[2]


def test_what_keeps_a_node_from_it(node: TestNode, capsys: pytest.CaptureFixture[str]) -> None:
    folder = "usr/local/cuda-12.9/efa/test-cuda-12.9"
    node.program(folder, "#!/bin/sh\necho 'Test CUDA failure common.cu:1030 out of memory'; exit 1\n")
    status, _, words = run(capsys)
    assert (status, "ended with status 1: Test CUDA failure" in words) == (1, True)
    node.program(folder).unlink()
    assert "there is no all_reduce_perf" in run(capsys)[2]
    node.gpus(**{"mig.mode.current": "Enabled"})
    assert "the GPUs are split" in run(capsys)[2]
    (node.tools / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert run(capsys)[0] == 1


def test_gpus_in_use_are_left_alone(node: TestNode, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\\n".join(f"{number}, 81559, Disabled" for number in range(8))
    program = f"#!/bin/sh\ncase $1 in *compute-apps*) echo 4711 ;; *) printf '{rows}\\n' ;; esac\n"
    (node.tools / "nvidia-smi").write_text(program)
    assert "GPUs are in use by 4711" in run(capsys)[2]


def test_a_wrong_size_is_refused(node: TestNode, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, words = run(capsys, "--max-size", "huge")
    assert (status, "huge is not a size, such as 16G" in words) == (64, True)
