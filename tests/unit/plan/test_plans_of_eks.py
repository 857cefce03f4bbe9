"""Plans of clusters on Amazon EKS: existing ones, software, addresses of pods; and what another orchestrator changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters_stacks.plan import ClusterPlan, Effect, compare_clusters, plan_cluster
from cdk_gpu_clusters_stacks.plan.model import NodeGroupReport
from cdk_gpu_clusters_stacks.plan.text import plan_text
from cdk_gpu_clusters_stacks.plan.text_changes import comparison_text
from cdk_gpu_clusters_stacks.report_page import report_html
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster
from cluster_files.edits import EXAMPLES_ON_EC2, REFUSED_BY_EKS, write
from cluster_files.orchestrators import OF_OTHERS

Load = Callable[[str], ClusterSpec]
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

HEAD = "version: 1\nname: lab\nregion: {region}\norchestrator: eks\n"
NEW = "network: { availability_zone: us-east-1a }\n"
FLEET = "training: {{ fleets: {{ one: {{ {0} }} }} }}\n"
BLOCK = "{ capacity_block: cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }"
EXISTING = """\
eks:
  existing:
    cluster_name: research
    cluster_security_group_id: sg-0123456789abcdef9
    kubernetes_version: "1.34"
    service_cidr: 10.100.0.0/16
"""


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """The cluster of a file's text."""

    def run(text: str) -> ClusterSpec:
        return load_cluster(write(tmp_path, text))

    return run


@pytest.fixture
def plan(load: Load) -> Callable[..., ClusterPlan]:
    """The plan of one fleet on EKS."""

    def run(fleet: str, *, eks: str = "", region: str = "us-east-1", network: str = NEW) -> ClusterPlan:
        return plan_cluster(load(HEAD.format(region=region) + network + eks + FLEET.format(fleet)))

    return run


def group_of(made: ClusterPlan) -> NodeGroupReport:
    group = made.fleets[0].node_group
    assert group is not None
    return group


def test_plain_ec2_has_no_kubernetes(load: Load) -> None:
    made = plan_cluster(load_cluster(EXAMPLES / "p5-capacity-block.yaml"))
    assert made.kubernetes is None
    assert made.fleets[0].node_group is None
    assert "Kubernetes on Amazon EKS" not in plan_text(made)


def test_an_existing_cluster_costs_nothing_more_and_makes_no_stack(plan: Callable[..., ClusterPlan]) -> None:
    made = plan("instance_type: g6.xlarge, nodes: 1", eks=EXISTING)
    cluster = made.kubernetes
    assert cluster is not None
    assert (cluster.stack_name, cluster.cluster_name) == (None, "research")
    assert (cluster.version, cluster.service_cidr) == ("1.34", "10.100.0.0/16")
    assert cluster.system_nodes is None
    assert cluster.add_ons == ()
    assert made.cost.includes == ("fleet one",)
    assert [stack.kind for stack in made.stacks] == ["network", "fleet"]
    assert "research, existing" in plan_text(made)
    assert [use.kind for subnet in made.network.subnets for use in subnet.uses] == ["nodes", "nat-gateway"]


def test_what_is_known_of_the_pods_of_a_new_cluster_counts_as_addresses(
    plan: Callable[..., ClusterPlan],
) -> None:
    fleet = "instance_type: p5.48xlarge, nodes: 16, capacity: spot"
    used = [plan(fleet, eks=eks).network.subnets[0].used_addresses for eks in ("", EXISTING)]
    assert used == [16 * 21, 16]


def test_a_subnet_without_room_for_pods_is_refused(plan: Callable[..., ClusterPlan]) -> None:
    small = (
        "network: { vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], cidr: 10.0.0.0/24, "
        "availability_zone: us-east-1a, service_subnets: { us-east-1a: subnet-0123456789abcdef1, "
        "us-east-1b: subnet-0123456789abcdef2 } }\n"
    )
    fleet = "instance_type: p5.48xlarge, nodes: 16, capacity: spot"
    with pytest.raises(ConfigError, match="GPU-IP-003"):
        plan(fleet, network=small)
    assert plan(fleet, network=small, eks=EXISTING).fleets[0].maximum_nodes == 16


def test_pods_hide_no_other_fault_of_the_section(load: Load) -> None:
    small = (
        "network: { vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], cidr: 10.0.0.0/24, "
        "availability_zone: us-east-1a }\n"
    )
    fleet = FLEET.format("instance_type: p5.48xlarge, nodes: 16, capacity: spot")
    with pytest.raises(ConfigError) as told:
        load(HEAD.format(region="us-east-1") + small + EXISTING.replace("sg-", "group-") + fleet)
    assert "GPU-IP-003" not in {finding.id for finding in told.value.findings}


