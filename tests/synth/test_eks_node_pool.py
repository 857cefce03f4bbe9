"""Nodes that Karpenter launches, compared with a managed node group of the same options."""

from __future__ import annotations

import email
import json
from typing import Any

import pytest
import yaml
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from cdk_gpu_clusters import (
    Capacity,
    ConfigError,
    EksGpuNodePool,
    Karpenter,
    KubernetesSoftware,
    MigLayout,
    NodeRepair,
    RootVolume,
    UpdatePolicy,
)
from eks_user_data import LIMIT_BYTES
from kubernetes_schemas import check_objects
from node_groups import CLUSTER_GROUP, existing_cluster, node_group
from nodeadm import FROM_EKS, node_configs, read_by_nodeadm
from stack_fixtures import Resources, Site, SiteFactory, of_type, only

BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z")
MANIFEST, TEMPLATE, GROUP = "Custom::AWSCDK-EKS-KubernetesResource", "AWS::EC2::LaunchTemplate", "AWS::EKS::Nodegroup"


def node_pool(site: Site, name: str = "Trainers", *, apply: bool = False, **options: Any) -> EksGpuNodePool:
    """Two p5 on demand unless the options say otherwise, as `node_groups.node_group`."""
    cluster = existing_cluster(site)
    karpenter = Karpenter(site.stack, "Karpenter", cluster=cluster)
    software = None
    if apply:
        arn = "arn:aws:lambda:us-east-1:111122223333:layer:kubectl:1"
        layer = lambda_.LayerVersion.from_layer_version_arn(site.stack, "Layer", arn)
        software = KubernetesSoftware(site.stack, "Software", cluster=cluster, kubectl_layer=layer)
        karpenter.install(software)
    given = {"instance_type": "p5.48xlarge", "node_count": 2, "vpc_subnets": site.one_subnet, **options}
    return EksGpuNodePool(site.stack, name, karpenter=karpenter, software=software, **given)


def written(site: Site, made: EksGpuNodePool) -> dict[str, Any]:
    """Specs by kind, with references as CloudFormation has them."""
    return {one["kind"]: one["spec"] for one in site.stack.resolve(made.objects)}


def _interfaces(data: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(one["NetworkCardIndex"], one["DeviceIndex"], one["InterfaceType"]) for one in data]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"capacity": BLOCK, "node_count": 16},
        {"instance_type": "p4d.24xlarge", "efa": False, "mig": MigLayout(["1g.5gb"] * 7)},
        {"instance_type": "g6e.xlarge", "labels": {"team": "speech"}},
    ],
    ids=["on demand", "block", "MIG", "labels"],
)
def test_one_word_makes_a_managed_group_a_node_pool_with_the_same_nodes(
    make_site: SiteFactory, options: dict[str, Any]
) -> None:
    """Interfaces, groups, capacity, labels, taints, disks, metadata, user data and rights; only the launcher differs."""
    managed, scaled = make_site(), make_site()
    node_group(managed, **options)
    pool = written(scaled, node_pool(scaled, **options))
    theirs, ours = managed.resources(), scaled.resources()
    launch, group = only(theirs, TEMPLATE)["LaunchTemplateData"], only(theirs, GROUP)
    node_class, template = pool["EC2NodeClass"], pool["NodePool"]["template"]

    interfaces = [
        (one["networkCardIndex"], one["deviceIndex"], one["interfaceType"]) for one in node_class["networkInterfaces"]
    ]
    assert interfaces == _interfaces(launch["NetworkInterfaces"])
    primary = launch["NetworkInterfaces"][0]
    assert json.dumps([one["id"] for one in node_class["securityGroupSelectorTerms"]]) == json.dumps(primary["Groups"])
    assert [one["id"] for one in node_class["subnetSelectorTerms"]] == group["Subnets"]
    assert template["metadata"]["labels"] == group["Labels"]
    assert [(one["key"], one["value"]) for one in template["spec"]["taints"]] == [
        (one["Key"], one["Value"]) for one in group["Taints"]
    ]
    disk, volume = launch["BlockDeviceMappings"][0]["Ebs"], node_class["blockDeviceMappings"][0]["ebs"]
    assert (volume["volumeSize"], volume["iops"]) == (f"{disk['VolumeSize']}Gi", disk["Iops"])
    assert (
        node_class["metadataOptions"]["httpPutResponseHopLimit"] == launch["MetadataOptions"]["HttpPutResponseHopLimit"]
    )
    assert ("placementGroupSelector" in node_class) is ("Placement" in launch)
    assert ("capacityReservationSelectorTerms" in node_class) is (
        "CapacityReservationTarget" in launch.get("CapacityReservationSpecification", {})
    )
    most = group["ScalingConfig"]["MaxSize"]
    assert pool["NodePool"]["limits"]["nodes"] == str(most)
    # Pods ask for the nodes of a block, which is not there at all times.
    assert pool["NodePool"].get("replicas") == (None if "capacity" in options else most)
    assert json.dumps(node_class["userData"]) == json.dumps(launch["UserData"]["Fn::Base64"])
    # The same rights, but for the tag by which a node finds its own instance.
    assert _policies(ours) == _policies(theirs)


