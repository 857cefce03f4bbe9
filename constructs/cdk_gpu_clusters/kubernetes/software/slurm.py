"""Slurm on the nodes of a cluster of Kubernetes: the charts of Slinky, and their values from groups of nodes.

A NodeSet of the chart `slurm` is a group of nodes: each of its pods takes an entire node, and is a node of Slurm with
the GPUs or slices of that group.

Sources: SlinkyProject/slurm-operator @ 87313da (v1.2.1), helm/slurm, docs/usage and internal/builder; Slurm, man pages
slurm.conf(5), gres.conf(5), topology.yaml(5) and cgroup.conf(5) (SchedMD/slurm, 26.05).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.gpu_pod import NodeShare, memory_mib, placement, pod_resources, shared_memory
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, check_name
from cdk_gpu_clusters.kubernetes.software.charts import gpu_pools
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, ImageMirror, SoftwareSource
from cdk_gpu_clusters.kubernetes.software.slurm_topology import topology_name, topology_objects, topology_yaml
from cdk_gpu_clusters.kubernetes.volumes import claimed, shared_volume, volume_mount
from cdk_gpu_clusters.rules.gres import GresMode, GresPlan, check_gres, check_gres_plan, plan_gres
from cdk_gpu_clusters.rules.slurm_conf import CGROUP_SETTINGS, JOB_SETTINGS, merged_settings

#: Namespaces of the operator and of the cluster, as Slinky's own documentation has them.
OPERATOR_NAMESPACE, SLURM_NAMESPACE = "slinky", "slurm"

#: What the operator writes to slurm.conf (internal/builder/controllerbuilder/controller_config.go).
_MAX_NODES = 1024
#: The node of a pod that ended, which is DOWN, becomes IDLE as its next pod registers (see RETURN_TO_SERVICE).
_RETURN_TO_SERVICE = "2"
#: The pods of a NodeSet are called `slurm-worker-GROUP-0`, and Kubernetes adds a hash of 10 to a label of theirs.
_LONGEST_GROUP = 63 - len("slurm-worker-") - 11
_DNS_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")

SLURM_NODES = define_rule(
    "GPU-SLK-001",
    "a Slurm cluster on Kubernetes has one group of nodes or more, each of its own name, and 1024 nodes at most",
    source="SlinkyProject/slurm-operator @ 87313da, internal/builder/controllerbuilder/controller_config.go: "
    "MaxNodeCount; slurm.conf(5), PartitionName",
)
LOGIN_SERVICE = define_rule(
    "GPU-SLK-002",
    "the login nodes of a Slurm cluster on Kubernetes have no public load balancer",
    source="SlinkyProject/slurm-operator @ 87313da, helm/slurm/values.yaml: the service is of type LoadBalancer by "
    "itself; Amazon EKS user guide, Route TCP and UDP traffic with Network Load Balancers: the scheme is an annotation",
)
UNKNOWN_GROUP = define_rule(
    "GPU-SLK-003",
    "settings of a Slurm cluster on Kubernetes name groups of nodes that it has",
    source="SlinkyProject/slurm-operator @ 87313da, helm/slurm/templates/controller/_helpers.tpl",
)
DNS_NAMES = define_rule(
    "GPU-SLK-004",
    "the database host, the secrets and the storage class of a Slurm cluster on Kubernetes have DNS names",
    source='RFC 1123, 2.1, host names; Kubernetes documentation, "Object Names and IDs": DNS subdomain names',
)
RETURN_TO_SERVICE = define_rule(
    "GPU-SLK-005",
    "a node of a Slurm cluster on Kubernetes returns to service when its pod starts again: ReturnToService is 2",
    source="SlinkyProject/slurm-operator @ 87313da, internal/builder/workerbuilder/worker_app.go: a pod that ends sets "
    "its node DOWN; internal/controller/nodeset/slurmcontrol/slurmcontrol.go: the operator sets it IDLE only for a "
    "pod on another node; slurm.conf(5), ReturnToService: 0 by default, and 1 is for nodes that did not respond",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmDatabase:
    """The database of slurmdbd: MySQL or MariaDB, such as that of Amazon RDS.

    Attributes:
        host: Its host name.
        secret_name: Secret of Kubernetes in the namespace `slurm` that holds the password. You make it.
        key: Key of the password in the secret.
        port: Its port.
        database: Name of the database. slurmdbd makes it if its user may.
        username: User who owns the database.
    """

    host: str
    secret_name: str
    key: str = "password"
    port: int = 3306
    database: str = "slurm_acct_db"
    username: str = "slurm"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmCluster:
    """What of a Slurm cluster does not follow from its nodes.

    Attributes:
        name: Name of the Slurm cluster.
        accounting: Database of the accounting. Without one there is no accounting.
        nvml_image: Image of slurmd whose Slurm was built with NVML, which finds MIG slices. By default, the nodes run
            Slinky's image, which finds unsplit GPUs only.
        gpu_instance_ids: Ids of the GPU instances of groups with MIG, as `nvidia-smi mig -lgi` shows them: for each
            group, a list for each GPU. Needed only for slices without `nvml_image`.
        login: Whether there are login nodes. Their service is reached inside the cluster only.
        root_authorized_keys: Public SSH keys of root on the login nodes. By default, there are none.
        sssd_secret: Secret in the namespace `slurm` with `sssd.conf` of your directory of users. By default, login
            nodes know local users only.
        storage_class: Storage class of the volume that keeps the controller's state. By default, the charts make one
            of Amazon EBS (gp3, encrypted), whose volumes stay after the cluster is deleted.
        settings: Settings of slurm.conf. They replace ours; lists are joined. `ReturnToService` stays 2.
        values: Values of the chart `slurm` that replace the ones made here, key by key.
    """

    name: str = "slurm"
    accounting: SlurmDatabase | None = None
    nvml_image: str | None = None
    gpu_instance_ids: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    login: bool = True
    root_authorized_keys: str | None = None
    sssd_secret: str | None = None
    storage_class: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


def slurm_software(
    pools: Sequence[NodePool],
    cluster: SlurmCluster | None = None,
    *,
    mirror: ImageMirror | None = None,
) -> tuple[ChartRelease, ...]:
    """The releases that run Slurm on groups of nodes: Slinky's operator with its CRDs, then the Slurm cluster.

    The second has the volumes and claims of the groups' file systems, too, in its own namespace. Install both after the
    releases of `cluster_software`, whose device plugins the nodes need.

    Args:
        pools: Groups of nodes that belong to Slurm. Their pods take entire nodes, so no other jobs should run there.
        cluster: What does not follow from the nodes; the defaults of `SlurmCluster` if left out.
        mirror: Registries of a closed network, which hold copies of the charts and images.

    Returns:
        The releases, in the order in which they are installed.

    Raises:
        ConfigError: GPU-SLK-001 to -005, GPU-GRES-001 to -006, GPU-K8S-001.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pools = [node_pool("train", instance_type="p5.48xlarge", node_count=2)]
        >>> [(release.name, release.namespace) for release in slurm_software(pools)]
        [('slurm-operator', 'slinky'), ('slurm', 'slurm')]
    """
    source = SoftwareSource(mirror=mirror)
    values = slurm_values(pools, cluster, source=source)
    return (
        source.release("slurm-operator", OPERATOR_NAMESPACE, operator_values(source)),
        source.release("slurm", SLURM_NAMESPACE, values),
    )


def operator_values(source: SoftwareSource) -> dict[str, Any]:
    """Values of the chart `slurm-operator`: with its CRDs, and without cert-manager.

    Args:
        source: From where images come.
    """
    return {
        "crds": {"enabled": True},
        # Helm then makes the certificate of the webhook.
        "certManager": {"enabled": False},
        "operator": {"image": source.repository_and_tag("slurm-operator"), "resources": _CONTROLLER_REQUESTS},
        "webhook": {"image": source.repository_and_tag("slurm-operator-webhook"), "resources": _HELPER_REQUESTS},
    }


#: What pods on system nodes ask for, so that they are not the first to be evicted. This library's choice: Slinky's
#: documentation states no numbers.
_CONTROLLER_REQUESTS = {"requests": {"cpu": "200m", "memory": "512Mi"}}
_HELPER_REQUESTS = {"requests": {"cpu": "50m", "memory": "128Mi"}}
_STORAGE_CLASS = "slurm-state"


def slurm_values(
    pools: Sequence[NodePool],
    cluster: SlurmCluster | None = None,
    *,
    source: SoftwareSource | None = None,
) -> dict[str, Any]:
    """Values of Slinky's chart `slurm` for groups of nodes.

    Each group becomes a NodeSet and a partition of its name. The partition of the first group is the default one.

    Args:
        pools: Groups of nodes that belong to Slurm.
        cluster: What does not follow from the nodes; the defaults of `SlurmCluster` if left out.
        source: From where images come; the public registries if left out.

    Raises:
        ConfigError: GPU-SLK-001 to -005, GPU-GRES-001 to -006, GPU-K8S-001.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> values = slurm_values([node_pool("train", instance_type="p5.48xlarge", node_count=2)])
        >>> values["nodesets"]["train"]["extraConfMap"]["Gres"], values["configFiles"]["gres.conf"].strip()
        ('gpu:h100:8', 'AutoDetect=nvidia')
    """
    given, images = cluster or SlurmCluster(), source or SoftwareSource()
    raise_for(check_slurm_cluster(pools, given))
    values = {
        "clusterName": given.name,
        "configFiles": config_files(pools, given),
        "controller": _controller(pools, given, images),
        "restapi": {
            "slurmrestd": {"image": images.repository_and_tag("slurmrestd"), "resources": _HELPER_REQUESTS},
        },
        "accounting": _accounting(given, images),
        "loginsets": _logins(pools, given, images),
        "nodesets": {pool.name: _nodeset(pool, given, images, is_first=pool is pools[0]) for pool in pools},
        # The image of the login nodes has kubectl.
        "extraObjects": [
            *_storage_class(given),
            *_volumes(pools),
            *topology_objects(pools, image=images.reference("slurm-login"), namespace=SLURM_NAMESPACE),
        ],
    }
    if given.sssd_secret is not None:
        values["sssd"] = {"secretRef": {"name": given.sssd_secret, "key": "sssd.conf"}}
    merged = _merged(values, given.values)
    raise_for(check_slurm_values(merged, pools))
    return merged


def _volumes(pools: Sequence[NodePool]) -> list[KubernetesObject]:
    """The volumes and claims of the groups' file systems, which live and go with the pods that mount them."""
    stores = {volume.name: volume for pool in pools for volume in pool.mounts.values()}
    return [one for volume in stores.values() for one in shared_volume(volume, namespace=SLURM_NAMESPACE)]


