"""The page: complete, self-contained, accessible, and safe whatever names stand in the file."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.report_page import report_html
from cdk_gpu_clusters_stacks.spec import load_cluster

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
#: Elements without an end.
_VOID = {"meta", "br", "wbr", "rect", "polyline", "polygon"}
_MOST_BYTES = 130_000


class Page(HTMLParser):
    """What stands on the page, with every element closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.elements: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "srcset", "action", "data") or name.startswith("on"):
                self.links.append(f"{tag} {name}={value}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_a_page_is_whole_and_needs_nothing_else(file: Path) -> None:
    plan = plan_cluster(load_cluster(file))
    text = report_html(plan)
    page = Page(text)
    assert page.links == []
    assert "url(" not in text
    assert "@import" not in text
    assert "script" not in page.elements
    assert len(text.encode()) < _MOST_BYTES
    assert page.headings[0] == 1
    assert all(after - before <= 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
    assert len(page.ids) == len(set(page.ids))
    assert text.count('role="img" aria-label="') == text.count("<svg ")
    for fleet in plan.fleets:
        assert fleet.node.instance_type in text
        for price in fleet.cost.prices:
            assert price.as_of in text
    for one in plan.findings:
        assert one.id in text


def test_the_page_says_what_the_plan_says() -> None:
    text = report_html(plan_cluster(load_cluster(EXAMPLES[0].parent / "train-and-serve.yaml")))
    assert "$55,814" in text  # the run of the block
    assert "MIG" not in text
    assert "NVSwitch, every GPU to every GPU: 900 GB/s per GPU" in text
    assert "GPU-LUS-021" in text
    assert ">unknown<" in text  # the price of the file system, which no source gives


def report(name: str) -> str:
    return report_html(plan_cluster(load_cluster(EXAMPLES[0].parent / f"{name}.yaml")))


def tile(text: str, name: str) -> str:
    found = re.search(rf"<dt>{name}</dt><dd>(.*?)</div>", text)
    assert found, name
    return found[1]


def test_a_command_in_a_text_is_code() -> None:
    text = report_html(plan_cluster(load_cluster(EXAMPLES[0].parent / "eks-g5-dev.yaml")))
    assert "<code>gpu-clusters manifests</code> writes it" in text
    assert "`" not in text


def test_totals_are_ranges_where_fleets_scale() -> None:
    text = report("p4d-mig-56-slices")
    assert tile(text, "nodes") == "2 to 4</dd>"
    assert tile(text, "accelerators") == "16 to 32</dd>"
    assert tile(text, "accelerator memory") == "640 to 1,280 GiB</dd>"
    assert tile(text, "MIG slices") == "112 to 224</dd>"
    assert tile(report("train-and-serve"), "accelerators") == "40</dd>"


def test_a_price_says_what_it_leaves_out() -> None:
    text = report("p5-lustre")
    assert "partial: some items have no price" in tile(text, "list price per hour")
    assert "Not included in the prices: fleet preprocessing; store corpus; root volumes; " in text


def test_split_gpus_show_no_bandwidth_that_they_do_not_have() -> None:
    for name in ("p4d-mig-56-slices", "p5-mixed-mig", "eks-p4d-mig"):
        text = report(name)
        assert "no NVLink between MIG slices" in text
        assert "NVSwitch" not in text


def test_a_tensor_parallel_group_is_a_group() -> None:
    text = report("g6e-tensor-parallel")
    assert text.count("model server 1: tensor-parallel group of 4") == 2  # the wide and the narrow drawing
    assert "tensor-parallel" not in report("inf2-neuron")  # one device for each server


def test_training_and_inference_differ_in_words_and_colours() -> None:
    text = report("train-and-serve")
    assert "Training node of trainers: p5.48xlarge" in text
    assert "Inference node of servers: g6e.12xlarge" in text
    for name, own, other in (("p5-lustre", "train", "infer"), ("inf2-neuron", "infer", "train")):
        drawings = report(name).partition("</style>")[2]
        assert f'<rect class="{own}-mark"' in drawings
        assert f'<rect class="{other}-mark"' not in drawings


def test_the_legend_has_what_the_drawing_has_and_no_more() -> None:
    legend = re.search("<ul class='legend'.*?</ul>", report("p5-lustre"))
    assert legend
    words = re.findall("</i>(.*?)</li>", legend[0])
    assert words == [
        "accelerator, training",
        "EFA between the nodes of a fleet",
        "files over EFA",
        "files over TCP",
        "objects in Amazon S3",
        "to the internet",
    ]


def test_a_reader_who_does_not_see_the_drawing_gets_its_flows() -> None:
    found = re.search('aria-label="(Topology of .*?)"', report("train-and-serve"))
    assert found
    assert "trainers mounts models over EFA; servers mounts models over TCP" in found[1]


def test_rows_without_a_name_of_their_column_show_no_colon() -> None:
    text = report("eks-p5-capacity-block")
    assert 'data-name=""' not in text
    assert "<tr><th scope='row'>version</th><td>Kubernetes" in text


def test_slices_stand_at_their_places_and_are_named() -> None:
    text = report_html(plan_cluster(load_cluster(EXAMPLES[0].parent / "p5-mixed-mig.yaml")))
    assert "4g.40gb at memory slice 0, nvidia.com/mig-4g.40gb" in text
    assert "3g.40gb at memory slice 4" in text
    assert "MIG_PARTITION=" in text


def test_texts_of_the_file_cannot_become_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: 1\nname: evil\nregion: us-east-1\nnetwork: { availability_zone: use1-az4 }\n"
        "inference:\n  fleets:\n    servers:\n      instance_type: g5.xlarge\n      nodes: 1\n"
        f'      tags: {{ note: "{evil}" }}\n'
        "      server:\n        image: example.com/server:1\n"
        f'        command: ["{evil}"]\n        environment: {{ X: "{evil}" }}\n'
        "      load_balancer: { plain_http: true, clients: [10.0.0.0/16] }\n"
    )
    from cdk_gpu_clusters_stacks.spec import read_cluster

    reading = read_cluster(file)
    spec = reading.spec or load_cluster(EXAMPLES[0])
    text = report_html(plan_cluster(spec))
    assert "<script" not in text
    Page(text)


@pytest.mark.parametrize("name", ["train-and-serve", "eks-p5-capacity-block"])
def test_every_text_of_a_plan_is_escaped(name: str) -> None:
    """A plan with markup in each of its texts, put there where no cluster file could."""
    from dataclasses import fields, is_dataclass, replace
    from typing import Any

    def spoiled(value: Any) -> Any:
        if isinstance(value, str):
            return f"{value}<b x='\"&"
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{one.name: spoiled(getattr(value, one.name)) for one in fields(value)})
        if isinstance(value, tuple):
            return tuple(spoiled(one) for one in value)
        if hasattr(value, "items"):
            return {spoiled(key): spoiled(one) for key, one in value.items()}
        return value

    from cdk_gpu_clusters_stacks.report_page import page as module

    plan = spoiled(plan_cluster(load_cluster(EXAMPLES[0].parent / f"{name}.yaml")))
    plan = replace(plan, network=replace(plan.network, egress="nat"), findings=())
    assert "<b x=" not in module.report_html(plan)


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(EXAMPLES[0]), "-o", str(page)]) == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert f"wrote {page} (" in capsys.readouterr().out
    assert main(["report", str(EXAMPLES[0]), "-o", str(tmp_path / "none" / "report.html")]) == 2
    assert "Traceback" not in capsys.readouterr().err