def _policies(resources: Resources) -> list[str]:
    """Policies of the nodes, as a text without the tag that names their cluster."""
    found = {
        name: json.dumps(one["Properties"]["PolicyDocument"], sort_keys=True)
        for name, one in of_type(resources, "AWS::IAM::ManagedPolicy").items()
        if name.startswith("Trainers") and "Reconcile" not in name
    }
    return sorted(text.replace("eks:eks-cluster-name", "eks:cluster-name") for text in found.values())


def test_objects_are_applied_after_the_chart_and_what_nodes_need(site: Site) -> None:
    made = node_pool(site, apply=True, min_node_count=0, max_node_count=4, node_count=None)
    assert [one["kind"] for one in made.objects] == ["EC2NodeClass", "NodePool", "NodeOverlay"]
    known = site.stack.resolve(made.objects)
    known[0]["spec"] |= {
        "instanceProfile": "a",
        "securityGroupSelectorTerms": [{"id": "sg-0"}],
        "placementGroupSelector": {"name": "a"},
        "userData": "a",
    }
    assert check_objects(known, "1.36") == 3
    assert made.node_pool.scales
    resources = site.resources()
    [manifest] = of_type(resources, MANIFEST).values()
    kinds = [part for part in ("EC2NodeClass", "NodePool", "NodeOverlay") if part in json.dumps(manifest)]
    assert len(kinds) == 3
    waits = set(manifest["DependsOn"])
    wanted = ("AWS::EKS::AccessEntry", "AWS::IAM::InstanceProfile", "Custom::AWSCDK-EKS-HelmChart", "AWS::SQS::Queue")
    for kind in wanted:
        assert waits & set(of_type(resources, kind)), kind
    [chart] = of_type(resources, "Custom::AWSCDK-EKS-HelmChart").values()
    assert set(of_type(resources, "AWS::EKS::PodIdentityAssociation")) <= set(chart["DependsOn"])
    policies = {name for name in of_type(resources, "AWS::IAM::ManagedPolicy") if name.startswith(("Trainers", "Karp"))}
    assert policies <= waits
    assert not of_type(resources, TEMPLATE)
    assert not of_type(resources, GROUP)


def _parts(user_data: str) -> list[Any]:
    message = email.message_from_string(user_data)
    assert not message.defects
    return list(message.get_payload())


