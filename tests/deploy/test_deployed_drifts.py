"""`gpu-clusters doctor` over deployed clusters: nothing at first, then each change by hand, once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cdk_cli import deploy_cluster
from cdk_gpu_clusters.testing import Emulator
from cdk_gpu_clusters_stacks import doctor, preflight
from cdk_gpu_clusters_stacks.doctor import Diagnosis
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster
from hand_made_drifts import ON_EC2, ON_EKS, ON_PCS, Account, HandMade
from pages import run_by

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SEED: dict[str, Any] = {
    "now": "2026-12-02T08:00Z",
    "reservations": [
        {
            "id": "cr-0123456789abcdef0",
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 16,
            "kind": "capacity-block",
            "starts_at": "2026-12-01T11:30Z",
            "ends_at": "2026-12-15T11:30Z",
        }
    ],
    "buckets": {"my-corpus": "us-east-1", "my-results": "us-east-1"},
}
# Beside the fleets of the example: one on a new reservation in its own placement group, and one with MIG.
MORE_FLEETS = """
    vision:
      instance_type: p4d.24xlarge
      nodes: 4
      fabric: vision
      capacity: { new_reservation: { end_date: 2027-01-31T00:00Z, match: targeted } }
    split:
      instance_type: p4d.24xlarge
      nodes: 1
      efa: false
      mig: 1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb
"""
CASES: dict[str, tuple[str, str, tuple[HandMade, ...]]] = {
    "ec2": ("p5-lustre.yaml", MORE_FLEETS, ON_EC2),
    "eks": ("eks-p4d-mig.yaml", "", ON_EKS),
    "pcs": ("pcs-p4d-mig.yaml", "", ON_PCS),
}
#: The cluster of the page, and what somebody changed there.
PAGE = "p5-capacity-block.yaml"
CHANGED_ON_PAGE = (
    "an EFA interface is missing",
    "launches are suspended",
    "a node has lost a GPU",
    "the fabric's egress to itself is gone",
)


class Deployed:
    """A cluster in an emulated account, changed by hand as tests go on."""

    def __init__(self, emulator: Emulator, spec: ClusterSpec) -> None:
        self._emulator, self._spec = emulator, spec
        self._clients: dict[str, Any] = {}
        self.account = Account(lambda service: self.client(service, spec.region), emulator.resources, lambda: self.now)
        self.seen: list[tuple[str, str, str]] = []

    def client(self, service: str, region: str) -> Any:
        if service not in self._clients:
            settings = self._emulator.settings
            make: Any = boto3.client
            self._clients[service] = make(
                service,
                endpoint_url=settings["AWS_ENDPOINT_URL"],
                region_name=region,
                aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
                config=Config(max_pool_connections=24),
            )
        return self._clients[service]

    @property
    def now(self) -> datetime:
        return datetime.fromisoformat(self._emulator.now)

    def examine(self, *, judged: bool = True) -> Diagnosis:
        with preflight.Account(self.client, region=self._spec.region) as account:
            return doctor.examine(self._spec, account, rules=None if judged else (), now=self.now)


Deploy = Callable[[str], Deployed]


@pytest.fixture(scope="module")
def deploy(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deploy]:
    """Deploys a case when it is first asked for."""
    made: dict[str, Deployed] = {}
    emulators: list[Emulator] = []

    def run(case: str) -> Deployed:
        if case not in made:
            name, more = CASES[case][:2] if case in CASES else (PAGE, "")
            folder = tmp_path_factory.mktemp(case)
            file = folder / name
            file.write_text((EXAMPLES / name).read_text("utf-8") + more, encoding="utf-8")
            spec = load_cluster(file)
            emulator = Emulator()
            emulator.start()
            emulators.append(emulator)
            emulator.seed(SEED)
            deploy_cluster(emulator, spec, app_factory)
            emulator.make_nodes_ready()
            made[case] = Deployed(emulator, spec)
            made[case].account.report_all()
        return made[case]

    yield run
    for emulator in emulators:
        emulator.stop()


@pytest.mark.parametrize("case", CASES)
def test_an_untouched_cluster_is_as_planned(deploy: Deploy, case: str) -> None:
    found = deploy(case).examine()

    assert found.drifts == []
    assert (found.faults, found.unread, found.absent, found.unknown) == ([], [], [], [])
    assert found.compared >= 15
    assert found.nodes == {"ec2": 16 + 4 + 4 + 1, "eks": 2, "pcs": 2 + 1}[case]


CHANGES = [(case, one) for case, (_, _, changes) in CASES.items() for one in changes]


# The changes of a case come on top of each other, in the order of the table.
@pytest.mark.parametrize(("case", "change"), CHANGES, ids=[f"{case}: {one.name}" for case, one in CHANGES])
def test_each_change_by_hand_is_found_once(deploy: Deploy, case: str, change: HandMade) -> None:
    deployed = deploy(case)
    change.make(deployed.account)
    deployed.account.report_all()

    # Every drift so far is judged again: only where a rule is expected.
    found = deployed.examine(judged=bool(change.rule))
    shown = [(one.type, one.physical_id, ".".join(one.path)) for one in found.drifts]
    new = list((Counter(shown) - Counter(deployed.seen)).elements())
    deployed.seen = shown
    assert [(kind, path) for kind, _, path in new] == [(change.type, change.property)]
    (drift,) = (one for one in found.drifts if (one.type, one.physical_id, ".".join(one.path)) == new[0])
    assert drift.breaks
    assert drift.fix
    if change.rule:
        assert any(rule.startswith(change.rule) for rule, _ in drift.rules), drift.rules
    assert found.unread == []


def test_there_are_forty_changes_and_more() -> None:
    assert len(ON_EC2) >= 40
    assert len(CHANGES) >= 60
    assert len({(case, one.name) for case, one in CHANGES}) == len(CHANGES)


def test_the_page_shows_what_the_command_prints(deploy: Deploy) -> None:
    (block,) = run_by(__file__)
    deployed = deploy("page")
    for name in CHANGED_ON_PAGE:
        next(one for one in ON_EC2 if one.name == name).make(deployed.account)

    printed = "\n".join(doctor.format_diagnosis(deployed.examine()))

    assert without_ids(printed) == without_ids(block.text)


def without_ids(text: str) -> str:
    """A text with one id and one name for each that AWS makes up."""
    return re.sub(r"(?<=-)[0-9a-f]{17}\b|(?<=-)[0-9A-F]{12}\b", "x", text).strip()
