"""What pages show about rules over templates: the steps to add one, and ways to accept a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cdk_gpu_clusters.template_rules.rules import cost
from cdk_gpu_clusters_stacks.cli.main import main
from pages import REPOSITORY, run_by

BLOCKS = run_by(__file__)
FIXTURES = REPOSITORY / "tests" / "fixtures" / "template_rules"


def test_the_page_about_new_rules_shows_one_that_exists() -> None:
    code, *documents = (block for block in BLOCKS if block.page == "docs/develop/add-a-rule.md")
    assert code.text in Path(cost.__file__).read_text("utf-8")
    fixture = (FIXTURES / "GPU-COST-004.yaml").read_text("utf-8")
    assert "".join(block.text for block in documents) == fixture


@pytest.mark.parametrize("way", ["metadata", "file"])
def test_a_fault_is_accepted_as_the_page_shows(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    in_metadata, in_a_file = (block.text for block in BLOCKS if block.page == "docs/template-rules.md")
    template = next(yaml.safe_load_all((FIXTURES / "GPU-LT-010.yaml").read_text("utf-8")))
    Path("before.yaml").write_text(yaml.safe_dump(template))
    if way == "metadata":
        template["Resources"]["Nodes"] |= yaml.safe_load(in_metadata)["Nodes"]
    Path("template.yaml").write_text(yaml.safe_dump(template))
    Path("accepted.yaml").write_text(in_a_file)
    assert main(["lint", "--select", "GPU-LT-010", "before.yaml"]) == 1
    options = ["--acknowledgements", "accepted.yaml"] if way == "file" else []
    assert main(["lint", "--select", "GPU-LT-010", "template.yaml", *options]) == 0
    assert "1 acknowledged" in capsys.readouterr().out
