"""What workloads of Kueue cost: a month by hand to the cent, and objects that fit the schema of Kueue itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.cost import Bill, Given, NoAccounting, bill_jobs, read_accounting
from cdk_gpu_clusters_stacks.manifests.cluster import node_pools
from cdk_gpu_clusters_stacks.spec import load_cluster
from cost_month import NOVEMBER
from kubernetes_schemas import check_objects

Json = dict[str, Any]
CLUSTER = """\
version: 1
name: lab
region: us-west-2
orchestrator: eks
network: { availability_zone: us-west-2a, control_availability_zones: [us-west-2a, us-west-2b] }
training:
  fleets:
    trainers: { instance_type: p4d.24xlarge, nodes: 2 }
    slices: { instance_type: p4d.24xlarge, nodes: 1, mig: "3g.20gb,3g.20gb", efa: false }
"""
GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-3g.20gb"
PERIOD = ["--from", "2026-11-01", "--to", "2026-12-01"]


def condition(kind: str, at: str, *, status: str = "True") -> Json:
    return {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": at}


def workload(
    name: str,
    admitted: str | None,
    finished: str | None = None,
    *pods: tuple[str, str, str],
    before: int | None = None,
    namespace: str = "nlp",
) -> Json:
    """A workload with sets of pods, each with a resource, its number, and its flavor."""
    conditions = [condition("QuotaReserved", admitted), condition("Admitted", admitted)] if admitted else []
    conditions += [condition("Finished", finished)] if finished else []
    assigned = [
        {
            "name": f"pods-{number}",
            "count": 1,
            "flavors": {resource: flavor, "cpu": flavor},
            "resourceUsage": {resource: amount, "cpu": "8"},
        }
        for number, (resource, amount, flavor) in enumerate(pods)
    ]
    admission = {"clusterQueue": "gpu-cluster", "podSetAssignments": assigned}
    container = {"name": "main", "image": "python:3.13"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"jobset-{name}-3b2a1",
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": "jobset.x-k8s.io/v1alpha2",
                    "kind": "JobSet",
                    "name": name,
                    "uid": "1f6d9a3e-6c1d-4d6a-8c53-7f2f6a2b1c0d",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "queueName": "gpu-jobs",
            "podSets": [{"name": "pods-0", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {
            "conditions": conditions,
            **({"admission": admission} if admitted else {}),
            **({"accumulatedPastExecutionTimeSeconds": before} if before else {}),
        },
    }


#: A month: a job, one that runs on, one that began before it, one on slices, one that waits, one without GPUs.
MONTH = [
    workload("llama", "2026-11-02T00:00:00Z", "2026-11-07T00:00:00Z", (GPU, "8", "trainers"), (GPU, "8", "trainers")),
    workload("tune", "2026-11-30T12:00:00Z", None, (GPU, "8", "trainers"), before=7200, namespace="vision"),
    workload("eval", "2026-10-31T12:00:00Z", "2026-11-01T06:00:00Z", (GPU, "8", "trainers")),
    workload("embed", "2026-11-10T00:00:00Z", "2026-11-14T04:00:00Z", (SLICE, "2", "slices")),
    workload("later", None),
    workload("fetch", "2026-11-10T00:00:00Z", "2026-11-11T00:00:00Z", ("memory", "8Gi", "trainers")),
]


def listed(*items: Json) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})


def bill(folder: Path, *items: Json, nodes: Mapping[str, list[str]] | None = None) -> Bill:
    file = folder / "cluster.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    given = Given(nodes=nodes or {}, node_seconds={}, usd_per_node_hour={}, tokens={})
    return bill_jobs(load_cluster(file), read_accounting(listed(*items)), given, *NOVEMBER)


@pytest.mark.parametrize("version", [row.version for row in kubernetes_versions()])
def test_the_workloads_here_are_those_of_kueue(version: str) -> None:
    assert check_objects(MONTH, version) == len(MONTH)


def test_a_month_equals_the_sum_by_hand(tmp_path: Path) -> None:
    """21.957642 USD an hour for a node: 1,440 and 720 node hours, of 11,520 and 5,760 GPU hours."""
    made = bill(tmp_path, *MONTH)
    fleets = {one.name: one for one in made.fleets}
    assert {name: one.paid for name, one in fleets.items()} == {
        "trainers": Decimal("31619.00"),
        "slices": Decimal("15809.50"),
    }
    assert {job.name: (job.gpu_hours, job.usd) for one in made.fleets for job in one.jobs} == {
        "nlp/llama": (Decimal("1920.00"), Decimal("5269.83")),
        "vision/tune": (Decimal("96.00"), Decimal("263.49")),
        "nlp/eval": (Decimal("48.00"), Decimal("131.75")),
        "nlp/embed": (Decimal("100.00"), Decimal("274.47")),
    }
    assert {name: one.idle for name, one in fleets.items()} == {
        "trainers": Decimal("25953.93"),
        "slices": Decimal("15535.03"),
    }
    for one in made.fleets:
        assert one.allocated is not None
        assert one.idle is not None
        assert one.allocated + one.idle == one.paid
    assert [(one.name, one.usd) for one in fleets["trainers"].users] == [
        ("nlp", Decimal("5401.58")),
        ("vision", Decimal("263.49")),
    ]
    assert [one.name for one in fleets["trainers"].accounts] == ["gpu-cluster"]
    assert made.without_gpus == ("nlp/fetch",)
    assert (made.source, dict(made.left_out)) == ("kueue", {"waiting": 1, "ran_before": 1})


def test_flavors_are_named_as_the_manifests_name_them(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    written = queues(list(node_pools(load_cluster(file), {}).values()))
    flavors = {one["metadata"]["name"] for one in written if one["kind"] == "ResourceFlavor"}
    assert flavors == {"trainers", "slices"}


def test_a_workload_on_two_flavors_is_in_the_bill_of_both_fleets(tmp_path: Path) -> None:
    both = workload(
        "both", "2026-11-02T00:00:00Z", "2026-11-02T10:00:00Z", (GPU, "4", "trainers"), (SLICE, "1", "slices")
    )
    made = bill(tmp_path, both)
    assert {one.name: [job.gpu_hours for job in one.jobs] for one in made.fleets} == {
        "trainers": [Decimal("40.00")],
        "slices": [Decimal("5.00")],
    }


def test_a_flavor_of_another_name_is_given(tmp_path: Path) -> None:
    other = workload("other", "2026-11-02T00:00:00Z", "2026-11-02T10:00:00Z", (GPU, "4", "h100"))
    with pytest.raises(NoAccounting, match="nlp/other: h100 is a flavor of no fleet"):
        bill(tmp_path, other)
    assert bill(tmp_path, other, nodes={"trainers": ["h100"]}).fleets[0].jobs[0].gpu_hours == 40


def test_a_workload_that_lost_its_admission_holds_nothing(tmp_path: Path) -> None:
    lost = workload("lost", None, before=3600)
    lost["status"]["conditions"] = [
        condition("Admitted", "2026-11-03T00:00:00Z", status="False"),
        condition("Evicted", "2026-11-03T00:00:00Z"),
    ]
    made = bill(tmp_path, lost)
    assert dict(made.left_out) == {"waiting": 1, "ran_before": 1}
    assert all(one.idle == one.paid for one in made.fleets)


def test_the_name_of_the_old_version_counts_too(tmp_path: Path) -> None:
    old = workload("old", None)
    old["status"]["accumulatedPastExexcutionTimeSeconds"] = 60
    assert bill(tmp_path, old).left_out["ran_before"] == 1


@pytest.mark.parametrize(("quantity", "hours"), [("16", 16), (16, 16), ("0", 0), ("1k", 1_000)])
def test_numbers_are_quantities_of_kubernetes(quantity: Any, hours: int) -> None:
    one = workload("one", "2026-11-02T00:00:00Z", "2026-11-02T01:00:00Z", (GPU, quantity, "trainers"))
    [run] = read_accounting(listed(one)).runs
    assert sum(run.gpus.values()) == hours


def wrong(change: str) -> str:
    one = workload("one", "2026-11-02T00:00:00Z", "2026-11-02T01:00:00Z", (GPU, "8", "trainers"))
    match change:
        case "time":
            one["status"]["conditions"][1]["lastTransitionTime"] = "yesterday"
        case "zone":
            one["status"]["conditions"][1]["lastTransitionTime"] = "2026-11-02T00:00:00"
        case "flavor":
            del one["status"]["admission"]["podSetAssignments"][0]["flavors"][GPU]
        case "number":
            one["status"]["admission"]["podSetAssignments"][0]["resourceUsage"][GPU] = "half"
        case "kind":
            one["kind"] = "Job"
        case "metadata":
            del one["metadata"]
        case "status":
            one["status"] = "Admitted"
    return listed(one)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "it is no JSON"),
        ("[]", "it is no list of workloads; write the file with: kubectl get workloads.kueue.x-k8s.io"),
        ('{"kind": "List"}', "it is no list of workloads"),
        (json.dumps(MONTH[0]), "it is no list of workloads"),
        (wrong("time"), "item 1: lastTransitionTime 'yesterday' of Admitted is no time"),
        (wrong("zone"), "of Admitted has no time zone"),
        (wrong("flavor"), "item 1: nvidia.com/gpu of the pods pods-0 has no flavor"),
        (wrong("number"), "item 1: nvidia.com/gpu 'half' is no whole number"),
        (wrong("kind"), "item 1: is no Workload of Kueue"),
        (wrong("metadata"), "item 1: is no Workload of Kueue"),
        (wrong("status"), "item 1: is no Workload of Kueue"),
    ],
)
def test_what_is_no_list_of_workloads_is_refused(text: str, fault: str) -> None:
    with pytest.raises(NoAccounting, match=fault):
        read_accounting(text)


def test_workloads_without_any_gpu_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoAccounting, match="coveredResources"):
        bill(tmp_path, MONTH[-1])


def test_more_than_the_nodes_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoAccounting, match="jobs held"):
        bill(tmp_path, workload("huge", "2026-11-01T00:00:00Z", None, (GPU, "17", "trainers")))


def test_the_command_shows_namespaces_and_queues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
    (tmp_path / "workloads.json").write_text(listed(*MONTH), encoding="utf-8")
    assert main(["cost", str(tmp_path / "cluster.yaml"), "--jobs", str(tmp_path / "workloads.json"), *PERIOD]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "  read         5 runs of jobs, 1 workload that is not admitted left out, 1 workload's earlier runs left out"
        in lines
    )
    assert "  no GPU       1 job, at no cost here: nlp/fetch" in lines
    assert "  queues       1 queue" in lines
    assert "  namespaces   2 namespaces" in lines
    assert "               nlp/llama    5,269.83 USD, 1,920.00 GPU hours, nlp for gpu-cluster" in lines


def test_workloads_of_another_api_are_a_fault() -> None:
    """Kubernetes has workloads of its own (kubernetes-sigs/kueue#8113)."""
    with pytest.raises(NoAccounting, match="no Workload of Kueue"):
        read_accounting(listed({**MONTH[0], "apiVersion": "scheduling.k8s.io/v1alpha1"}))


def test_a_variant_does_not_count_beside_its_owner() -> None:
    owner = [{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "a", "uid": "b", "controller": True}]
    variant = {**MONTH[0], "metadata": {**MONTH[0]["metadata"], "ownerReferences": owner}}
    assert read_accounting(listed(MONTH[0], variant)).runs == read_accounting(listed(MONTH[0])).runs
