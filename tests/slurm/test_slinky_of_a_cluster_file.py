"""The Slurm cluster of the example of a cluster file, started by a real slurmctld from what Slinky's chart renders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from chart_renderings import SLURM_EXAMPLE, example_of_slurm
from slurmbox.box import Box
from slurmbox.slinky import HAS_TOPOLOGY, Slinky

#: Two nodes below one switch, two below another.
_PLACES = {f"trainers-{number}": ("nn-1", f"nn-{2 + number // 2}", f"nn-{4 + number}") for number in range(4)}


@pytest.fixture(scope="module")
def slinky(box: Box) -> Iterator[Slinky]:
    releases, pools = example_of_slurm()
    made = Slinky(box, releases, pools, _PLACES)
    try:
        made.start()
        yield made
    finally:
        made.end()


def test_slurm_has_the_partitions_nodes_and_gpus_that_the_plan_shows(slinky: Slinky) -> None:
    planned = plan_cluster(load_cluster(SLURM_EXAMPLE)).kubernetes
    assert planned is not None
    assert planned.slurm is not None
    expected = {
        f"{one.name}{'*' if index == 0 else ''} {one.node_count} {one.gres}"
        for index, one in enumerate(planned.slurm.partitions)
    }
    shown = slinky.box.run("sinfo", "--noheader", "--format=%P %D %G").stdout
    assert {line.partition("(")[0] for line in shown.splitlines()} == expected


def test_a_job_of_the_default_partition_gets_all_nodes_with_all_gpus(slinky: Slinky) -> None:
    show = "scontrol --details show job $SLURM_JOB_ID | grep -o 'GRES=gpu.*'"
    job = ("srun", "--nodes=4", "--ntasks=1", "--gpus-per-node=h100:8", "sh", "-c", show)
    assert "GRES=gpu:h100:8(IDX:0-7)" in slinky.box.run(*job).stdout


if HAS_TOPOLOGY:

    def test_near_nodes_are_below_one_switch(slinky: Slinky) -> None:
        text = slinky.box.run("scontrol", "show", "topology", "ec2-3").stdout
        assert "SwitchName=nn-2" in text
        assert "Nodes=trainers-[0-1]" in text
