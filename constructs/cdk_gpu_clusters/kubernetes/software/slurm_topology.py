"""Where nodes are in EC2's network, as Slinky's operator hands it to Slurm: an annotation of each node.

EKS labels a node with the layers of the network above it. The operator reads an annotation instead
(`topology.slinky.slurm.net/spec`: SlinkyProject/slurm-operator @ 87313da, docs/usage/topology.md and
api/v1beta1/well_known.go), so a job writes one from the other every few minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdk_gpu_clusters.catalogue.instances import topology_labels
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, kubernetes_object, metadata
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL

#: What the operator reads of a node.
TOPOLOGY_ANNOTATION = "topology.slinky.slurm.net/spec"
NAME = "slurm-topology"
#: A node that joins waits so long at most for its place. This library's choice.
_SCHEDULE = "*/5 * * * *"
_RBAC = "rbac.authorization.k8s.io"

# Partitions without a topology of their own have the first. A tree begins with its top switch: the switches below it
# are made with the nodes that are below them (Slurm, "Topology Guide", Dynamic Topology).
_FLAT = """\
---
- topology: flat
  cluster_default: true
  flat: true
"""
_TREE = """\
- topology: {name}
  cluster_default: false
  tree:
    switches:
      - switch: {name}
"""
# A label that is not there leaves nothing between two colons: EC2 has not answered yet, and the node stays as it is.
_ANNOTATE = """\
kubectl get nodes --selector '{selector}' --output 'jsonpath={path}' | while read -r node spec; do
  case "$spec" in
  *::* | *:) ;;
  *) kubectl annotate node "$node" --overwrite "{annotation}=$spec" ;;
  esac
done
"""


def layer_labels(pool: NodePool) -> tuple[str, ...]:
    """The labels of the network's layers that the nodes of a group have, from the top; none if they are unknown."""
    return topology_labels(pool.instance_type) if pool.network_topology else ()


def topology_name(pool: NodePool) -> str | None:
    """The topology of a group's partition, and its top switch; None for nodes whose place in the network is unknown.

    Nodes below three layers of EC2's network and those below four have trees of their own: a switch of Slurm has either
    nodes or switches.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> topology_name(node_pool("train", instance_type="p5.48xlarge", node_count=2))
        'ec2-3'
    """
    layers = len(layer_labels(pool))
    return f"ec2-{layers}" if layers else None


def topology_yaml(pools: Sequence[NodePool]) -> str | None:
    """The text of topology.yaml; None if no group's place in the network is known."""
    names = sorted({name for pool in pools if (name := topology_name(pool)) is not None})
    return "".join([_FLAT, *(_TREE.format(name=name) for name in names)]) if names else None


def topology_spec(pool: NodePool, labels: Mapping[str, str]) -> str:
    """The annotation of a node: its topology, and the switches above it from the top.

    Args:
        pool: Its group.
        labels: Its labels, all of `layer_labels` among them.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("train", instance_type="p5.48xlarge", node_count=2)
        >>> topology_spec(pool, dict(zip(layer_labels(pool), ("nn-1", "nn-2", "nn-3"))))
        'ec2-3:ec2-3:nn-1:nn-2:nn-3'
    """
    name = topology_name(pool)
    return ":".join([f"{name}:{name}", *(labels[label] for label in layer_labels(pool))])


def topology_script(pools: Sequence[NodePool]) -> str:
    """The shell script that annotates the nodes of each group."""
    parts = []
    for name in sorted({name for pool in pools if (name := topology_name(pool)) is not None}):
        groups = [pool for pool in pools if topology_name(pool) == name]
        # Dots of a key are escaped in JSONPath.
        layers = (f"{{.metadata.labels.{label.replace('.', chr(92) + '.')}}}" for label in layer_labels(groups[0]))
        spec = ":".join([name, name, *layers])
        path = f'{{range .items[*]}}{{.metadata.name}} {spec}{{"\\n"}}{{end}}'
        selector = f"{FLEET_LABEL} in ({','.join(pool.node_selector[FLEET_LABEL] for pool in groups)})"
        parts.append(_ANNOTATE.format(selector=selector, path=path, annotation=TOPOLOGY_ANNOTATION))
    return "set -eu\n" + "".join(parts)


def topology_objects(pools: Sequence[NodePool], *, image: str, namespace: str) -> list[KubernetesObject]:
    """A CronJob that annotates nodes, and its rights: to read nodes, and to change their metadata.

    Kubernetes cannot limit a right to one annotation, so it may change all of a node's labels and annotations.

    Args:
        pools: Groups of nodes that belong to Slurm.
        image: Image with a shell and kubectl.
        namespace: Namespace of the job.
    """
    if topology_yaml(pools) is None:
        return []
    about = metadata(NAME, namespace=None)
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": about,
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}],
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME, namespace=namespace)}
    job = kubernetes_object("batch/v1", "CronJob", NAME, _cron_job(pools, image), namespace=namespace)
    return [account, role, binding, job]


def _cron_job(pools: Sequence[NodePool], image: str) -> dict[str, Any]:
    container = {
        "name": "annotate",
        "image": image,
        "command": ["/bin/bash", "-o", "pipefail", "-c"],
        "args": [topology_script(pools)],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65534,
        },
    }
    pod = {
        "serviceAccountName": NAME,
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "containers": [container],
    }
    return {
        "schedule": _SCHEDULE,
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {
            "spec": {"backoffLimit": 0, "activeDeadlineSeconds": 240, "template": {"spec": pod}},
        },
    }
