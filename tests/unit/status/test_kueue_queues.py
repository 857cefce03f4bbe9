"""What `status` shows of the queues of Kueue: who uses what, and who waits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.team_quotas import Team, TeamQuota
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.cost import Live, NoAccounting
from cdk_gpu_clusters_stacks.report_page import status_html
from cdk_gpu_clusters_stacks.status import Queue, QueueDevice, Status, read_queues, status_text
from kubernetes_pools import check_everywhere, slices, trainers
from pages import run_by

Json = dict[str, Any]
GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
RESEARCH = Team(
    name="research",
    quotas=[TeamQuota(pool="trainers", nominal=64), TeamQuota(pool="slices", resource=SLICE, nominal=14)],
)
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "eks-p4d-mig.yaml"


def cluster_queues(use: Mapping[str, Json]) -> list[Json]:
    """The queues that the library writes, with what Kueue adds about their use."""
    made = queues([trainers(), slices()], teams=[RESEARCH])
    found = [one for one in made if one["kind"] == "ClusterQueue"]
    return [{**one, "status": use[name]} if (name := one["metadata"]["name"]) in use else one for one in found]


def used(total: str, borrowed: str, flavor: str = "trainers") -> Json:
    resources = [
        {"name": "cpu", "total": "190950m", "borrowed": "0"},
        {"name": GPU, "total": total, "borrowed": borrowed},
    ]
    return {
        "flavorsUsage": [{"name": flavor, "resources": resources}],
        "flavorsReservation": [{"name": flavor, "resources": resources}],
        "pendingWorkloads": 3,
        "reservingWorkloads": 2,
        "admittedWorkloads": 2,
    }


USED = cluster_queues({"research": used("72", "8")})


def text_of(items: list[Json], **changes: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items, **changes})


def test_the_use_of_each_team_is_read_from_objects_that_fit_the_schema() -> None:
    check_everywhere(USED)
    others, research = read_queues(text_of(USED))
    assert research == Queue(
        name="research",
        waiting=3,
        running=2,
        devices=[
            QueueDevice(fleet="trainers", resource=GPU, quota=64, used=72, borrowed=8),
            QueueDevice(fleet="slices", resource=SLICE, quota=14, used=0, borrowed=0),
        ],
    )
    assert (others.name, others.waiting, others.running) == ("gpu-cluster", 0, 0)
    assert [(one.fleet, one.quota) for one in others.devices] == [("trainers", 64), ("slices", 42)]


def test_a_team_that_only_borrows_is_shown_while_it_does() -> None:
    guests = Team(name="guests", quotas=[TeamQuota(pool="trainers", nominal=0)])
    (made,) = [one for one in queues([trainers()], teams=[guests]) if one["metadata"]["name"] == "guests"]
    assert read_queues(text_of([made]))[0].devices == []
    (device,) = read_queues(text_of([{**made, "status": used("8", "8")}]))[0].devices
    assert (device.quota, device.used, device.borrowed) == (0, 8, 8)


@pytest.fixture
def state() -> Status:
    """A cluster without fleets, and its queues."""
    bill = Live(cluster="lab", region="us-east-1", account="", at="now")
    return Status(cluster="lab", region="us-east-1", account="", at="now", cost=bill, queues=read_queues(text_of(USED)))


def test_text_and_page_show_who_uses_what(state: Status) -> None:
    text = " ".join(status_text(state, width=120).split())
    assert "Queues gpu-cluster trainers: uses 0 nvidia.com/gpu; its quota is 64" in text
    assert "research trainers: uses 72 nvidia.com/gpu, 8 borrowed; its quota is 64" in text
    assert "2 jobs with devices, 3 waiting" in text
    assert "uses 72 nvidia.com/gpu, 8 borrowed" in status_html(state)
    (shown,) = run_by(__file__)
    assert shown.text in status_text(state, width=120) + "\n"
    state.queues = None
    assert "Queues" not in status_text(state, width=120)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sacct", "it is no JSON"),
        (text_of([], kind="Pod"), "it is no list of clusterqueues; write the file with: kubectl get clusterqueues"),
        (text_of([{"kind": "Workload"}]), "item 1: is no ClusterQueue of Kueue"),
        (text_of([{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}]), "item 1: is no ClusterQueue"),
        (text_of(cluster_queues({"research": used("many", "0")})), "item 2: nvidia.com/gpu 'many' is no whole number"),
    ],
)
def test_what_is_no_list_of_queues_is_refused(text: str, says: str) -> None:
    with pytest.raises(NoAccounting, match="no ") as wrong:
        read_queues(text)
    assert wrong.value.faults[0].startswith(says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--queues", "{file}"], "item 1: is no ClusterQueue of Kueue"),
        (["--queues", "{file}", "--watch", "30"], "give it without --watch"),
        (["--queues", "{file}", "--print-policy"], "give it without --watch and --print-policy"),
        (["--queues", "none.json"], "cannot read none.json"),
    ],
)
def test_the_command_refuses_what_it_cannot_show_before_it_asks_aws(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queues.json"
    file.write_text(text_of([{"kind": "Pod"}]))
    assert main(["status", str(EXAMPLE), *(one.format(file=file) for one in options)]) == 2
    assert says in capsys.readouterr().err
