"""What Kubernetes runs on node groups: each kind of workload as an invariant over the hardware that EC2 publishes.

A kind is one more row of `KINDS`: what makes it, on which hardware, and what has to be true of what was made.

Sources: kubernetes-sigs/kueue v0.19.2, pkg/webhooks/clusterqueue_webhook.go (resources of flavors) and pkg/cache/
scheduler/resource_node.go (what a queue may borrow); ray-project/kuberay v1.7.0, apis/ray/v1; SlinkyProject/
slurm-operator @ 87313da, helm/slurm; Gateway API v1, HTTPRoute; kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, docs;
kubernetes/autoscaler @ 55c37cd, cluster-autoscaler/cloudprovider/aws/aws_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cdk_gpu_clusters.kubernetes.gateway import ModelGateway, gateway_objects, model_route
from cdk_gpu_clusters.kubernetes.model_deployment import model_deployment
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import multi_node_model
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.ray import RayPods, gpu_ray_job
from cdk_gpu_clusters.kubernetes.ray_head import RayHead
from cdk_gpu_clusters.kubernetes.software.node_scaling import scale_from_zero_tags
from cdk_gpu_clusters.kubernetes.software.slurm import slurm_values
from cdk_gpu_clusters.kubernetes.team_quotas import Team, TeamQuota
from cdk_gpu_clusters.kubernetes.teams import team_objects
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from kubernetes_pools import number
from matrix.hardware import ULTRASERVERS, Hardware

#: Names of devices in Kubernetes: NVIDIA's and AWS's device plugins.
DEVICES = {"gpu": "nvidia.com/gpu", "neuron": "aws.amazon.com/neuron"}
EFA = "vpc.amazonaws.com/efa"
_TAG = "k8s.io/cluster-autoscaler/node-template/resources/"
_RAY = RayPods(image="rayproject/ray:2.60.0-py312-gpu", ray_version="2.60.0")
_SERVER = ServerPod(image="vllm/vllm-openai:v0.21.0", command=["--model", "a"])
_GATEWAY = ModelGateway(plain_http=True, clients=["10.0.0.0/16"])

Made = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A node group, as EC2 has it: its hardware, and the EFA interfaces of its launch template.

    Attributes:
        hardware: What EC2 publishes of its type.
        efa: EFA interfaces of a node.
        pool: What functions that make objects take.
    """

    hardware: Hardware
    efa: int
    pool: NodePool

    @property
    def device(self) -> str:
        """Name of its devices in Kubernetes."""
        return DEVICES[self.hardware.accelerator or ""]

    @property
    def of_node(self) -> dict[str, int]:
        """Devices of a node, by their names."""
        devices = {self.device: self.hardware.accelerator_count} if self.hardware.accelerator else {}
        return {**devices, **({EFA: self.efa} if self.efa else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of workload.

    Attributes:
        make: Makes it; raises ConfigError where it is refused.
        takes: Whether nodes of this hardware can have it.
        check: What is wrong with what was made.
    """

    make: Callable[[NodePool], Made]
    takes: Callable[[Hardware], bool]
    check: Callable[[Group, Made], Iterator[str]]


def _devices(amounts: Mapping[str, str]) -> dict[str, int]:
    """Devices among the resources of a container or a queue."""
    return {name: int(number(str(value))) for name, value in amounts.items() if name in {*DEVICES.values(), EFA}}


def _kind(objects: Made, kind: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] == kind]


def _quotas(queue: Mapping[str, Any]) -> dict[str, dict[str, Fraction]]:
    """By resource, what a ClusterQueue has of the flavor of the group."""
    flavors = queue["spec"]["resourceGroups"][0]["flavors"]
    resources = next(one for one in flavors if one["name"] == "pool")["resources"]
    return {one["name"]: {key: number(value) for key, value in one.items() if key != "name"} for one in resources}


def _has_gpus(hardware: Hardware) -> bool:
    return hardware.accelerator == "gpu"


def _has_devices(hardware: Hardware) -> bool:
    return hardware.accelerator is not None


def _ray(pool: NodePool) -> Made:
    job = gpu_ray_job("job", pool, _RAY, node_count=pool.node_count, command=["python", "a.py"])
    return [*queues([pool], ray_heads=[RayHead()]), *job]


def _check_ray(group: Group, made: Made) -> Iterator[str]:
    """Workers take all of their nodes, and the queue has as much; the head takes no device."""
    (job,), (queue,) = _kind(made, "RayJob"), _kind(made, "ClusterQueue")
    cluster = job["spec"]["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    (worker,) = workers["template"]["spec"]["containers"]
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    if _devices(worker["resources"]["limits"]) != group.of_node:
        yield f"a worker has {_devices(worker['resources']['limits'])}"
    if workers["rayStartParams"]["num-gpus"] != str(group.hardware.accelerator_count):
        yield f"Ray counts {workers['rayStartParams']['num-gpus']} GPUs of a node"
    if _devices(head["resources"]["requests"]):
        yield "the head has devices"
    quotas = _quotas(queue)
    for name, value in worker["resources"]["requests"].items():
        if workers["replicas"] * number(value) > quotas[name]["nominalQuota"]:
            yield f"the queue has no {name} for all workers"


def _check_slurm(group: Group, made: Made) -> Iterator[str]:
    """A pod of Slurm for each node has all of it, and Slurm counts its GPUs."""
    (nodes,) = made["nodesets"].values()
    if nodes["replicas"] != group.pool.node_count:
        yield f"{nodes['replicas']} nodes of Slurm"
    if _devices(nodes["slurmd"]["resources"]["limits"]) != group.of_node:
        yield f"a node of Slurm has {_devices(nodes['slurmd']['resources']['limits'])}"
    gres = nodes.get("extraConfMap", {}).get("Gres", "")
    if group.hardware.accelerator == "gpu" and gres.rpartition(":")[2] != str(group.hardware.accelerator_count):
        yield f"Gres {gres}"


def _served(pool: NodePool) -> Made:
    servers = model_deployment("chat", pool, _SERVER, devices_per_server=1)
    return [*servers, *gateway_objects(_GATEWAY), *model_route("chat", _GATEWAY, _SERVER)]


def _check_served(group: Group, made: Made) -> Iterator[str]:
    """A server for each device, and the route reaches them by their Service."""
    (servers,), (service,), (route,) = (_kind(made, kind) for kind in ("Deployment", "Service", "HTTPRoute"))
    template = servers["spec"]["template"]
    (server,) = template["spec"]["containers"]
    if servers["spec"]["replicas"] != group.pool.node_count * group.hardware.accelerator_count:
        yield f"{servers['spec']['replicas']} servers"
    if _devices(server["resources"]["limits"]) != {group.device: 1}:
        yield f"a server has {_devices(server['resources']['limits'])}"
    if not service["spec"]["selector"].items() <= template["metadata"]["labels"].items():
        yield "the Service finds no server"
    (rule,) = route["spec"]["rules"]
    if [one["name"] for one in rule["backendRefs"]] != [service["metadata"]["name"]]:
        yield "the route goes elsewhere"


def _check_over_nodes(group: Group, made: Made) -> Iterator[str]:
    """One server on all nodes: each pod has all of a node, and vLLM splits the model over all devices."""
    (servers,) = _kind(made, "LeaderWorkerSet")
    template = servers["spec"]["leaderWorkerTemplate"]
    if servers["spec"]["replicas"] * template["size"] != group.pool.node_count:
        yield f"{servers['spec']['replicas']} servers of {template['size']} nodes"
    for part in ("leaderTemplate", "workerTemplate"):
        (server,) = template[part]["spec"]["containers"]
        if _devices(server["resources"]["limits"]) != group.of_node:
            yield f"a pod has {_devices(server['resources']['limits'])}"
        sizes = dict(zip(server["args"], server["args"][1:], strict=False))
        workers = int(sizes["--tensor-parallel-size"]) * int(sizes["--pipeline-parallel-size"])
        if workers != group.pool.node_count * group.hardware.accelerator_count:
            yield f"vLLM uses {workers} GPUs"


def _teams(pool: NodePool) -> Made:
    """Two teams, of which one has a quota of half of the devices."""
    (device,) = pool.resources or {"": 0}
    half = pool.node_count * sum(pool.resources.values()) // 2
    wanted = {"research": half, "product": 0}
    teams = [
        Team(name=name, quotas=[TeamQuota(pool=pool.name, resource=device, nominal=count)])
        for name, count in wanted.items()
    ]
    return [*queues([pool], teams=teams), *team_objects(teams, [pool])]


def _check_teams(group: Group, made: Made) -> Iterator[str]:
    """Quotas add up to the nodes, one team may have all devices while others are idle, and its pods no more."""
    found = _kind(made, "ClusterQueue")
    whole = {name: count * group.pool.node_count for name, count in group.of_node.items()}
    for name, count in whole.items():
        total = sum(_quotas(queue)[name]["nominalQuota"] for queue in found)
        if total != count:
            yield f"quotas of {total} {name}"
    for queue in found:
        for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
            if [one["name"] for one in flavor["resources"]] != queue["spec"]["resourceGroups"][0]["coveredResources"]:
                yield f"{queue['metadata']['name']} covers other resources"
    if len({queue["spec"]["cohortName"] for queue in found}) != 1:
        yield "queues that do not lend to each other"
    for quota in _kind(made, "ResourceQuota"):
        hard = quota["spec"]["hard"]
        for name, count in whole.items():
            if "pods" not in hard and hard.get(f"requests.{name}") != str(count):
                yield f"pods of a team have {hard.get(f'requests.{name}')} {name} at most"


def _domain(pool: NodePool) -> Made:
    job = torchrun_job("job", pool, node_count=pool.node_count, image="a:1", command=["a.py"], compute_domain=True)
    return [*queues([pool]), *job]


def _check_domain(group: Group, made: Made) -> Iterator[str]:
    """Every pod claims a channel of the domain, of which the queue has one for each node."""
    (domain,), (job,), (queue,) = (_kind(made, kind) for kind in ("ComputeDomain", "JobSet", "ClusterQueue"))
    (part,) = job["spec"]["replicatedJobs"]
    pod = part["template"]["spec"]["template"]["spec"]
    channel = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    if channel not in [one["resourceClaimTemplateName"] for one in pod.get("resourceClaims", ())]:
        yield "pods claim no channel"
    if _quotas(queue)["nvidia.com/compute-domain-channel"]["nominalQuota"] != group.pool.node_count:
        yield "other channels than nodes"


def _check_tags(group: Group, made: Made) -> Iterator[str]:
    """The Cluster Autoscaler knows the devices of a node before there is one."""
    known = _devices({name.removeprefix(_TAG): value for name, value in made.items()})
    if known != group.of_node:
        yield f"a node would have {known}"


KINDS = {
    "Ray": Kind(make=_ray, takes=_has_gpus, check=_check_ray),
    "Slurm of Slinky": Kind(make=lambda pool: slurm_values([pool]), takes=lambda _: True, check=_check_slurm),
    "models behind a gateway": Kind(make=_served, takes=_has_devices, check=_check_served),
    "a model over several nodes": Kind(
        make=lambda pool: multi_node_model("large", pool, _SERVER, nodes_per_server=pool.node_count),
        takes=_has_gpus,
        check=_check_over_nodes,
    ),
    "teams": Kind(make=_teams, takes=_has_devices, check=_check_teams),
    "ComputeDomains": Kind(
        make=_domain,
        takes=lambda hardware: _has_gpus(hardware) and hardware.name in ULTRASERVERS,
        check=_check_domain,
    ),
    "Cluster Autoscaler": Kind(make=scale_from_zero_tags, takes=lambda _: True, check=_check_tags),
}
