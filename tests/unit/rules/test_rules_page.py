"""Every rule stands on the page of rules, and every rule of these modules is met by a test."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import cdk_gpu_clusters
from cdk_gpu_clusters.errors import Rule, defined_rules
from cdk_gpu_clusters.rules import (
    checkpoints,
    data_repository,
    endpoints,
    fabric,
    images,
    interface_checks,
    interfaces,
    ip_budget,
    lustre,
    lustre_backups,
    lustre_change,
    lustre_clients,
    lustre_metadata,
    lustre_tiering,
    zones,
)

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "write_rules_page.py"
PAGE = ROOT / "docs" / "rules.md"
MODULES = (
    checkpoints,
    data_repository,
    endpoints,
    fabric,
    images,
    interface_checks,
    interfaces,
    ip_budget,
    lustre,
    lustre_backups,
    lustre_change,
    lustre_clients,
    lustre_metadata,
    lustre_tiering,
    zones,
)


def rules_of(*modules: object) -> list[Rule]:
    return [value for module in modules for value in vars(module).values() if isinstance(value, Rule)]


def import_layers_without_cdk() -> None:
    for layer in ("catalogue", "rules"):
        package = import_module(f"{cdk_gpu_clusters.__name__}.{layer}")
        for module in iter_modules(package.__path__, prefix=f"{package.__name__}."):
            import_module(module.name)


def test_the_page_is_current() -> None:
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_has_every_rule_with_its_title_and_source() -> None:
    import_layers_without_cdk()
    page = PAGE.read_text(encoding="utf-8")
    missing = [
        rule.id
        for rule in defined_rules().values()
        if f"| `{rule.id}` | {rule.title} | {rule.source} |" not in page
    ]
    assert len(defined_rules()) > 40
    assert missing == []


@pytest.mark.parametrize("rule", rules_of(*MODULES), ids=lambda rule: rule.id)
def test_every_rule_is_met_by_a_test(rule: Rule) -> None:
    tests = [file for file in Path(__file__).parent.glob("test_*.py") if file.name != Path(__file__).name]
    assert any(f'"{rule.id}' in file.read_text(encoding="utf-8") for file in tests)


def test_an_outdated_page_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "constructs").mkdir()
    tool = tmp_path / "tools" / TOOL.name
    tool.write_text(TOOL.read_text(encoding="utf-8"), encoding="utf-8")

    def run(*arguments: str) -> int:
        return subprocess.run([sys.executable, tool, *arguments], capture_output=True, check=False).returncode

    assert run("--check") == 1
    assert run() == 0
    assert run("--check") == 0
    (tmp_path / "constructs" / "more.py").write_text('X = define_rule("GPU-IP-900", "a|b", source="c")\n')
    assert run("--check") == 1
    assert run() == 0
    assert (
        r"| `GPU-IP-900` | a\|b | c | `constructs/more.py` |" in (tmp_path / "docs" / "rules.md").read_text()
    )
