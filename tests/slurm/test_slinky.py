"""What Slinky's charts make of our values, read by a real slurmctld, with nodes that register themselves (`slurmd -Z`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from cdk_gpu_clusters.kubernetes.software.slurm_topology import layer_labels, topology_spec
from cdk_gpu_clusters.rules.gres import gres_counts
from chart_renderings import SLURM, cases, slurm_pools
from slurmbox.box import Box
from slurmbox.slinky import HAS_TOPOLOGY, Slinky

_PLACES = {
    "trainers-0": ("nn-1", "nn-2", "nn-4"),
    "trainers-1": ("nn-1", "nn-3", "nn-5"),
    "slices-0": ("nn-1", "nn-2", "nn-6"),
}
POOLS = {f"{pool.name}-{number}": pool for pool in slurm_pools() for number in range(pool.node_count)}


@pytest.fixture(scope="module")
def slinky(box: Box) -> Iterator[Slinky]:
    made = Slinky(box, cases()["Slurm"], slurm_pools(), _PLACES)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("name", POOLS)
def test_a_node_registers_with_the_gpus_and_slices_of_its_group(slinky: Slinky, name: str) -> None:
    pool, shown = POOLS[name], slinky.node(name)
    found = re.findall(r"gpu:([\w.]+):(\d+)", shown["Gres"])
    has_gpu = pool.resources or pool.mig
    assert dict(found) == (
        {kind: str(count) for kind, count in gres_counts(pool.instance_type, pool.mig).items()} if has_gpu else {}
    )
    assert (shown["State"], shown["Partitions"]) == ("IDLE+DYNAMIC_NORM", pool.name)


def test_the_first_group_is_the_default_partition(slinky: Slinky) -> None:
    shown = slinky.box.run("sinfo", "--noheader", "--format=%P %D").stdout.split("\n")
    assert sorted(line for line in shown if line) == ["notebooks 1", "preprocessing 1", "slices 1", "trainers* 2"]


def test_jobs_get_gpus_and_slices_and_no_more_than_there_are(slinky: Slinky) -> None:
    show = "scontrol --details show job $SLURM_JOB_ID | grep -o 'GRES=.*'"
    whole = slinky.box.run(
        "srun", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=h100:8", "sh", "-c", show
    ).stdout
    assert whole.count("GRES=gpu:h100:8(IDX:0-7)") >= 1
    assert slinky.box.run("srun", "--partition=slices", "--gres=gpu:1g.5gb:3", "sh", "-c", show).stdout.startswith(
        "GRES=gpu:1g.5gb:3"
    )
    more = slinky.box.run("srun", "--partition=slices", "--gres=gpu:1g.5gb:57", "true", check=False)
    assert more.returncode != 0
    assert "Requested node configuration is not available" in more.stderr


def test_the_settings_are_in_force(slinky: Slinky) -> None:
    text = slinky.box.run("scontrol", "show", "config").stdout
    shown = dict(re.findall(r"^([\w\[\]]+)\s+= (.*?)\s*$", text, re.MULTILINE))
    assert shown["JobRequeue"] == "1"
    assert {"Alloc", "Contain"} <= set(shown["PrologFlags"].split(","))
    parameters = shown["SchedulerParameters"].split(",")
    assert {"nohold_on_prolog_fail", "requeue_on_resume_failure", SLURM.settings["SchedulerParameters"]} <= set(
        parameters
    )


def test_a_node_whose_pod_starts_again_returns_to_service_by_our_setting(slinky: Slinky) -> None:
    """The operator itself sets a node IDLE only for a pod on another node of Kubernetes (slurmcontrol.go)."""
    ours = slinky.slurm_conf()
    assert ours.count("ReturnToService=2\n") == 1
    slinky.box.write("/etc/slurm/slurm.conf", ours.replace("ReturnToService=2\n", ""))
    slinky.start_controller()
    slinky.restart_pod("trainers-1")
    assert slinky.node("trainers-1")["State"].startswith("DOWN")
    slinky.box.write("/etc/slurm/slurm.conf", ours)
    slinky.start_controller()
    slinky.restart_pod("trainers-1")
    slinky.eventually(lambda: slinky.node("trainers-1")["State"].startswith("IDLE"))
    assert slinky.box.run("srun", "--nodelist=trainers-1", "hostname").stdout.strip() == "trainers-1"


def switches(slinky: Slinky) -> dict[str, str]:
    """The switches of the tree with the nodes below them."""
    text = slinky.box.run("scontrol", "show", "topology", "ec2-3").stdout
    return dict(re.findall(r"SwitchName=(\S+).* Nodes=(\S*)", text))


if HAS_TOPOLOGY:

    def test_the_network_above_each_node_is_a_tree_that_outlives_the_controller(slinky: Slinky) -> None:
        expected = {
            "ec2-3": "slices-0,trainers-[0-1]",
            "nn-1": "slices-0,trainers-[0-1]",
            "nn-2": "slices-0,trainers-0",
            "nn-3": "trainers-1",
            "nn-4": "trainers-0",
            "nn-5": "trainers-1",
            "nn-6": "slices-0",
        }
        assert switches(slinky) == expected
        slinky.start_controller()
        slinky.eventually(lambda: all(slinky.node(name).get("State", "").startswith("IDLE") for name in POOLS))
        assert switches(slinky) == expected
        near = slinky.box.run("srun", "--nodes=2", "--switches=1@00:00:01", "true", check=False)
        assert near.returncode == 0

    def test_the_operator_moves_a_node_to_the_place_of_its_annotation(slinky: Slinky) -> None:
        spec = topology_spec(
            POOLS["trainers-1"], dict(zip(layer_labels(POOLS["trainers-1"]), _PLACES["trainers-0"], strict=True))
        )
        slinky.box.run("scontrol", "update", "nodename=trainers-1", f"topology={spec}")
        assert switches(slinky)["nn-4"] == "trainers-[0-1]"
