"""What real Helm makes of real charts with the values of this library, recorded.

The charts are other people's and do not stand in this repository. ``tools/render_charts.py`` renders copies of them and
writes down what matters of the objects; tests hold that against the pools of nodes, and fail where values have changed
since. A recording is found by the digest of what went into it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.software import (
    ChartRelease,
    EfaSoftware,
    ImageMirror,
    SlurmCluster,
    SlurmDatabase,
    cluster_software,
    slurm_software,
)
from cdk_gpu_clusters.kubernetes.software.inference import agentgateway_charts, inference_pool_chart
from cdk_gpu_clusters.kubernetes.software.node_scaling import cluster_autoscaler_chart, karpenter_chart
from cdk_gpu_clusters.kubernetes.software.serving import (
    EXTERNAL_DNS_ACCOUNT,
    KEDA_ACCOUNT,
    LOAD_BALANCER_ACCOUNT,
    ROLLOUTS_ACCOUNT,
    argo_rollouts_chart,
    external_dns_chart,
    gateway_api_chart,
    keda_chart,
    load_balancer_controller_chart,
)
from cdk_gpu_clusters.rules.kubernetes_labels import NodeTaint
from cdk_gpu_clusters.rules.mig import MigLayout, MigStrategy
from cdk_gpu_clusters_stacks.manifests.cluster import node_pools, releases, volumes
from cdk_gpu_clusters_stacks.spec import load_cluster

RECORDINGS = Path(__file__).parents[1] / "unit" / "kubernetes" / "rendered_charts.json"
#: The example of a cluster file with Slurm on Kubernetes.
SLURM_EXAMPLE = Path(__file__).parents[2] / "examples" / "eks-p5-slurm.yaml"
MIRROR = ImageMirror(
    images="111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror",
    charts="oci://111122223333.dkr.ecr.us-east-1.amazonaws.com/charts",
)
#: Tags of the groups that the Cluster Autoscaler sizes.
AUTOSCALED = [{"eks:cluster-name": "research", "eks:nodegroup-name": name} for name in ("jobs", "slices")]
# Hosts from which images come. API groups and keys of labels look alike.
_REGISTRY = re.compile(
    r"(?:.*\.)?(?:docker\.io|gcr\.io|ghcr\.io|nvcr\.io|pkg\.dev|public\.ecr\.aws|quay\.io|registry\.k8s\.io)"
    r"|\d{12}\.dkr[.-]ecr\..*"
)
# Configurations that this library writes, and a chart passes on.
_CONFIGURATIONS = {
    "nvidia-device-plugin-configs",
    "exporter-metrics-config-map",
    "kueue-manager-config",
    "slurm-config-extra",
}
# The configuration of an endpoint picker in its ConfigMap.
_PICKER = "default-plugins.yaml"
_VARIABLES = {
    *("CLUSTER_NAME", "FEATURE_GATES", "INTERRUPTION_QUEUE", "ISOLATED_VPC", "VM_MEMORY_OVERHEAD_PERCENT"),
    *("DEFAULT_CONFIG", "MOFED_ENABLED", "NODE_LABEL"),
    *("AGW_ENABLE_INFER_EXT", "AGW_PROXY_IMAGE_REGISTRY", "AGW_PROXY_IMAGE_REPOSITORY", "AGW_PROXY_IMAGE_TAG"),
}
# Service accounts that roles are associated with.
_ACCOUNTS = {LOAD_BALANCER_ACCOUNT, EXTERNAL_DNS_ACCOUNT, KEDA_ACCOUNT, ROLLOUTS_ACCOUNT}
# Fields of Slinky's kinds that this library writes, and the chart passes on.
_SLURM, _OF_SLURM = "slinky.slurm.net/v1beta1", ("extraConf", "partition", "service", "storageConfig")

Object = dict[str, Any]


@cache
def pools() -> tuple[NodePool, ...]:
    """Nodes of every kind in one cluster: EFA, slices of either strategy, a taint of the user's own, no accelerator."""
    slices = MigLayout(["1g.5gb"] * 7)
    return (
        node_pool("trainers", instance_type="p5.48xlarge", node_count=2),
        node_pool("slices", instance_type="p4d.24xlarge", node_count=1, mig=slices, efa=False),
        node_pool(
            "alike",
            instance_type="p4d.24xlarge",
            node_count=1,
            mig=slices,
            efa=False,
            mig_strategy=MigStrategy.SINGLE,
            taints=[
                NodeTaint(key="nvidia.com/gpu"),
                NodeTaint(key="team", value="vision", effect="NoExecute"),
            ],
        ),
        node_pool("notebooks", instance_type="g5.xlarge", node_count=1),
        node_pool("neuron", instance_type="trn1.32xlarge", node_count=1),
        node_pool("preprocessing", instance_type="m8g.4xlarge", node_count=1),
    )


