"""What the node software costs a quiet node of eight GPUs; written into `docs/performance.md` with `--write`.

`make bench-node`: the watchdog runs for some minutes, and `gpu-node-ship` once in each, before and now. NVIDIA's, EFA's
and AWS's programs are replaced by ones that take about as long, and NVML by a library of healthy GPUs (needs `cc`). A
program that is pinned to the first processor, as a job, measures the longest time in which it did not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fakes import gpu_health
from page import cores_and_memory, write_block

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = "constructs/cdk_gpu_clusters/node/gpunode"
#: The last commit that watched by nvidia-smi alone.
BEFORE = "f1af9b5"
_GPUS = 8
# A process of eight GPUs with persistence mode takes some tenths of a second; the AWS CLI half a second of processor.
_SMI_SECONDS = 0.4
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gpunode.cli import main; sys.exit(main())"
_SPIN = """
import json, os, sys, time
os.sched_setaffinity(0, {0})
end = time.monotonic() + float(sys.argv[1])
longest = lost = 0.0
last = time.perf_counter()
while time.monotonic() < end:
    now = time.perf_counter()
    pause = now - last
    if pause > 100e-6:
        lost += pause
        longest = max(longest, pause)
    last = now
print(json.dumps([longest, lost]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What was measured.

    Attributes:
        processes_per_minute: Programs that were started, our own among them.
        cpu_s_per_hour: Time of the processor, of all of them.
        longest_pause_ms: The longest pause of the pinned program.
        lost_ms_per_minute: The sum of its pauses of more than 0.1 ms.
    """

    processes_per_minute: float
    cpu_s_per_hour: float
    longest_pause_ms: float
    lost_ms_per_minute: float


class Metadata(BaseHTTPRequestHandler):
    """IMDSv2 of an instance."""

    def _answer(self, body: str) -> None:
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self) -> None:
        self._answer("token")

    def do_GET(self) -> None:
        values = {"instance-id": "i-0123456789abcdef0", "placement/region": "us-east-2"}
        self._answer(values.get(self.path.removeprefix("/latest/meta-data/"), ""))

    def log_request(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def metadata() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def software(folder: Path, commit: str) -> Path:
    """The node software of a commit; of the working tree if that is empty. Returns its module path."""
    if not commit:
        return (_ROOT / _PACKAGE).parent
    archive = subprocess.run(["git", "archive", commit, _PACKAGE], cwd=_ROOT, check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return (folder / _PACKAGE).parent


def node(folder: Path) -> tuple[Path, Path, Path]:
    """A node's files, its programs, and the file in which these count themselves."""
    root, tools, log = folder / "root", folder / "tools", folder / "started"
    tools.mkdir(parents=True)
    log.touch()
    files = {
        "etc/gpu-cluster/node.env": "GPU_ACCELERATOR=gpu\nGPU_ACCELERATOR_COUNT=8\nGPU_NVLINK=900\nGPU_EFA_COUNT=2\n"
        "GPU_MOUNTS=1\nGPU_LOG_GROUP=/gpu-cluster/bench\nGPU_FLEET=bench\n",
        "etc/gpu-cluster/mounts": "/fsx fs-0.fsx.us-east-2.amazonaws.com abcd flock\n",
        "proc/mounts": f"10.0.0.9@tcp:/abcd {root}/fsx lustre rw 0 0\n",
        "proc/uptime": "1000.0 500.0\n",
        "proc/sys/kernel/random/boot_id": "boot-1\n",
        "dev/kmsg": "6,1,100,-;Linux version 6.1\n",
        "sys/fs/lustre/health_check": "healthy\n",
        "sys/kernel/debug/lustre/llite/abcd-ffff/stats": "read_bytes 3 samples [bytes] 1 2 3\n",
        "sys/fs/cgroup/system.slice/nvidia-fabricmanager.service/cgroup.procs": "4711\n",
        "fsx/file": "",
    }
    for number in range(2):
        device = f"sys/class/infiniband/rdmap{number}s0"
        files |= {
            f"{device}/ports/1/hw_counters/rx_bytes": "0\n",
            f"{device}/device/vendor": "0x1d0f\n",
            f"{device}/device/device": "0xefa1\n",
        }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="ascii")
    gpu_health.install(tools, {"gpus": [{"recovery": "None"}] * _GPUS, "seconds": _SMI_SECONDS})
    (tools / "nvidia-smi").rename(tools / "real-nvidia-smi")
    domains = "".join(f"    domain: rdmap{number}s0-rdm\\n" for number in range(2))
    burn = f"exec {sys.executable} -IS -c 'import time\nwhile time.process_time() < 0.5: pass'"
    active = "LoadState=loaded\\nUnitFileState=enabled\\nActiveState=active\\n"
    programs = {
        "nvidia-smi": 'exec real-nvidia-smi "$@"',
        "aws": burn,
        "fi_info": f"sleep 0.3; printf '{domains}'",
        "systemctl": f"printf '{active}'",
        "journalctl": "sleep 0.05",
        "stat": "exit 0",
        "lctl": "printf 'llite.abcd-ffff.stats=\\nread_bytes 3 samples [bytes] 1 2 3\\n'",
    }
    for name, text in programs.items():
        (tools / name).write_text(f"#!/bin/sh\necho {name} >>{log}\n{text}\n", encoding="ascii")
        (tools / name).chmod(0o755)
    return root, tools, log


def measure(commit: str, minutes: float, *, quiet: bool = False) -> Cost:
    """Measure one release of the software; or, if quiet, the machine without it."""
    with tempfile.TemporaryDirectory() as name, metadata() as imds:
        folder = Path(name)
        modules = software(folder, commit)
        root, tools, log = node(folder)
        library = folder / "library"
        library.mkdir()
        if not commit:
            source = str(Path(__file__).with_name("quiet_nvml.c"))
            subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library / "libnvidia-ml.so.1"), source], check=True)
        environment = {
            **os.environ,
            "PATH": f"{tools}:/usr/bin:/bin",
            "LD_LIBRARY_PATH": str(library),
            "GPU_CLUSTER_ROOT": str(root),
            "GPU_CLUSTER_IMDS": imds,
        }
        for arguments in [] if quiet else [["metrics"], ["ship"]] * 2:  # what the first minutes do once
            subprocess.run(
                [sys.executable, "-I", "-c", _START, str(modules), *arguments],
                env=environment, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        log.write_text("", encoding="ascii")
        spin = subprocess.Popen([sys.executable, "-IS", "-c", _SPIN, str(60 * minutes)], stdout=subprocess.PIPE)
        cpu_s, own = (0.0, 0) if quiet else _run(commit, modules, minutes, environment)
        output, _ = spin.communicate()
        longest, lost = json.loads(output)
        started = len(log.read_text(encoding="ascii").splitlines())
    return Cost(
        processes_per_minute=(started + own) / minutes,
        cpu_s_per_hour=60 * cpu_s / minutes,
        longest_pause_ms=1000 * longest,
        lost_ms_per_minute=1000 * lost / minutes,
    )


def _run(commit: str, modules: Path, minutes: float, environment: Mapping[str, str]) -> tuple[float, int]:
    """Seconds of the processor, and the number of our own processes that a timer started."""
    command = [sys.executable, "-I", "-c", _START, str(modules)]
    commands = [["metrics"], ["ship"]] if commit else [["ship", "--measure"]]
    watch = subprocess.Popen([*command, "watch"], env=environment, stdout=subprocess.DEVNULL)
    begin, cpu_s, own = time.monotonic(), 0.0, 0
    while time.monotonic() - begin < 60 * minutes - 30:
        time.sleep(30)
        for arguments in commands:
            child = subprocess.Popen([*command, *arguments], env=environment, stdout=subprocess.DEVNULL)
            cpu_s += _cpu_s(child)
            own += 1
        time.sleep(max(0.0, 60 * own / len(commands) - (time.monotonic() - begin)))
    watch.terminate()
    return cpu_s + _cpu_s(watch), own


def _cpu_s(child: subprocess.Popen[bytes]) -> float:
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def table(costs: Mapping[str, Cost]) -> list[str]:
    rows = {
        "processes a minute": [f"{cost.processes_per_minute:.1f}" for cost in costs.values()],
        "processor seconds an hour": [f"{cost.cpu_s_per_hour:.0f}" for cost in costs.values()],
        "longest pause of a program on the first processor": [
            f"{cost.longest_pause_ms:.1f} ms" for cost in costs.values()
        ],
        "its pauses in a minute": [f"{cost.lost_ms_per_minute:.0f} ms" for cost in costs.values()],
    }
    return [
        f"| | {' | '.join(costs)} |",
        f"| --- |{' ---: |' * len(costs)}",
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="of each release; 5 if left out")
    parser.add_argument("--before", default=BEFORE, help=f"commit to compare with; {BEFORE} if left out")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    costs = {
        "Before": measure(given.before, given.minutes),
        "Now": measure("", given.minutes),
        "Without the software": measure("", given.minutes, quiet=True),
    }
    when = f"{datetime.now(UTC):%Y-%m-%d}; {cores_and_memory()}; {given.minutes:g} minutes each"
    lines = [f"{when}; a load of {load:.1f} when it began.", "", *table(costs)]
    print("\n".join(lines))
    if given.write:
        write_block("node", lines)


if __name__ == "__main__":
    main()
