"""The user data that a node of an EKS managed group gets: what the launch template says, and EKS's own part.

EKS copies the launch template, and merges what its nodes need to join into the user data (Amazon EKS user guide,
"Customize managed nodes with launch templates"). How, it does not say; this is what people have found on their nodes,
read 2026-11-22:

- a MIME part with a NodeConfig that says the cluster, `maxPods` and `clusterDNS` of kubelet, and labels as a flag of it
  (awslabs/amazon-eks-ami issue 2335; eksctl-io/eksctl issue 8037 on `maxPods`), where managed groups had taints as a flag
  too (awslabs/amazon-eks-ami issue 1129, of Amazon Linux 2; aws/containers-roadmap issue 1962 says that they come later);
- before the parts of the launch template (issue 2335), or after them (terraform-aws-modules/terraform-aws-eks issue
  3334, a maintainer): both are tried, since whatever comes last wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email import message_from_string
from typing import Any

import yaml

from cdk_gpu_clusters import EksCluster
from fakes.nodeadm import MEDIA_TYPE

#: EC2 takes no more, before base64 (AWS EC2 user guide).
LIMIT_BYTES = 16_384
_BOUNDARY = "//"


@dataclass(frozen=True, kw_only=True)
class ManagedGroup:
    """A managed node group, as far as its nodes are told of it.

    Attributes:
        cluster: Its cluster.
        name: Its name.
        max_pods: What EKS reckons from the type.
        labels: Labels of the group.
        taints: Its taints, such as `nvidia.com/gpu=true:NoSchedule`.
        eks_first: Whether EKS's part stands before those of the launch template.
    """

    cluster: EksCluster
    name: str = "gpus"
    max_pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    eks_first: bool = True

    def node_config(self) -> dict[str, Any]:
        """EKS's own NodeConfig."""
        cluster = self.cluster
        labels = {
            "eks.amazonaws.com/sourceLaunchTemplateVersion": "1",
            "eks.amazonaws.com/nodegroup-image": "ami-0123456789abcdef0",
            "eks.amazonaws.com/capacityType": "ON_DEMAND",
            "eks.amazonaws.com/nodegroup": self.name,
            "eks.amazonaws.com/sourceLaunchTemplateId": "lt-0123456789abcdef0",
            **self.labels,
        }
        flags = [f"--node-labels={','.join(f'{name}={value}' for name, value in labels.items())}"]
        if self.taints:
            flags.append(f"--register-with-taints={','.join(self.taints)}")
        return {
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {
                "cluster": {
                    "apiServerEndpoint": cluster.endpoint,
                    "certificateAuthority": cluster.certificate_authority,
                    "cidr": cluster.service_cidr,
                    "name": cluster.name,
                },
                "kubelet": {
                    "config": {"maxPods": self.max_pods, "clusterDNS": ["172.20.0.10"]},
                    "flags": flags,
                },
            },
        }

    def merged(self, user_data: str) -> str:
        """The user data of its nodes, out of those of the launch template."""
        given = message_from_string(user_data)
        assert given.is_multipart(), "EKS takes MIME multi-part user data only"
        parts = [f"{_headers(part)}\n{part.get_payload()}" for part in given.walk() if not part.is_multipart()]
        own = f"Content-Type: {MEDIA_TYPE}\n\n---\n{yaml.safe_dump(self.node_config())}"
        parts = [own, *parts] if self.eks_first else [*parts, own]
        lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
        for part in parts:
            lines += [f"--{_BOUNDARY}", part.rstrip("\n") + "\n"]
        text = "\n".join([*lines, f"--{_BOUNDARY}--", ""])
        assert len(text.encode()) <= LIMIT_BYTES, f"{len(text.encode())} bytes: EC2 refuses EKS's own template"
        return text


def _headers(part: Any) -> str:
    """Of the headers only the one that EKS has to keep: nobody says what becomes of others."""
    return f"Content-Type: {part['Content-Type']}\n"