# Files of Slurm.


def gres_plan(pool: NodePool, cluster: SlurmCluster) -> GresPlan | None:
    """The GPUs and slices of a group as Slurm has them; None if it has no GPU."""
    if not gpu_pools([pool]):
        return None
    ids = cluster.gpu_instance_ids.get(pool.name)
    return plan_gres(pool.instance_type, pool.mig, mode=_mode(pool, cluster), gpu_instance_ids=ids)


def _mode(pool: NodePool, cluster: SlurmCluster) -> GresMode:
    if pool.mig is not None and pool.name in cluster.gpu_instance_ids:
        return GresMode.EXPLICIT
    return GresMode.NVIDIA if cluster.nvml_image is None else GresMode.AUTODETECT


def node_names(pool: NodePool) -> str:
    """Names of a group's nodes in Slurm, as a host list.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> node_names(node_pool("train", instance_type="p5.48xlarge", node_count=16))
        'train-[0-15]'
    """
    return f"{pool.name}-[0-{pool.node_count - 1}]" if pool.node_count > 1 else f"{pool.name}-0"


def config_files(pools: Sequence[NodePool], cluster: SlurmCluster) -> dict[str, str]:
    """Files beside slurm.conf that slurmctld hands to all nodes, by name."""
    files = {"cgroup.conf": _lines({"CgroupPlugin": "cgroup/v2", "IgnoreSystemd": "yes", **CGROUP_SETTINGS})}
    plans = [(node_names(pool), plan) for pool in pools if (plan := gres_plan(pool, cluster)) is not None]
    if plans:
        files["gres.conf"] = _gres_conf(plans)
    if (topologies := topology_yaml(pools)) is not None:
        files["topology.yaml"] = topologies
    return files