#: A Slurm cluster with all that the chart can have. The ids are those of the slices of an A100.
SLURM = SlurmCluster(
    accounting=SlurmDatabase(host="slurm.abcdefghijkl.us-east-1.rds.amazonaws.com", secret_name="slurm-database"),
    gpu_instance_ids={"slices": [list(range(7, 14))] * 8},
    root_authorized_keys="ssh-ed25519 AAAA alice",
    settings={"SchedulerParameters": "bf_continue"},
)


def slurm_pools() -> list[NodePool]:
    """Nodes of every kind that Slurm knows here."""
    return [pool for pool in pools() if pool.name in {"trainers", "slices", "notebooks", "preprocessing"}]


def serving(mirror: ImageMirror | None) -> tuple[ChartRelease, ...]:
    """What serves models to clients."""
    of_cluster = {"cluster_name": "research", "region": "us-east-1"}
    return (
        gateway_api_chart(mirror=mirror),
        load_balancer_controller_chart(**of_cluster, vpc_id="vpc-0123456789abcdef0", mirror=mirror),
        external_dns_chart(**of_cluster, zone_id="Z0123456789ABCDEFGHIJ", zone_name="example.org", mirror=mirror),
        keda_chart(mirror=mirror),
        argo_rollouts_chart(region="us-east-1", domain="amazonaws.com", mirror=mirror),
    )


def inference(mirror: ImageMirror | None) -> tuple[ChartRelease, ...]:
    """A gateway of the inference extension, and pools of servers of one node and of two."""
    server = ServerPod(image="vllm/vllm-openai:v0.21.0")
    return (
        *agentgateway_charts(mirror=mirror),
        inference_pool_chart("chat", server, mirror=mirror),
        inference_pool_chart("large", server, nodes_per_server=2, mirror=mirror),
    )


@cache
def example_of_slurm() -> tuple[tuple[ChartRelease, ...], tuple[NodePool, ...]]:
    """The releases of Slurm of the example of a cluster file, and its groups of nodes."""
    spec = load_cluster(SLURM_EXAMPLE)
    found = node_pools(spec, volumes(spec))
    charts = [one for one in releases(spec, found.values()) if one.name.startswith("slurm")]
    return tuple(charts), tuple(found[name] for name in spec.slinky_fleets)


def racks() -> tuple[NodePool, ...]:
    """An UltraServer beside nodes that are in none."""
    return (
        node_pool("rack", instance_type="p6e-gb200.36xlarge", node_count=18),
        node_pool("trainers", instance_type="p5.48xlarge", node_count=2),
        node_pool("preprocessing", instance_type="m8g.4xlarge", node_count=1),
    )


