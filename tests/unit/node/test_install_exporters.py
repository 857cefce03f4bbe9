"""install-exporters, run for real: systemd, package managers and exporters are faked, what they were told is read back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue.dcgm import DCGM_EXPORTERS
from cdk_gpu_clusters.node.exporters import NodeExporters
from cdk_gpu_clusters.node.settings import NodeSettings, NodeWatch, check_settings
from cdk_gpu_clusters.node.user_data import start_script
from cdk_gpu_clusters.observability.exporter_panels import exporter_rows
from cdk_gpu_clusters.observability.targets import Exporter

SCRIPT, DROP_INS = "usr/local/libexec/gpu-cluster/install-exporters", "etc/systemd/system"
OWN = "usr/local/lib/gpu-cluster/exporters"
AMAZON = 'ID="amzn"\nVERSION_ID="2023"\n'
NOBLE = 'ID=ubuntu\nVERSION_ID="24.04"\n'
GPUS = {"accelerator_kind": "gpu", "accelerator_count": 8}
DCGM, NODE, BOTH = NodeExporters(node=False), NodeExporters(dcgm=False), NodeExporters()
# NVIDIA/dcgm-exporter @ d5e5f510a1b6b393f39a43293ccd9dc985defc79 (2026-05-12, Apache License 2.0), etc/default-counters.csv.
#: Fields 1011 and 1012 of DCGM's `dcgm_fields.h`, which the exporter's file leaves out.
NOT_BY_DEFAULT = {"DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"}
THEIRS = Path(__file__).parents[2] / "fixtures/dcgm-default-counters.csv"


class Machine:
    """A node with units, packages, and exporters that answer while their units run."""

    def __init__(self, node: Any) -> None:
        self.node, self.root, self.output = node, node.root, ""
        node.environment |= {"GPU_PATIENCE": "0", "GPU_ANSWER_TRIES": "2"}
        for name in ("units", "packages", "offered", "running", "calls"):
            node.write(f"fake/{name}", "")
        fake = self.root / "fake"
        node.tool(
            "systemctl",
            f'#!/bin/bash\necho "systemctl $*" >>{fake}/calls\n'
            f'if [[ $1 == cat ]]; then grep -qx "${{2%.service}}" {fake}/units || {{ echo "No files found for $2."; exit 1; }}; fi\n'
            f'if [[ $1 == restart ]]; then echo "$2" >>{fake}/running; fi\n',
        )
        node.tool(
            "curl",
            f'#!/bin/bash\ncase "${{*: -1}}" in\n*:9400/metrics) unit=nvidia-dcgm-exporter ;;\n'
            f"*:9100/metrics) unit=node ;;\nesac\ngrep -q -- $unit {fake}/running\n",
        )
        node.tool("journalctl", "#!/bin/sh\necho 'Failed to connect to remote hostengine'\n")
        # A package manager installs what is offered, and the unit of the exporter comes with its package.
        installs = (
            'for one in "$@"; do\n  [[ $one == [-iu]* ]] && continue\n'
            # dnf takes globs.
            f"  found=; while read -r offer; do [[ $offer != $one ]] || found=yes; done <{fake}/offered\n"
            '  [[ $found ]] || { echo "Unable to locate $one"; exit 100; }\n'
            f"  case $one in *-exporter*) name=${{one%%[=]*}}; name=${{name/datacenter-gpu-manager-exporter*/nvidia-dcgm-exporter}}; name=${{name/golang-github-prometheus-/}}; "
            f'echo "$name" >>{fake}/units ;; esac\ndone\n'
        )
        for manager in ("apt-get", "dnf"):
            node.tool(
                manager,
                f'#!/bin/bash\necho "{manager} $*" >>{fake}/calls\n'
                "while [[ $# -gt 0 && $1 != install && $1 != update ]]; do shift; done\n"
                f"[[ ${{1-}} == install ]] || exit 0\nshift\n{installs}",
            )
        node.tool(
            "dpkg-query",
            f'#!/bin/bash\nawk -v name="${{*: -1}}" \'$1 == name {{ print "ii " $2; found = 1 }} END {{ exit !found }}\' '
            f"{fake}/packages\n",
        )
        node.tool(
            "rpm",
            f"#!/bin/bash\nawk -v name=\"${{*: -1}}\" '$1 == name {{ print $2; found = 1 }} END {{ exit !found }}' "
            f'{fake}/packages || {{ echo "package ${{*: -1}} is not installed"; exit 1; }}\n',
        )
        # The format of apt-cache(8), madison.
        node.tool(
            "apt-cache",
            f'#!/bin/bash\nsed -n "s/^$2=\\(.*\\)/ $2 | \\1 | mirror noble\\/main amd64 Packages/p" {fake}/offered\n',
        )

    def has(self, kind: str, *lines: str) -> None:
        self.node.write(f"fake/{kind}", "".join(f"{line}\n" for line in lines))

    def runs(self, exporters: NodeExporters, system: str = AMAZON) -> tuple[str, str]:
        """State and reason of a run."""
        self.node.install(exporters=exporters, **GPUS)
        self.node.write("etc/os-release", system)
        done = self.node.run(SCRIPT)
        assert not done.stderr, done.stderr
        self.output = done.stdout
        result = json.loads((self.root / "var/lib/gpu-cluster/exporters.json").read_text())
        assert (done.returncode == 0) == (result["state"] == "ok")
        return result["state"], result["reason"]

    @property
    def installed(self) -> list[str]:
        """What package managers were told to install."""
        lines = (self.root / "fake/calls").read_text().splitlines()
        return [words[-1] for line in lines if len(words := line.split(" install ")) == 2]

    def drop_in(self, unit: str) -> str:
        file = self.root / DROP_INS / f"{unit}.service.d/gpu-cluster-exporters.conf"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def machine(node: Any) -> Machine:
    return Machine(node)


def test_the_exporter_is_the_one_that_nvidia_pairs_with_the_dcgm_of_the_image(machine: Machine) -> None:
    machine.has("packages", "datacenter-gpu-manager-4-core 4.5.2-1")
    machine.has(
        "offered",
        "datacenter-gpu-manager-4-proprietary-4.5.2-1",
        "datacenter-gpu-manager-exporter-4.8.1-1",
        "datacenter-gpu-manager-exporter-4.8.11-1",
    )
    assert machine.runs(DCGM) == ("ok", "dcgm at port 9400")
    (packages,) = machine.installed
    assert packages.split()[1:] == [
        "datacenter-gpu-manager-4-proprietary-4.5.2-1",
        "datacenter-gpu-manager-exporter-4.8.1[-.]*",
    ]
    assert "DynamicUser=yes" in machine.drop_in("nvidia-dcgm-exporter")
    assert "Wants=nvidia-dcgm-exporter.service" in machine.drop_in("nvidia-dcgm")
    assert "systemctl enable nvidia-dcgm" in (machine.root / "fake/calls").read_text().splitlines()


def test_an_image_without_dcgm_gets_the_newest_pair_with_the_epochs_of_apt(machine: Machine) -> None:
    dcgm, exporter = list(DCGM_EXPORTERS.items())[-1]
    wanted = [
        f"datacenter-gpu-manager-4-core=1:{dcgm}-1",
        f"datacenter-gpu-manager-4-proprietary=1:{dcgm}-1",
        f"datacenter-gpu-manager-exporter={exporter}.3955-1",
    ]
    others = ["datacenter-gpu-manager-4-core=1:4.7.0-1", f"datacenter-gpu-manager-exporter={exporter}0-1"]
    machine.has("offered", *others, *wanted)
    assert machine.runs(DCGM, NOBLE) == ("ok", "dcgm at port 9400")
    assert machine.installed == [f"--no-install-recommends {' '.join(wanted)}"]


def test_a_dcgm_without_a_known_pair_is_recorded(machine: Machine) -> None:
    newest = list(DCGM_EXPORTERS.values())[-1]
    machine.has("packages", "datacenter-gpu-manager-4-core 4.7.0-1", "datacenter-gpu-manager-4-proprietary 4.7.0-1")
    machine.has("offered", f"datacenter-gpu-manager-exporter-{newest}-1")
    assert machine.runs(DCGM)[0] == "ok"
    assert machine.installed == [f"--setopt=install_weak_deps=False datacenter-gpu-manager-exporter-{newest}[-.]*"]
    assert '"state":"unpaired"' in machine.output
    assert "4.7.0" in machine.output


def test_what_answers_already_is_left_alone(machine: Machine) -> None:
    machine.has("running", "nvidia-dcgm-exporter", "node_exporter")
    assert machine.runs(BOTH) == ("ok", "dcgm at port 9400, node at port 9100")
    assert (machine.root / "fake/calls").read_text() == ""


def test_units_of_the_image_are_started_and_nothing_is_installed(machine: Machine) -> None:
    machine.has("units", "nvidia-dcgm-exporter", "node_exporter")
    assert machine.runs(BOTH)[0] == "ok"
    assert machine.installed == []
    assert "--remote-hostengine-info=127.0.0.1:5555" in machine.drop_in("nvidia-dcgm-exporter")
    assert machine.drop_in("node_exporter") == ""


def test_ubuntu_has_a_package_of_the_node_exporter(machine: Machine) -> None:
    machine.has("offered", "prometheus-node-exporter")
    assert machine.runs(NODE, NOBLE) == ("ok", "node at port 9100")
    assert machine.installed == ["--no-install-recommends prometheus-node-exporter"]
    assert "--no-collector.infiniband" in machine.drop_in("prometheus-node-exporter")


def test_amazon_linux_has_it_among_its_supplementary_packages(machine: Machine) -> None:
    machine.has("offered", "spal-release", "golang-github-prometheus-node-exporter")
    assert machine.runs(NODE) == ("ok", "node at port 9100")
    option = "--setopt=install_weak_deps=False"
    assert machine.installed == [f"{option} spal-release", f"{option} golang-github-prometheus-node-exporter"]
    assert machine.drop_in("prometheus-node-exporter") == ""


def test_one_exporter_that_is_missing_does_not_keep_the_other(machine: Machine) -> None:
    machine.has("units", "nvidia-dcgm-exporter")
    state, reason = machine.runs(BOTH)
    assert state == "failed"
    assert reason == (
        "node: not in the image, and not installed: Unable to locate spal-release: bake the node exporter into it; "
        "works: dcgm at port 9400"
    )
    assert "gpu-exporters: node: not in the image" in (machine.root / "dev/console").read_text()


@pytest.mark.parametrize(
    ("kind", "lines", "cause"),
    [
        ("offered", (), "Unable to locate datacenter-gpu-manager-4-core-"),
        ("packages", ("datacenter-gpu-manager 3.3.9-1",), "the image has DCGM 3"),
    ],
)
def test_why_the_exporter_of_nvidia_is_not_there_is_recorded(
    machine: Machine, kind: str, lines: tuple[str, ...], cause: str
) -> None:
    machine.has(kind, *lines)
    state, reason = machine.runs(DCGM)
    assert (state, cause in reason) == ("failed", True), reason


def test_an_exporter_that_does_not_answer_is_recorded_with_its_last_words(machine: Machine) -> None:
    machine.has("units", "nvidia-dcgm-exporter")
    machine.node.tool("curl", "#!/bin/sh\nexit 7\n")
    assert machine.runs(DCGM) == (
        "failed",
        "dcgm: nvidia-dcgm-exporter does not answer at port 9400: Failed to connect to remote hostengine",
    )


def _rows(text: str) -> dict[str, tuple[str, str]]:
    """Type and help of each counter, also of those in comments."""
    found = re.findall(r"^#? ?(DCGM_\w+) *, *(\w+) *, *(.+)$", text, re.MULTILINE)
    return {name: (kind, words.strip()) for name, kind, words in found}


def test_the_counters_are_nvidias_and_have_all_that_panels_show(machine: Machine) -> None:
    machine.node.install()
    own = (machine.root / OWN / "dcgm-counters.csv").read_text()
    counters, theirs = _rows(own), _rows(THEIRS.read_text())
    assert len(counters) == len([line for line in own.splitlines() if not line.startswith("#")])
    assert counters.keys() - theirs.keys() == NOT_BY_DEFAULT
    assert {name: one for name, one in counters.items() if name not in NOT_BY_DEFAULT}.items() <= theirs.items()
    queries = [q.expression for row in exporter_rows([Exporter.DCGM]) for one in row.panels for q in one.queries]
    shown = set(re.findall(r"DCGM_\w+", " ".join(queries)))
    assert shown
    assert shown <= set(counters)
    assert f"/{OWN}/dcgm-counters.csv" in (machine.root / OWN / "dcgm-exporter.conf").read_text()


def test_a_node_starts_them_only_if_it_has_some() -> None:
    assert "gpu-exporters" not in start_script(NodeSettings(fleet_name="a"))
    assert "gpu-exporters" in start_script(NodeSettings(fleet_name="a", exporters=NODE))


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"exporters": BOTH, **GPUS}, ""),
        ({"exporters": NODE}, ""),
        ({"exporters": NODE, "watch": NodeWatch(metrics_port=9400)}, ""),
        ({"exporters": NodeExporters(dcgm=False, node=False)}, "exporters"),
        ({"exporters": BOTH}, "exporters.dcgm"),
        ({"exporters": DCGM, "accelerator_kind": "neuron", "accelerator_count": 1}, "exporters.dcgm"),
        ({"exporters": BOTH, "orchestrator": "eks", **GPUS}, "exporters"),
        ({"exporters": NODE, "watch": NodeWatch(metrics_port=9100)}, "watch.metrics_port"),
        ({"exporters": DCGM, "watch": NodeWatch(health_port=9400), **GPUS}, "watch.health_port"),
    ],
)
def test_exporters_that_a_node_cannot_run_are_refused(settings: dict[str, Any], path: str) -> None:
    found = check_settings(NodeSettings(fleet_name="a", **settings))
    assert [(one.id, one.path) for one in found] == ([("GPU-UD-011", path)] if path else [])
