"""Every rule stands on the page of rules, and is met by a test."""

import re
import shutil
import subprocess
import sys
from functools import cache
from html import unescape
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import cdk_gpu_clusters
from cdk_gpu_clusters.errors import defined_rules
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from rule_fixtures import rule_fixture, rule_fixtures

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "write_rules_page.py"
PAGE = ROOT / "docs" / "rules.md"
IDS = re.findall(r"^\| `(GPU-[A-Z0-9]+-\d{3})` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def named_in_tests() -> frozenset[str]:
    """Every id of a rule that a test names; a fixture of a rule over templates is run by tests of its own."""
    files = [file for file in (ROOT / "tests").rglob("*.py") if file.name != Path(__file__).name]
    return frozenset(rule_fixtures()) | frozenset(
        one for file in files for one in re.findall(r"GPU-[A-Z0-9]+-\d{3}", file.read_text(encoding="utf-8"))
    )


def import_layers_without_cdk() -> None:
    for layer in ("catalogue", "rules"):
        package = import_module(f"{cdk_gpu_clusters.__name__}.{layer}")
        for module in iter_modules(package.__path__, prefix=f"{package.__name__}."):
            import_module(module.name)


def test_the_page_is_current() -> None:
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_has_every_rule_with_its_title() -> None:
    import_layers_without_cdk()
    page = unescape(PAGE.read_text(encoding="utf-8"))
    missing = [rule.id for rule in defined_rules().values() if f"| `{rule.id}` | {rule.title} | `" not in page]
    assert len(defined_rules()) > 40
    assert len(IDS) == len(set(IDS)) > 150
    assert missing == []


def test_the_page_is_one_table_whose_areas_are_explained() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("\n| --- |") == 1
    areas = re.findall(r"^- `(GPU-[A-Z0-9]+)` \w", page, re.MULTILINE)
    assert areas == sorted({rule_id.rpartition("-")[0] for rule_id in IDS})


def test_every_rule_has_a_page_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOL.parent)
    import_layers_without_cdk()
    rule_page = import_module("_rule_pages").rule_page
    for rule in defined_rules().values():
        page = unescape(rule_page(rule.id)).replace("\\*", "*")
        assert page.startswith(f"# {rule.id}\n"), rule.id
        assert f"- Source: {rule.source}\n" in page, rule.id


def test_the_page_has_every_rule_over_templates_with_its_severity_and_examples() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for rule in every_rule():
        file = f"../tests/fixtures/template_rules/{rule.id}.yaml"
        assert f" [{rule.severity.value}]({file}) |" in page
        assert (PAGE.parent / file).is_file()


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.id)
def test_the_site_has_a_page_about_the_rule_with_both_examples(
    rule: TemplateRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TOOL.parent)
    page = import_module("_rule_pages").rule_page(rule.id)
    fixture = rule_fixture(rule.id)
    for part in (f"# {rule.id}\n", rule.url, fixture.bad.strip(), *fixture.changes):
        assert part in page


@pytest.mark.parametrize("rule_id", IDS)
def test_every_rule_is_met_by_a_test(rule_id: str) -> None:
    assert rule_id in named_in_tests()


def test_an_outdated_page_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "constructs").mkdir()
    tool = tmp_path / "tools" / TOOL.name
    for part in (TOOL, TOOL.with_name("_pages.py"), TOOL.with_name("_template_rules.py")):
        shutil.copy(part, tool.parent)

    def run(*arguments: str) -> int:
        return subprocess.run([sys.executable, tool, *arguments], capture_output=True, check=False).returncode

    assert run("--check") == 1
    assert run() == 0
    assert run("--check") == 0
    (tmp_path / "constructs" / "more.py").write_text('X = define_rule("GPU-IP-900", "a|b", source="c")\n')
    assert run("--check") == 1
    assert run() == 0
    assert r"| `GPU-IP-900` | a\|b | `constructs/more.py` |  |" in (tmp_path / "docs" / "rules.md").read_text()
