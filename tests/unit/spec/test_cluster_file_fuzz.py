"""Whatever a file holds, reading it gives a cluster or located findings, never another exception."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster
from cdk_gpu_clusters_stacks.spec._document import parse
from cluster_files.inference import EVERYTHING, MINIMAL, PUBLIC

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
TEXTS = [path.read_text(encoding="utf-8") for path in EXAMPLES] + [MINIMAL, EVERYTHING, PUBLIC]
DATA = [parse(text).data for text in TEXTS]
SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

PIECES = ("{", "}", "[", "]", ":", "- ", "&a", "*a", "<<: ", "!!str ", "'", '"', "\t", "\n", "  ", "#", "|", ">", "? ", "%", "<spot>: ", "[key]: ",
          "\ufeff", "\x00", "\x85", "é", "😀", "null", "~", "1e999", "0x1F", "-1", ".nan", "true", "---\n", "...")  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        [
            "spot",
            "none",
            "p5.48xlarge",
            "cr-0123456789abcdef0",
            "2026-12-15T11:30Z",
            "us-east-1a",
            "10.0.0.0/8",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    "capacity",
    "capacity_block",
    "ends_at",
    "nodes",
    "vpc_id",
    "subnet_ids",
    "spot",
    "image",
    "os",
    "reservation",
    "[key]",
    "<spot>",
    "<new network>",
    "efa",
    "tags",
    "inference",
    "fleets",
    "server",
    "load_balancer",
    "mig",
    "devices_per_server",
    "service_subnets",
)


def assert_read(raw: bytes, file: Path) -> None:
    """Reading gives a cluster, or findings that stand in the file and say something."""
    file.write_bytes(raw)
    try:
        assert isinstance(load_cluster(file), ClusterSpec)
    except ConfigError as fault:
        findings = fault.findings
    else:
        return
    assert findings
    lines = raw.decode("utf-8", "replace").splitlines() or [""]
    for finding in findings:
        place = re.fullmatch(rf"{re.escape(str(file))}:(\d+):(\d+)", finding.path)
        assert place, finding
        assert 1 <= int(place[1]) <= len(lines) + 1, finding
        assert int(place[2]) >= 1, finding
        assert re.fullmatch(r"GPU-[A-Z0-9]+-\d{3}", finding.id)
        assert finding.cause, finding


@st.composite
def changed_texts(draw: st.DrawFn) -> str:
    """An example with some of its text cut out, doubled, or replaced by characters that mean something to YAML."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        piece = draw(st.sampled_from(PIECES) | st.text(max_size=5) | st.just(text[start:end] * 2))
        text = text[:start] + piece + text[end:]
    return text


@st.composite
def changed_data(draw: st.DrawFn) -> object:
    """An example with some of its values or keys replaced by others."""
    data = draw(st.sampled_from(DATA))
    for _ in range(draw(st.integers(1, 3))):
        data = change(draw, data)
    return data


def change(draw: st.DrawFn, node: Any) -> Any:
    if not isinstance(node, dict) or not node or draw(st.integers(0, 5)) == 0:
        return draw(VALUES)
    key = draw(st.sampled_from(sorted(node)))
    kept = {name: value for name, value in node.items() if name != key}
    action = draw(st.sampled_from(["drop", "rename", "add", "into", "into", "into"]))
    if action == "drop":
        return kept
    if action == "rename":
        return {**kept, draw(st.sampled_from(KEYS) | st.text(max_size=8)): node[key]}
    if action == "add":
        return {**node, draw(st.sampled_from(KEYS)): draw(VALUES)}
    return {**node, key: change(draw, node[key])}


@SETTINGS
@given(text=changed_texts())
def test_changed_text(text: str, tmp_path: Path) -> None:
    assert_read(text.encode("utf-8", "surrogatepass"), tmp_path / "cluster.yaml")


@SETTINGS
@given(data=changed_data())
def test_changed_values(data: object, tmp_path: Path) -> None:
    assert_read(json.dumps(data).encode(), tmp_path / "cluster.yaml")


@SETTINGS
@given(raw=st.binary(max_size=60))
def test_any_bytes(raw: bytes, tmp_path: Path) -> None:
    assert_read(raw, tmp_path / "cluster.yaml")
