"""The files of a cluster inside Kubernetes: objects to apply, jobs to start, and model servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdk_gpu_clusters.catalogue import AcceleratorKind, Architecture
from cdk_gpu_clusters.catalogue.kubernetes import image as image_of
from cdk_gpu_clusters.fleet.karpenter import (
    NodeClassParts,
    gpu_node_class,
    gpu_node_overlay,
    gpu_node_pool,
    karpenter_name,
)
from cdk_gpu_clusters.kubernetes.compute_domain import domain_nodes, in_ultraservers
from cdk_gpu_clusters.kubernetes.gateway import ModelGateway, ModelRoute, gateway_objects, model_route
from cdk_gpu_clusters.kubernetes.inference_gateway import inference_gateway_objects, inference_route
from cdk_gpu_clusters.kubernetes.mig import mig_fan_out, mig_workflow
from cdk_gpu_clusters.kubernetes.model_deployment import ServerScaling, model_deployment
from cdk_gpu_clusters.kubernetes.model_server import SecretKey, ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import LEADER, multi_node_model
from cdk_gpu_clusters.kubernetes.nccl_test import nccl_test
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, short_name, yaml_text
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace, QueueScaling
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.ray import RayPods, gpu_ray_job
from cdk_gpu_clusters.kubernetes.ray_head import RayHead
from cdk_gpu_clusters.kubernetes.software import EfaSoftware
from cdk_gpu_clusters.kubernetes.software.release import SoftwareSource
from cdk_gpu_clusters.kubernetes.team_quotas import Team, shared_nodes
from cdk_gpu_clusters.kubernetes.teams import team_objects
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters.kubernetes.volumes import shared_volume
from cdk_gpu_clusters.node.kubernetes_node import node_health_rights
from cdk_gpu_clusters.rules.fleet import DEFAULT_IOPS, DEFAULT_THROUGHPUT_MIB_PER_S
from cdk_gpu_clusters.rules.placement import GroupOrigin
from cdk_gpu_clusters_stacks.jobs.all_reduce import ALL_REDUCE
from cdk_gpu_clusters_stacks.manifests.cluster import (
    ServingNames,
    definitions,
    install_script,
    mirror_of,
    node_pools,
    releases,
    serving_names,
    values_files,
    variable,
    volumes,
)
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation, placement_group_of
from cdk_gpu_clusters_stacks.spec.eks import SoftwareSpec
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets
from cdk_gpu_clusters_stacks.spec.served_models import ServedModel, served_models
from cdk_gpu_clusters_stacks.stack_names import fleet_path, inference_stack, training_stack


def cluster_manifests(spec: ClusterSpec) -> dict[str, str]:
    """What a cluster file makes inside Kubernetes: text by the path of its file.

    `install.sh` applies the files below `definitions/`, installs the charts below `software/`, then applies the files
    below `cluster/`, `services/` and `routes/`. What lies below `jobs/` is for people to start. What lies below
    `karpenter/` the deployment applies.

    On HyperPod, whose own chart brings the rest, these are the volumes of the file systems.

    Args:
        spec: A cluster without errors, with `orchestrator: eks` or `hyperpod-eks`.

    Raises:
        ConfigError: Faults of pools, software and model servers.
    """
    if ORCHESTRATORS[spec.orchestrator].joins_hyperpod:
        names = {name for fleet in spec.training.fleets.values() for name in fleet.mounts.values()}
        mounted = {name: shared_volume(one) for name, one in volumes(spec).items() if name in names}
        texts = {f"cluster/volume-{name}.yaml": yaml_text(some) for name, some in mounted.items()}
        return {"install.sh": install_script(spec, [], texts), **texts}
    pools = node_pools(spec, volumes(spec))
    charts = releases(spec, pools.values())
    launched = {f"karpenter/{name}.yaml": one.text for name, one in karpenter_objects(spec).items()}
    made = {f"{path}.yaml": one for path, one in applied(spec, pools).items()}
    objects = {path: one.text for path, one in made.items()}
    first = {f"{path}.yaml": yaml_text(some) for path, some in definitions(spec).items()}
    scaled = {path: one.scaled for path, one in made.items()}
    return {
        "install.sh": install_script(spec, charts, objects, scaled, first),
        **first,
        **values_files(charts),
        **objects,
        **launched,
        **{f"{path}.yaml": one.text for path, one in jobs(spec, pools).items()},
    }


# All that a cluster file makes inside Kubernetes, as objects: what is applied, and jobs that people start.


def applied(spec: ClusterSpec, pools: Mapping[str, NodePool], names: ServingNames | None = None) -> dict[str, Manifest]:
    """What installing the cluster applies after its charts, in order, by a path without its ending.

    Args:
        spec: The cluster.
        pools: Its groups of nodes, by name.
        names: What objects that serve models have to name; variables of the shell by default.

    Raises:
        ConfigError: Faults of queues, volumes, model servers and their gateway.
    """
    # Pods of Slurm take entire nodes, and bring their own volumes.
    free = {name: pool for name, pool in pools.items() if name not in spec.slinky_fleets}
    # One head at a time for each training fleet that Ray runs on.
    with_ray = [name for name in spec.training.fleets if spec.eks.software.ray and name in free]
    heads = [RayHead() for name in with_ray if _takes_ray(free[name])]
    teams, groups = spec.eks.all_teams, list(free.values())
    made = (
        [*queues(groups, ray_heads=heads, teams=teams), *(team_objects(teams, groups) if teams else [])] if free else []
    )
    shared = Manifest(objects=[one for one in made if not any(_is_of(one, team) for team in teams)])
    parts = {"cluster/queues": shared} if free else {}
    parts["cluster/node-health"] = Manifest(objects=node_health_rights())
    mounted = {one.name: one for pool in free.values() for one in pool.mounts.values()}
    for name, volume in mounted.items():
        parts[f"cluster/volume-{name}"] = Manifest(objects=shared_volume(volume))
    # Each on its own: a deployment deletes all objects of a team that the file no longer has.
    for team in teams:
        seen = [pools[quota.pool].mounts for quota in team.quotas]
        volumes = {one.name: one for mounts in seen for one in mounts.values()}
        own = [one for volume in volumes.values() for one in shared_volume(volume, namespace=team.name)]
        parts[f"cluster/team-{team.name}"] = Manifest(objects=[*(one for one in made if _is_of(one, team)), *own])
    gateway = _gateway(spec)
    serving = Serving(
        workspace=(names or serving_names(spec)).metrics(spec),
        is_routed=gateway is not None and not spec.eks.has_pools,
        has_keda=spec.eks.software.keda,
    )
    routes: dict[str, Manifest] = {}
    if gateway is not None:
        parts["cluster/gateway"] = Manifest(objects=gateway_objects(gateway))
    if gateway is not None and spec.eks.has_pools:
        drain = max(_drain_seconds(fleet) for fleet in spec.inference.fleets.values())
        inner = inference_gateway_objects(gateway, drain_seconds=drain, mirror=mirror_of(spec))
        parts["cluster/inference-gateway"] = Manifest(objects=inner)
    for name, fleet in spec.inference.fleets.items():
        for each, manifest in model_services(name, fleet, pools[name], serving).items():
            parts[f"services/{each}"] = manifest
            if gateway is not None:
                server = _server(pools[name].name, fleet, serving)
                # Of servers over several nodes, the leader takes requests.
                service = each if fleet.nodes_per_server is None else f"{each}{LEADER}"
                weights = ModelRoute(weights={service: 1})
                in_pool = spec.eks.has_pools
                route = [inference_route(each, gateway)] if in_pool else model_route(each, gateway, server, weights)
                routes[f"routes/{each}"] = Manifest(objects=route)
    return parts | routes


def _gateway(spec: ClusterSpec) -> ModelGateway | None:
    """The address of the models; None if each has a Service inside the cluster alone."""
    gateway = spec.eks.gateway
    if gateway is None:
        return None
    return ModelGateway(
        certificate_arn=gateway.certificate_arn,
        plain_http=gateway.plain_http,
        hostname=gateway.hostname,
        clients=gateway.clients,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the model servers of a cluster get requests, and what their number follows.

    Attributes:
        workspace: Where their metrics are, if anything reads them.
        is_routed: Whether a load balancer sends them requests.
        has_keda: Whether KEDA sets their number by their metrics.
    """

    workspace: PrometheusWorkspace
    is_routed: bool = False
    has_keda: bool = False


