"""The generated settings, GRES and topology of 16 p4d nodes, read by a real Slurm: eight with 56 equal slices, eight mixed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest
from cdk_gpu_clusters.node.gpunode.topology.slurm import topology_conf
from cdk_gpu_clusters.node.slurm_settings import cluster_settings
from cdk_gpu_clusters.rules.gres import GresMode, GresPlan, plan_gres
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from cdk_gpu_clusters_stacks.jobs.slurm import sbatch_script
from slurmbox.box import Box
from slurmbox.cluster import SHARED, Cluster

P4D = instance_type("p4d.24xlarge")
EQUAL, MIXED = [f"gpu-{number}" for number in range(1, 9)], [f"gpu-{number}" for number in range(9, 17)]


def gres_of(layout: list[str], instance_ids: list[int]) -> GresPlan:
    """The GRES of a p4d, by the ids that the driver gives to the GPU instances of each GPU."""
    return plan_gres(P4D, plan_mig(P4D, MigLayout(layout)), mode=GresMode.EXPLICIT, gpu_instance_ids=[instance_ids] * 8)


SLICES = gres_of(["1g.5gb"] * 7, list(range(7, 14)))
KINDS = gres_of(["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"], [2, 3, 9, 10])


def devices_of(name: str) -> list[str]:
    """The device files that the records of a node name."""
    plan = SLICES if name in EQUAL else KINDS
    files = {file for record in plan.records for file in record["MultipleFiles"].split(",")}
    return sorted(file.removeprefix("/dev/") for file in files)


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[Cluster]:
    size = "CPUs=2 RealMemory=1000"  # of this machine
    nodes = {
        **dict.fromkeys(EQUAL, f"{size} Gres={SLICES.node_gres}"),
        **dict.fromkeys(MIXED, f"{size} Gres={KINDS.node_gres}"),
    }
    layers: dict[str, tuple[str, ...]] = {
        name: ("nn-1", f"nn-{2 + index // 8}", f"nn-{4 + index // 4}") for index, name in enumerate(nodes)
    }
    layers["gpu-16"] = layers["gpu-16"][:2]  # a type with fewer layers
    gres = SLICES.conf_text("gpu-[1-8]") + KINDS.conf_text("gpu-[9-16]")
    with Cluster(
        box, nodes, cluster_settings(), gres=gres, devices=devices_of, topology=topology_conf(layers)
    ) as cluster:
        cluster.eventually(lambda: all(cluster.node(name)["State"] == "IDLE" for name in nodes))
        yield cluster


def test_all_nodes_are_idle_with_their_slices(cluster: Cluster) -> None:
    assert {re.sub(r"\(S:[0-9-]*\)", "", cluster.node(name)["Gres"]) for name in EQUAL} == {"gpu:1g.5gb:56"}
    for name in MIXED:
        assert sorted(re.findall(r"gpu:([\w.]+):(\d+)", cluster.node(name)["Gres"])) == [
            ("1g.5gb", "16"),
            ("2g.10gb", "8"),
            ("3g.20gb", "8"),
        ]


def test_the_tree_has_a_switch_for_each_network_node(cluster: Cluster) -> None:
    shown = cluster.ask("scontrol", "show", "topology")
    assert shown.count("Level=0") == 5
    assert re.search(r"SwitchName=nn-3-nodes .*Nodes=gpu-16\b", shown)
    assert shown.count("Level=1") == 2
    assert shown.count("Level=2") == 1
    assert re.search(r"SwitchName=nn-4 .*Nodes=(gpu-\[1-4\]|gpu-1,gpu-2,gpu-3,gpu-4)", shown)


def test_the_settings_are_in_force(cluster: Cluster) -> None:
    shown = dict(re.findall(r"^([\w\[\]]+)\s+= (.*?)\s*$", cluster.ask("scontrol", "show", "config"), re.MULTILINE))
    # 24.11 shows a list of patterns with its length.
    assert {name: shown.get(name, shown.get(f"{name}[0]")) for name in ("Prolog", "Epilog")} == {
        "Prolog": "/etc/gpu-cluster/prolog.d/*",
        "Epilog": "/etc/gpu-cluster/epilog.d/*",
    }
    assert shown["JobRequeue"] == "1"
    assert {"Alloc", "Contain"} <= set(shown["PrologFlags"].split(","))
    assert "enable_stepmgr" in shown["SlurmctldParameters"]  # as in AWS PCS; slurmctld ends without Contain
    assert "nohold_on_prolog_fail" in shown["SchedulerParameters"]


def test_a_job_for_two_kinds_of_slice_gets_them(cluster: Cluster) -> None:
    script = "#!/bin/bash\nscontrol --details show job $SLURM_JOB_ID | grep -o 'GRES=.*'\n"
    job = cluster.submit(script, "--gres=gpu:3g.20gb:1,gpu:1g.5gb:2", f"--output={SHARED}/kinds")
    cluster.eventually(lambda: cluster.job(job)["JobState"] == "COMPLETED")
    assert cluster.job(job)["NodeList"] in MIXED
    said = cluster.box.path(f"{SHARED}/kinds").read_text()
    assert "gpu:3g.20gb:1" in said
    assert "gpu:1g.5gb:2" in said
    assert "2g.10gb" not in said


def test_every_step_of_a_job_that_was_sent_gets_the_gpus_of_its_node(cluster: Cluster) -> None:
    command = ("sh", "-c", 'echo "step has $(echo $SLURM_STEP_GPUS | tr , "\\n" | wc -l)"')
    request = JobRequest(job_id="20261123-120000-a1b2", command=command, nodes=2)
    job = cluster.submit(
        sbatch_script(request, "train"), f"--output={SHARED}/sent", f"--nodelist={EQUAL[0]},{EQUAL[1]}"
    )
    cluster.eventually(lambda: cluster.job(job)["JobState"] == "COMPLETED")
    said = cluster.box.path(f"{SHARED}/sent").read_text().splitlines()
    assert sorted(said) == ["0: step has 56", "1: step has 56"]


def test_more_slices_than_a_node_has_are_refused(cluster: Cluster) -> None:
    done = cluster.box.run("sbatch", "--wrap=true", "--gres=gpu:1g.5gb:57", "--nodes=1", check=False)
    assert done.returncode != 0
    assert "node configuration is not available" in done.stderr


def test_a_node_with_a_slice_too_few_is_drained_with_its_reason(cluster: Cluster) -> None:
    # Its own records lack one, as when slurmd detects the slices by NVML, and the driver has made one less.
    name = EQUAL[-1]
    cluster.cut_power(name)
    records = cluster.in_node(name, "etc/gres.conf")
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(lines[1:]))
    assert lines[0].startswith("NodeName=gpu-[1-8] ")
    cluster.power_on(name)
    cluster.eventually(lambda: "DRAIN" in cluster.node(name)["State"])
    assert "gres/gpu" in cluster.node(name)["Reason"]
    assert "reported lower than configured (55 < 56)" in cluster.node(name)["Reason"]
    assert cluster.node(EQUAL[0])["State"] == "IDLE"
