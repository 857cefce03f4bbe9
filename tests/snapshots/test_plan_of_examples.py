"""The text of `gpu-clusters plan` for every example, as a person reads it. `make snapshots` rewrites the records.

What each must say stands in words below, so that a record is never accepted that leaves it out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.plan.text import WIDTH, plan_text
from cdk_gpu_clusters_stacks.spec import load_cluster

EXAMPLES = {path.stem: path for path in sorted(Path("examples").glob("*.yaml"))}

#: Example -> what its plan says, whatever else changes.
SAYS = {
    "parallelcluster-p5": (
        "Slurm on AWS ParallelCluster (stack foundation-parallelcluster)",
        "gpu-clusters export --to pcluster, then pcluster create-cluster, after the stacks of the file",
        "head node 1 x m7i.xlarge; sessions of Systems Manager",
        "trainers-st-trainers-1 and so on; CAPACITY_BLOCK",
        "cards 1-31  efa-only (device 1)",
        "the nodes are launched when it runs, and drain 40 minutes before the end",
        "head-node 1 (the head node)",
    ),
    "hyperpod-eks-p5": (
        "Kubernetes on Amazon EKS (stack llama-sagemaker-eks)",
        "HyperPod's Helm chart, for you to install",
        "label gpu-cluster/fleet=trainers",
        "33 interfaces, 50 IP addresses",
    ),
    "hyperpod-slurm-p5": (
        "SageMaker HyperPod (stack llama-hyperpod-hyperpod)",
        "training plan research",
        "group trainers of ml.p5.48xlarge; partition trainers; efa-only interfaces",
        "the catalogue has no prices of SageMaker HyperPod",
    ),
    "pcs-g6-dev": (
        "Slurm on AWS PCS (stack slurm-dev-slurm)",
        "queue        dev: dev",
        "sessions of Systems Manager",
        "AWS PCS: controller, nodes under management, accounting",
    ),
    "pcs-p4d-mig": (
        "gres.conf",
        "gpu:1g.5gb:56",
    ),
    "batch-p5-capacity-block": (
        "0 until the block is delivered and jobs wait",
        "0 to 3,072 vCPUs, BEST_FIT",
        "a job waits for capacity without end",
        "8 GPUs, 32 EFA devices, 1,048,576 MiB of memory",
        "replaces the environment, and ends running",
    ),
    "pcs-p5-capacity-block": (
        "small: 32 nodes, 256 jobs at most",
        "CAPACITY_BLOCK; a state machine keeps the group at its size",
        "Features=p5.48xlarge,efa,gpu",
        "replaces each node when its jobs have",
        "/home: home, over TCP",
    ),
    "pcs-spot-queue": (
        "batch: spot, steady; Default=YES; MaxTime=1-00:00:00",
        "SPOT; Slurm starts nodes for waiting jobs, and ends idle ones",
        "Weight=1",
    ),
    "eks-p5-slurm": (
        "partition trainers, the default one: 4 nodes with gpu:h100:8; topology ec2-3",
        "partition trial: 1 node with gpu:l4:1",
        "a login node, reached inside the cluster only; accounting in slurm.abcdefghijkl",
        "slurm-operator 1.2.1, slurm 1.2.1",
    ),
    "eks-g5-dev": (
        "reached from inside the network, and from 203.0.113.0/24",
        "capacity type SPOT, image type AL2023_x86_64_NVIDIA",
        "an autoscaler of the cluster's",
        "control plane, in standard support; system nodes",
    ),
    "eks-g6e-canary": (
        "4 servers a node of vllm/vllm-openai:v0.21.0, 1 GPU each: pods behind a Service",
        "new versions first on 10, then 50 percent of the servers, and taken back on errors; 1 place of the fleet kept",
        "argo-rollouts",
    ),
    "eks-g6e-teams": (
        "research: 8 of 16 nvidia.com/gpu of workers, 12 at most, lends 8; weight 2; 1 member in",
        "product: 4 of 16 nvidia.com/gpu of workers, 12 at most, lends 0; weight 1; 1 member in",
    ),
    "eks-g6e-vllm": (
        "2 servers a node of vllm/vllm-openai:v0.11.0, 4 GPUs each: pods behind a Service",
        "nvidia.com/gpu: 8",
        "replaces nodes one at a time; new nodes come first, up to 4 more nodes meanwhile (update: rolling)",
    ),
    "eks-karpenter": (
        "node pool    capacity type on-demand, image al2023@latest",
        "Karpenter launches nodes for pods that wait; one that was empty for 10 minutes goes",
        "the Cluster Autoscaler: nodes come for pods that wait",
        "installed by stack elastic-software, karpenter by elastic-karpenter",
    ),
    "eks-p4d-mig": (
        "56 servers a node",
        "nvidia.com/mig-1g.5gb: 56",
        "gpu-cluster/mig-strategy=mixed, nvidia.com/device-plugin.config=mig-mixed",
        "driver -> fabric-manager -> mig",
        "price unknown: no source gives the on-demand price of m7i.large in us-west-2",
    ),
    "eks-p5-capacity-block": (
        "1.35; standard support ends 2027-03-27, extended support 2028-03-27",
        "2 x m7i.large; 2 subnets",
        "control plane: 0.10 USD an hour, 0.60 USD in extended support",
        "capacity type CAPACITY_BLOCK, image type AL2023_x86_64_NVIDIA; 51 pods a node at most",
        "a state machine keeps the group filled from the start of its capacity, by eks:UpdateNodegroupConfig",
        "empties it before the end",
        "the old node goes first (MINIMAL)",
        "nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32",
        "gpu-cluster/gpu=H100",
        "nvidia.com/gpu=true:NoSchedule",
        "336 (16 nodes x 21, 20 of them for pods)",
        "6 (addresses that EKS needs free in each of its subnets)",
    ),
    "g5-single-gpu": (
        "1 to 8 x g5.2xlarge",
        "1.21 to 9.70 USD an hour",
        "spread placement group: each node on other hardware",
        "scales at 600 requests a minute for each node",
    ),
    "g6-dev-node": ("no internet access", "9 (9 interface endpoints)", "0.80 USD an hour", "user-data"),
    "g6e-tensor-parallel": (
        "2 servers a node of vllm/vllm-openai:v0.11.0, 4 GPUs each",
        "copied from s3://my-models/llama-3.3-70b-instruct",
        "no NVLink",
    ),
    "inf2-neuron": ("12 x Inferentia2 with 32 GiB and 2 NeuronCores each", "1 Neuron device each"),
    "p4d-mig-56-slices": (
        "56 slices a node",
        "GPUs 0-7       7 x 1g.5gb at 0, 1, 2, 3, 4, 5, 6 of 8 memory slices",
        "nvidia.com/mig-1g.5gb: 56",
        "driver -> fabric-manager -> mig",
    ),
    "p4d-new-reservation": (
        "new On-Demand Capacity Reservation of 4 instances, until 2027-01-31T00:00Z",
        "the placement group that the reservation was made in",
        "87.83 USD an hour",
        "paid from the deployment on, used or not",
    ),
    "p4de-base-pod": ("5,120 GiB of memory", "219.58 USD an hour", "23,400 MB/s in all"),
    "p5-capacity-block": (
        "card 0      interface (device 0), efa-only (device 1)",
        "cards 1-31  efa-only (device 0)",
        "EFA 3,200 of 3,200 Gbps",
        "no placement group: a Capacity Block is already placed, and EC2 refuses one",
        "(Capacity Block cr-0123456789abcdef0)",
        "223,254.53 USD for the run of 336 hours",
        "drained from 2026-12-15T10:50Z on",
        "16 (16 nodes x 1)",
    ),
    "p5-lustre": (
        "gives 600 MB/s for each node, 75 MB/s for each accelerator",
        "the file system is the limit",
        "/fsx: corpus, over EFA (8 interfaces)",
        "unknown: no source gives the on-demand price of m8g.4xlarge",
        "has no source",
    ),
    "p5-mixed-mig": (
        "34 slices a node",
        "GPUs 4-5       4g.40gb at 0; 3g.40gb at 4 of 8 memory slices",
        "no placement group: the reservation was made in none",
        "34 servers a node",
    ),
    "p5en-express-preprocessing": (
        "134,206.46 to 147,624.96 USD for the run",
        "in use1-az6, deleted after 3 days",
    ),
    "p5en-spot": ("at most 40.00 USD an hour for each node", "27.18 USD was seen"),
    "p6-b300-existing-reservation": (
        "EFA 6,400 of 6,400 Gbps",
        "8 used of 251 addresses, 243 free",
        "pretrain-b300: the placement group",
    ),
    "p6e-gb200-ultraserver": (
        "part of UltraServer u-p6e-gb200x36",
        "cards 1, 5, 9, 13             efa-only (device 0)",
        "127,999.87 USD for the run of 336 hours",
        "drained from 2026-12-15T10:20Z on",
    ),
    "train-and-serve": (
        "weights at /fsx/assistant/v1",
        "servers at /fsx over TCP",
        "trainers at /fsx over EFA",
    ),
    "trn1-training": (
        "16 x Trainium with 32 GiB and 2 NeuronCores each",
        "EFA 800 of 800 Gbps",
        "21.50 USD an hour",
    ),
    "two-fleets": ("0 to 6 x m8g.4xlarge", "440.32 USD an hour", "14 used of 4,091 addresses"),
}


class TextFile(SingleFileSnapshotExtension):
    """One text file for each example."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT

    def serialize(self, data: Any, **_: Any) -> str:
        return str(data)


def text_of(name: str, *, width: int = WIDTH) -> str:
    return plan_text(plan_cluster(load_cluster(EXAMPLES[name])), width=width)


def test_every_example_has_words_of_its_own() -> None:
    assert SAYS.keys() == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_plan_of_an_example_says_what_it_must(name: str) -> None:
    text = " ".join(text_of(name, width=10_000).split())
    for words in SAYS[name]:
        assert " ".join(words.split()) in text


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_plan_of_an_example_reads_as_recorded(name: str, snapshot: SnapshotAssertion) -> None:
    assert text_of(name) == snapshot(extension_class=TextFile)


@pytest.mark.parametrize("width", [100, 120])
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_line_is_wider_than_asked_but_for_one_long_word(name: str, width: int) -> None:
    for line in text_of(name, width=width).splitlines():
        assert len(line) <= width or len(line.split()) <= 2
        assert line == line.rstrip()
        assert line.isascii()