def karpenter_objects(spec: ClusterSpec) -> dict[str, Manifest]:
    """The objects of each fleet that Karpenter launches, by the name of the fleet: to read, and to compare.

    The stack of the fleet applies them. A variable is in the place of what only the deployment knows.

    Raises:
        ConfigError: Faults of node pools.
    """
    found = {}
    for fleet in (one for one in planned_fleets(spec) if one.is_pool):
        plan, group = fleet.plan, fleet.node_group
        overlay = gpu_node_overlay(plan, group)
        objects = [
            gpu_node_class(plan, group, _parts(spec, fleet)),
            gpu_node_pool(plan, group),
            *([] if overlay is None else [overlay]),
        ]
        found[fleet.name] = Manifest(objects=objects, comments={f"EC2NodeClass/{karpenter_name(group)}": _APPLIED})
    return found


_APPLIED = "Not to be applied: the stack of the fleet does. Only the deployment knows the value of each ${...}."


def _parts(spec: ClusterSpec, fleet: PlannedFleet) -> NodeClassParts:
    volume, eks, network = fleet.spec.root_volume, spec.eks.existing, spec.network
    plan, capacity = fleet.plan, fleet.spec.capacity

    def known(name: str) -> str:
        return f"${{{variable(fleet.name, name)}}}"

    if isinstance(network, ExistingNetwork):
        by_zone = [network.service_subnets[zone] for zone in sorted(network.service_subnets)]
        subnets = by_zone if fleet.is_in_service_subnets else list(network.subnet_ids)
    else:
        count = len(network.control_zones) if fleet.is_in_service_subnets else 1
        subnets = [known(f"SUBNET_ID_{number}") for number in range(1, count + 1)]
    cluster = [known("CLUSTER_SECURITY_GROUP_ID")]
    if eks is not None:
        cluster = [eks.cluster_security_group_id, *eks.node_security_group_ids]
    stack = (inference_stack if isinstance(fleet.spec, InferenceFleetSpec) else training_stack)(spec.name, fleet.name)
    path = fleet_path(stack, "", group_type="AWS::EKS::Nodegroup")
    choice = plan.placement
    group = placement_group_of(capacity) if choice.origin is GroupOrigin.RESERVATION else None
    is_placed = choice.strategy is not None
    return NodeClassParts(
        subnet_ids=subnets,
        security_group_ids=[known("SECURITY_GROUP_ID"), *cluster],
        instance_profile_name=known("INSTANCE_PROFILE"),
        user_data=known("USER_DATA"),
        reservation_id=known("RESERVATION_ID") if isinstance(capacity, NewReservation) else None,
        placement_group_name=(group or known("PLACEMENT_GROUP")) if is_placed else None,
        size_gib=fleet.root_volume_gib,
        iops=volume.iops or DEFAULT_IOPS,
        throughput_mib_per_s=volume.throughput_mib_per_s or DEFAULT_THROUGHPUT_MIB_PER_S,
        encryption_key_arn=volume.encryption_key_arn,
        tags={"gpu-cluster": spec.name, **spec.tags, **fleet.spec.tags, "Name": path},
    )