@cache
def cases() -> Mapping[str, tuple[ChartRelease, ...]]:
    """Clusters whose software is rendered."""
    sliced = [pool for pool in pools() if pool.mig is not None]
    return {
        "every kind of node": cluster_software(pools(), trainer=True, argo_workflows=True),
        "slices only": cluster_software(sliced),
        "EFA by DRA": cluster_software(pools(), efa=EfaSoftware.DRA_DRIVER),
        "closed network": cluster_software(pools(), trainer=True, argo_workflows=True, mirror=MIRROR),
        "closed network, EFA by DRA": cluster_software(
            pools(), efa=EfaSoftware.DRA_DRIVER, service_monitor=True, mirror=MIRROR
        ),
        "GovCloud": cluster_software(pools(), region="us-gov-west-1"),
        "teams": tuple(one for one in cluster_software(pools(), fair_sharing=True) if one.name == "kueue"),
        "node scaling": (
            karpenter_chart(cluster_name="research", interruption_queue="notices"),
            cluster_autoscaler_chart(cluster_name="research", groups=AUTOSCALED, region="us-east-1"),
        ),
        "closed network, node scaling": (
            karpenter_chart(cluster_name="research", interruption_queue="notices", is_isolated=True, mirror=MIRROR),
            cluster_autoscaler_chart(cluster_name="research", groups=AUTOSCALED, region="us-east-1", mirror=MIRROR),
        ),
        "Slurm": slurm_software(slurm_pools(), SLURM),
        "closed network, Slurm": slurm_software(slurm_pools(), SLURM, mirror=MIRROR),
        "Slurm of a cluster file": example_of_slurm()[0],
        "serving": serving(None),
        "closed network, serving": serving(MIRROR),
        "inference": inference(None),
        "closed network, inference": inference(MIRROR),
        "Ray": cluster_software(pools(), ray=True),
        "closed network, Ray": cluster_software(pools(), ray=True, mirror=MIRROR),
        "UltraServers": _of_domains(cluster_software(racks(), compute_domains=True)),
        "closed network, UltraServers": _of_domains(cluster_software(racks(), compute_domains=True, mirror=MIRROR)),
    }


def _of_domains(releases: tuple[ChartRelease, ...]) -> tuple[ChartRelease, ...]:
    """What ComputeDomains add to a cluster: everything else is in other cases."""
    return tuple(one for one in releases if one.chart in ("dra-driver-nvidia-gpu", "kueue"))


