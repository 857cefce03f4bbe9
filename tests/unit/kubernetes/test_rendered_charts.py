"""What the charts make of our values, as real Helm rendered them: on which nodes, from where, with which strategy."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.catalogue import AcceleratorKind, kubernetes
from cdk_gpu_clusters.catalogue.kubernetes import dcgm_fields
from cdk_gpu_clusters.kubernetes.gpu_pod import EFA_RESOURCE
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software import ChartRelease
from cdk_gpu_clusters.kubernetes.software.serving import (
    EXTERNAL_DNS_ACCOUNT,
    KEDA_ACCOUNT,
    LOAD_BALANCER_ACCOUNT,
    ROLLOUTS_ACCOUNT,
)
from cdk_gpu_clusters.rules.gres import check_gres
from cdk_gpu_clusters.rules.kubernetes_labels import DEVICE_PLUGIN_LABEL
from chart_renderings import MIRROR, cases, digest, pools, racks, recordings, rendering, slurm_pools

RELEASES = [(case, one) for case, releases in cases().items() for one in releases]
NAMES = [f"{case}: {one.name}" for case, one in RELEASES]
# It runs where GPUs are shared by MPS, which this library does not set up.
MPS = "nvidia-device-plugin-mps-control-daemon"
# What kubelet says of every node.
OF_KUBELET = {"kubernetes.io/os": "linux"}
EFA = {"aws-efa-k8s-device-plugin", "aws-dranet"}

Workload = Mapping[str, Any]


def fits(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a node has what a term of a node affinity asks for."""
    for requested in term["matchExpressions"]:
        has = (
            labels.get(requested["key"]) in requested["values"] if "values" in requested else requested["key"] in labels
        )
        if has != {"In": True, "NotIn": False, "DoesNotExist": False}[requested["operator"]]:
            return False
    return True


def tolerates(workload: Workload, pool: NodePool) -> bool:
    return all(
        any(
            one.get("key") == taint.key
            and one.get("effect") in {None, taint.effect}
            and (one["operator"] == "Exists" or one.get("value") == taint.value)
            for one in workload.get("tolerations", [])
        )
        for taint in pool.taints
    )


def runs_on(workload: Workload, pool: NodePool) -> bool:
    """What the scheduler of Kubernetes would say."""
    labels = {**OF_KUBELET, **pool.labels}
    selector = workload.get("nodeSelector", {})
    affinity = workload.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
    return (
        all(labels.get(key) == value for key, value in selector.items())
        and (terms is None or any(fits(term, labels) for term in terms))
        and tolerates(workload, pool)
    )


def has_gpus(pool: NodePool) -> bool:
    accelerator = pool.instance_type.accelerator
    return accelerator is not None and accelerator.kind is AcceleratorKind.GPU


def test_every_chart_was_rendered_from_the_commit_of_the_catalogue() -> None:
    assert recordings()["charts"] == {row.name: row.commit for row in kubernetes.charts()}
    assert recordings()["kubernetes"] == kubernetes.DEFAULT_KUBERNETES_VERSION
    assert recordings()["helm"].startswith("v4.")


def test_nothing_is_recorded_that_no_case_has() -> None:
    assert set(recordings()["renderings"]) == {digest(one) for _, one in RELEASES}


@pytest.mark.parametrize(("case", "release"), RELEASES, ids=NAMES)
def test_every_object_was_held_against_its_schema(case: str, release: ChartRelease) -> None:
    found = rendering(release)
    kinds = found["kinds"]
    assert found["checked"] == sum(kinds.values()) - kinds.get("ServiceMonitor", 0)
    assert found["checked"] > 0


@pytest.mark.parametrize(("case", "release"), RELEASES, ids=NAMES)
def test_pods_run_the_images_of_the_release_and_no_others(case: str, release: ChartRelease) -> None:
    images = {image for one in rendering(release)["workloads"] for image in one["images"]}
    assert images == set(release.images)