def _gres_conf(plans: Sequence[tuple[str, GresPlan]]) -> str:
    """One mechanism for every node, and records for those whose slices it does not find."""
    detected = dict.fromkeys(_lines(plan.records[0]) for _, plan in plans if plan.mode is not GresMode.EXPLICIT)
    recorded = [(names, plan) for names, plan in plans if plan.mode is GresMode.EXPLICIT]
    texts = [f"NodeName={names} AutoDetect=off\n{plan.conf_text(names)}" for names, plan in recorded]
    return "".join([*detected, *texts])


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


# Parts of the values.


def _controller(pools: Sequence[NodePool], cluster: SlurmCluster, images: SoftwareSource) -> dict[str, Any]:
    own = {
        "ReturnToService": _RETURN_TO_SERVICE,
        "TaskPlugin": "task/affinity,task/cgroup",  # the second reads cgroup.conf
    }
    if gpu_pools(pools):
        own["GresTypes"] = "gpu"
        if cluster.accounting is not None:
            own["AccountingStorageTRES"] = "gres/gpu"
    image = images.repository_and_tag("slurmctld")
    return {
        "slurmctld": {"image": image, "resources": _CONTROLLER_REQUESTS},
        # A sidecar that takes changes of gres.conf and topology.yaml: without it the operator restarts slurmctld, for
        # slurm.conf only (SlinkyProject/slurm-operator v1.2.1, controller_app.go, getHashes).
        "inplaceReconfigure": True,
        "reconfigure": {"image": image},
        "logfile": {"image": image},  # a shell; the chart names alpine:latest
        "extraConfMap": merged_settings({**JOB_SETTINGS, **own}, cluster.settings),
        "persistence": {"storageClassName": cluster.storage_class or _STORAGE_CLASS},
        "service": {"spec": {"type": "ClusterIP"}},
    }


