"""Work on MIG slices: which slices a group of nodes has, and a job with one process on every slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdk_gpu_clusters.catalogue.mig import MigProfile
from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.gang_job import COMPLETION_INDEX, disrupted, queue_label
from cdk_gpu_clusters.kubernetes.gpu_pod import (
    NodeShare,
    container_security,
    device_part,
    placement,
    plain_variables,
    pod_resources,
)
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE, KubernetesObject, check_name, metadata
from cdk_gpu_clusters.kubernetes.queues import DEFAULT_QUEUE, anywhere_annotation
from cdk_gpu_clusters.kubernetes.volumes import claimed, volume_mount
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE, MigPlan, MigStrategy
from cdk_gpu_clusters.rules.model_servers import check_command, check_container_image, check_variables
from cdk_gpu_clusters.rules.secrets import OF_JOB, check_container_secrets

SPLIT_GPUS = define_rule(
    "GPU-K8S-007",
    "a fan-out over slices runs on nodes whose GPUs are split",
    source="unsplit GPUs have no slices",
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
    """What a pod with one slice takes of a node: CPU and memory as its part of the memory slices that are in use."""
    if pool.mig is None:
        raise ValueError(f"the GPUs of {pool.name} are not split, which a check should have reported")
    resource = WHOLE_GPU_RESOURCE if pool.mig_strategy is MigStrategy.SINGLE else profile.resource_name
    return NodeShare(resource=resource, count=1, part=device_part(pool, resource))


@check
def check_split(pool: NodePool, *, path: str = "pool") -> Iterator[Finding]:
    """Find a group whose GPUs are not split."""
    if pool.mig is None or not pool.mig.slices_per_node:
        yield SPLIT_GPUS.finding(
            cause="the GPUs of these nodes are not split",
            got=pool.name,
            allowed="a group with mig",
            fix="give the group a MIG layout, or run the job on unsplit GPUs",
            path=path,
        )


def profile_label(profile: MigProfile) -> str:
    """The profile in letters that a name may have.

    Example:
        >>> from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
        >>> [profile_label(one) for one in profiles_of(plan_mig("p4d.24xlarge", MigLayout("1g.5gb+me,3g.20gb")))]
        ['mig-3g-20gb', 'mig-1g-5gb-me']
    """
    return f"mig-{profile.name}".replace(".", "-").replace("+", "-")


# One process on every MIG slice of a group: an indexed Job for each profile, or a Workflow of Argo.
#
# After "Utilizing NVIDIA Multi-Instance GPU (MIG) in Amazon EC2 P4d Instances on Amazon EKS" (AWS blog, 2021), which
# fans out over the 56 slices of a p4d.24xlarge.

#: The process's number, from 0 over all slices of the group.
_NUMBER = "SLICE_INDEX"
_PROFILE = "MIG_PROFILE"
_ARGO_API = "argoproj.io/v1alpha1"
_RETRIES = 2

PROCESSES = define_rule(
    "GPU-K8S-011",
    "a fan-out has one process or more for each profile",
    source="Kubernetes documentation, Jobs: completions",
)


def mig_fan_out(
    name: str,
    pool: NodePool,
    *,
    image: str,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    processes: int | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    queue: str | None = DEFAULT_QUEUE,
) -> list[KubernetesObject]:
    """An indexed Job for each profile of a group, with as many pods at a time as the group has slices of it.

    A pod knows its number as SLICE_INDEX and JOB_COMPLETION_INDEX, and the profile as MIG_PROFILE.

    Args:
        name: Name of the Job; with several profiles, what their names begin with.
        pool: Group of nodes whose GPUs are split.
        image: Container image.
        command: Arguments of the container, in place of the image's own.
        environment: Further variables.
        processes: Pods of each Job in all; one for each slice if left out.
        namespace: Namespace.
        queue: LocalQueue of Kueue, None for none.

    Raises:
        ConfigError: GPU-K8S-001, -007, -011, GPU-INF-006, -008, -021, all at once.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> from cdk_gpu_clusters.rules.mig import MigLayout
        >>> pool = node_pool("slices", instance_type="p4d.24xlarge", node_count=1, mig=MigLayout(["1g.5gb"] * 7))
        >>> (job,) = mig_fan_out("upscale", pool, image="upscaler:v1")
        >>> job["spec"]["completions"], job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        (56, {'memory': '19653Mi', 'nvidia.com/mig-1g.5gb': '1'})
    """
    plan = _checked(name, pool, image, command, environment or {}, processes, namespace, queue)
    profiles = profiles_of(plan)
    names = {one.name: name if len(profiles) == 1 else f"{name}-{profile_label(one)}" for one in profiles}
    index = {"name": _NUMBER, "valueFrom": {"fieldRef": {"fieldPath": COMPLETION_INDEX}}}
    anywhere = anywhere_annotation(pool, queue)
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata(names[profile.name], namespace=namespace, labels=queue_label(queue)),
            "spec": {
                "completionMode": "Indexed",
                "completions": processes or slice_count(pool, profile),
                "parallelism": min(processes or slice_count(pool, profile), slice_count(pool, profile)),
                # A process that fails does not hold up the others.
                "backoffLimitPerIndex": _RETRIES,
                # The end of a node is no failure of the process.
                "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": disrupted()}]},
                "template": {
                    "metadata": {
                        "labels": {"app.kubernetes.io/name": names[profile.name]},
                        **({"annotations": anywhere} if anywhere else {}),
                    },
                    "spec": {
                        "restartPolicy": "Never",
                        "automountServiceAccountToken": False,
                        **placement(pool),
                        "containers": [_container(pool, profile, image, command, environment or {}, [index])],
                        **_volumes(pool),
                    },
                },
            },
        }
        for profile in profiles
    ]


def mig_workflow(
    name: str,
    pool: NodePool,
    *,
    image: str,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    processes: int | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    service_account: str = "default",
) -> list[KubernetesObject]:
    """The same fan-out as a Workflow of Argo, which the cluster must have: a template for each profile, all at once.

    Args:
        name: Name of the Workflow.
        pool: Group of nodes whose GPUs are split.
        image: Container image.
        command: Arguments of the container, in place of the image's own.
        environment: Further variables.
        processes: Pods of each profile in all; one for each slice if left out.
        namespace: Namespace.
        service_account: Service account of its pods, which may report results to Argo.

    Raises:
        ConfigError: As `mig_fan_out`.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> from cdk_gpu_clusters.rules.mig import MigLayout
        >>> layout = MigLayout(["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"])
        >>> pool = node_pool("slices", instance_type="p4d.24xlarge", node_count=1, mig=layout)
        >>> (flow,) = mig_workflow("upscale", pool, image="upscaler:v1")
        >>> [one["name"] for one in flow["spec"]["templates"]]
        ['fan-out', 'mig-3g-20gb', 'mig-2g-10gb', 'mig-1g-5gb']
    """
    plan = _checked(name, pool, image, command, environment or {}, processes, namespace, None)
    profiles = profiles_of(plan)
    steps = [
        {
            "name": profile_label(profile),
            "template": profile_label(profile),
            "arguments": {"parameters": [{"name": "number", "value": "{{item}}"}]},
            "withSequence": {"count": str(processes or slice_count(pool, profile))},
        }
        for profile in profiles
    ]
    number = {"name": _NUMBER, "value": "{{inputs.parameters.number}}"}
    return [
        {
            "apiVersion": _ARGO_API,
            "kind": "Workflow",
            "metadata": metadata(name, namespace=namespace),
            "spec": {
                "entrypoint": "fan-out",
                "serviceAccountName": service_account,
                # More pods than slices would only wait.
                "parallelism": sum(slice_count(pool, profile) for profile in profiles),
                **_volumes(pool),
                "templates": [
                    {"name": "fan-out", "steps": [steps]},
                    *(
                        {
                            "name": profile_label(profile),
                            "inputs": {"parameters": [{"name": "number"}]},
                            "retryStrategy": {"limit": str(_RETRIES), "retryPolicy": "Always"},
                            **placement(pool),
                            "container": _container(
                                pool, profile, image, command, environment or {}, [number], name=""
                            ),
                        }
                        for profile in profiles
                    ),
                ],
            },
        }
    ]


def _checked(
    name: str,
    pool: NodePool,
    image: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    processes: int | None,
    namespace: str,
    queue: str | None,
) -> MigPlan:
    profiles = [] if pool.mig is None else profiles_of(pool.mig)
    longest = max((len(f"-{profile_label(one)}") for one in profiles), default=0)
    most = processes or max((slice_count(pool, one) for one in profiles), default=1)
    # The pods of an indexed job are called <job>-<index>-<five letters>.
    added = longest + len(f"-{most - 1}-abcde")
    findings = [
        *check_name(name, longest=63 - added),
        *check_name(namespace, path="namespace"),
        *([] if queue is None else check_name(queue, path="queue")),
        *check_split(pool),
        *check_container_image(image),
        *check_command(command),
        *check_variables(environment, ()),
        *check_container_secrets(environment, command, fix=OF_JOB),
    ]
    if processes is not None and processes < 1:
        findings.append(
            PROCESSES.finding(cause="no pod would run", got=str(processes), allowed="1 or more", path="processes")
        )
    raise_for(findings)
    if pool.mig is None:
        raise ValueError(f"the GPUs of {pool.name} are not split, which check_split should have reported")
    return pool.mig


def _container(
    pool: NodePool,
    profile: MigProfile,
    image: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    numbers: Sequence[Mapping[str, Any]],
    *,
    name: str = "process",
) -> dict[str, Any]:
    return {
        **({"name": name} if name else {}),
        "image": image,
        **({"args": list(command)} if command else {}),
        "env": [*numbers, *plain_variables({_PROFILE: profile.name, **environment})],
        "resources": pod_resources(pool, slice_share(pool, profile)),
        "securityContext": container_security(),
        **(
            {"volumeMounts": [volume_mount(volume, point) for point, volume in pool.mounts.items()]}
            if pool.mounts
            else {}
        ),
    }


def _volumes(pool: NodePool) -> dict[str, Any]:
    return {"volumes": claimed(pool.mounts.values())} if pool.mounts else {}