def digest(release: ChartRelease) -> str:
    """Of all that a rendering depends on."""
    parts = [release.name, release.namespace, release.chart, release.version, dict(release.values)]
    text = json.dumps([*parts, DEFAULT_KUBERNETES_VERSION], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def recordings() -> Mapping[str, Any]:
    """The file as it stands."""
    content: dict[str, Any] = json.loads(RECORDINGS.read_text(encoding="utf-8"))
    return content


def rendering(release: ChartRelease) -> Object:
    """What was recorded of a release.

    Raises:
        AssertionError: Nothing was: its values have changed since.
    """
    found: Object | None = recordings()["renderings"].get(digest(release))
    assert found is not None, (
        f"{release.name} was not rendered with these values: see CONTRIBUTING.md, Charts of the cluster software"
    )
    return found


def render(helm: Path, chart: Path, release: ChartRelease, version: str) -> list[Object]:
    """The objects that Helm makes of a chart.

    Args:
        helm: Helm itself.
        chart: Folder of the chart.
        release: With which values.
        version: For which minor version of Kubernetes.
    """
    command = [
        *(str(helm), "template", release.name, str(chart), "--values", "-"),
        *("--namespace", release.namespace, "--kube-version", f"{version}.0"),
        *("--api-versions", "monitoring.coreos.com/v1"),
    ]
    text = yaml.safe_dump(dict(release.values))
    done = subprocess.run(command, check=False, capture_output=True, input=text, text=True, timeout=120)
    if done.returncode:
        raise ValueError(f"{release.name}: {done.stderr.strip()}")
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def unknown_values(chart: Path, values: Mapping[str, Any]) -> list[str]:
    """Keys that neither the chart's values.yaml nor one of its templates knows, as dotted paths."""
    known, templates = _known(chart)
    faults: list[str] = []
    for key, value in values.items():
        part = _part(chart, key)
        if part is None:
            faults += _unknown({key: value}, known, templates, ())
        else:
            its_own, its_templates = _known(part)
            whole = _merged(its_own, known.get(key, {}))
            faults += [f"{key}.{fault}" for fault in _unknown(value, whole, its_templates, ())]
    return faults


def workloads(objects: Sequence[Object]) -> list[Object]:
    """What runs pods."""
    return [item for item in objects if item["kind"] == "CronJob" or "template" in item.get("spec", {})]


def summary(objects: Sequence[Object]) -> Object:
    """What is recorded of some objects."""
    pools = [item["spec"] for item in objects if item["kind"] == "InferencePool"]
    pickers = [yaml.safe_load(item["data"][_PICKER]) for item in objects if _PICKER in item.get("data", {})]
    return {
        "kinds": dict(sorted(Counter(item["kind"] for item in objects).items())),
        "registries": sorted(registries(list(objects))),
        "workloads": [_workload(item) for item in workloads(objects)],
        "configurations": {
            item["metadata"]["name"]: item["data"]
            for item in objects
            if item["kind"] == "ConfigMap" and item["metadata"]["name"] in _CONFIGURATIONS
        },
        **({"pools": pools} if pools else {}),
        **({"pickers": pickers} if pickers else {}),
    }


def registries(value: Any) -> set[str]:
    """Every registry that a value names somewhere."""
    if isinstance(value, Mapping):
        return set().union(*map(registries, value.values()))
    if isinstance(value, list):
        return set().union(*map(registries, value))
    hosts = (word.rpartition("://")[2].partition("/")[0] for word in re.split(r"[\s\"']+", str(value)))
    return {host for host in hosts if _REGISTRY.fullmatch(host)}


def _pod(item: Object) -> Object:
    """The pod of an object; Slinky's operator adds the containers to the one of its kinds."""
    spec = item["spec"]["jobTemplate"]["spec"] if item["kind"] == "CronJob" else item["spec"]
    pod: Object = spec["template"]["spec"]
    if item.get("apiVersion") != _SLURM:
        return pod
    parts = {name: one for name, one in item["spec"].items() if isinstance(one, dict) and "image" in one}
    return {**pod, "containers": [{"name": name, **one} for name, one in parts.items()]}


def _workload(item: Object) -> Object:
    pod = _pod(item)
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    variables = {
        one["name"]: one.get("value")
        for container in containers
        for one in container.get("env", [])
        if one["name"] in _VARIABLES
    }
    # An image may also stand among the arguments: the one of pods that a controller makes.
    words = {word for container in containers for word in [container["image"], *container.get("args", [])]}
    kept = {
        "images": sorted(word for word in words if registries(word)),
        "variables": variables,
        **{key: pod[key] for key in ("nodeSelector", "affinity", "tolerations") if pod.get(key)},
        **({"account": account} if (account := pod.get("serviceAccountName")) in _ACCOUNTS else {}),
    }
    resources = {one["name"]: one["resources"] for one in pod["containers"] if one.get("resources")}
    passed_on = ("replicas", *(_OF_SLURM if item.get("apiVersion") == _SLURM else ()))
    given = {key: item["spec"][key] for key in passed_on if key in item["spec"]}
    return {"kind": item["kind"], "name": item["metadata"]["name"], **given, "resources": resources, **kept}


def _files(chart: Path) -> Mapping[str, str]:
    """The files of a chart by their path in it, whether it is a folder or an archive."""
    if chart.is_dir():
        names = (file.relative_to(chart) for file in chart.rglob("*") if file.is_file())
        return {str(name): (chart / name).read_text(encoding="utf-8") for name in names if name.parts[0] != "charts"}
    with tarfile.open(chart) as archive:
        contents = {item.name.partition("/")[2]: archive.extractfile(item) for item in archive if item.isfile()}
        return {name: file.read().decode() for name, file in contents.items() if file is not None}


def _known(chart: Path) -> tuple[Mapping[str, Any], str]:
    files = _files(chart)
    templates = "\n".join(text for name, text in files.items() if name.startswith("templates/"))
    return yaml.safe_load(files["values.yaml"]) or {}, templates


def _part(chart: Path, name: str) -> Path | None:
    """A chart inside a chart, by the key of its values."""
    for one in yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8")).get("dependencies", []):
        if name == one.get("alias", one["name"]):
            folder = chart / "charts"
            return next(file for file in folder.iterdir() if file.name.startswith(one["name"]))
    return None


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any]:
    both = dict(first)
    for key, value in second.items():
        mine = both.get(key)
        both[key] = _merged(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return both


def _unknown(
    values: Mapping[str, Any], known: Mapping[str, Any], templates: str, path: tuple[str, ...]
) -> Iterator[str]:
    for key, value in values.items():
        here = (*path, key)
        if key in known:
            # A mapping that is empty in the chart takes any key, such as a node selector.
            if isinstance(value, Mapping) and isinstance(known[key], Mapping) and known[key]:
                yield from _unknown(value, known[key], templates, here)
        elif isinstance(value, Mapping) and value:
            yield from _unknown(value, {}, templates, here)
        elif not re.search(rf"\.Values\.{re.escape('.'.join(here))}\b", templates):
            yield ".".join(here)
