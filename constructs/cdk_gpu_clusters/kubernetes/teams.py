"""The namespace of a team: its queues, its limits, who may work in it, and the priorities of its jobs.

Sources: Kubernetes documentation, "Resource Quotas" (extended resources have `requests.` items only), "Using RBAC
Authorization"; kubernetes-sigs/kueue v0.19.2, docs "Setup default LocalQueue" and "Workload Priority Class"; Amazon EKS
user guide, "Create access entries".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.kubernetes.gpu_pod import EFA_CLASS, EFA_RESOURCE
from cdk_gpu_clusters.kubernetes.namespaces import job_namespace
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, check_name, kubernetes_object, metadata
from cdk_gpu_clusters.kubernetes.queues import API, CLUSTER_QUEUE, DEFAULT_QUEUE, local_queue
from cdk_gpu_clusters.kubernetes.ray import operator_policy
from cdk_gpu_clusters.kubernetes.team_quotas import Team, check_teams, most_devices, with_devices

#: Priority classes of jobs, by their name. A job without one has priority 0 (kubernetes-sigs/kueue v0.19.2,
#: pkg/constants: DefaultPriority).
PRIORITIES: Mapping[str, int] = MappingProxyType({"gpu-low": -100, "gpu-high": 100})
#: The label by which a job names its priority class.
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
#: Kueue gives this queue to jobs that name none.
_DEFAULT_QUEUE = "default"
_TEAM_LABEL = "gpu-cluster/team"
_RBAC = "rbac.authorization.k8s.io/v1"
_ROLE, _VIEWER = "gpu-team", "gpu-teams-viewer"
_ADMISSION, _NO_EXTERNAL_ADDRESSES = "admissionregistration.k8s.io/v1", "gpu-teams-no-external-addresses"
#: Kubernetes documentation, "Guaranteed Scheduling For Critical Add-On Pods".
_CRITICAL = ("system-node-critical", "system-cluster-critical")


def team_objects(
    teams: Sequence[Team],
    pools: Sequence[NodePool],
    *,
    queue: str = DEFAULT_QUEUE,
    cluster_queue: str = CLUSTER_QUEUE,
    priorities: Mapping[str, int] = PRIORITIES,
) -> list[KubernetesObject]:
    """What teams have beside their ClusterQueues: `queues(..., teams=teams)` makes those.

    For each team a namespace with the baseline of the Pod Security Standards, which pods of this library keep to, and
    into which only its own pods connect, and KubeRay's operator to heads of Ray; LocalQueues, one of which takes jobs
    that name no queue; a ResourceQuota of devices, which also counts pods that Kueue does not know, such as
    Deployments, and allows no load balancers; one that allows no pods of Kubernetes' own priority classes; and a role
    for its members, by the Kubernetes group `gpu-team:<name>`. The role may run workloads. It may not change quotas,
    queues and network policies; `edit` of Kubernetes and AmazonEKSEditPolicy may change the latter. For all teams, a
    ValidatingAdmissionPolicy refuses Services with external addresses.

    Quotas do not stop a container that requests no GPU, on a node with GPUs, from seeing them ("Limits" of the page
    "Teams on Amazon EKS").

    A quota of the namespace is the same for all groups of nodes with a device: Kubernetes does not know of groups.

    Args:
        teams: The teams.
        pools: All groups of nodes of the cluster.
        queue: Name of the LocalQueue for jobs of this library.
        cluster_queue: Name of the ClusterQueue of those outside of teams.
        priorities: Priority classes of jobs, by name; jobs choose one by the label `kueue.x-k8s.io/priority-class`.
            They count within a team.

    Raises:
        ConfigError: GPU-K8S-001, GPU-TEAM-001 to -005.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> from cdk_gpu_clusters.kubernetes.team_quotas import TeamQuota
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> research = Team(name="research", quotas=[TeamQuota(pool="trainers", nominal=64)])
        >>> [one["kind"] for one in team_objects([research], [pool])][6:9]
        ['Namespace', 'NetworkPolicy', 'NetworkPolicy']
    """
    raise_for(
        [
            *check_teams(teams, pools, cluster_queue=cluster_queue),
            *check_name(queue, path="queue"),
            *(one for name in priorities for one in check_name(name, path="priorities")),
        ]
    )
    return [
        *(_priority_class(name, value) for name, value in priorities.items()),
        *_viewers(teams),
        *_no_external_addresses(),
        *(one for team in teams for one in _team_objects(team, teams, pools, queue)),
    ]


def _team_objects(team: Team, teams: Sequence[Team], pools: Sequence[NodePool], queue: str) -> list[KubernetesObject]:
    namespace, *policies = job_namespace(team.name)
    namespace["metadata"]["labels"][_TEAM_LABEL] = team.name
    most = _most(team, teams, pools)
    hard = {f"requests.{name}": str(number) for name, number in most.items()}
    # Interfaces that pods claim from AWS's DRA driver (Kubernetes documentation, "Resource Quotas", device classes).
    hard |= {f"{EFA_CLASS}.deviceclass.resource.k8s.io/devices": str(most[one]) for one in most if one == EFA_RESOURCE}
    # Who reaches its pods from outside the cluster is not the team's to decide: no network policy sees the client.
    hard |= {"services.loadbalancers": "0", "services.nodeports": "0"}
    return [
        namespace,
        *policies,
        # Members make no network policies, and so not the one that each Ray cluster of this library has.
        operator_policy(team.name),
        *(local_queue(team.name, name, team.name) for name in dict.fromkeys((queue, _DEFAULT_QUEUE))),
        kubernetes_object("v1", "ResourceQuota", "devices", {"hard": hard}, namespace=team.name),
        _no_critical_pods(team),
        {
            "apiVersion": _RBAC,
            "kind": "Role",
            "metadata": metadata(_ROLE, namespace=team.name),
            "rules": [dict(one) for one in _RULES],
        },
        _binding("RoleBinding", _ROLE, {"kind": "Role", "name": _ROLE}, [team], namespace=team.name),
    ]


def _no_critical_pods(team: Team) -> KubernetesObject:
    """Refuses pods that would end those of others.

    Kubernetes allows pods of its own priority classes in every namespace whose quotas do not limit them, and the
    scheduler ends pods of lower priority for them, whatever Kueue admitted (kubernetes/kubernetes pull request 76310;
    Kubernetes documentation, "Pod Priority and Preemption": warning). The charts of this library make no other classes.
    """
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": list(_CRITICAL)}
    spec = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}}
    return kubernetes_object("v1", "ResourceQuota", "no-critical-pods", spec, namespace=team.name)


def _no_external_addresses() -> list[KubernetesObject]:
    """Refuses Services of teams that take the traffic to addresses of others.

    Source: CVE-2020-8554; Amazon EKS user guide, "Restrict external IP addresses that can be assigned to services".
    Policies are v1 since Kubernetes 1.30 (Kubernetes documentation, "Validating Admission Policy").
    """
    services = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["services"]}
    none = {
        "expression": "!has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0",
        "message": "Services of teams have no externalIPs: they would take traffic to addresses of others",
    }
    policy = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [services]}, "validations": [none]}
    binding = {
        "policyName": _NO_EXTERNAL_ADDRESSES,
        "validationActions": ["Deny"],
        "matchResources": {
            "namespaceSelector": {"matchExpressions": [{"key": _TEAM_LABEL, "operator": "Exists"}]},
        },
    }
    return [
        kubernetes_object(_ADMISSION, kind, _NO_EXTERNAL_ADDRESSES, spec, namespace=None)
        for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding))
    ]


def _most(team: Team, teams: Sequence[Team], pools: Sequence[NodePool]) -> dict[str, int]:
    """Most devices that all pods of a team can have at once, also of groups in which it has none."""
    quotas = [one for each in teams for one in each.quotas]
    most = dict.fromkeys([name for pool in pools for name in pool.resources], 0)
    if any(pool.efa_count for pool in pools):
        most[EFA_RESOURCE] = 0
    for pool in pools:
        own = {one.resource: most_devices(pool, one, quotas) for one in team.quotas if one.pool == pool.name}
        for name, number in with_devices(pool, own).items():
            if name in most:
                most[name] += number
    return most


def _priority_class(name: str, value: int) -> KubernetesObject:
    about = metadata(name, namespace=None)
    return {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": about, "value": value}


# Rights of the members of a team.

_READ = ("get", "list", "watch")
_WRITE = (*_READ, "create", "update", "patch", "delete", "deletecollection")


def _rule(groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str]) -> dict[str, Any]:
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


_RULES = (
    _rule(
        [""],
        ["pods", "services", "configmaps", "secrets", "persistentvolumeclaims"],
        _WRITE,
    ),
    _rule([""], ["pods/log", "events", "endpoints", "resourcequotas", "serviceaccounts"], _READ),
    _rule([""], ["pods/exec", "pods/portforward", "pods/attach"], ["get", "create"]),
    _rule(["apps"], ["deployments", "deployments/scale", "statefulsets", "statefulsets/scale"], _WRITE),
    _rule(["apps"], ["replicasets"], _READ),
    _rule(["batch"], ["jobs", "cronjobs"], _WRITE),
    _rule(["autoscaling"], ["horizontalpodautoscalers"], _WRITE),
    _rule(["policy"], ["poddisruptionbudgets"], _WRITE),
    _rule(["networking.k8s.io"], ["networkpolicies"], _READ),
    _rule(["discovery.k8s.io"], ["endpointslices"], _READ),
    # The kinds of jobs of this library's charts.
    _rule(["jobset.x-k8s.io"], ["jobsets"], _WRITE),
    _rule(["leaderworkerset.x-k8s.io"], ["leaderworkersets"], _WRITE),
    _rule(["trainer.kubeflow.org"], ["trainjobs", "trainingruntimes"], _WRITE),
    _rule(["ray.io"], ["rayclusters", "rayjobs", "rayservices"], _WRITE),
    # What pods claim: EFA interfaces of AWS's DRA driver, and channels between the nodes of an UltraServer.
    _rule(["resource.k8s.io"], ["resourceclaimtemplates"], _WRITE),
    _rule(["resource.k8s.io"], ["resourceclaims"], _READ),
    _rule(["resource.nvidia.com"], ["computedomains"], _WRITE),
    _rule(["argoproj.io"], ["workflows"], _WRITE),
    _rule(["kueue.x-k8s.io"], ["localqueues", "workloads"], _READ),
    _rule(["visibility.kueue.x-k8s.io"], ["localqueues/pendingworkloads"], _READ),
)
#: What every team sees of all: who has which quota and uses how much of it. Not the jobs of others.
_VIEWER_RULES = (
    _rule(["kueue.x-k8s.io"], ["clusterqueues", "resourceflavors", "topologies", "workloadpriorityclasses"], _READ),
)


def _viewers(teams: Sequence[Team]) -> list[KubernetesObject]:
    role = {
        "apiVersion": _RBAC,
        "kind": "ClusterRole",
        "metadata": metadata(_VIEWER, namespace=None),
        "rules": [dict(one) for one in _VIEWER_RULES],
    }
    return [role, _binding("ClusterRoleBinding", _VIEWER, {"kind": "ClusterRole", "name": _VIEWER}, teams)]


def _binding(
    kind: str, name: str, role: Mapping[str, str], teams: Sequence[Team], *, namespace: str | None = None
) -> KubernetesObject:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": _RBAC,
        "kind": kind,
        "metadata": metadata(name, namespace=namespace),
        "roleRef": {"apiGroup": group, **role},
        "subjects": [{"kind": "Group", "apiGroup": group, "name": team.group} for team in teams],
    }
