"""A namespace for jobs: no pod of it becomes root on its node, and no pod of another namespace connects to its own."""

from __future__ import annotations

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, check_name, kubernetes_object, metadata

# Kubernetes documentation, "Pod Security Admission" (labels) and "Pod Security Standards": baseline refuses privileged
# pods, the host's namespaces, hostPath volumes, host ports and further capabilities. Restricted also asks for another
# user than root, which most training images do not have: it only warns.
_POD_SECURITY = "pod-security.kubernetes.io"
_LEVELS = {"enforce": "baseline", "warn": "restricted", "audit": "restricted"}


def job_namespace(name: str) -> list[KubernetesObject]:
    """A namespace in which users run jobs and model servers, and its network policy.

    Pod Security admission refuses pods that could take over their node, whoever makes them. Pods take connections from
    pods of their own namespace only: further NetworkPolicies add to that, such as one for the clients of a model
    server. The load balancer of a gateway in this namespace needs one: `ModelGateway.subnet_cidrs`. What pods connect
    to is not limited, so DNS, the API server and AWS are reachable. EFA traffic passes by the kernel, and so by network
    policies: a security group separates fleets on EFA.

    The VPC CNI enforces network policies if its add-on has `enableNetworkPolicy`, which clusters made here have.

    Sources: Kubernetes documentation, "Network Policies" (default deny, additive rules); Amazon EKS user guide, "Limit
    Pod traffic with Kubernetes network policies".

    Args:
        name: Name of the namespace.

    Raises:
        ConfigError: GPU-K8S-001.

    Example:
        >>> [f"{one['kind']}/{one['metadata']['name']}" for one in job_namespace("research")]
        ['Namespace/research', 'NetworkPolicy/own-namespace-only']
    """
    raise_for(check_name(name))
    labels = {f"{_POD_SECURITY}/{mode}": level for mode, level in _LEVELS.items()}
    about = metadata(name, namespace=None, labels=labels)
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": about},
        kubernetes_object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "own-namespace-only",
            {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]},
            namespace=name,
        ),
    ]