@pytest.mark.parametrize(("case", "release"), RELEASES, ids=NAMES)
def test_no_object_names_another_registry(case: str, release: ChartRelease) -> None:
    hosts = {image.partition("/")[0] for image in release.images}
    assert set(rendering(release)["registries"]) == hosts
    if case.startswith("closed network") and release.images:  # a chart of CRDs has none
        assert hosts == {MIRROR.images.partition("/")[0]}


@pytest.mark.parametrize(("case", "release"), RELEASES, ids=NAMES)
def test_software_of_devices_runs_on_the_nodes_that_have_them(case: str, release: ChartRelease) -> None:
    daemons = [one for one in rendering(release)["workloads"] if one["kind"] == "DaemonSet"]
    sliced = case == "slices only"
    for one in daemons:
        if one["name"] == MPS:
            assert one["nodeSelector"] == {"nvidia.com/mps.capable": "true"}
            continue
        of_domains = release.chart == "dra-driver-nvidia-gpu"
        for pool in racks() if of_domains else pools():
            if sliced and pool.mig is None:
                continue
            wanted = bool(pool.efa_count) if release.name in EFA else has_gpus(pool)
            wanted = pool.name == "rack" if of_domains else wanted
            assert runs_on(one, pool) == wanted, (one["name"], pool.name)


def test_the_pools_have_every_kind_of_node() -> None:
    assert {bool(pool.efa_count) for pool in pools()} == {True, False}
    assert {has_gpus(pool) for pool in pools()} == {True, False}
    assert {pool.mig_strategy.value for pool in pools()} == {"none", "single", "mixed"}


@pytest.mark.parametrize(("case", "release"), RELEASES, ids=NAMES)
def test_controllers_stay_off_nodes_with_accelerators(case: str, release: ChartRelease) -> None:
    for one in rendering(release)["workloads"]:
        if one["kind"] not in {"DaemonSet", "NodeSet"}:
            assert [pool.name for pool in pools() if runs_on(one, pool)] == ["preprocessing"], one["name"]


def device_plugin() -> Workload:
    (release,) = [one for one in cases()["every kind of node"] if one.name == "nvidia-device-plugin"]
    return rendering(release)


def test_a_node_takes_the_strategy_that_its_label_names() -> None:
    configurations = device_plugin()["configurations"]["nvidia-device-plugin-configs"]
    for pool in pools():
        if has_gpus(pool):
            chosen = yaml.safe_load(configurations[pool.labels[DEVICE_PLUGIN_LABEL]])
            assert chosen == {"version": "v1", "flags": {"migStrategy": pool.mig_strategy.value}}


@pytest.mark.parametrize("name", ["nvidia-device-plugin", "nvidia-device-plugin-gpu-feature-discovery"])
def test_plugin_and_feature_discovery_read_the_label_of_our_nodes(name: str) -> None:
    (found,) = [one for one in device_plugin()["workloads"] if one["name"] == name]
    assert found["variables"]["NODE_LABEL"] == DEVICE_PLUGIN_LABEL
    assert found["variables"]["DEFAULT_CONFIG"] == "mig-none"


def test_the_device_plugin_is_told_to_leave_mellanox_devices() -> None:
    (found,) = [one for one in device_plugin()["workloads"] if one["name"] == "nvidia-device-plugin"]
    assert found["variables"]["MOFED_ENABLED"] == "false"


@pytest.mark.parametrize("case", ["every kind of node", "slices only"])
def test_the_exporter_reads_our_metrics_and_no_others(case: str) -> None:
    (release,) = [one for one in cases()[case] if one.name == "dcgm-exporter"]
    text = rendering(release)["configurations"]["exporter-metrics-config-map"]["metrics"]
    names = [row[0] for row in csv.reader(text.splitlines())]
    whole = case == "every kind of node"
    assert names == [one.name for one in dcgm_fields() if whole or not one.whole_gpus_only]


