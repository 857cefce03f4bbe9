"""The drawings of the documentation show what the library does."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import aws_cdk as cdk
import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.rules.capacity import DRAIN_BEFORE_END, CapacityKind
from cdk_gpu_clusters.rules.interfaces import plan_interfaces
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from cdk_gpu_clusters.rules.model_servers import ServerSlots, plan_servers
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from pages import PAGES, REPOSITORY

DRAWINGS = REPOSITORY / "docs" / "drawings"
SVG = "{http://www.w3.org/2000/svg}"


class Drawing:
    """An SVG file, or a named group of one."""

    def __init__(self, name: str, group: str | None = None) -> None:
        root = ET.parse(DRAWINGS / f"{name}.svg").getroot()  # noqa: S314
        if group is not None:
            (root,) = (one for one in root.iter(f"{SVG}g") if one.get("id") == group)
        self.words = " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
        self.boxes = len(list(root.iter(f"{SVG}rect")))


def test_interfaces_are_those_of_the_plan() -> None:
    plan = plan_interfaces("p5.48xlarge")
    drawing = Drawing("interfaces")
    assert Drawing("interfaces", "ena").boxes == plan.ip_addresses_per_node == 1
    assert Drawing("interfaces", "efa-only").boxes == plan.efa_count
    assert f"{plan.efa_gbps:,} Gbps to nodes" in drawing.words
    assert f"{plan.ena_gbps} Gbps to S3" in drawing.words
    assert f"{len(instance_type(plan.instance_type).network.cards)} network cards" in drawing.words
    assert {i.device_index for i in plan.interfaces if i.network_card_index} == {0}


def test_stacks_are_those_of_the_example(app_factory: Any) -> None:
    app = app_factory()
    build_cluster(app, load_cluster(REPOSITORY / "examples" / "p4de-base-pod.yaml"))
    made = {child.node.id: child for child in app.node.children if isinstance(child, cdk.Stack)}
    drawn = re.findall(r"base-pod-[a-z-]+", Drawing("stacks").words)
    assert sorted(drawn) == sorted(made)
    kept = re.findall(r"base-pod-[a-z-]+", Drawing("stacks", "protected").words)
    assert sorted(kept) == sorted(name for name, stack in made.items() if stack.termination_protection)


def test_blocks_are_drained_when_the_rules_say() -> None:
    drawn = re.findall(r"(\d+) min before its end", Drawing("capacity").words)
    kinds = (CapacityKind.CAPACITY_BLOCK, CapacityKind.ULTRASERVER_BLOCK)
    assert [int(minutes) * 60 for minutes in drawn] == [DRAIN_BEFORE_END[kind].total_seconds() for kind in kinds]


def test_slices_are_those_of_the_plan() -> None:
    slices = plan_mig("p4d.24xlarge", MigLayout(["1g.5gb"] * 7)).slices_per_node
    plan = plan_servers("p4d.24xlarge", ServerSlots.per_mig_slice(slices))
    assert Drawing("inference", "slices").boxes == plan.server_count
    words = Drawing("inference").words
    assert f"port {plan.port}" in words
    assert f"{slices} slices of 5 GB; server i: 127.0.0.1, port {plan.first_server_port} + i" in words


def test_steps_of_the_boot_are_those_of_the_pages() -> None:
    steps = re.findall(r"fetch-software|gpu-[a-z-]+", Drawing("boot").words)
    pages = "".join((REPOSITORY / "docs" / page).read_text(encoding="utf-8") for page in ("node.md", "mig.md"))
    assert len(steps) == 5
    assert [step for step in steps if f"`{step}`" not in pages and f"`{step}.service`" not in pages] == []


def test_every_drawing_is_shown_with_words_for_those_who_cannot_see_it() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = re.findall(r"!\[([^\]]+)\]\([./]*drawings/([a-z]+)\.svg\)", text)
    assert {name for _, name in shown} == {path.stem for path in DRAWINGS.glob("*.svg")}
    assert all(len(words) > 40 for words, _ in shown)


PATHS = {"typepath": (5, r"\binstance_type\b"), "migpath": (6, r"\bmig\b"), "blockpath": (5, r"\bterms\b")}


@pytest.mark.parametrize("name", PATHS)
def test_a_path_of_a_parameter_has_few_files_that_name_it(name: str) -> None:
    count, word = PATHS[name]
    packages = (
        REPOSITORY / "constructs" / "cdk_gpu_clusters",
        REPOSITORY / "stacks" / "cdk_gpu_clusters_stacks",
    )
    steps = re.findall(r'class="small file">([^<]+)<', (DRAWINGS / f"{name}.svg").read_text(encoding="utf-8"))
    found = [package / file for file in steps for package in packages if (package / file).is_file()]
    assert len(steps) == len(found) == len(set(found)) == count
    assert [file.name for file in found if not re.search(word, file.read_text("utf-8"))] == []
