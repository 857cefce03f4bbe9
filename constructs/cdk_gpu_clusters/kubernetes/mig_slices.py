"""The MIG slices of a group of nodes, as its pods ask for them."""

from __future__ import annotations

from fractions import Fraction

from cdk_gpu_clusters.catalogue.mig import MigProfile
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.kubernetes.gpu_pod import NodeShare
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE, MigPlan
from cdk_gpu_clusters.rules.mig_strategy import MigStrategy

SPLIT_GPUS = define_rule(
    "GPU-K8S-007",
    "a fan-out over slices runs on nodes whose GPUs are split",
    source="whole GPUs have no slices",
)
PROFILE = define_rule(
    "GPU-K8S-008",
    "a pod asks for slices that the layout of its group has",
    source="NVIDIA/k8s-device-plugin: a resource of another name is on no node",
)


def profiles_of(plan: MigPlan) -> list[MigProfile]:
    """The profiles of a layout, each once, in the order of creation."""
    return list({profile.name: profile for gpu in plan.gpus for profile in gpu.profiles}.values())


def slice_count(pool: NodePool, profile: MigProfile) -> int:
    """Slices of a profile on all nodes of a group."""
    if pool.mig is None:
        return 0
    each = sum(one.name == profile.name for gpu in pool.mig.gpus for one in gpu.profiles)
    return each * pool.node_count


def slice_share(pool: NodePool, profile: MigProfile) -> NodeShare:
    """What a pod with one slice takes of a node: CPU and memory as its part of the memory slices that are in use.

    Args:
        pool: Group of nodes whose GPUs are split.
        profile: Profile of the slice.
    """
    plan = pool.mig
    if plan is None:
        raise ValueError(f"the GPUs of {pool.name} are whole, which a check should have said")
    used = sum(one.memory_slices for gpu in plan.gpus for one in gpu.profiles)
    used += plan.whole_gpus_per_node * plan.gpu.memory_slices
    single = pool.mig_strategy is MigStrategy.SINGLE
    return NodeShare(
        resource=WHOLE_GPU_RESOURCE if single else profile.resource_name,
        count=1,
        part=Fraction(profile.memory_slices, used),
    )


def check_split(pool: NodePool, *, path: str = "pool") -> list[Finding]:
    """Find a group whose GPUs are whole."""
    if pool.mig is not None and pool.mig.slices_per_node:
        return []
    return [
        SPLIT_GPUS.finding(
            cause="the GPUs of these nodes are not split",
            got=pool.name,
            allowed="a group with mig",
            fix="give the group a MIG layout, or run the job on whole GPUs",
            path=path,
        )
    ]


def profile_label(profile: MigProfile) -> str:
    """The profile in letters that a name may have.

    Example:
        >>> from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
        >>> [profile_label(one) for one in profiles_of(plan_mig("p4d.24xlarge", MigLayout("1g.5gb+me,3g.20gb")))]
        ['mig-3g-20gb', 'mig-1g-5gb-me']
    """
    return f"mig-{profile.name}".replace(".", "-").replace("+", "-")
