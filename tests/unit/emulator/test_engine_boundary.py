"""One module of the emulator knows its engine, and lists every private name that it takes from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

EMULATOR = Path(__file__).resolve().parents[3] / "emulator" / "gpu_clusters_emulator"
ENGINE = EMULATOR / "engine.py"
MODULES = sorted(EMULATOR.rglob("*.py"))
#: Issue of each: docs/decisions/0005-emulator.md.
PRIVATE = {
    "_RESOURCE_HANDLERS",
    "_delete_predecessor",
    "_evaluate_conditions",
    "_extract_deps",
    "_property_recreation",
    "_resolve_refs",
    "_s3_batch_delete_targets",
    "_topological_sort",
}


def private_names(path: Path) -> Iterator[str]:
    """Private attributes of anything but the object itself."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            yield from () if owner in ("self", "cls") else (node.attr,)


def test_the_engine_alone_knows_ministack() -> None:
    known = [path.name for path in MODULES if "ministack" in path.read_text(encoding="utf-8")]
    assert known == ["engine.py"]


def test_no_other_module_reads_private_names() -> None:
    found = {path.name: sorted(set(private_names(path))) for path in MODULES if path != ENGINE}
    assert {name: names for name, names in found.items() if names} == {"__main__.py": ["_exit"]}


def test_the_engine_takes_the_private_names_that_it_documents() -> None:
    assert set(private_names(ENGINE)) == PRIVATE
    text = ast.get_docstring(ast.parse(ENGINE.read_text(encoding="utf-8"))) or ""
    decision = (EMULATOR.parents[1] / "docs" / "decisions" / "0005-emulator.md").read_text(encoding="utf-8")
    assert [name for name in sorted(PRIVATE) if f"`{name}`" not in text] == []
    assert "register_resource" in decision
