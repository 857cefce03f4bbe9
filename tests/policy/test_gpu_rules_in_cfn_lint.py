"""The GPU rules as a rule package of cfn-lint."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cdk_gpu_clusters.template_rules.registry import every_rule
from rule_fixtures import rule_fixture


def cfn_lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    package = ["--append-rules", "cdk_gpu_clusters.template_rules.cfnlint_rules"]
    return subprocess.run(["cfn-lint", *package, *arguments], capture_output=True, text=True, check=False, timeout=120)


def test_its_findings_have_our_ids_paths_and_lines(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    bad = rule_fixture("GPU-LT-010").bad
    file.write_text(bad)
    done = cfn_lint("--format", "parseable", "--", str(file))
    line = next(number for number, text in enumerate(bad.splitlines(), 1) if "HttpTokens" in text)
    ours = [said for said in done.stdout.splitlines() if "GPU-" in said]
    assert len(ours) == 1
    assert ours[0].startswith(f"{file}:{line}:")
    assert ":W-GPU-LT-010:" in ours[0]
    assert "fix: set MetadataOptions/HttpTokens to required" in ours[0]


def test_they_are_ignored_as_others_are(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(rule_fixture("GPU-LT-010").bad)
    assert "GPU-" not in cfn_lint("-i", "W-GPU", "--format", "parseable", "--", str(file)).stdout


def test_every_rule_is_listed() -> None:
    listed = cfn_lint("--list-rules").stdout
    assert [rule.id for rule in every_rule() if rule.id not in listed] == []