@pytest.mark.parametrize("case", ["every kind of node", "teams"])
def test_kueue_reads_our_configuration_and_adds_its_certificates(case: str) -> None:
    (release,) = [one for one in cases()[case] if one.name == "kueue"]
    text = rendering(release)["configurations"]["kueue-manager-config"]["controller_manager_config.yaml"]
    read = yaml.safe_load(text)
    written = yaml.safe_load(release.values["managerConfig"]["controllerManagerConfigYaml"])
    assert {key: read[key] for key in written} == written
    assert set(read) - set(written) == {"internalCertManagement"}


def _of_system_nodes(release: ChartRelease) -> list[Workload]:
    """Deployments that no label ties to nodes with devices."""
    return [one for one in rendering(release)["workloads"] if one["kind"] == "Deployment" and "nodeSelector" not in one]


def test_controllers_ask_for_what_the_catalogue_says() -> None:
    parts = {
        "nvidia-device-plugin-node-feature-discovery-master": "nfd-master",
        "nvidia-device-plugin-node-feature-discovery-gc": "nfd-gc",
        "jobset-controller": "jobset",
        "lws-controller-manager": "lws",
        "kueue-controller-manager": "kueue",
    }
    found = {one["name"]: one for case in cases()["every kind of node"] for one in _of_system_nodes(case)}
    assert set(parts) <= set(found)
    for name, part in parts.items():
        row, (resources,) = kubernetes.system_pods(part), found[name]["resources"].values()
        requested = {key: int(quantity(value)) for key, value in resources["requests"].items()}
        assert requested == {"cpu": row.cpu_millicores, "memory": row.memory_mib}, name
        assert found[name]["replicas"] == row.replicas, name
    # What is installed on request asks for nothing.
    assert not any(found[name]["resources"] for name in found.keys() - parts.keys())