def merged_by_karpenter(user_data: str, node_config: dict[str, Any]) -> str:
    """User data as a node gets them: the parts with their type alone, and Karpenter's NodeConfig last.

    Source: aws/karpenter-provider-aws @ bde0065 (v1.14.1), pkg/providers/amifamily/bootstrap/nodeadm.go and
    mime/mime.go.
    """
    parts = [(str(part["Content-Type"]), str(part.get_payload())) for part in _parts(user_data)]
    parts.append(("application/node.eks.aws", yaml.safe_dump(node_config)))
    bodies = "".join(f"--//\nContent-Type: {kind}\n\n{body}\n" for kind, body in parts)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n{bodies}--//--\n'


def test_nodeadm_reads_what_karpenter_makes_of_the_user_data(site: Site) -> None:
    made = node_pool(site, kubelet_config={"registryPullQPS": 10})
    generated = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": FROM_EKS["spec"]["cluster"],
            "instance": {"localStorage": {"strategy": "RAID0"}},
            "kubelet": {
                "config": {
                    "maxPods": 51,
                    "registerWithTaints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
                },
                "flags": ["--node-labels=karpenter.sh/nodepool=trainers"],
            },
        },
    }
    text = str(made.objects[0]["spec"]["userData"])
    merged = merged_by_karpenter(text, generated)
    assert len(merged) < LIMIT_BYTES
    own, theirs = node_configs(merged)
    assert theirs == generated
    read = read_by_nodeadm([own, theirs])
    assert read["kubelet"]["config"] == {
        "maxPods": 51,
        "registryPullQPS": 10,
        "registerWithTaints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
    }
    assert read["instance"] == {"localStorage": {"strategy": "RAID0"}}
    # Its boundary does not occur in our parts, and all of them are there, with their types.
    assert "--//" not in text
    kinds = [part.get_content_type() for part in _parts(merged)]
    assert kinds[:-1] == [part.get_content_type() for part in _parts(text)]


def test_its_nodes_may_end_themselves_by_the_tags_that_karpenter_gives(site: Site) -> None:
    made = node_pool(site)
    assert made.session_command.count("karpenter.sh/nodepool") == 1
    text = json.dumps([one["Properties"] for one in of_type(site.resources(), "AWS::IAM::ManagedPolicy").values()])
    assert '"aws:ResourceTag/eks:eks-cluster-name": "research", "aws:ResourceTag/Name": "Site/Trainers"' in text


def test_a_key_of_the_volume_lets_karpenter_launch(site: Site) -> None:
    key = kms.Key(site.stack, "Key")
    made = node_pool(site, root_volume=RootVolume(size_gib=500, encryption_key=key))
    [volume] = written(site, made)["EC2NodeClass"]["blockDeviceMappings"]
    assert volume["ebs"]["kmsKeyID"] == site.stack.resolve(key.key_arn)
    granted = json.dumps([one["Properties"] for one in of_type(site.resources(), "AWS::IAM::ManagedPolicy").values()])
    assert "kms:CreateGrant" in granted


def test_rolling_updates_come_from_the_same_option(site: Site) -> None:
    made = node_pool(site, update_policy=UpdatePolicy.ROLLING, max_unavailable=2)
    budgets = written(site, made)["NodePool"]["disruption"]["budgets"]
    assert budgets[0] == {"nodes": "2", "reasons": ["Drifted"]}


def test_a_pool_without_alarms_and_connections_of_its_groups(site: Site) -> None:
    made = node_pool(site, alarms=None)
    assert made.alarms is None
    assert not made.node_pool.scales  # of a fixed size
    groups = [site.stack.resolve(one.security_group_id) for one in made.connections.security_groups]
    assert CLUSTER_GROUP in groups


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("GPU-EKS-061", {"min_node_count": 1, "max_node_count": 4, "node_count": None}),
        ("GPU-EKS-067", {"node_repair": NodeRepair()}),
        ("GPU-K8S-001", {"labels": {"gpu-cluster/fleet": "train_ers"}}),
    ],
)
def test_what_karpenter_cannot_launch_is_refused_at_the_construct(
    site: Site, fault: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=fault):
        node_pool(site, **options)