def test_software_that_is_installed_has_a_stack_after_all_others(plan: Callable[..., ClusterPlan]) -> None:
    made = plan("instance_type: g6.xlarge, nodes: 1", eks="eks: { software: { apply: true, trainer: true } }\n")
    last = made.stacks[-1]
    assert (last.name, last.kind) == ("lab-software", "software")
    assert made.kubernetes is not None
    assert made.kubernetes.software_stack == "lab-software"
    assert "kubeflow-trainer" in {chart.name for chart in made.kubernetes.charts}
    assert "installed by stack lab-software" in plan_text(made)


def test_slurm_on_the_nodes_is_planned_with_its_partitions(plan: Callable[..., ClusterPlan]) -> None:
    accounting = "accounting: { host: db.lab.internal, secret_name: db }"
    slurm = f"eks: {{ software: {{ slurm: {{ name: lab, {accounting} }} }} }}\n"
    made = plan("instance_type: p5.48xlarge, nodes: 2", eks=slurm)
    assert made.kubernetes is not None
    assert [chart.name for chart in made.kubernetes.charts][-2:] == ["slurm-operator", "slurm"]
    said = " ".join(plan_text(made).split())
    for words in (
        "Slurm partition one, the default one: 2 nodes with gpu:h100:8; topology ec2-3",
        "cluster lab; a login node, reached inside the cluster only; accounting in db.lab.internal",
    ):
        assert words in said
    assert "partition one, the default one" in report_html(made)
    bare = plan("instance_type: m7i.large, nodes: 1", eks="eks: { software: { slurm: { login: false } } }\n")
    assert "one, the default one: 1 node cluster slurm; no login node; no accounting" in " ".join(
        plan_text(bare).split()
    )


@pytest.mark.parametrize(
    ("before", "after", "says", "never"),
    [
        (
            "settings: { MinJobAge: '60' }",
            "settings: { MinJobAge: '90' }",
            "restart on running nodes; jobs go on",
            "drains",
        ),
        (
            "fleets: [one]",
            "fleets: [one], nvml_image: 'mine/slurmd:nvml'",
            "a quarter of a partition at once (rounded up), and replaces the pod of each when its jobs have ended; jobs",
            "go, and with them",
        ),
        ("fleets: [two, one]", "fleets: [two]", "the pods of Slurm on one go, and with them the jobs", "drains"),
        ("fleets: [one]", "fleets: [one, two]", "restart on running nodes; jobs go on", "drains"),
    ],
)
def test_a_change_of_slurm_says_what_becomes_of_jobs(
    load: Load, before: str, after: str, says: str, never: str
) -> None:
    fleets = "training: { fleets: { one: { instance_type: g6.xlarge, nodes: 4 }, two: { instance_type: g5.xlarge, nodes: 1 } } }\n"
    text = HEAD.format(region="us-east-1") + NEW + "eks: { software: { apply: true, slurm: { SLURM } } }\n" + fleets
    comparison = compare_clusters(*(load(text.replace("SLURM", one)) for one in (before, after)))
    (change,) = [one for one in comparison.changes if one.stack == "lab-software"]
    assert change.keys == ("eks.software",)
    assert says in change.nodes
    assert never not in change.nodes


@pytest.mark.parametrize(
    ("before", "after", "falls"),
    [
        ("nodes: 4", "min_nodes: 1, max_nodes: 4", True),
        ("nodes: 1", "min_nodes: 1, max_nodes: 4", False),
        ("min_nodes: 1, max_nodes: 4", "min_nodes: 2, max_nodes: 4", False),
        ("min_nodes: 1, max_nodes: 4", "nodes: 4", False),
    ],
)
def test_servers_that_an_autoscaler_takes_over_are_said_to_go_to_one(
    load: Load, before: str, after: str, *, falls: bool
) -> None:
    server = (
        'server: { image: "vllm/vllm-openai:v0.21.0", command: [--model, Qwen/Qwen3-8B, --max-model-len, "16384"] }'
    )
    fleet = f"inference: {{ fleets: {{ chat: {{ instance_type: g6.xlarge, NODES, {server} }} }} }}\n"
    text = HEAD.format(region="us-east-1") + NEW + "eks: { software: { apply: true } }\n" + fleet
    comparison = compare_clusters(*(load(text.replace("NODES", one)) for one in (before, after)))
    (change,) = [one for one in comparison.changes if one.stack == "lab-software"]
    assert ("the servers of chat go to one each" in change.nodes) is falls