def quantity(text: str) -> float:
    """Millicores of CPU, or MiB of memory."""
    for unit, factor in (("m", 1.0), ("Mi", 1.0), ("Gi", 1024.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text) * 1000


def test_karpenter_has_its_gates_and_stays_off_its_own_nodes() -> None:
    release, _ = cases()["node scaling"]
    (workload,) = rendering(release)["workloads"]
    variables = workload["variables"]
    gates = dict(one.split("=") for one in variables["FEATURE_GATES"].split(","))
    wanted = ("ReservedCapacity", "StaticCapacity", "NodeOverlay")
    assert {gate for gate, value in gates.items() if value == "true"} == set(wanted)
    assert (variables["CLUSTER_NAME"], variables["INTERRUPTION_QUEUE"]) == ("research", "notices")
    assert variables["VM_MEMORY_OVERHEAD_PERCENT"] == "0.04"
    (term,) = workload["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert not fits(term, {"karpenter.sh/nodepool": "trainers"})


def test_what_serves_models_has_the_accounts_that_take_their_roles() -> None:
    crds, balancers, names, scaler, versions = (rendering(one) for one in cases()["serving"])
    assert crds["kinds"]["CustomResourceDefinition"] == 13
    assert not crds["workloads"]
    used = {
        one["account"]: one["name"]
        for part in (balancers, names, scaler, versions)
        for one in part["workloads"]
        if "account" in one
    }
    assert used == {
        LOAD_BALANCER_ACCOUNT: "aws-load-balancer-controller",
        EXTERNAL_DNS_ACCOUNT: "external-dns",
        KEDA_ACCOUNT: "keda-operator",
        ROLLOUTS_ACCOUNT: "argo-rollouts",
    }
    assert "IngressClass" not in balancers["kinds"]


@pytest.mark.parametrize("name", ["example.org", "models.example.org"])
def test_what_says_who_owns_a_name_is_in_the_zone(name: str) -> None:
    (names,) = [one for one in cases()["serving"] if one.name == "external-dns"]
    # As registry/mapper/mapper.go puts it together. Without a prefix it is a-example.org for the apex: not in the zone.
    owner = names.values["txtPrefix"].replace("%{record_type}", "a") + name
    assert owner.endswith(f".{name}")
    assert (names.values["domainFilters"], names.values["policy"]) == (["example.org"], "sync")


def test_queues_survive_the_loss_of_a_system_node() -> None:
    (queues,) = [one for one in cases()["every kind of node"] if one.name == "kueue"]
    assert rendering(queues)["kinds"]["PodDisruptionBudget"] == 1
    (spread,) = queues.values["controllerManager"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"


def test_the_exporter_has_memory_for_eight_gpus() -> None:
    (exporter,) = [one for one in cases()["every kind of node"] if one.name == "dcgm-exporter"]
    (workload,) = rendering(exporter)["workloads"]
    limits = workload["resources"]["exporter"]["limits"]
    assert quantity(limits["memory"]) >= 2048
    assert exporter.values["extraEnv"] == [{"name": "GOMAXPROCS", "value": "2"}]


def slurm() -> Mapping[str, Any]:
    """What the operator of Slinky reads of a Slurm cluster."""
    (release,) = [one for one in cases()["Slurm"] if one.name == "slurm"]
    return rendering(release)


@pytest.mark.parametrize("pool", slurm_pools(), ids=lambda pool: pool.name)
def test_the_nodes_of_a_node_set_are_those_of_its_group_with_all_that_they_have(pool: NodePool) -> None:
    (found,) = [one for one in slurm()["workloads"] if one["name"] == f"slurm-worker-{pool.name}"]
    assert [one.name for one in pools() if runs_on(found, one)] == [pool.name]
    limits = found["resources"]["slurmd"]["limits"]
    devices = {name: int(count) for name, count in limits.items() if "/" in name}
    assert devices == {**pool.resources, **({EFA_RESOURCE: pool.efa_count} if pool.efa_count else {})}
    assert ("hugepages-2Mi" in limits) == bool(pool.efa_count)
    assert found["replicas"] == pool.node_count
    if has_gpus(pool):
        assert check_gres(found["extraConf"].removeprefix("Gres="), pool.instance_type, pool.mig) == []
    else:
        assert "extraConf" not in found


def test_a_slurm_cluster_is_reached_inside_the_cluster_only() -> None:
    services = [one["service"]["spec"] for one in slurm()["workloads"] if "service" in one]
    assert len(services) == 4
    assert {spec.get("type", "ClusterIP") for spec in services} == {"ClusterIP"}


def test_each_partition_has_the_topology_of_its_nodes() -> None:
    partitions = {one["name"]: one["partition"]["config"] for one in slurm()["workloads"] if "partition" in one}
    assert partitions == {
        "slurm-worker-trainers": "Default=YES MaxTime=UNLIMITED State=UP Topology=ec2-3",
        "slurm-worker-slices": "MaxTime=UNLIMITED State=UP Topology=ec2-3",
        "slurm-worker-notebooks": "MaxTime=UNLIMITED State=UP",
        "slurm-worker-preprocessing": "MaxTime=UNLIMITED State=UP",
    }
    topologies = yaml.safe_load(slurm()["configurations"]["slurm-config-extra"]["topology.yaml"])
    assert [one["topology"] for one in topologies] == ["flat", "ec2-3"]


def test_slurmdbd_finds_its_database_and_never_its_password_in_a_value() -> None:
    (found,) = [one for one in slurm()["workloads"] if one["kind"] == "Accounting"]
    assert found["storageConfig"] == {
        "host": "slurm.abcdefghijkl.us-east-1.rds.amazonaws.com",
        "port": 3306,
        "database": "slurm_acct_db",
        "username": "slurm",
        "passwordKeyRef": {"name": "slurm-database", "key": "password"},
    }
