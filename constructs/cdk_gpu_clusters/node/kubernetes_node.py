"""An EKS node: the `NodeConfig` that nodeadm reads, kubectl, and the RBAC rights for the node's health.

Sources: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/crds/node.eks.aws_nodeconfigs.yaml and nodeadm/doc/examples.md (parts
are merged in their order), and issue 1557 (the images have no kubectl); Amazon EKS user guide, "Customize managed nodes
with launch templates"; Kubernetes documentation, "Using Node Authorization" (a kubelet writes its own node, and since
1.32 reads no other) and "Admission Controllers Reference", NodeRestriction (no taints after the registration).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cdk_gpu_clusters.errors import Finding, define_rule, raise_for
from cdk_gpu_clusters.node.settings import UserDataPart
from cdk_gpu_clusters.node.software import NodeFile

KUBELETS = "system:nodes"

#: Room for a certificate authority, which is a token at synthesis: a certificate of about 1.1 KB, in base64.
CERTIFICATE_BYTES = 2_048
#: Room for the NodeConfig that EKS adds to the user data of nodes that it bootstraps: the certificate, and about 1 KB
#: of names, labels and taints, an estimate. EKS's own launch template holds both, and has EC2's limit too (Amazon EKS
#: user guide, "Customize managed nodes with launch templates": user data is merged).
ADDED_BY_EKS_BYTES = CERTIFICATE_BYTES + 1_024

UNKNOWN_CLUSTER = define_rule(
    "GPU-EKS-001",
    "A node that EKS does not bootstrap needs the cluster that it joins",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates", Amazon Linux 2023 user data; '
    "awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/api/validation.go",
)
GROUP_SETTING = define_rule(
    "GPU-EKS-002",
    "Labels, taints and kubelet flags of a managed node group are given to the group",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates": EKS starts kubelet, and labels are '
    "set by the API of the group",
)
LABEL = define_rule(
    "GPU-EKS-003",
    "Labels and taints are ones that kubelet may set on its own node",
    source='Kubernetes documentation, "Labels and Selectors" (syntax) and kubelet `--node-labels` (kubernetes.io)',
)
KUBELET = define_rule(
    "GPU-EKS-004",
    "A kubelet configuration is plain JSON",
    source="awslabs/amazon-eks-ami @ 81fec2e, nodeadm/doc/api.md: KubeletOptions.config",
)
NOT_EKS = define_rule(
    "GPU-EKS-005",
    "Only EKS nodes have a NodeConfig",
    source="nodeadm is a program of EKS's Amazon Linux 2023 images",
)

PINNED = define_rule(
    "GPU-EKS-006",
    "kubectl is fetched over TLS or from S3, and verified by its sha256",
    source='Kubernetes documentation, "Install kubectl binary on Linux with curl": validate the binary',
)

_OVER_EKS = "/etc/eks/nodeadm.d/50-gpu-cluster.json"
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_TAINT = re.compile(r"([^=:]+)(?:=([^=:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)")
_RESERVED = ("kubernetes.io", "k8s.io")
_ALLOWED = ("kubelet.kubernetes.io", "node.kubernetes.io")


class EksClusterLike(Protocol):
    """A cluster of EKS, such as CDK's own `aws_eks.Cluster`."""

    @property
    def cluster_name(self) -> str:
        """Its name."""
        ...

    @property
    def cluster_endpoint(self) -> str:
        """URL of its API server."""
        ...

    @property
    def cluster_certificate_authority_data(self) -> str:
        """Its certificate authority, in base64."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EksCluster:
    """The cluster that a node joins, as `aws eks describe-cluster` has it. All but the CIDR may be CDK tokens.

    Attributes:
        name: Its name.
        endpoint: URL of its API server.
        certificate_authority: Its certificate authority, in base64.
        service_cidr: Its service CIDR block, from which kubelet takes the address of DNS.

    Example:
        >>> EksCluster(
        ...     name="training", endpoint="https://0.gr7.us-east-1.eks.amazonaws.com", certificate_authority="LS0t",
        ...     service_cidr="172.20.0.0/16",
        ... ).name
        'training'
    """

    name: str
    endpoint: str
    certificate_authority: str
    service_cidr: str

    @classmethod
    def of(cls, cluster: EksClusterLike, *, service_cidr: str) -> EksCluster:
        """A cluster of CDK's.

        Args:
            cluster: The cluster.
            service_cidr: Its service CIDR block, which CDK does not provide.
        """
        return cls(
            name=cluster.cluster_name,
            endpoint=cluster.cluster_endpoint,
            certificate_authority=cluster.cluster_certificate_authority_data,
            service_cidr=service_cidr,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """How an EKS node is set up, as nodeadm has it.

    A managed node group without an image of its own gets most of it from EKS: only `kubelet_config` may be given.

    Attributes:
        cluster: The cluster that the node joins; None if EKS provides it.
        labels: Labels of the node.
        taints: Taints of the node, such as `nvidia.com/gpu=true:NoSchedule`.
        kubelet_config: Fields of a `KubeletConfiguration`, by their own names.
        kubelet_flags: Arguments of kubelet, such as `--v=4`.

    Example:
        >>> NodeConfig(kubelet_config={"topologyManagerPolicy": "single-numa-node"}).taints
        ()
    """

    cluster: EksCluster | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    kubelet_config: Mapping[str, Any] = field(default_factory=dict)
    kubelet_flags: tuple[str, ...] = ()


def node_config_text(config: NodeConfig, *, local_storage: str | None = None) -> str:
    """The body of the part, as JSON, which is also YAML; empty if nothing is configured.

    Args:
        config: How the node is set up.
        local_storage: nodeadm's strategy for local disks, such as `RAID0`; None: they are left alone.
    """
    spec: dict[str, Any] = {}
    cluster, flags = config.cluster, _flags(config)
    if cluster is not None:
        spec["cluster"] = {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": cluster.service_cidr,
        }
    if local_storage is not None:
        spec["instance"] = {"localStorage": {"strategy": local_storage}}
    if config.kubelet_config:
        spec.setdefault("kubelet", {})["config"] = dict(config.kubelet_config)
    if flags:
        spec.setdefault("kubelet", {})["flags"] = flags
    if not spec:
        return ""
    document = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    return json.dumps(document, indent=1) + "\n"


def over_eks(config: NodeConfig) -> tuple[NodeFile, ...]:
    """The configuration of kubelet as a file that nodeadm prefers to all user data; empty without a configuration.

    EKS sets a number of pods of its own in the user data of nodes that it bootstraps, and its part may come last
    (Amazon EKS user guide, "How maxPods is determined"). Images before v20251023 read no such file, and use the part
    of the user data (awslabs/amazon-eks-ami pull request 2427, nodeadm/doc/examples.md).

    Args:
        config: How the node is set up.
    """
    if not config.kubelet_config:
        return ()
    text = node_config_text(NodeConfig(kubelet_config=config.kubelet_config))
    return (NodeFile(path=_OVER_EKS, text=text),)


def check_node_config(config: NodeConfig, *, bootstrapped: bool) -> list[Finding]:
    """Find what prevents a node from joining, and settings that belong to the node group.

    Args:
        config: How the node is set up.
        bootstrapped: Whether EKS bootstraps the nodes, as it does in managed groups without an image of their own.
    """
    findings = [
        finding.at("node_config")
        for finding in (*check_labels(config.labels, config.taints), *check_kubelet(config.kubelet_config))
    ]
    given = [name for name in ("labels", "taints", "kubelet_flags") if getattr(config, name)]
    if config.cluster is None and not bootstrapped:
        findings.append(
            UNKNOWN_CLUSTER.finding(
                cause="the node would not know which cluster to join",
                got="no cluster",
                fix="node_config=NodeConfig(cluster=EksCluster.of(cluster, service_cidr=...))",
                path="node_config.cluster",
            )
        )
    if config.cluster is None and bootstrapped and given:
        findings.append(
            GROUP_SETTING.finding(
                cause="the managed node group sets this itself",
                got=", ".join(given),
                allowed="kubelet_config",
                fix="give labels and taints to the node group; with an image of your own in the launch template, EKS "
                "sets nothing: then also give the cluster",
                path="node_config",
            )
        )
    return findings


def _flags(config: NodeConfig) -> list[str]:
    labels = ",".join(f"{name}={value}" for name, value in config.labels.items())
    return [
        *([f"--node-labels={labels}"] if labels else []),
        *([f"--register-with-taints={','.join(config.taints)}"] if config.taints else []),
        *config.kubelet_flags,
    ]


def check_labels(labels: Mapping[str, str], taints: Sequence[str] = ()) -> list[Finding]:
    """Find labels and taints that kubelet would refuse.

    Args:
        labels: Labels of a node.
        taints: Taints, such as `nvidia.com/gpu=true:NoSchedule`.
    """
    wrong = {f"labels.{name}": f"{name}={value}" for name, value in labels.items() if not _is_label(name, value)}
    for index, taint in enumerate(taints):
        parts = _TAINT.fullmatch(taint)
        if parts is None or not (_LABEL_KEY.fullmatch(parts[1]) and _LABEL_VALUE.fullmatch(parts[2] or "")):
            wrong[f"taints[{index}]"] = taint
    return [
        LABEL.finding(
            cause="kubelet would not start with this",
            got=got,
            allowed="labels such as team=research, outside kubernetes.io; taints such as nvidia.com/gpu=true:NoExecute",
            path=path,
        )
        for path, got in wrong.items()
    ]


def _is_label(name: str, value: str) -> bool:
    domain = name.partition("/")[0] if "/" in name else ""
    reserved = any(domain == one or domain.endswith(f".{one}") for one in _RESERVED)
    allowed = any(domain == one or domain.endswith(f".{one}") for one in _ALLOWED)
    return bool(_LABEL_KEY.fullmatch(name) and _LABEL_VALUE.fullmatch(value)) and (allowed or not reserved)


def check_kubelet(kubelet_config: Mapping[str, Any]) -> list[Finding]:
    """Find a kubelet configuration that cannot be read.

    Args:
        kubelet_config: Fields of a `KubeletConfiguration`.
    """
    try:
        json.dumps(dict(kubelet_config), allow_nan=False)
    except (TypeError, ValueError) as fault:
        return [KUBELET.finding(cause=str(fault), got="kubelet_config", path="kubelet_config")]
    return []


_NAME = "gpu-cluster-node-health"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def kubectl_part(*, url: str, sha256: str) -> UserDataPart:
    """A user-data part that installs kubectl on a node of EKS, whose images have none. The watchdog needs none.

    If it cannot be fetched, or has another digest, the script and the boot fail: the node accepts no work.

    Args:
        url: The program of the nodes' architecture, version 1.28 or later: `https://...`, or `s3://...` if the
            nodes reach no internet and their role may read the object.
        sha256: Its digest, in hexadecimal.

    Raises:
        ConfigError: GPU-EKS-006.

    Example:
        >>> part = kubectl_part(url="https://dl.k8s.io/release/v1.34.1/bin/linux/amd64/kubectl", sha256="0" * 64)
        >>> part.content_type
        'text/x-shellscript'
    """
    cause = "the nodes would run a program as root without verifying it"
    findings = []
    if not url.startswith(("https://", "s3://")):
        findings.append(PINNED.finding(cause=cause, got=url, allowed="https://... or s3://...", path="url"))
    if not _SHA256.fullmatch(sha256):
        allowed = "64 hexadecimal digits, as in the file beside the program"
        findings.append(PINNED.finding(cause=cause, got=sha256, allowed=allowed, path="sha256"))
    raise_for(findings)
    place, source = "/usr/local/bin/kubectl", shlex.quote(url)
    get = f"aws s3 cp --only-show-errors {source}" if url.startswith("s3:") else f"curl -fsSL --retry 5 {source} -o"
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
    """The RBAC objects that let nodes read how many others are out of service, and change nodes with another identity.

    Nodes do not need them to cordon themselves: their kubelet's identity may, and the slots in the log group count.

    Args:
        group: The group that gets the rights. `system:nodes`, the kubelets, may then read all nodes. Admission still
            forbids them to change taints. Any other group, of an identity in `GPU_KUBECONFIG`, may also change nodes.

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
