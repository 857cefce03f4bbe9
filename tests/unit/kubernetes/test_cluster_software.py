"""Which charts a cluster gets, from where, and with which values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import kubernetes
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.software import (
    ChartRelease,
    EfaSoftware,
    ImageMirror,
    cluster_software,
    gpu_operator_values,
    mirror_commands,
)
from cdk_gpu_clusters.rules.mig import MigLayout
from chart_renderings import MIRROR, pools, racks, registries


def release(name: str, *given: NodePool, **options: Any) -> ChartRelease:
    (found,) = [one for one in cluster_software(given or pools(), **options) if one.chart == name]
    return found


def ids(error: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return [finding.id for finding in error.value.findings]


def test_devices_come_first_and_kueue_last() -> None:
    names = [one.name for one in cluster_software(pools(), trainer=True, argo_workflows=True, ray=True)]
    assert names == [
        "nvidia-device-plugin",
        "aws-efa-k8s-device-plugin",
        "dcgm-exporter",
        "jobset",
        "lws",
        "kubeflow-trainer",
        "argo-workflows",
        "kuberay-operator",
        "kueue",
    ]


def test_a_cluster_without_gpus_has_no_software_of_nvidia() -> None:
    names = [one.name for one in cluster_software([node_pool("cpu", instance_type="m8g.4xlarge", node_count=1)])]
    assert names == ["jobset", "lws", "kueue"]


def test_a_cluster_with_gpus_but_without_efa_has_no_efa_plugin() -> None:
    dev = node_pool("dev", instance_type="g5.xlarge", node_count=1)
    assert [one.name for one in cluster_software([dev])][:2] == ["nvidia-device-plugin", "dcgm-exporter"]


def test_neuron_nodes_get_efa_and_nothing_of_nvidia() -> None:
    neuron = node_pool("neuron", instance_type="trn1.32xlarge", node_count=1)
    names = [one.name for one in cluster_software([neuron])]
    assert names == ["aws-efa-k8s-device-plugin", "jobset", "lws", "kueue"]


def test_versions_and_commits_are_those_of_the_catalogue() -> None:
    for one in cluster_software(pools(), trainer=True, argo_workflows=True, ray=True):
        row = kubernetes.chart(one.chart)
        assert (one.version, one.repository) == (row.version, row.repository)


def test_every_release_names_each_of_its_images_with_tag_and_known_digest() -> None:
    for one in cluster_software(pools(), trainer=True, argo_workflows=True, ray=True):
        assert one.images == tuple(kubernetes.image(name).reference for name in kubernetes.chart(one.chart).images)


def test_the_efa_plugin_and_the_dra_driver_exclude_each_other() -> None:
    for kind, chart in [
        (EfaSoftware.DEVICE_PLUGIN, "aws-efa-k8s-device-plugin"),
        (EfaSoftware.DRA_DRIVER, "aws-dranet"),
    ]:
        names = {one.name for one in cluster_software(pools(), efa=kind)}
        assert names & {"aws-efa-k8s-device-plugin", "aws-dranet"} == {chart}


def test_the_dra_driver_needs_kubernetes_1_34() -> None:
    with pytest.raises(ConfigError) as error:
        cluster_software(pools(), kubernetes_version="1.33", efa=EfaSoftware.DRA_DRIVER)
    assert ids(error) == ["GPU-K8S-020"]
    assert cluster_software(pools(), kubernetes_version="1.34", efa=EfaSoftware.DRA_DRIVER)


def test_without_efa_the_version_does_not_matter_to_the_dra_driver() -> None:
    dev = node_pool("dev", instance_type="g5.xlarge", node_count=1)
    assert cluster_software([dev], kubernetes_version="1.33", efa=EfaSoftware.DRA_DRIVER)


@pytest.mark.parametrize("images", ["https://registry.example", "registry.example/", "", "/"])
def test_a_mirror_of_images_is_a_host_and_a_path(images: str) -> None:
    with pytest.raises(ConfigError) as error:
        cluster_software(pools(), mirror=ImageMirror(images=images, charts="oci://registry.example/charts"))
    assert ids(error) == ["GPU-K8S-021"]


@pytest.mark.parametrize("charts", ["https://charts.example", "registry.example/charts", "oci://", "oci://a/"])
def test_mirrored_charts_come_as_oci_artifacts(charts: str) -> None:
    with pytest.raises(ConfigError) as error:
        cluster_software(pools(), mirror=ImageMirror(images="registry.example", charts=charts))
    assert ids(error) == ["GPU-K8S-022"]


def test_both_faults_of_a_mirror_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        cluster_software(pools(), mirror=ImageMirror(images="http://a", charts="http://b"))
    assert ids(error) == ["GPU-K8S-021", "GPU-K8S-022"]


@pytest.mark.parametrize("efa", EfaSoftware)
def test_a_closed_network_needs_no_other_host(efa: EfaSoftware) -> None:
    host = MIRROR.images.partition("/")[0]
    for one in cluster_software(pools(), trainer=True, argo_workflows=True, ray=True, efa=efa, mirror=MIRROR):
        assert one.repository == f"{MIRROR.charts}/{one.chart}"
        assert all(image.startswith(f"{MIRROR.images}/") for image in one.images)
        # Trainer's chart takes registry and path apart.
        assert registries(dict(one.values)) == {host}


def test_two_images_do_not_lie_at_one_place_of_a_mirror() -> None:
    places = [MIRROR.repository_of(one) for one in kubernetes.images()]
    assert len(set(places)) == len(places)


def test_every_chart_and_image_is_copied_to_where_it_is_looked_for() -> None:
    lines = mirror_commands(MIRROR)
    copied = {line.split()[-1] for line in lines if line.startswith("crane copy ")}
    assert copied == {f"{MIRROR.repository_of(one)}:{one.tag}" for one in kubernetes.images()}
    for release in cluster_software(pools(), trainer=True, argo_workflows=True, ray=True, mirror=MIRROR):
        assert {image.partition("@")[0] for image in release.images} <= copied
        assert f"helm push {release.chart}-{release.version}.tgz {MIRROR.charts}" in lines


def test_an_image_with_a_known_digest_is_copied_by_it() -> None:
    (line,) = [line for line in mirror_commands(MIRROR) if "dcgm-exporter:" in line]
    assert line.split()[2].endswith(f"@{kubernetes.image('dcgm-exporter').digest}")


def test_a_copy_keeps_tag_and_digest() -> None:
    (image,) = release("dcgm-exporter", mirror=MIRROR).images
    assert image.endswith(f":{kubernetes.image('dcgm-exporter').tag_and_digest}")


def test_images_of_aws_come_from_the_registry_of_the_region() -> None:
    (image,) = release("aws-efa-k8s-device-plugin", region="us-gov-west-1").images
    assert image.startswith("013241004608.dkr.ecr.us-gov-west-1.amazonaws.com/eks/")
    assert release("kueue", region="us-gov-west-1").images == release("kueue").images


def test_a_region_without_a_known_registry_takes_what_the_chart_names() -> None:
    assert release("aws-efa-k8s-device-plugin", region="xx-north-9").images == (
        release("aws-efa-k8s-device-plugin").images
    )


def test_utilization_is_collected_only_where_a_whole_gpu_is() -> None:
    sliced = node_pool("s", instance_type="p4d.24xlarge", node_count=1, mig=MigLayout(["1g.5gb"] * 7))
    whole = node_pool("w", instance_type="g5.xlarge", node_count=1)
    both = release("dcgm-exporter", sliced, whole).values["customMetrics"]
    slices = release("dcgm-exporter", sliced).values["customMetrics"]
    assert "DCGM_FI_DEV_GPU_UTIL" in both
    assert "DCGM_FI_DEV_GPU_UTIL" not in slices
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in both
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in slices
    assert "NVLINK" not in slices


def test_a_metric_is_a_line_of_name_kind_and_help() -> None:
    for line in release("dcgm-exporter").values["customMetrics"].splitlines():
        name, kind, text = line.split(",")
        assert name.startswith("DCGM_FI_")
        assert kind.strip() in {"gauge", "counter"}
        assert text.strip().endswith(".")


def test_no_service_monitor_is_made_where_nobody_has_the_kind() -> None:
    assert release("dcgm-exporter").values["serviceMonitor"] == {"enabled": False}
    assert release("dcgm-exporter", service_monitor=True).values["serviceMonitor"] == {"enabled": True}


def test_the_device_plugin_leaves_efa_devices_alone() -> None:
    assert release("nvidia-device-plugin").values["mofedEnabled"] is False


def test_trainer_brings_no_jobset_of_its_own_and_no_runtimes() -> None:
    values = release("kubeflow-trainer", trainer=True).values
    assert values["jobset"] == {"install": False}
    assert "runtimes" not in values


def test_argo_downloads_nothing_when_it_is_installed() -> None:
    assert release("argo-workflows", argo_workflows=True, ray=True).values["crds"] == {"full": False}


@pytest.mark.parametrize("trainer", [True, False])
def test_kueue_takes_train_jobs_only_where_trainer_is(trainer: bool) -> None:
    text = release("kueue", trainer=trainer).values["managerConfig"]["controllerManagerConfigYaml"]
    assert ("trainer.kubeflow.org/trainjob" in text) == trainer
    assert "jobset.x-k8s.io/jobset" in text
    assert '"pod"' not in text


def test_the_gpu_operator_does_nothing_that_is_done_here() -> None:
    values = gpu_operator_values()
    assert values == {
        part: {"enabled": False}
        for part in ["driver", "toolkit", "migManager", "devicePlugin", "gfd", "nfd", "dcgmExporter"]
    }


def test_kueue_manages_the_kinds_of_ray_where_the_operator_is() -> None:
    def frameworks(**options: bool) -> set[str]:
        text = release("kueue", **options).values["managerConfig"]["controllerManagerConfigYaml"]
        return set(json.loads(text)["integrations"]["frameworks"])

    assert frameworks(ray=True) - frameworks() == {"ray.io/raycluster", "ray.io/rayjob", "ray.io/rayservice"}
    assert not any(one.chart == "kuberay-operator" for one in cluster_software(pools()))


def test_kueue_shares_by_weight_where_there_are_teams() -> None:
    def configuration(**options: bool) -> dict[str, Any]:
        text = release("kueue", **options).values["managerConfig"]["controllerManagerConfigYaml"]
        found: dict[str, Any] = json.loads(text)
        return found

    alone, shared = configuration(), configuration(fair_sharing=True)
    # kubernetes-sigs/kueue v0.19.2, pkg/config/validation.go: validStrategySets.
    strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
    assert shared.pop("fairSharing") == {"preemptionStrategies": strategies}
    assert shared["metrics"].pop("enableClusterQueueResources") is True
    assert shared == alone


def test_ultraservers_get_the_dra_driver_for_compute_domains_and_gpus_from_the_device_plugin_alone() -> None:
    found = {one.chart: one for one in cluster_software(racks(), compute_domains=True)}
    assert list(found)[:2] == ["nvidia-device-plugin", "dra-driver-nvidia-gpu"]
    driver = found["dra-driver-nvidia-gpu"]
    assert driver.values["resources"] == {"gpus": {"enabled": False}, "computeDomains": {"enabled": True}}
    assert driver.images == (kubernetes.image("dra-driver-nvidia-gpu").reference,)
    assert "dra-driver-nvidia-gpu" not in {one.chart for one in cluster_software(racks())}


def test_kueue_admits_claims_of_channels_where_the_driver_is() -> None:
    def mappings(*given: NodePool, **options: bool) -> Any:
        text = release("kueue", *given, **options).values["managerConfig"]["controllerManagerConfigYaml"]
        return json.loads(text).get("resources", {}).get("deviceClassMappings")

    ((mapping,), without) = mappings(*racks(), compute_domains=True), mappings(*racks())
    assert mapping["deviceClassNames"] == ["compute-domain-default-channel.nvidia.com"]
    assert without is None
    # No UltraServer, no driver.
    assert mappings(compute_domains=True) is None


def test_kueue_counts_claims_of_efa_as_what_the_device_plugin_gives() -> None:
    text = release("kueue", efa=EfaSoftware.DRA_DRIVER).values["managerConfig"]["controllerManagerConfigYaml"]
    (mapping,) = json.loads(text)["resources"]["deviceClassMappings"]
    assert mapping == {"name": "vpc.amazonaws.com/efa", "deviceClassNames": ["efa.networking.k8s.aws"]}
    (queue,) = [one for one in queues(pools()) if one["kind"] == "ClusterQueue"]
    assert mapping["name"] in queue["spec"]["resourceGroups"][0]["coveredResources"]


def test_compute_domains_need_kubernetes_1_34() -> None:
    with pytest.raises(ConfigError) as error:
        cluster_software(racks(), kubernetes_version="1.33", compute_domains=True)
    assert ids(error) == ["GPU-IMEX-003"]
    assert cluster_software(racks(), kubernetes_version="1.34", compute_domains=True)
    assert cluster_software(pools(), kubernetes_version="1.33", compute_domains=True)