def _is_of(one: KubernetesObject, team: Team) -> bool:
    """Whether an object is of a team alone."""
    about = one["metadata"]
    if one["kind"] in {"Namespace", "ClusterQueue"}:
        return bool(about["name"] == team.name)
    return bool(about.get("namespace") == team.name)


def jobs(spec: ClusterSpec, pools: Mapping[str, NodePool]) -> dict[str, Manifest]:
    """Jobs that people start, by a path without its ending: in the queue of no team, on the nodes that it can have."""
    source, teams = SoftwareSource(mirror=mirror_of(spec)), spec.eks.all_teams
    pools = {name: replace(pool, node_count=shared_nodes(pool, teams)) for name, pool in pools.items()}
    by_fleet = {
        **{
            name: training_jobs(name, fleet, pools[name], source=source, software=spec.eks.software)
            for name, fleet in spec.training.fleets.items()
            if name not in spec.slinky_fleets and pools[name].node_count
        },
        **{
            name: inference_jobs(name, serving, pools[name])
            for name, serving in spec.inference.fleets.items()
            if pools[name].node_count
        },
    }
    return {f"jobs/{name}/{job}": one for name, found in by_fleet.items() for job, one in found.items()}


# Jobs and model servers of one fleet, as Kubernetes runs them.

#: A whole program of Ray: a task on each GPU of the cluster.
RAY_SCRIPT = (
    "import ray; ray.init(); gpus = int(ray.cluster_resources()['GPU']); "
    "task = ray.remote(num_gpus=1)(lambda: (ray.util.get_node_ip_address(), *ray.get_gpu_ids())); "
    "found = set(ray.get([task.remote() for _ in range(gpus)])); print(f'{gpus} GPUs, tasks on {sorted(found)}')"
)
_CHANGE_RAY = (
    "CHANGE the image and the program to yours: unchanged, a task runs for each GPU. This image has no PyTorch and no "
    "library of EFA."
)
_NAME_OF_SLICE = "import torch; print(torch.cuda.get_device_name())"
_CHANGE = "CHANGE the image and the script to yours: unchanged, all processes add up their numbers once."
_OF_X86 = "CHANGE the image: this one is of x86_64, and the nodes are arm64."
#: What its chart makes for workflows: the account `default` may not report to Argo.
_ARGO_ACCOUNT = "argo-workflow"
_ARGO = (
    "Needs Argo Workflows, which install.sh does not bring, and a service account that may report to it: "
    f"{_ARGO_ACCOUNT} is what its chart makes with workflow.serviceAccount.create."
)
#: What of a name controllers leave room for behind it: pods of a JobSet, and of a Job for each profile of MIG.
_LONGEST_JOB, _LONGEST_FAN_OUT = 46, 34
#: So that the clusters of a RayJob keep to 53 (ray-project/kuberay v1.7.0, MaxRayJobNameLength).
_LONGEST_RAY_JOB = 47