@pytest.mark.parametrize(
    ("before", "after", "remade", "falls"),
    [
        ("nodes: 4", "nodes: 4, canary: {}", True, False),
        ("nodes: 4, canary: {}", "nodes: 4", True, False),
        ("nodes: 4", "min_nodes: 2, max_nodes: 4, canary: {}", True, False),  # nothing was applied of the Rollout
        ("nodes: 4, canary: {}", "nodes: 4, canary: { step_minutes: 30 }", False, False),
        ("nodes: 4, canary: {}", "min_nodes: 2, max_nodes: 4, canary: {}", False, True),
    ],
)
def test_servers_that_get_a_canary_or_lose_it_are_said_to_be_replaced(
    load: Load, before: str, after: str, *, remade: bool, falls: bool
) -> None:
    server = (
        'server: { image: "vllm/vllm-openai:v0.21.0", command: [--model, Qwen/Qwen3-8B, --max-model-len, "16384"] }'
    )
    fleet = f"inference: {{ fleets: {{ chat: {{ instance_type: g6.xlarge, NODES, {server} }} }} }}\n"
    section = "monitoring: { metrics: { destination: workspace } }\n"
    section += "eks: { software: { apply: true, argo_rollouts: true } }\n"
    text = HEAD.format(region="us-east-1") + NEW + section + fleet
    comparison = compare_clusters(*(load(text.replace("NODES", one)) for one in (before, after)))
    (change,) = [one for one in comparison.changes if one.stack == "lab-software"]
    assert ("all servers of chat go" in change.nodes) is remade
    assert "new versions of" not in change.nodes
    assert ("the servers of chat go to one each" in change.nodes) is falls


@pytest.mark.parametrize("canary", [True, False])
def test_a_new_version_is_said_to_be_tried_first_where_there_is_a_canary(load: Load, *, canary: bool) -> None:
    text = (EXAMPLES / "eks-g6e-canary.yaml").read_text("utf-8")
    text = text if canary else text.replace("      canary: {", "      # canary: {")
    comparison = compare_clusters(load(text), load(text.replace("v0.21.0", "v0.22.0")))
    (change,) = [one for one in comparison.changes if one.stack == "versions-software"]
    assert ("new versions of chat are tried on some servers first" in change.nodes) is canary
    assert "all servers" not in change.nodes


def test_teams_are_shown_with_what_they_may_have_at_most(plan: Callable[..., ClusterPlan]) -> None:
    quotas = "{ fleet: one, nominal: 8, borrowing_limit: 4, lending_limit: 2 }"
    teams = f"{{ research: {{ weight: 2, quotas: [{quotas}], principal_arns: ['arn:aws:iam::111122223333:role/r'] }} }}"
    made = plan("instance_type: p5.48xlarge, nodes: 2, capacity: spot", eks=f"eks: {{ teams: {teams} }}\n")
    assert made.kubernetes is not None
    (team,) = made.kubernetes.teams
    (quota,) = team.quotas
    assert (quota.nominal, quota.most, quota.lent, quota.of) == (8, 12, 2, 16)
    assert team.members == ("arn:aws:iam::111122223333:role/r",)
    said = "research: 8 of 16 nvidia.com/gpu of one, 12 at most, lends 2; weight 2; 1 member in gpu-team:research"
    assert said in " ".join(plan_text(made).split())
    assert said in report_html(made)
    assert "teams " not in plan_text(plan("instance_type: g6.xlarge, nodes: 1"))


@pytest.mark.parametrize(
    ("fleet", "resources", "strategy"),
    [
        ("instance_type: g6.xlarge, nodes: 1", {"nvidia.com/gpu": 1}, "none"),
        (
            "instance_type: p5.48xlarge, nodes: 1, capacity: spot",
            {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32},
            "none",
        ),
        ("instance_type: m8g.4xlarge, nodes: 1", {}, "none"),
        ("instance_type: trn1.2xlarge, nodes: 1", {"aws.amazon.com/neuron": 1}, "none"),
        (
            'instance_type: p4d.24xlarge, nodes: 1, capacity: spot, efa: false, mig: "3g.20gb,3g.20gb"',
            {"nvidia.com/mig-3g.20gb": 16},
            "mixed",
        ),
    ],
)
def test_a_node_shows_its_devices_to_kubernetes(
    plan: Callable[..., ClusterPlan], fleet: str, resources: dict[str, int], strategy: str
) -> None:
    group = group_of(plan(fleet))
    assert group.resources == resources
    assert group.mig_strategy == strategy


