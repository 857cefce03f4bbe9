"""What clusters of other tools on Amazon EKS become: new ones, with their version of Kubernetes, or existing ones."""

from __future__ import annotations

from cdk_gpu_clusters.errors import errors_in
from cdk_gpu_clusters.rules.eks_cluster import check_support, check_version
from cdk_gpu_clusters_stacks.spec._check_nodes import clock

from .draft import Change, Draft, Note
from .foreign import Part
from .group import was

_VERSION = "1.34"


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


def write_existing(
    draft: Draft, name: str | None, *, of: Part, version: Part | None = None, joins_hyperpod: bool
) -> None:
    """Write the cluster of Amazon EKS that exists, on which HyperPod runs today.

    Args:
        draft: The cluster file.
        name: Its name, None if the file does not have it.
        of: Where the file names it.
        version: Where the file has a version of Kubernetes, which may not be the present one.
        joins_hyperpod: Whether the nodes stay in HyperPod.
    """
    key = ("eks", "existing")
    if name:
        draft.put(*key, "cluster_name", value=name, of=of)
    else:
        draft.fill(*key, "cluster_name", value="cluster", why="the name of your cluster of Amazon EKS", of=of)
    of.skip()
    draft.fill(
        *key, "cluster_security_group_id", value="sg-0123456789abcdef0",
        why="the security group that EKS made for it, as describe-cluster shows it", of=of,
    )  # fmt: skip
    text = None if version is None or version.is_placeholder else version.text()
    value = _VERSION if text is None or errors_in(check_version(text)) else text
    draft.fill(*key, "kubernetes_version", value=value, why=was(version, "its version"), of=of)
    if version is not None:
        version.skip()
    # Amazon SageMaker AI developer guide, "Orchestrating SageMaker HyperPod clusters with Amazon EKS": one to one.
    text = (
        "a cluster of Amazon EKS holds the nodes of one HyperPod cluster: delete the old one before you deploy, or "
        "name another cluster of Amazon EKS"
        if joins_hyperpod
        else "the fleets join the cluster of Amazon EKS that exists, beside the nodes of HyperPod, whose chart brings "
        "device plugins of its own"
    )
    draft.notes.append(Note(Change.REPLACED, of.name, text, of.place))
