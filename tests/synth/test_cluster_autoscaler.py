"""The Cluster Autoscaler sizes the groups that it is given, and knows their nodes before there is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import aws_lambda as lambda_

from cdk_gpu_clusters import (
    Capacity,
    ClusterAutoscaler,
    ConfigError,
    EksGpuNodeGroup,
    IEksGpuCluster,
    KubernetesSoftware,
    MigLayout,
    MigStrategy,
)
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from kubernetes_pools import containers, requests
from node_groups import existing_cluster, node_group
from stack_fixtures import Site, of_type, only

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "cluster-autoscaler" / "policy.json"
TAG = "k8s.io/cluster-autoscaler/node-template/resources/"
GROUP = "AWS::EKS::Nodegroup"


def scaled(site: Site, name: str = "Jobs", **options: Any) -> tuple[ClusterAutoscaler, EksGpuNodeGroup]:
    cluster = existing_cluster(site)
    given = {"min_node_count": 0, "max_node_count": 4, "node_count": None, **options}
    group = node_group(site, name, cluster=cluster, **given)
    return ClusterAutoscaler(site.stack, "Autoscaler", cluster=cluster, groups=[group]), group


def test_it_may_do_what_its_own_policy_allows_to_groups_of_its_cluster(site: Site) -> None:
    autoscaler, _ = scaled(site)
    resources = site.resources()
    [policy] = [
        one["Properties"]["PolicyDocument"]
        for name, one in of_type(resources, "AWS::IAM::ManagedPolicy").items()
        if name.startswith("Autoscaler")
    ]
    made = {action: one for one in policy["Statement"] for action in _list(one["Action"])}
    theirs = json.loads(PUBLISHED.read_text("utf-8"))["policy"]
    assert set(made) == {action for one in theirs["Statement"] for action in one["Action"]}
    for action in ("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"):
        assert made[action]["Condition"] == {"StringEquals": {"aws:ResourceTag/eks:cluster-name": "research"}}
    association = only(resources, "AWS::EKS::PodIdentityAssociation")
    assert (association["Namespace"], association["ServiceAccount"]) == ("kube-system", "cluster-autoscaler")
    assert site.stack.resolve(autoscaler.release.values)["rbac"]["serviceAccount"]["name"] == "cluster-autoscaler"


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def test_it_finds_its_group_by_the_tags_of_eks_and_no_other(site: Site) -> None:
    autoscaler, group = scaled(site)
    values = site.stack.resolve(autoscaler.release.values)
    tags = json.dumps(values["autoDiscovery"]["tags"])
    assert "eks:cluster-name=research" in tags
    assert json.dumps(site.stack.resolve(group.node_group_name))[1:-1] in tags
    # Not the tag that EKS gives every managed group, those of a fixed size among them.
    assert "k8s.io/cluster-autoscaler/enabled" not in json.dumps(values)


def test_its_pod_starts_after_its_role_is_associated(site: Site) -> None:
    autoscaler, _ = scaled(site)
    arn = "arn:aws:lambda:us-east-1:111122223333:layer:kubectl:1"
    layer = lambda_.LayerVersion.from_layer_version_arn(site.stack, "Layer", arn)
    cluster = site.stack.node.find_child("Cluster")
    assert isinstance(cluster, IEksGpuCluster)
    autoscaler.install(KubernetesSoftware(site.stack, "Software", cluster=cluster, kubectl_layer=layer))
    resources = site.resources()
    [chart] = of_type(resources, "Custom::AWSCDK-EKS-HelmChart").values()
    assert set(of_type(resources, "AWS::EKS::PodIdentityAssociation")) <= set(chart["DependsOn"])


def test_a_group_tells_what_a_job_asks_for_and_the_type_does_not_say(site: Site) -> None:
    _, group = scaled(site)
    assert group.node_pool.scales
    made = only(site.resources(), GROUP)
    assert made["Tags"] == {
        f"{TAG}nvidia.com/gpu": "8",
        f"{TAG}vpc.amazonaws.com/efa": "32",
        f"{TAG}hugepages-2Mi": "5120Mi",
    }
    assert made["Labels"].items() >= {**group.labels, "k8s.amazonaws.com/accelerator": "h100"}.items()
    (job,) = torchrun_job("job", group.node_pool, node_count=2, image="a:1", command=["train.py"])
    (container,) = containers(job)
    known = {name.removeprefix(TAG) for name in made["Tags"]} | {"cpu", "memory"}
    assert set(requests(container)) <= known


@pytest.mark.parametrize(
    ("strategy", "resource"), [(None, "nvidia.com/mig-1g.5gb"), (MigStrategy.SINGLE, "nvidia.com/gpu")]
)
def test_slices_are_told_as_the_device_plugin_shows_them(
    site: Site, strategy: MigStrategy | None, resource: str
) -> None:
    layout = MigLayout(["1g.5gb"] * 7)
    scaled(site, instance_type="p4d.24xlarge", efa=False, mig=layout, mig_strategy=strategy)
    assert only(site.resources(), GROUP)["Tags"] == {f"{TAG}{resource}": "56"}


@pytest.mark.parametrize(
    "options",
    [
        {"node_count": 2},
        {"node_count": 16, "capacity": Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z")},
    ],
    ids=["fixed size", "block"],
)
def test_a_group_that_keeps_its_size_is_refused(site: Site, options: dict[str, Any]) -> None:
    cluster = existing_cluster(site)
    group = node_group(site, "Kept", cluster=cluster, **options)
    with pytest.raises(ConfigError, match=r"GPU-EKS-068.*Site/Kept"):
        ClusterAutoscaler(site.stack, "Autoscaler", cluster=cluster, groups=[group])


def test_no_groups_are_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-EKS-068"):
        ClusterAutoscaler(site.stack, "Autoscaler", cluster=existing_cluster(site), groups=[])