@pytest.mark.parametrize(
    ("more", "desired", "says"),
    [
        ("nodes: 3", 3, "a fixed size"),
        ("min_nodes: 0, max_nodes: 3", 0, "an autoscaler of the cluster's"),
        (f"nodes: 3, capacity: {BLOCK}", 3, "eks:UpdateNodegroupConfig"),
    ],
)
def test_somebody_grows_each_group(plan: Callable[..., ClusterPlan], more: str, desired: int, says: str) -> None:
    group = group_of(plan(f"instance_type: p5.48xlarge, {more}"))
    assert group.desired_nodes == desired
    assert says in group.grown_by


def test_a_full_reservation_is_updated_from_within(plan: Callable[..., ClusterPlan]) -> None:
    reserved = "instance_type: p5.48xlarge, nodes: 2, capacity: { reservation: cr-0123456789abcdef0 }"
    group = group_of(plan(reserved))
    assert (group.capacity_type, group.update_strategy) == ("ON_DEMAND", "MINIMAL")
    assert "the old node goes first" in group.update


def test_a_price_that_is_known_in_one_region_is_unknown_in_another(plan: Callable[..., ClusterPlan]) -> None:
    known, unknown = (
        plan(
            "instance_type: g6.xlarge, nodes: 1",
            region=region,
            network=f"network: {{ availability_zone: {region}a }}\n",
        )
        for region in ("us-east-1", "eu-west-1")
    )
    assert "system nodes" in known.cost.includes
    assert "system nodes" in unknown.cost.missing


def test_a_version_without_dates_is_told(plan: Callable[..., ClusterPlan]) -> None:
    made = plan("instance_type: g6.xlarge, nodes: 1", eks=EXISTING.replace("1.34", "1.37"))
    assert "end of support unknown (the catalogue has no dates of this version)" in plan_text(made)


def test_from_ec2_to_eks_is_told_in_words(load: Load) -> None:
    text = (EXAMPLES / "g5-single-gpu.yaml").read_text("utf-8")
    on_eks = text.replace("\nregion:", "\norchestrator: eks\nregion:", 1)
    assert on_eks != text
    comparison = compare_clusters(load(text), load(on_eks))
    effects = {(one.resource.rpartition("::")[2], one.effect) for one in comparison.changes}
    assert effects >= {
        ("AutoScalingGroup", Effect.REMOVED),
        ("LoadBalancer", Effect.REMOVED),
        ("TargetGroup", Effect.REMOVED),
        ("ScalingPolicy", Effect.REMOVED),
        ("Nodegroup", Effect.ADDED),
        ("", Effect.ADDED),
    }
    words = " ".join(comparison_text(comparison).split())
    for one in (
        "a new stack of kind kubernetes",
        "a node that is not ready starts neither kubelet nor slurmd",
        "a Service in the cluster takes its place",
        "a HorizontalPodAutoscaler scales the pods",
        "bring the fleet to zero nodes first",
    ):
        assert one in words
    assert all(one.keys == ("orchestrator",) for one in comparison.changes if one.resource)


@pytest.mark.parametrize(("name", "rule"), REFUSED_BY_EKS.items())
def test_what_eks_does_not_take_is_refused_and_said(load: Load, name: str, rule: str) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text("utf-8")
    with pytest.raises(ConfigError, match=rule):
        load(text.replace("\nregion:", "\norchestrator: eks\nregion:", 1))


def test_every_other_example_is_asked_of_eks() -> None:
    examples = {path.stem for path in EXAMPLES.glob("*.yaml") if not path.stem.startswith(OF_OTHERS)}
    assert EXAMPLES_ON_EC2.keys() == examples - REFUSED_BY_EKS.keys()
    assert len(EXAMPLES_ON_EC2) >= 14


def test_the_page_shows_the_cluster_and_its_node_groups() -> None:
    text = report_html(plan_cluster(load_cluster(EXAMPLES / "eks-p5-capacity-block.yaml")))
    for words in (
        "Amazon EKS: Kubernetes 1.35",
        "node group, CAPACITY_BLOCK",
        "2 x m7i.large",
        "nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32",
        "control plane, in standard support",
    ):
        assert words in text, words
