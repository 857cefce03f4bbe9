"""What clusters of other tools on Amazon EKS become: the version of Kubernetes, and subnets of the control plane."""

from __future__ import annotations

from cdk_gpu_clusters.errors import errors_in
from cdk_gpu_clusters.rules.eks_cluster import check_support, check_version
from cdk_gpu_clusters_stacks.spec._check_nodes import clock

from .draft import Change, Draft
from .foreign import Part


def write_version(draft: Draft, version: Part) -> None:
    """Write the version of Kubernetes of a new cluster; the library's default takes the place of one that ended."""
    text = version.text()
    draft.put("eks", value={})
    if text is None:
        return
    if errors_in([*check_version(text), *check_support(text, clock().date())]):
        draft.note(Change.REPLACED, "EKS does not offer this version any more: the library's default is taken", version)
    else:
        draft.put("eks", "kubernetes_version", value=text, of=version)
