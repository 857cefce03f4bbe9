"""What an EKS node needs to tell Kubernetes that it is not well: kubectl, and at most two objects of RBAC.

Sources: awslabs/amazon-eks-ami issue 1557 (the images get no kubectl); Kubernetes documentation, "Using Node
Authorization" (a kubelet writes its own node, and since 1.32 reads no other) and "Admission Controllers Reference",
NodeRestriction (no taints after the registration).
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from cdk_gpu_clusters.errors import ConfigError, define_rule
from cdk_gpu_clusters.node.settings import UserDataPart

KUBELETS = "system:nodes"
_NAME = "gpu-cluster-node-health"
_SHA256 = re.compile(r"[0-9a-f]{64}")

PINNED = define_rule(
    "GPU-EKS-006",
    "kubectl comes over TLS or from S3, and is known by its sha256",
    source='Kubernetes documentation, "Install kubectl binary on Linux with curl": validate the binary',
)


def kubectl_part(*, url: str, sha256: str) -> UserDataPart:
    """A user-data part that brings kubectl to a node of EKS, whose images have none.

    Where it does not come, or is another one, the script fails, and with it the boot: the node takes no work.

    Args:
        url: The program of the nodes' architecture, version 1.28 or later: `https://...`, or `s3://...` where the
            nodes reach no internet and their role may read the object.
        sha256: Its digest, in hexadecimal.

    Raises:
        ConfigError: GPU-EKS-006.

    Example:
        >>> part = kubectl_part(url="https://dl.k8s.io/release/v1.34.1/bin/linux/amd64/kubectl", sha256="0" * 64)
        >>> part.content_type
        'text/x-shellscript'
    """
    wrong = []
    if not url.startswith(("https://", "s3://")):
        wrong.append(("url", url, "https://... or s3://..."))
    if not _SHA256.fullmatch(sha256):
        wrong.append(("sha256", sha256, "64 hexadecimal digits, such as the file beside the program says"))
    if wrong:
        raise ConfigError(
            [
                PINNED.finding(
                    cause="the nodes would run a program as root that nobody can tell from another",
                    got=got,
                    allowed=allowed,
                    path=path,
                )
                for path, got, allowed in wrong
            ]
        )
    place, source = "/usr/local/bin/kubectl", shlex.quote(url)
    get = (
        f"aws s3 cp --only-show-errors {source}"
        if url.startswith("s3:")
        else f"curl -fsSL --retry 5 {source} -o"
    )
    lines = [
        "#!/bin/sh",
        "set -e",
        f"{get} {place}.new",
        f"echo '{sha256}  {place}.new' | sha256sum -c -",
        f"chmod 755 {place}.new",
        f"mv {place}.new {place}",
    ]
    return UserDataPart(content_type="text/x-shellscript", body="\n".join(lines) + "\n")


def node_health_rights(group: str = KUBELETS) -> list[dict[str, Any]]:
    """The RBAC objects that let nodes see how many others are out of service, and those of another identity taint.

    Nodes need none of it to cordon themselves: their kubelet's identity may, and the places in the log group count.

    Args:
        group: Who gets the rights. `system:nodes`, the kubelets, may then read all nodes; admission still keeps their
            hands off taints. Any other group, of an identity that `GPU_KUBECONFIG` names, may change all nodes too.

    Returns:
        A ClusterRole and its ClusterRoleBinding.

    Example:
        >>> [one["kind"] for one in node_health_rights()]
        ['ClusterRole', 'ClusterRoleBinding']
    """
    api = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]
    if group != KUBELETS:
        rules.append({"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["patch"]})
    name = _NAME if group == KUBELETS else f"{_NAME}-{group}"
    common = {"apiVersion": f"{api}/v1", "metadata": {"name": name}}
    return [
        {**common, "kind": "ClusterRole", "rules": rules},
        {
            **common,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": group}],
        },
    ]
