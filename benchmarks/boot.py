"""What this library adds to the boot of a healthy node, by stage; written into `docs/performance.md` with `--write`.

`make bench-boot`, as root: nodes are booted in containers, as `make test-node` does it. All that a stage waits for is
there at once, so that what is measured is the work of the stages themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from cdk_gpu_clusters import MigLayout
from nodebox.disks import local_disks
from nodebox.journal import Entry
from nodebox.lab import Lab, fleet
from nodebox.node import Node
from page import cores_and_memory, write_block

_ROOT = Path(__file__).resolve().parent.parent
_UNITS = {"gpu-mig": "split the GPU", "gpu-scratch": "format and mount the disk", "gpu-lustre": "mount FSx"}
_SOFTWARE, _BOOT = "gpu-software", "gpu-node-boot"
# What takes less in all boots is left out.
_LEAST_SECONDS = 0.005
Times = dict[str, float]


class Lustre:
    """A file system that is there already."""

    dns_name, mount_name = "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "abcdbev"


# More than one disk would need the kernel's RAID.
_COMMON = {"mounts": {"/fsx": Lustre()}, "scratch": True}
#: Every stage that a container can have; MIG and EFA do not go together.
KINDS = {
    "with MIG": fleet("p5.4xlarge", efa=False, mig=MigLayout(["1g.10gb"] * 7), **_COMMON),
    "with EFA": fleet("p5.4xlarge", **_COMMON),
}


def measure(lab: Lab, kind: str) -> tuple[Times, Times]:
    """Seconds of each stage of one first boot, in their order; and of what is no part of their sum."""
    with (
        local_disks(lab.directory()) as disks,
        lab.node(KINDS[kind], binds=disks, gpu="H100-80GB", gpu_count=1, efa_count=1) as node,
    ):
        node.power_on()
        node.ready()
        node.in_service()
        node.eventually(lambda: node.unit(_BOOT, "ActiveState") == "active")
        units = {name: _unit_seconds(node, name) for name in _UNITS}
        stages = {
            **_user_data(node, within=units["gpu-scratch"] + units["gpu-lustre"]),
            **{f"{name}: {_UNITS[name]}": seconds for name, seconds in units.items() if seconds},
            **dict(_boot_stages(node.journal(_BOOT))),
        }
        hook = next(one for one in node.journal(_BOOT) if one.event.get("stage") == "hook")
        return stages, {
            "beside cloud-init: fetch the software from S3": _unit_seconds(node, _SOFTWARE),
            "the complete boot, with systemd and cloud-init": hook.seconds - node.journal()[0].seconds,
        }


def _user_data(node: Node, *, within: float) -> Times:
    """What cloud-init does for us; `within`: seconds of units that it waits for."""
    [bootcmd] = _module(node, "config-bootcmd")
    [scripts] = _module(node, "config-scripts-user")
    [fetched] = [entry.seconds for entry in node.journal(_SOFTWARE) if entry.event.get("state") == "ok"]
    needed = max(scripts[0], fetched)
    return {
        "user data: unpack the early files": bootcmd[1] - bootcmd[0],
        "user data: wait for the software from S3": needed - scripts[0],
        "user data: start the units": scripts[1] - needed - within,
    }


def _module(node: Node, name: str) -> list[tuple[float, float]]:
    """Start and end of each run of a module of cloud-init."""
    events = [one for one in json.loads(node.run("cloud-init analyze dump").stdout) if one["name"].endswith(f"/{name}")]
    times = {kind: [one["timestamp"] for one in events if one["event_type"] == kind] for kind in ("start", "finish")}
    return list(zip(times["start"], times["finish"], strict=True))


def _unit_seconds(node: Node, unit: str) -> float:
    began, done = (int(node.unit(unit, f"{edge}TimestampMonotonic")) for edge in ("InactiveExit", "ActiveEnter"))
    return (done - began) / 1e6


def _boot_stages(journal: list[Entry]) -> Iterator[tuple[str, float]]:
    """The stages of `gpunode boot`, whose events stand in the journal with the time at which they were said."""
    events = [entry for entry in journal if entry.event]
    yield f"{_BOOT}: start", events[0].seconds - journal[0].seconds
    began = events[0].seconds
    for entry in events:
        stage, state = entry.event["stage"], entry.event["state"]
        if state == "ok":
            yield f"{_BOOT}: {stage}", entry.seconds - began
        began = entry.seconds


def table(measured: Mapping[str, list[tuple[Times, Times]]]) -> list[str]:
    """Medians of each kind of node, and the longest."""
    rounds = measured.values()
    rows = _rows([[stages for stages, _ in one] for one in rounds])
    rows["**in all**"] = [_cell([sum(stages.values()) for stages, _ in one]) for one in rounds]
    rows |= _rows([[others for _, others in one] for one in rounds])
    return [
        f"| Stage | {' | '.join(f'Node {kind}' for kind in measured)} |",
        f"| --- |{' ---: |' * len(measured)}",
        *(f"| {stage} | {' | '.join(cells)} |" for stage, cells in rows.items() if set(cells) != {"—"}),
    ]


def _rows(kinds: list[list[Times]]) -> dict[str, list[str]]:
    names = dict.fromkeys(name for rounds in kinds for one in rounds for name in one)
    return {name: [_cell([one.get(name, 0) for one in rounds]) for rounds in kinds] for name in names}


def _cell(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({max(seconds):.2f})" if max(seconds) >= _LEAST_SECONDS else "—"


def app_factory(folder: Path) -> Callable[..., cdk.App]:
    """Makes apps as `cdk synth` would."""
    context = json.loads((_ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]

    def make(**options: Any) -> cdk.App:
        outdir = tempfile.mkdtemp(dir=folder)
        return cdk.App(analytics_reporting=False, context=context, outdir=outdir, **options)

    return make


def main() -> None:
    """Boot nodes one after the other, print what their stages took, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="boots that count (default: 9)")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lab").mkdir()
        lab = Lab(app_factory(Path(folder)), Path(folder) / "lab")
        lab.cloud.start()
        before = os.getloadavg()[0]
        try:
            measured = {kind: [measure(lab, kind) for _ in range(options.rounds)] for kind in KINDS}
        finally:
            lab.cloud.stop()
    today = datetime.now(UTC).date()
    how = f"medians of {options.rounds} first boots, one after the other, the longest in brackets"
    load = f"other work on the machine: a load of {before:.1f} when it began"
    lines = [f"{today}; {cores_and_memory()}; {how}; {load}.", "", *table(measured)]
    sys.stdout.write("\n".join([*lines, ""]))
    if options.write:
        write_block("boot", lines)


if __name__ == "__main__":
    main()
