"""Teams share a cluster: what each may use, and what keeps them apart."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import cel
import pytest

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.mig import mig_fan_out
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.ray import RayPods, gpu_ray_job
from cdk_gpu_clusters.kubernetes.ray_head import RayHead
from cdk_gpu_clusters.kubernetes.software import EfaSoftware
from cdk_gpu_clusters.kubernetes.team_quotas import Team, TeamQuota
from cdk_gpu_clusters.kubernetes.teams import team_objects
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters.rules.mig import MigStrategy
from chart_renderings import cases
from kubernetes_pools import MIXED, ONE_WHOLE, Objects, check_everywhere, containers, kinds, number, requests, slices
from kubernetes_pools import trainers as sixteen_nodes

GPU, SMALL, LARGE = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
POOLS = [sixteen_nodes(), slices(MIXED, node_count=2), node_pool("heads", instance_type="m7i.large", node_count=2)]
RESEARCH = Team(
    name="research",
    quotas=[
        TeamQuota(pool="trainers", nominal=64, borrowing_limit=32),
        TeamQuota(pool="slices", resource=SMALL, nominal=12),
    ],
    weight=2,
)
PRODUCT = Team(name="product", quotas=[TeamQuota(pool="trainers", nominal=40, lending_limit=8)])
CHARTS = Path(__file__).parent / "rendered_charts.json"
RAY = RayPods(image="rayproject/ray:2.60.0-py312-gpu", ray_version="2.60.0")
TEAMS = [RESEARCH, PRODUCT]
QUEUES = queues(POOLS, ray_heads=[RayHead()], teams=TEAMS)
OBJECTS = team_objects(TEAMS, POOLS)

Quotas = dict[tuple[str, str], dict[str, Fraction]]


def queue(name: str, objects: Objects = QUEUES) -> dict[str, Any]:
    (found,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == ("ClusterQueue", name)]
    spec: dict[str, Any] = found["spec"]
    return spec


def quotas(name: str, objects: Objects = QUEUES) -> Quotas:
    """By flavor and resource: what a ClusterQueue has of it."""
    (group,) = queue(name, objects)["resourceGroups"]
    for flavor in group["flavors"]:  # Kueue wants all resources of a group in each flavor, in one order
        assert [one["name"] for one in flavor["resources"]] == group["coveredResources"]
    return {
        (flavor["name"], one["name"]): {key: number(value) for key, value in one.items() if key != "name"}
        for flavor in group["flavors"]
        for one in flavor["resources"]
    }


def potential(name: str, objects: Objects = QUEUES) -> dict[tuple[str, str], Fraction]:
    """What a queue can have while all others are idle.

    As kubernetes-sigs/kueue v0.19.2 computes it, pkg/cache/scheduler/resource_node.go: localQuota,
    accumulateFromChild and potentialAvailable.
    """
    every = {one["metadata"]["name"]: quotas(one["metadata"]["name"], objects) for one in cluster_queues(objects)}
    found = {}
    for key, own in every[name].items():
        cohort, local = Fraction(0), Fraction(0)
        for other, had in every.items():
            quota = had.get(key, {"nominalQuota": Fraction(0)})
            kept = max(Fraction(0), quota["nominalQuota"] - quota.get("lendingLimit", quota["nominalQuota"]))
            cohort += quota["nominalQuota"] - kept
            local = kept if other == name else local
        found[key] = local + cohort
        if "borrowingLimit" in own:
            found[key] = min(found[key], own["nominalQuota"] + own["borrowingLimit"])
    return found


def cluster_queues(objects: Objects = QUEUES) -> Objects:
    return [one for one in objects if one["kind"] == "ClusterQueue"]


def of_namespace(name: str) -> dict[str, dict[str, Any]]:
    """Objects of a team by kind and name."""
    return {
        f"{one['kind']}/{one['metadata']['name']}": one
        for one in OBJECTS
        if one["metadata"].get("namespace", one["metadata"]["name"]) == name
    }


def test_objects_of_teams_are_what_kubernetes_and_kueue_take() -> None:
    check_everywhere([*QUEUES, *OBJECTS])
    assert kinds(OBJECTS) == [
        *["WorkloadPriorityClass"] * 2,
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        *[
            *["Namespace", "NetworkPolicy", "NetworkPolicy", "LocalQueue", "LocalQueue"],
            *["ResourceQuota", "ResourceQuota", "Role", "RoleBinding"],
        ]
        * 2,
    ]


def test_without_teams_nothing_changes() -> None:
    spec = queue("gpu-cluster", queues(POOLS))
    assert not {"cohortName", "fairSharing"} & spec.keys()
    assert spec["preemption"] == {"withinClusterQueue": "LowerPriority"}
    assert spec["namespaceSelector"] == {}


def test_all_queues_lend_to_each_other_and_take_back_what_is_theirs() -> None:
    assert [one["metadata"]["name"] for one in cluster_queues()] == ["gpu-cluster", "research", "product"]
    assert {one["spec"]["cohortName"] for one in cluster_queues()} == {"gpu-cluster"}
    assert [one["spec"]["preemption"]["reclaimWithinCohort"] for one in cluster_queues()] == ["Any"] * 3
    assert [queue(team.name)["fairSharing"] for team in TEAMS] == [{"weight": "2"}, {"weight": "1"}]


def test_a_queue_takes_jobs_of_its_team_alone() -> None:
    key = "kubernetes.io/metadata.name"
    assert queue("research")["namespaceSelector"] == {"matchLabels": {key: "research"}}
    (others,) = queue("gpu-cluster")["namespaceSelector"]["matchExpressions"]
    assert others == {"key": key, "operator": "NotIn", "values": ["research", "product"]}


def test_quotas_limits_and_the_rest_add_up_to_the_nodes() -> None:
    ours = quotas("research")
    assert ours["trainers", GPU] == {"nominalQuota": 64, "borrowingLimit": 32}
    assert ours["slices", SMALL] == {"nominalQuota": 12}
    assert quotas("product")["trainers", GPU] == {"nominalQuota": 40, "lendingLimit": 8}
    assert quotas("gpu-cluster")["trainers", GPU] == {"nominalQuota": 24}
    whole = quotas("gpu-cluster", queues(POOLS, ray_heads=[RayHead()]))
    for key, quota in whole.items():
        shares = [quotas(one["metadata"]["name"]).get(key, {"nominalQuota": Fraction(0)}) for one in cluster_queues()]
        assert sum(one["nominalQuota"] for one in shares) == quota["nominalQuota"], key
        assert min(one["nominalQuota"] for one in shares) >= 0, key


def test_cpu_memory_and_efa_go_with_the_devices() -> None:
    pool = POOLS[0]
    (job,) = torchrun_job("job", pool, node_count=1, image="a:1", command=["train.py"])
    node = requests(next(containers(job)))
    ours = quotas("research")
    for resource in ("cpu", "memory", "hugepages-2Mi", "vpc.amazonaws.com/efa"):
        assert ours["trainers", resource] == {
            "nominalQuota": 8 * node[resource],
            "borrowingLimit": 4 * node[resource],
        }, resource
        assert quotas("product")["trainers", resource]["lendingLimit"] == node[resource]


def test_devices_that_a_team_has_no_quota_of_are_not_to_borrow() -> None:
    ours = quotas("research")
    assert ours["slices", LARGE] == {"nominalQuota": 0, "borrowingLimit": 0}
    assert {flavor for flavor, _ in quotas("product")} == {"trainers", "heads", "ray-heads"}
    most = potential("research")
    assert [int(most["slices", name]) for name in (LARGE, SMALL)] == [0, 32]


def test_groups_without_devices_are_for_all() -> None:
    for flavor in ("heads", "ray-heads"):
        assert quotas("product")[flavor, "cpu"] == {"nominalQuota": 0}
        assert potential("product")[flavor, "cpu"] == quotas("gpu-cluster")[flavor, "cpu"]["nominalQuota"] > 0


@pytest.mark.parametrize(("team", "nodes"), [("research", 12), ("product", 16)])
def test_a_gang_as_large_as_a_team_may_have_fits_all_of_its_resources(team: str, nodes: int) -> None:
    (job,) = torchrun_job("job", POOLS[0], node_count=nodes, image="a:1", command=["train.py"])
    (pod,) = containers(job)
    most = potential(team)
    assert most["trainers", GPU] == nodes * 8
    assert {
        name: value * nodes for name, value in requests(pod).items() if value * nodes > most["trainers", name]
    } == {}


@pytest.mark.parametrize(
    ("pool", "resources"),
    [
        (slices(MIXED), (SMALL, LARGE, "nvidia.com/mig-2g.10gb")),
        (slices(ONE_WHOLE), (GPU, SMALL)),
        (slices(strategy=MigStrategy.SINGLE), (GPU,)),
    ],
    ids=["mixed", "one whole", "single"],
)
def test_quotas_of_slices_have_room_for_as_many_pods(pool: NodePool, resources: tuple[str, ...]) -> None:
    quota = [TeamQuota(pool="slices", resource=name, nominal=1, borrowing_limit=0) for name in resources]
    ours = quotas("vision", queues([pool], teams=[Team(name="vision", quotas=quota)]))
    pods = {
        name: requests(pod)
        for job in mig_fan_out("job", pool, image="a:1")
        for pod in containers(job)
        for name in resources
        if name in pod["resources"]["limits"]
    }
    for resource in ("cpu", "memory"):
        assert sum(pod[resource] for pod in pods.values()) <= ours["slices", resource]["nominalQuota"]
    assert all(ours["slices", name]["nominalQuota"] == 1 for name in resources)


def test_all_pods_of_a_team_together_have_no_more_than_it_may_borrow() -> None:
    hard = of_namespace("research")["ResourceQuota/devices"]["spec"]["hard"]
    assert {name: int(value) for name, value in hard.items()} == {
        "requests.nvidia.com/gpu": 96,
        "requests.vpc.amazonaws.com/efa": 96 * 4,
        "efa.networking.k8s.aws.deviceclass.resource.k8s.io/devices": 96 * 4,
        "requests.nvidia.com/mig-1g.5gb": 32,
        "requests.nvidia.com/mig-2g.10gb": 0,
        "requests.nvidia.com/mig-3g.20gb": 0,
        "services.loadbalancers": 0,
        "services.nodeports": 0,
    }
    assert int(hard["requests.nvidia.com/gpu"]) == potential("research")["trainers", GPU]
    other = of_namespace("product")["ResourceQuota/devices"]["spec"]["hard"]
    assert int(other["requests.nvidia.com/gpu"]) == potential("product")["trainers", GPU] == 128


def test_a_quota_of_claims_is_there_where_interfaces_are() -> None:
    dev = node_pool("dev", instance_type="g5.xlarge", node_count=2)
    objects = team_objects([Team(name="dev-team", quotas=[TeamQuota(pool="dev", nominal=1)])], [dev])
    (quota, _) = [one for one in objects if one["kind"] == "ResourceQuota"]
    assert not [name for name in quota["spec"]["hard"] if "deviceclass" in name]


def test_no_pod_of_a_team_has_a_priority_class_of_kubernetes() -> None:
    """As pkg/quota/v1/evaluator/core/pods.go matches a pod: a scope compares the name of its class."""
    quota = of_namespace("research")["ResourceQuota/no-critical-pods"]["spec"]
    assert quota["hard"] == {"pods": "0"}
    (scope,) = quota["scopeSelector"]["matchExpressions"]
    assert (scope["scopeName"], scope["operator"]) == ("PriorityClass", "In")
    assert set(scope["values"]) == {"system-node-critical", "system-cluster-critical"}
    assert "scopeSelector" not in of_namespace("research")["ResourceQuota/devices"]["spec"]


def test_charts_make_no_priority_classes_that_teams_could_use() -> None:
    """Otherwise the quota has to name them, too."""
    rendered = json.loads(CHARTS.read_text("utf-8"))
    assert "PodDisruptionBudget" in json.dumps(rendered)
    assert '"PriorityClass"' not in json.dumps(rendered)


@pytest.mark.parametrize(
    ("spec", "is_allowed"),
    [
        ({"type": "ClusterIP"}, True),
        ({"externalIPs": []}, True),
        ({"externalIPs": ["10.0.0.7"]}, False),
        ({"type": "ClusterIP", "externalIPs": ["10.0.0.7", "1.1.1.1"]}, False),
    ],
)
def test_services_of_teams_take_no_addresses_of_others(spec: dict[str, Any], *, is_allowed: bool) -> None:
    (policy,) = [one for one in OBJECTS if one["kind"] == "ValidatingAdmissionPolicy"]
    (validation,) = policy["spec"]["validations"]
    context = cel.Context()
    context.add_variable("object", {"kind": "Service", "spec": spec})
    assert cel.compile(validation["expression"]).execute(context) is is_allowed


def test_the_policy_of_services_is_for_the_namespaces_of_teams() -> None:
    (policy,) = [one for one in OBJECTS if one["kind"] == "ValidatingAdmissionPolicy"]
    (binding,) = [one for one in OBJECTS if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], set(rule["operations"])) == (["services"], {"CREATE", "UPDATE"})
    assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == (
        policy["metadata"]["name"],
        ["Deny"],
    )
    (label,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert label == {"key": "gpu-cluster/team", "operator": "Exists"}
    assert label["key"] in of_namespace("research")["Namespace/research"]["metadata"]["labels"]


def test_the_operator_of_ray_reaches_the_heads_of_a_team_and_nothing_else() -> None:
    job, own = gpu_ray_job("job", POOLS[0], RAY, node_count=2, command=["python", "a.py"], namespace="research")
    policy = of_namespace("research")["NetworkPolicy/ray-operator"]["spec"]
    (term,) = policy["podSelector"]["matchExpressions"]
    cluster = job["spec"]["rayClusterSpec"]
    assert term["operator"] == "Exists"
    assert term["key"] in cluster["headGroupSpec"]["template"]["metadata"]["labels"]
    assert term["key"] not in str(cluster["workerGroupSpecs"])
    (ingress,) = policy["ingress"]
    assert ingress in own["spec"]["ingress"]
    assert ingress["ports"] == [{"protocol": "TCP", "port": 8265}]


def test_members_make_all_that_jobs_of_this_library_are_made_of() -> None:
    """But for network policies: those of teams are there already."""
    rack = node_pool("rack", instance_type="p6e-gb200.36xlarge", node_count=18)
    objects = [
        *gpu_ray_job("job", POOLS[0], RAY, node_count=2, command=["python", "a.py"], namespace="research"),
        *torchrun_job(
            "job",
            rack,
            node_count=9,
            image="a:1",
            command=["a.py"],
            compute_domain=True,
            efa=EfaSoftware.DRA_DRIVER,
        ),
        *mig_fan_out("job", POOLS[1], image="a:1"),
    ]
    rules = of_namespace("research")["Role/gpu-team"]["rules"]
    made = {
        (group, resource)
        for rule in rules
        if {"create", "patch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    wanted = {
        (one["apiVersion"].rpartition("/")[0], f"{one['kind'].lower()}s")
        for one in objects
        if one["kind"] != "NetworkPolicy"
    }
    assert wanted >= {("resource.k8s.io", "resourceclaimtemplates"), ("resource.nvidia.com", "computedomains")}
    assert wanted <= made


def test_jobs_with_and_without_the_name_of_a_queue_get_into_that_of_their_team() -> None:
    ours = of_namespace("research")
    assert [ours[f"LocalQueue/{name}"]["spec"] for name in ("gpu-jobs", "default")] == [
        {"clusterQueue": "research"},
        {"clusterQueue": "research"},
    ]


def test_members_run_workloads_and_change_nothing_that_keeps_teams_apart() -> None:
    ours = of_namespace("research")
    (member,) = ours["RoleBinding/gpu-team"]["subjects"]
    assert (member["kind"], member["name"]) == ("Group", RESEARCH.group)
    rights = {
        (group, resource): set(rule["verbs"])
        for rule in ours["Role/gpu-team"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    writes = {key for key, verbs in rights.items() if verbs - {"get", "list", "watch"}}
    assert ("jobset.x-k8s.io", "jobsets") in writes
    apart = {"networkpolicies", "resourcequotas", "localqueues", "workloads", "clusterqueues", "namespaces", "roles"}
    assert not {resource for _, resource in writes} & {*apart, "rolebindings", "serviceaccounts/token"}
    assert not any("*" in {*key, *verbs} for key, verbs in rights.items())


def test_every_team_sees_the_quotas_and_the_use_of_all() -> None:
    (binding,) = [one for one in OBJECTS if one["kind"] == "ClusterRoleBinding"]
    (role,) = [one for one in OBJECTS if one["kind"] == "ClusterRole"]
    assert [one["name"] for one in binding["subjects"]] == ["gpu-team:research", "gpu-team:product"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_a_namespace_of_a_team_enforces_the_baseline() -> None:
    labels = of_namespace("research")["Namespace/research"]["metadata"]["labels"]
    assert (labels["pod-security.kubernetes.io/enforce"], labels["gpu-cluster/team"]) == ("baseline", "research")
    assert of_namespace("research")["NetworkPolicy/own-namespace-only"]["spec"]["policyTypes"] == ["Ingress"]


_Given = list[tuple[str, str, int, int | None, int | None]]
WRONG: dict[str, tuple[_Given, list[tuple[str, str]]]] = {
    "as much as the nodes have": ([("trainers", GPU, 128, None, None)], []),
    "one more": ([("trainers", GPU, 129, None, None)], [("GPU-TEAM-003", "teams[0].quotas[0].nominal")]),
    "nothing": ([], [("GPU-TEAM-002", "teams[0].quotas")]),
    "another group": ([("others", GPU, 1, None, None)], [("GPU-TEAM-002", "teams[0].quotas[0].pool")]),
    "another device": ([("trainers", SMALL, 1, None, None)], [("GPU-TEAM-002", "teams[0].quotas[0].resource")]),
    "a group without devices": ([("heads", GPU, 1, None, None)], [("GPU-TEAM-002", "teams[0].quotas[0].resource")]),
    "one device twice": (
        [("trainers", GPU, 1, None, None), ("trainers", GPU, 2, None, None)],
        [("GPU-TEAM-002", "teams[0].quotas[0]"), ("GPU-TEAM-002", "teams[0].quotas[1]")],
    ),
    "less than nothing": (
        [("trainers", GPU, -1, -2, -3)],
        [("GPU-TEAM-004", f"teams[0].quotas[0].{name}") for name in ("nominal", "borrowing_limit", "lending_limit")],
    ),
    "all of it lent": ([("trainers", GPU, 8, None, 8)], []),
    "more than all of it lent": (
        [("trainers", GPU, 8, None, 9)],
        [("GPU-TEAM-004", "teams[0].quotas[0].lending_limit")],
    ),
    "all others": ([("trainers", GPU, 8, 120, None)], []),
    "more than all others": (
        [("trainers", GPU, 8, 121, None)],
        [("GPU-TEAM-005", "teams[0].quotas[0].borrowing_limit")],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_quotas_that_cannot_be_are_found_at_their_place(case: str) -> None:
    given, found = WRONG[case]
    made = [
        TeamQuota(pool=pool, resource=resource, nominal=nominal, borrowing_limit=borrows, lending_limit=lends)
        for pool, resource, nominal, borrows, lends in given
    ]
    teams = [Team(name="research", quotas=made)]
    if not found:
        check_everywhere(queues(POOLS, teams=teams))
        return
    with pytest.raises(ConfigError) as caught:
        queues(POOLS, teams=teams)
    assert [(one.id, one.path) for one in caught.value.findings] == found
    with pytest.raises(ConfigError) as again:
        team_objects(teams, POOLS)
    assert again.value.findings == caught.value.findings


def test_teams_share_what_there_is_and_borrow_what_others_lend() -> None:
    first = Team(name="first", quotas=[TeamQuota(pool="trainers", nominal=100, lending_limit=10)])
    second = Team(name="second", quotas=[TeamQuota(pool="trainers", nominal=28, borrowing_limit=10)])
    assert potential("second", queues(POOLS, teams=[first, second]))["trainers", GPU] == 38
    with pytest.raises(ConfigError, match=r"GPU-TEAM-005: teams\[1\].quotas\[0\].borrowing_limit.*lend 10"):
        queues(
            POOLS,
            teams=[first, Team(name="second", quotas=[TeamQuota(pool="trainers", nominal=28, borrowing_limit=11)])],
        )
    with pytest.raises(ConfigError, match=r"GPU-TEAM-003: teams\[1\].quotas\[0\].nominal.*allowed: 0 to 28"):
        queues(POOLS, teams=[first, Team(name="second", quotas=[TeamQuota(pool="trainers", nominal=29)])])


def test_no_team_has_the_namespace_of_a_chart() -> None:
    namespaces = {release.namespace for releases in cases().values() for release in releases}
    assert {"keda", "slurm", "nvidia-device-plugin"} < namespaces
    trainers = sixteen_nodes()
    for name in namespaces:
        with pytest.raises(ConfigError, match="GPU-TEAM-001"):
            team_objects([Team(name=name, quotas=[TeamQuota(pool="trainers", nominal=8)])], [trainers])


@pytest.mark.parametrize("name", ["default", "kube-system", "kueue-system", "argo", "gpu-cluster"])
def test_names_of_other_namespaces_and_queues_are_refused(name: str) -> None:
    team = Team(name=name, quotas=PRODUCT.quotas)
    with pytest.raises(ConfigError, match=r"GPU-TEAM-001: teams\[0\].name"):
        queues(POOLS, teams=[team])


def test_sums_are_of_quotas_that_are_right_by_themselves() -> None:
    quotas = [TeamQuota(pool="others", nominal=900), TeamQuota(pool="trainers", nominal=129)]
    with pytest.raises(ConfigError) as caught:
        queues(POOLS, teams=[Team(name="Odd", quotas=quotas), Team(name="even", quotas=quotas[:1])])
    assert [(one.id, one.path) for one in caught.value.findings] == [
        ("GPU-K8S-001", "teams[0].name"),
        ("GPU-TEAM-002", "teams[0].quotas[0].pool"),
        ("GPU-TEAM-002", "teams[1].quotas[0].pool"),
        ("GPU-TEAM-003", "teams[0].quotas[1].nominal"),
    ]


def test_names_twice_odd_names_and_weights_are_found_together() -> None:
    odd = Team(name="No_Team", quotas=PRODUCT.quotas, weight=-1)
    with pytest.raises(ConfigError) as caught:
        queues(POOLS, teams=[PRODUCT, odd, PRODUCT])
    assert [(one.id, one.path) for one in caught.value.findings] == [
        ("GPU-K8S-001", "teams[1].name"),
        ("GPU-TEAM-004", "teams[1].weight"),
        ("GPU-TEAM-001", "teams[2].name"),
    ]
    assert queue("last", queues(POOLS, teams=[Team(name="last", quotas=PRODUCT.quotas, weight=0)]))["fairSharing"] == {
        "weight": "0"
    }
