"""A process on every MIG slice."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.gpu_pod import allocatable
from cdk_gpu_clusters.kubernetes.mig import mig_fan_out, mig_workflow
from cdk_gpu_clusters.kubernetes.model_deployment import model_deployment
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.rules.interfaces import plan_interfaces
from cdk_gpu_clusters.rules.mig import MigLayout, MigStrategy, check_mig
from cdk_gpu_clusters.rules.node_group import max_pods
from kubernetes_pools import (
    MIXED,
    ONE_WHOLE,
    check_everywhere,
    containers,
    mig_types,
    pool_of,
    requests,
    slices,
)

IMAGE = "super-resolution:v1"


def fan_out(pool: NodePool, **given: Any) -> list[dict[str, Any]]:
    return mig_fan_out("upscale", pool, **{"image": IMAGE, **given})


def test_the_job_of_the_blog_fills_the_56_slices_of_a_p4d() -> None:
    (job,) = fan_out(slices(), command=["python", "upscale.py"])
    check_everywhere([job])
    assert job["metadata"]["name"] == "upscale"
    spec = job["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (56, 56, "Indexed")
    (container,) = containers(job)
    assert container["args"] == ["python", "upscale.py"]
    assert requests(container)["nvidia.com/mig-1g.5gb"] == 1
    variables = {one["name"]: one for one in container["env"]}
    assert variables["MIG_PROFILE"]["value"] == "1g.5gb"
    assert "job-completion-index" in variables["SLICE_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]


def test_a_mixed_layout_has_a_job_for_each_profile() -> None:
    objects = fan_out(slices(MIXED, node_count=2))
    check_everywhere(objects)
    found = {one["metadata"]["name"]: one["spec"]["parallelism"] for one in objects}
    assert found == {"upscale-mig-3g-20gb": 16, "upscale-mig-2g-10gb": 16, "upscale-mig-1g-5gb": 32}
    assert [set(requests(next(containers(one)))) - {"cpu", "memory"} for one in objects] == [
        {"nvidia.com/mig-3g.20gb"},
        {"nvidia.com/mig-2g.10gb"},
        {"nvidia.com/mig-1g.5gb"},
    ]


def test_slices_that_are_shown_as_gpus_are_asked_for_as_gpus() -> None:
    (job,) = fan_out(slices(strategy=MigStrategy.SINGLE))
    assert requests(next(containers(job)))["nvidia.com/gpu"] == 1
    assert job["spec"]["parallelism"] == 56


def test_whole_gpus_beside_slices_keep_their_part_of_the_node() -> None:
    pool = slices(ONE_WHOLE)
    cpus = sum(requests(next(containers(one)))["cpu"] * one["spec"]["parallelism"] for one in fan_out(pool))
    room = Fraction(allocatable(pool).cpu_millicores, 1000)
    assert room * Fraction(6, 7) < cpus < room * Fraction(8, 9)


def test_more_processes_than_slices_come_one_after_another() -> None:
    (job,) = fan_out(slices(), processes=1000)
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (1000, 56)
    (few,) = fan_out(slices(), processes=3)
    assert (few["spec"]["completions"], few["spec"]["parallelism"]) == (3, 3)


def test_a_workflow_of_argo_has_a_template_for_each_profile_and_runs_all_at_once() -> None:
    (flow,) = mig_workflow("upscale", slices(MIXED), image=IMAGE, command=["python", "upscale.py"])
    check_everywhere([flow])
    first, *templates = flow["spec"]["templates"]
    assert flow["spec"]["entrypoint"] == first["name"]
    (parallel,) = first["steps"]
    assert {step["template"]: step["withSequence"]["count"] for step in parallel} == {
        "mig-3g-20gb": "8",
        "mig-2g-10gb": "8",
        "mig-1g-5gb": "16",
    }
    assert flow["spec"]["parallelism"] == 32
    assert [one["name"] for one in templates] == [step["template"] for step in parallel]
    for template in templates:
        assert template["nodeSelector"] == {"gpu-cluster/fleet": "slices"}
        assert template["container"]["env"][0]["value"] == "{{inputs.parameters.number}}"


def test_the_workflow_of_the_blog_has_one_template_for_56_slices() -> None:
    (flow,) = mig_workflow("upscale", slices(), image=IMAGE, processes=112)
    check_everywhere([flow])
    assert flow["spec"]["templates"][0]["steps"][0][0]["withSequence"] == {"count": "112"}
    assert flow["spec"]["parallelism"] == 56


def test_file_systems_of_the_group_are_mounted() -> None:
    pool = pool_of("p4d.24xlarge", efa=False, mig=MIXED)
    for objects in (fan_out(pool), mig_workflow("upscale", pool, image=IMAGE)):
        check_everywhere(objects)
        for container in (found for one in objects for found in containers(one)):
            assert container["volumeMounts"] == [{"name": "corpus", "mountPath": "/fsx"}]


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        mig_fan_out(
            "Up",
            pool_of("p5.48xlarge"),
            image="no image",
            namespace="No",
            queue="No",
            processes=0,
            environment={"": ""},
        )
    assert [finding.id for finding in caught.value.findings] == [
        *["GPU-K8S-001"] * 3,
        "GPU-K8S-007",
        "GPU-INF-006",
        "GPU-INF-008",
        "GPU-K8S-011",
    ]


def test_names_leave_room_for_the_profile_and_the_number() -> None:
    pool = slices(MIXED, node_count=100)
    longest = 63 - len("-mig-3g-20gb") - len("-1599-abcde")
    assert mig_fan_out("a" * longest, pool, image=IMAGE)
    with pytest.raises(ConfigError, match="GPU-K8S-001"):
        mig_fan_out("a" * (longest + 1), pool, image=IMAGE)


@pytest.mark.parametrize("name", mig_types())
def test_a_node_takes_a_pod_for_each_of_the_most_slices_beside_those_of_add_ons(name: str) -> None:
    record = instance_types()[name]
    gpu, accelerator = mig_gpu_of(record), record.accelerator
    assert gpu is not None
    assert accelerator is not None
    most = min(7, max(profile.max_instances for profile in gpu.profiles.values())) * accelerator.count
    # About a dozen pods of add-ons have an address of their own, or the node's.
    assert most + 16 <= max_pods(record, plan_interfaces(record, efa=False))


@st.composite
def split_pools(draw: st.DrawFn) -> NodePool:
    """Nodes of any type with MIG, each GPU split as it can be, under each strategy that shows the slices."""
    record = instance_types()[draw(st.sampled_from(mig_types()))]
    gpu, accelerator = mig_gpu_of(record), record.accelerator
    assert gpu is not None
    assert accelerator is not None
    names = st.lists(st.sampled_from(list(gpu.profiles)), min_size=1, max_size=7)

    def fits(profiles: list[str]) -> bool:
        return not any(finding.severity.value == "error" for finding in check_mig(record, MigLayout(profiles)))

    layouts = [MigLayout(draw(names.filter(fits)))]
    if accelerator.count > 1 and draw(st.booleans()):
        layouts += [draw(st.sampled_from([layouts[0], MigLayout.whole_gpu()])) for _ in range(accelerator.count - 1)]
    alike = len({tuple(one.profiles) for one in layouts}) == 1 and len(set(layouts[0].profiles)) == 1
    strategy = draw(st.sampled_from([MigStrategy.MIXED, MigStrategy.SINGLE] if alike else [MigStrategy.MIXED]))
    return node_pool(
        "slices",
        instance_type=record,
        node_count=draw(st.integers(1, 4)),
        efa=False,
        mig=layouts if len(layouts) > 1 else layouts[0],
        mig_strategy=strategy,
    )


@settings(max_examples=60, deadline=None)
@given(split_pools())
def test_processes_on_all_slices_of_any_layout_fit_the_nodes_together(pool: NodePool) -> None:
    wanted: Counter[str] = Counter()
    jobs = mig_fan_out("up", pool, image=IMAGE)
    for job in jobs:
        (container,) = containers(job)
        for name, value in requests(container).items():
            wanted[name] += value * job["spec"]["parallelism"]
    room = allocatable(pool)
    assert wanted.pop("cpu") <= Fraction(room.cpu_millicores * pool.node_count, 1000)
    assert wanted.pop("memory") <= room.memory_mib * 2**20 * pool.node_count
    # Every slice is asked for, by the name that its node gives it, and no whole GPU.
    whole = pool.mig.whole_gpus_per_node if pool.mig else 0
    shown = Counter({name: count * pool.node_count for name, count in pool.resources.items()})
    if pool.mig_strategy is MigStrategy.MIXED:
        shown["nvidia.com/gpu"] -= whole * pool.node_count
    assert dict(wanted) == dict(+shown)
    (flow,) = mig_workflow("up", pool, image=IMAGE)
    assert flow["spec"]["parallelism"] == sum(job["spec"]["parallelism"] for job in jobs)


@settings(max_examples=30, deadline=None)
@given(split_pools(), st.data())
def test_model_servers_run_on_slices_of_any_layout(pool: NodePool, data: st.DataObject) -> None:
    assert pool.mig is not None
    names = sorted({profile.name for gpu in pool.mig.gpus for profile in gpu.profiles})
    profile = data.draw(st.sampled_from([*names, *([None] if len(names) == 1 else [])]))
    deployment, *_ = model_deployment("chat", pool, ServerPod(image="vllm:v1"), profile=profile)
    count = sum(one.name == (profile or names[0]) for gpu in pool.mig.gpus for one in gpu.profiles)
    assert deployment["spec"]["replicas"] == count * pool.node_count
