"""docs/security-controls.md has every control for what this library makes, and says what the templates are."""

from __future__ import annotations

import json
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

import cdk_nag
import pytest

from assemblies import Assembly
from cdk_gpu_clusters.catalogue import instance_type_names
from pages import REPOSITORY, named_tests
from security.data import DATA
from security.kubernetes import KUBERNETES
from security.machines import MACHINES

PAGE = REPOSITORY / "docs/security-controls.md"
CONTROLS: dict[str, list[int]] = json.loads(
    (REPOSITORY / "tests/support/security/fsbp_controls.json").read_text(encoding="utf-8")
)["controls"]
#: Names of services in types of resources, where Security Hub has another name.
RENAMED = {"ElasticLoadBalancingV2": "ELB", "Events": "EventBridge", "S3Express": "S3"}
#: Services of which the standard has no control. That is true: they are not in the list.
WITHOUT_CONTROLS = {"APS", "Batch", "Budgets", "CloudWatch", "Grafana", "Logs", "PCS", "ResourceGroups", "Scheduler"}
#: Made by no construct of this library in these apps, and judged all the same.
FURTHER = {"CloudFormation"}
VERDICTS = {"met", "by default", "in part", "if set", "not met", "not made", "account"}
#: Families of which EC2 offers paravirtual instances (EC2 user guide, "Virtualization types").
PARAVIRTUAL = {"c1", "c3", "hs1", "m1", "m2", "m3", "t1"}


@dataclass(frozen=True, slots=True)
class Row:
    """One control on the page."""

    control: str
    verdict: str
    how: str
    code: tuple[str, ...]
    checks: tuple[str, ...]

    @property
    def types(self) -> list[str]:
        return [one for one in self.code if one.startswith("AWS::")]

    @property
    def rules(self) -> list[str]:
        return [one for one in self.code if one.startswith("GPU-")]

    @property
    def tests(self) -> list[str]:
        return [one for one in self.code if "::test_" in one]

    @property
    def nag(self) -> list[str]:
        return [one for one in self.code if re.fullmatch(r"[A-Za-z0-9]+", one)]


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if re.fullmatch(r"[A-Za-z0-9]+\.\d+", cells[0]):
            control, _, verdict, how, by = cells
            code, checks = re.findall(r"`([^`]+)`", by), re.findall(r'"([^"]+)"', by)
            found.append(Row(control, verdict, how, tuple(code), tuple(checks)))
    return found


@pytest.fixture(scope="module")
def nag_rules() -> set[str]:
    """Names of the rules of the packs of cdk-nag, as its JavaScript has them."""
    [package] = (Path(cdk_nag.__file__).parent / "_jsii").glob("*.tgz")
    names: set[str] = set()
    with tarfile.open(package) as archive:
        for member in archive.getmembers():
            if re.fullmatch(r"package/lib/packs/[a-z0-9-]+\.js", member.name):
                file = archive.extractfile(member)
                assert file
                text = file.read().decode()
                names |= set(re.findall(r"ruleSuffixOverride: '(\w+)'", text))
                names |= set(re.findall(r"rule: \w+\.(\w+),", text))
    return names


@pytest.fixture(scope="module")
def accepted(assemblies: dict[str, Assembly]) -> set[str]:
    """Rules of which a finding is accepted somewhere."""
    full = {one.rule for made in assemblies.values() for one, _ in made.accepted}
    return {rule.rpartition("-")[2].partition("[")[0] for rule in full}


def test_every_control_of_every_service_of_the_templates_has_one_row(assemblies: dict[str, Assembly]) -> None:
    types = {one["Type"] for made in assemblies.values() for _, one in made.resources()}
    names = {kind.split("::")[1] for kind in types if kind.startswith("AWS::")}
    services = {RENAMED.get(name, name) for name in names} | FURTHER
    assert services - CONTROLS.keys() == WITHOUT_CONTROLS
    wanted = [f"{service}.{number}" for service in services & CONTROLS.keys() for number in CONTROLS[service]]
    assert len(wanted) > 120
    assert sorted(row.control for row in rows()) == sorted(wanted)


def test_every_row_has_a_verdict_and_its_grounds() -> None:
    for row in rows():
        assert row.verdict in VERDICTS, row
        if row.verdict in ("met", "by default", "not made"):
            assert row.code or row.checks, f"{row.control}: nothing checks it"
        if row.verdict in ("not met", "in part"):
            assert row.how, f"{row.control}: why?"
        if row.verdict == "if set":
            assert "`" in row.how, f"{row.control}: which option?"


def test_what_checks_a_control_exists(nag_rules: set[str]) -> None:
    titles = {check.title for check in (*MACHINES, *DATA, *KUBERNETES)}
    known = (REPOSITORY / "docs/rules.md").read_text(encoding="utf-8")
    used = rows()
    assert {title for row in used for title in row.checks} <= titles
    assert [rule for row in used for rule in row.rules if f"`{rule}`" not in known] == []
    assert {rule for row in used for rule in row.nag} <= nag_rules
    tests = {name for row in used for name in row.tests}
    assert tests <= named_tests(PAGE)
    assert {one for row in used for one in row.code} == {
        one for row in used for one in (*row.types, *row.rules, *row.tests, *row.nag)
    }


def test_what_is_not_made_is_in_no_template(assemblies: dict[str, Assembly]) -> None:
    types = {one["Type"] for made in assemblies.values() for _, one in made.resources()}
    absent = {kind for row in rows() if row.verdict == "not made" for kind in row.types}
    assert len(absent) > 10
    assert absent & types == set()


def test_a_control_is_met_only_if_no_finding_about_it_is_accepted(accepted: set[str]) -> None:
    for row in rows():
        if row.verdict in ("met", "not made"):
            assert set(row.nag) & accepted == set(), row.control
        elif row.nag:
            assert set(row.nag) <= accepted, f"{row.control}: no template fails it"


def test_no_type_is_paravirtual() -> None:
    families = {name.partition(".")[0] for name in instance_type_names()}
    assert "p5" in families
    assert families & PARAVIRTUAL == set()