def _storage_class(cluster: SlurmCluster) -> list[KubernetesObject]:
    if cluster.storage_class is not None:
        return []
    made: KubernetesObject = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": _STORAGE_CLASS},
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3", "encrypted": "true"},
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    return [made]


def _accounting(cluster: SlurmCluster, images: SoftwareSource) -> dict[str, Any]:
    database = cluster.accounting
    if database is None:
        return {"enabled": False}
    return {
        "enabled": True,
        "slurmdbd": {"image": images.repository_and_tag("slurmdbd"), "resources": _CONTROLLER_REQUESTS},
        "storageConfig": {
            "host": database.host,
            "port": database.port,
            "database": database.database,
            "username": database.username,
            "passwordKeyRef": {"name": database.secret_name, "key": database.key},
        },
    }


def _logins(pools: Sequence[NodePool], cluster: SlurmCluster, images: SoftwareSource) -> dict[str, Any]:
    if not cluster.login:
        return {}
    image = images.repository_and_tag("slurm-login")
    mounts = {point: volume for pool in pools for point, volume in pool.mounts.items()}
    made: dict[str, Any] = {
        "login": {
            "image": image,
            "resources": _CONTROLLER_REQUESTS,
            "volumeMounts": [volume_mount(volume, point) for point, volume in mounts.items()],
        },
        "initconf": {"image": image},
        "podSpec": {"volumes": claimed(mounts.values())},
        "service": {"spec": {"type": "ClusterIP"}},
    }
    if cluster.root_authorized_keys is not None:
        made["rootSshAuthorizedKeys"] = cluster.root_authorized_keys
    return {"login": made}