#: Kinds that run the servers of a model.
MODEL_KINDS = frozenset({"Deployment", "Rollout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Objects that are applied together.

    Attributes:
        objects: The objects.
        comments: What a reader should know of one, by its kind and name.
    """

    objects: list[KubernetesObject]
    comments: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The objects as YAML."""
        return yaml_text(self.objects, comments=self.comments)

    @property
    def scaled(self) -> tuple[str, ...]:
        """Deployments and Rollouts whose number of servers an autoscaler sets, as kubectl names them."""
        return tuple(
            f"{one['kind'].lower()}/{one['metadata']['name']}"
            for one in self.objects
            if one["kind"] in MODEL_KINDS and "replicas" not in one["spec"]
        )


def training_jobs(
    name: str, fleet: FleetSpec, pool: NodePool, *, source: SoftwareSource, software: SoftwareSpec
) -> dict[str, Manifest]:
    """Jobs for the nodes of a training fleet, by their name."""
    image = source.reference("pytorch")
    if pool.mig is not None:
        return _fan_out(name, pool, image, ["python", "-c", _NAME_OF_SLICE])
    if not _has_gpus(pool):
        return {}
    domain = software.compute_domains and in_ultraservers(pool)
    jobs = {"torchrun": _torchrun(name, fleet, pool, image, trainer=False, domain=domain, efa=software.efa_software)}
    if software.ray:
        image_of_ray = source.reference("ray")
        jobs["ray-job"] = _ray_job(name, fleet, pool, image_of_ray, domain=domain, efa=software.efa_software)
    if software.trainer:
        jobs["train-job"] = _torchrun(name, fleet, pool, image, trainer=True, domain=domain, efa=software.efa_software)
    if pool.node_count > 1:
        objects = nccl_test(
            pool,
            name=short_name(f"{name}-nccl-test", _LONGEST_JOB),
            node_count=2,
            image=image,
            compute_domain=domain,
            efa=software.efa_software,
        )
        jobs["nccl-test"] = _image_findings(objects, pool)
    return jobs


def _torchrun(
    name: str, fleet: FleetSpec, pool: NodePool, image: str, *, trainer: bool, domain: bool, efa: EfaSoftware
) -> Manifest:
    objects = torchrun_job(
        # Trainer makes a JobSet of its job's name, which must not be that of the other job.
        short_name(f"{name}-train-job" if trainer else f"{name}-job", _LONGEST_JOB),
        pool,
        node_count=_job_nodes(pool, domain=domain),
        image=image,
        command=["--no-python", "python", "-c", ALL_REDUCE],
        environment=fleet.environment,
        compute_domain=domain,
        efa=efa,
        trainer=trainer,
    )
    return _image_findings(objects, pool, _CHANGE)


def _job_nodes(pool: NodePool, *, domain: bool) -> int:
    """Nodes of a job over a fleet: with a domain those of one UltraServer."""
    return domain_nodes(pool) if domain else pool.node_count


def _ray_job(name: str, fleet: FleetSpec, pool: NodePool, image: str, *, domain: bool, efa: EfaSoftware) -> Manifest:
    objects = gpu_ray_job(
        short_name(f"{name}-ray", _LONGEST_RAY_JOB),
        pool,
        RayPods(
            image=image,
            ray_version=image_of("ray").tag.partition("-")[0],
            environment=fleet.environment,
            efa=efa,
            compute_domain=domain,
        ),
        node_count=_job_nodes(pool, domain=domain),
        command=["python", "-c", RAY_SCRIPT],
    )
    return _image_findings(objects, pool, _CHANGE_RAY)


def _image_findings(objects: list[KubernetesObject], pool: NodePool, *told: str) -> Manifest:
    """Objects with a word at the first, also where the image is one that the nodes cannot run."""
    arm = pool.instance_type.architecture is not Architecture.X86_64
    lines = [*told, *([_OF_X86] if arm else [])]
    first = objects[0]
    key = f"{first['kind']}/{first['metadata']['name']}"
    return Manifest(objects=objects, comments={key: "\n".join(lines)} if lines else {})


def model_services(name: str, fleet: InferenceFleetSpec, pool: NodePool, serving: Serving) -> dict[str, Manifest]:
    """The model servers of an inference fleet by their name; with MIG a deployment for each profile."""
    if fleet.nodes_per_server is not None:
        server = _server(pool.name, fleet, serving)
        made = multi_node_model(name, pool, server, nodes_per_server=fleet.nodes_per_server, compute_domain=True)
        return {name: Manifest(objects=made, comments=_told_of_secrets(f"LeaderWorkerSet/{name}", fleet, server))}
    return {one.name: _deployment(one, fleet, pool, serving) for one in served_models(name, fleet, pool)}


def inference_jobs(name: str, fleet: InferenceFleetSpec, pool: NodePool) -> dict[str, Manifest]:
    """Jobs for the nodes of an inference fleet, by their name: over all slices, where there are some."""
    if pool.mig is None:
        return {}
    return _fan_out(name, pool, fleet.server.image, fleet.server.command)


def _deployment(model: ServedModel, fleet: InferenceFleetSpec, pool: NodePool, serving: Serving) -> Manifest:
    server, name = _server(pool.name, fleet, serving), model.name
    scaling: ServerScaling | QueueScaling | None = None
    if model.scales:
        scaling = (
            QueueScaling(workspace=serving.workspace, min_servers=model.fewest, max_servers=model.most)
            if serving.has_keda
            else ServerScaling(min_servers=model.fewest, max_servers=model.most)
        )
    canary = None if fleet.canary is None else fleet.canary.canary(serving.workspace)
    objects = model_deployment(
        name,
        pool,
        server,
        devices_per_server=model.devices_per_server,
        profile=model.profile,
        servers=None if model.scales or model.places == model.most else model.most,
        scaling=scaling,
        canary=canary,
    )
    kind = "Deployment" if canary is None else "Rollout"
    return Manifest(objects=objects, comments=_told_of_secrets(f"{kind}/{name}", fleet, server))


def _told_of_secrets(of: str, fleet: InferenceFleetSpec, server: ServerPod) -> dict[str, str]:
    """What is not made here, and pods wait for."""
    told = [
        f"Secret {one.name} is not made here: its key {one.key} holds what {_source(fleet, variable)} has."
        for variable, one in server.secrets.items()
    ]
    if server.image_pull_secret is not None and fleet.server.registry_login is not None:
        told.append(
            f"Secret {server.image_pull_secret}, of type docker-registry, is not made here: it holds the login in "
            f"{fleet.server.registry_login.arn}."
        )
    return {of: "\n".join(told)}


def _source(fleet: InferenceFleetSpec, variable: str) -> str:
    secret = fleet.server.secrets[variable]
    return secret.arn if secret.json_field is None else f"field {secret.json_field} of {secret.arn}"


def _server(name: str, fleet: InferenceFleetSpec, serving: Serving) -> ServerPod:
    spec = fleet.server
    weights = spec.weights
    return ServerPod(
        image=spec.image,
        command=spec.command,
        port=spec.port,
        health_path=spec.health_path,
        environment=spec.environment,
        # Not the field's name: two secrets may have fields of one name.
        secrets={variable: SecretKey(name=f"{name}-server", key=variable) for variable in spec.secrets},
        not_secret=fleet.not_secret,
        image_pull_secret=None if spec.registry_login is None else f"{name}-registry",
        weights_path=None if weights is None else weights.path or _MODEL,
        weights_uri=None if weights is None else weights.s3_uri,
        shared_memory_gib=spec.shared_memory_gib,
        start_seconds=fleet.ready_timeout_seconds or _START_SECONDS,
        drain_seconds=_drain_seconds(fleet),
        stop_delay_seconds=_ROUTED_STOP_SECONDS if serving.is_routed else _STOP_SECONDS,
    )


def _drain_seconds(fleet: InferenceFleetSpec) -> int:
    return fleet.load_balancer.drain_timeout_seconds or _DRAIN_SECONDS


#: Defaults of the cluster file, for nodes of every orchestrator.
_MODEL, _START_SECONDS, _DRAIN_SECONDS = "/opt/gpu-cluster/model", 1800, 300
#: How long a server that has its end before it takes requests: inside the cluster, and behind a load balancer.
_STOP_SECONDS, _ROUTED_STOP_SECONDS = 10, 30


def _fan_out(name: str, pool: NodePool, of: str, command: Sequence[str]) -> dict[str, Manifest]:
    """A Job and an Argo Workflow that run a process on every slice."""
    called = short_name(f"{name}-all", _LONGEST_FAN_OUT)
    flow = mig_workflow(called, pool, image=of, command=command, service_account=_ARGO_ACCOUNT)
    return {
        "mig-job": Manifest(objects=mig_fan_out(called, pool, image=of, command=command)),
        "mig-workflow": Manifest(objects=flow, comments={f"Workflow/{called}": _ARGO}),
    }


def _has_gpus(pool: NodePool) -> bool:
    accelerator = pool.instance_type.accelerator
    return accelerator is not None and accelerator.kind is AcceleratorKind.GPU


def _takes_ray(pool: NodePool) -> bool:
    return pool.mig is None and _has_gpus(pool)