def _nodeset(pool: NodePool, cluster: SlurmCluster, images: SoftwareSource, *, is_first: bool) -> dict[str, Any]:
    share = NodeShare(resource="", count=0, part=Fraction(1), efa_count=pool.efa_count)
    shm, shm_mount = shared_memory(memory_mib(pool, share) // 4)  # as for jobs of Kubernetes
    plan = gres_plan(pool, cluster)
    image: Any = images.repository_and_tag("slurmd")
    partition = {"State": "UP", "MaxTime": "UNLIMITED", **({"Default": "YES"} if is_first else {})}
    if (topology := topology_name(pool)) is not None:
        partition["Topology"] = topology
    stores = [volume_mount(volume, point) for point, volume in pool.mounts.items()]
    place = placement(pool)
    return {
        "replicas": pool.node_count,
        "slurmd": {
            "image": image if plan is None or cluster.nvml_image is None else cluster.nvml_image,
            "resources": _resources(pool, share),
            "volumeMounts": [shm_mount, *stores],
        },
        "logfile": {"image": image},
        **({} if plan is None else {"extraConfMap": {"Gres": plan.node_gres}}),
        "partition": {"enabled": True, "configMap": partition},
        "podSpec": {**place, "volumes": [shm, *claimed(pool.mounts.values())]},
    }


def _resources(pool: NodePool, share: NodeShare) -> dict[str, dict[str, str]]:
    """All of a node: every GPU or slice of every profile, the EFA interfaces, and the memory that is left to pods."""
    devices = {name: str(count) for name, count in pool.resources.items()}
    return {name: {**given, **devices} for name, given in pod_resources(pool, share).items()}


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(first)
    for key, value in second.items():
        mine = both.get(key)
        both[key] = _merged(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return both


# What cannot work.


@check
def check_slurm_cluster(pools: Sequence[NodePool], cluster: SlurmCluster) -> Iterator[Finding]:
    """Find groups that cannot be nodes of Slurm, and settings for groups that are not there.

    Args:
        pools: Groups of nodes that belong to Slurm.
        cluster: What does not follow from the nodes.
    """
    names = [pool.name for pool in pools]
    total = sum(pool.node_count for pool in pools)
    if not names or len(set(names)) < len(names) or not 0 < total <= _MAX_NODES or "default" in names:
        yield SLURM_NODES.finding(
            cause="these groups are no nodes and partitions of one Slurm cluster",
            got=f"{total} nodes in the groups {', '.join(names) or '(none)'}",
            allowed=f"different names, none of them default, and 1 to {_MAX_NODES} nodes in all",
            fix="change the groups that belong to Slurm",
            path="pools",
        )
    for pool in pools:
        yield from check_name(pool.name, longest=_LONGEST_GROUP, path=f"pools.{pool.name}")
        if gpu_pools([pool]):
            ids = cluster.gpu_instance_ids.get(pool.name)
            found = check_gres_plan(pool.instance_type, pool.mig, mode=_mode(pool, cluster), gpu_instance_ids=ids)
            yield from (one.at(f"pools.{pool.name}") for one in found)
    split = [pool.name for pool in pools if pool.mig is not None]
    yield from _unknown("gpu_instance_ids", cluster.gpu_instance_ids, split, "groups with MIG")
    yield from _check_dns_names(cluster)
    yield from _check_return("settings", cluster.settings)


def _check_return(path: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Settings after which a node stays DOWN. Slurm does not tell small letters of a name from large ones."""
    for name, value in settings.items():
        if name.lower() == "returntoservice" and str(value).strip() != _RETURN_TO_SERVICE:
            yield RETURN_TO_SERVICE.finding(
                cause="a node would stay DOWN after its pod ended, until a user resumes it",
                got=f"{name}={value}",
                allowed=_RETURN_TO_SERVICE,
                fix=f"write ReturnToService={_RETURN_TO_SERVICE}; to keep jobs from a node, drain it with scontrol",
                path=f"{path}.{name}",
            )


def _check_dns_names(cluster: SlurmCluster) -> Iterator[Finding]:
    database = cluster.accounting
    names = {"sssd_secret": cluster.sssd_secret, "storage_class": cluster.storage_class}
    if database is not None:
        # Letters of a host name may be large.
        names |= {"accounting.host": database.host.lower(), "accounting.secret_name": database.secret_name}
    for path, name in names.items():
        if name is not None and not _DNS_NAME.fullmatch(name):
            yield DNS_NAMES.finding(
                cause="this is no DNS name",
                got=repr(name),
                allowed="letters, digits and dashes, with dots between parts, such as slurm.lab.internal",
                fix="change the name; a port has a key of its own",
                path=path,
            )


def _unknown(key: str, given: Mapping[str, Any], known: Sequence[str], what: str) -> Iterator[Finding]:
    if others := [name for name in given if name not in known]:
        yield UNKNOWN_GROUP.finding(
            cause=f"these are none of the {what}",
            got=", ".join(others),
            allowed=", ".join(known) or f"none: there are no {what}",
            fix="change the name, or remove the key",
            path=key,
        )


#: Annotations that make the load balancer of a service an internal one.
_INTERNAL = {
    "service.beta.kubernetes.io/aws-load-balancer-scheme": "internal",
    "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
}


@check
def check_slurm_values(values: Mapping[str, Any], pools: Sequence[NodePool]) -> Iterator[Finding]:
    """Find what values of the chart `slurm` must not say, whoever wrote them.

    Args:
        values: Values of the chart.
        pools: Groups of nodes that belong to Slurm.
    """
    by_name = {pool.name: pool for pool in pools}
    nodesets = values.get("nodesets", {})
    controller = values.get("controller", {})
    if text := controller.get(
        "extraConf"
    ):  # the chart then reads no map (helm/slurm/templates/controller/_helpers.tpl)
        given = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        named = any(name.lower() == "returntoservice" for name in given)
        yield from _check_return("controller.extraConf", given if named else {"ReturnToService": "0"})
    else:
        yield from _check_return("controller.extraConfMap", controller.get("extraConfMap", {}))
    yield from _unknown("nodesets", nodesets, list(by_name), "groups of nodes")
    for name, nodeset in nodesets.items():
        gres = nodeset.get("extraConfMap", {}).get("Gres")
        if gres is not None and name in by_name:
            pool = by_name[name]
            text = gres if isinstance(gres, str) else ",".join(gres)
            found = check_gres(text, pool.instance_type, pool.mig)
            yield from (one.at(f"nodesets.{name}.extraConfMap") for one in found)
    for name, login in values.get("loginsets", {}).items():
        yield from _public_logins(name, login, values.get("loginsetDefaults", {}))


def _public_logins(name: str, login: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[Finding]:
    service = _merged(defaults, login).get("service", {})
    kind = service.get("spec", {}).get("type", "LoadBalancer")  # the chart's own
    annotations = service.get("metadata", {}).get("annotations", {})
    if kind == "LoadBalancer" and not any(annotations.get(key) == value for key, value in _INTERNAL.items()):
        yield LOGIN_SERVICE.finding(
            cause="SSH of the login nodes would be reached from the internet",
            got="a service of type LoadBalancer without an annotation that makes it internal",
            allowed="ClusterIP, or LoadBalancer with the annotation "
            "service.beta.kubernetes.io/aws-load-balancer-scheme: internal",
            fix="leave the service as it is, and reach it with kubectl port-forward",
            path=f"loginsets.{name}.service",
        )
