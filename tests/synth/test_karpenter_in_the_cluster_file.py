"""One word of the cluster file gives the nodes of a fleet to Karpenter, and back: the nodes are the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.manifests.files import karpenter_objects
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from kubernetes_schemas import check_objects
from stack_fixtures import Resources, of_type, only

#: Two pools of p5 with EFA, in a placement group and on a block; slices; Spot; nodes for pods, with a model server.
FILE = """\
version: 1
name: lab
region: us-east-1
orchestrator: eks
tags: { project: llama }
eks:
  software: { apply: true }
  existing:
    cluster_name: research
    cluster_security_group_id: sg-0123456789abcdef9
    node_security_group_ids: [sg-0123456789abcdef8]
    kubernetes_version: "1.35"
    kubectl_role_arn: "arn:aws:iam::111122223333:role/installer"
network:
  vpc_id: vpc-0123456789abcdef0
  subnet_ids: [subnet-0123456789abcdef0]
  availability_zone: us-east-1a
  service_subnets: { us-east-1a: subnet-0123456789abcdef1, us-east-1b: subnet-0123456789abcdef2 }
data:
  corpus:
    existing_lustre:
      { file_system_id: fs-0123456789abcdef0, mount_name: abcdefgh, security_group_id: sg-0123456789abcdef0 }
  saved: { existing_checkpoints: { bucket_name: my-checkpoints } }
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 2
      managed_by: karpenter
      mounts: { /fsx: corpus }
      checkpoints: saved
      tags: { team: speech }
      environment: { MODEL: llama }
    block:
      instance_type: p5.48xlarge
      nodes: 2
      managed_by: karpenter
      capacity: { capacity_block: cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }
    slices:
      instance_type: p4d.24xlarge
      nodes: 1
      managed_by: karpenter
      efa: false
      mig: 3g.20gb,2g.10gb,1g.5gb,1g.5gb
      root_volume: { size_gib: 300, iops: 4000, encryption_key_arn: "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
    spare: { instance_type: g6e.xlarge, nodes: 2, managed_by: karpenter, capacity: spot, update: rolling }
inference:
  fleets:
    chat:
      instance_type: g6e.12xlarge
      min_nodes: 0
      max_nodes: 4
      managed_by: karpenter
      devices_per_server: 4
      server: { image: "vllm/vllm-openai:v0.11.0" }
"""
FLEETS = {name: f"lab-fleet-{name}" for name in ("trainers", "block", "slices", "spare")} | {
    "chat": "lab-inference-chat"
}
MANIFEST, TEMPLATE, GROUP = "Custom::AWSCDK-EKS-KubernetesResource", "AWS::EC2::LaunchTemplate", "AWS::EKS::Nodegroup"

Templates = dict[str, str]


@pytest.fixture(scope="module")
def templates(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Templates]:
    """The templates of the file with Karpenter, with the other word, and without the key."""
    words = {"karpenter": "managed_by: karpenter", "eks": "managed_by: eks", "": ""}
    found = {}
    for name, word in words.items():
        file = tmp_path_factory.mktemp("cluster") / "cluster.yaml"
        text = FILE.replace("managed_by: karpenter, ", f"{word}, " if word else "")
        file.write_text(text.replace("managed_by: karpenter", word), encoding="utf-8")
        app = app_factory()
        build_cluster(app, load_cluster(file))
        folder = Path(app.synth().directory)
        found[name] = {
            path.name.removesuffix(".template.json"): path.read_text() for path in folder.glob("*.template.json")
        }
    return found


@pytest.fixture(params=FLEETS)
def both(request: pytest.FixtureRequest, templates: dict[str, Templates]) -> tuple[Resources, Resources]:
    """The resources of a fleet as a managed node group, and as a node pool."""
    stack = FLEETS[request.param]
    managed, pool = (json.loads(templates[word][stack])["Resources"] for word in ("eks", "karpenter"))
    return managed, pool


def specs(pool: Resources) -> dict[str, Any]:
    """Specs of the objects of Karpenter by kind; what only the deployment knows is `<...>` with its JSON."""
    text = only(pool, MANIFEST)["Manifest"]
    parts = text["Fn::Join"][1] if isinstance(text, dict) else [text]
    joined = "".join(one if isinstance(one, str) else _marked(one) for one in parts)
    return {one["kind"]: one["spec"] for one in json.loads(joined)}


def _marked(token: object) -> str:
    return json.dumps(f"<{json.dumps(token, sort_keys=True)}>")[1:-1]


def told(value: object) -> object:
    """A value of a template as `specs` has it."""
    if isinstance(value, list):
        return [told(one) for one in value]
    if isinstance(value, dict):
        joined = value.get("Fn::Join")
        return "".join(str(told(one)) for one in joined[1]) if joined else f"<{json.dumps(value, sort_keys=True)}>"
    return value


def test_the_same_interfaces_groups_and_place(both: tuple[Resources, Resources]) -> None:
    managed, pool = both
    launch, group = only(managed, TEMPLATE)["LaunchTemplateData"], only(managed, GROUP)
    node_class = specs(pool)["EC2NodeClass"]
    interfaces = [
        (one["networkCardIndex"], one["deviceIndex"], one["interfaceType"]) for one in node_class["networkInterfaces"]
    ]
    assert interfaces == [
        (one["NetworkCardIndex"], one["DeviceIndex"], one["InterfaceType"]) for one in launch["NetworkInterfaces"]
    ]
    groups = [one["id"] for one in node_class["securityGroupSelectorTerms"]]
    assert groups == told(launch["NetworkInterfaces"][0]["Groups"])
    assert [one["id"] for one in node_class["subnetSelectorTerms"]] == told(group["Subnets"])
    placement = launch.get("Placement", {}).get("GroupName")
    assert node_class.get("placementGroupSelector", {}).get("name") == told(placement)
    placed = "AWS::EC2::PlacementGroup"
    assert of_type(managed, placed) == of_type(pool, placed), "the same placement group, which neither change replaces"


def test_the_same_capacity_and_size(both: tuple[Resources, Resources]) -> None:
    managed, pool = both
    launch, group = only(managed, TEMPLATE)["LaunchTemplateData"], only(managed, GROUP)
    found = specs(pool)
    target = launch.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    terms = [one["id"] for one in found["EC2NodeClass"].get("capacityReservationSelectorTerms", ())]
    assert terms == [one for one in [target.get("CapacityReservationId")] if one]
    types = {"ON_DEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "reserved"}
    requirements = {one["key"]: one["values"] for one in found["NodePool"]["template"]["spec"]["requirements"]}
    assert requirements["karpenter.sh/capacity-type"] == [types[group["CapacityType"]]]
    assert requirements["node.kubernetes.io/instance-type"] == [launch["InstanceType"]]
    most = group["ScalingConfig"]["MaxSize"]
    keeps = group["ScalingConfig"]["MinSize"] == most and "reserved" not in types[group["CapacityType"]]
    assert found["NodePool"].get("replicas") == (most if keeps else None)
    surges = keeps and "Latest" in json.dumps(group["LaunchTemplate"]["Version"])
    assert found["NodePool"]["limits"]["nodes"] == str(most + surges)


def test_the_same_checks_labels_taints_and_disks(both: tuple[Resources, Resources]) -> None:
    managed, pool = both
    launch, group = only(managed, TEMPLATE)["LaunchTemplateData"], only(managed, GROUP)
    found = specs(pool)
    node_class, template = found["EC2NodeClass"], found["NodePool"]["template"]
    assert node_class["userData"] == told(launch["UserData"]["Fn::Base64"])
    assert "gpu-node-boot" in node_class["userData"]
    assert template["metadata"]["labels"] == group["Labels"]
    assert [(one["key"], one["value"]) for one in template["spec"]["taints"]] == [
        (one["Key"], one["Value"]) for one in group["Taints"]
    ]
    disk, volume = launch["BlockDeviceMappings"][0]["Ebs"], node_class["blockDeviceMappings"][0]["ebs"]
    assert (volume["volumeSize"], volume["iops"], volume["throughput"], volume.get("kmsKeyID")) == (
        f"{disk['VolumeSize']}Gi",
        disk["Iops"],
        disk["Throughput"],
        disk.get("KmsKeyId"),
    )
    metadata = launch["MetadataOptions"]
    assert node_class["metadataOptions"]["httpPutResponseHopLimit"] == metadata["HttpPutResponseHopLimit"]
    assert node_class["metadataOptions"]["httpTokens"] == metadata["HttpTokens"]


def test_the_same_tags(both: tuple[Resources, Resources]) -> None:
    managed, pool = both
    launch = only(managed, TEMPLATE)["LaunchTemplateData"]
    tags = {one["Key"]: one["Value"] for one in launch["TagSpecifications"][0]["Tags"]}
    assert specs(pool)["EC2NodeClass"]["tags"] == tags


def test_the_same_rights(both: tuple[Resources, Resources]) -> None:
    """A role of its own, as EKS makes the access entry of the other one; with the same policies."""
    managed, pool = both
    assert rights(pool) == rights(managed)
    roles, others = (
        {name for name in of_type(found, "AWS::IAM::Role") if name.startswith(("NodesRole", "NodesPoolRole"))}
        for found in both
    )
    assert len(roles) == len(others) == 1
    assert roles != others
    entries = of_type(pool, "AWS::EKS::AccessEntry")
    assert [one["Properties"]["Type"] for one in entries.values()] == ["EC2_LINUX"]
    [manifest] = of_type(pool, MANIFEST).values()
    assert set(entries) <= set(manifest["DependsOn"])


def rights(resources: Resources) -> list[str]:
    """What the nodes may do: documents of the policies of their role, and AWS's policies."""
    policies = {**of_type(resources, "AWS::IAM::ManagedPolicy"), **of_type(resources, "AWS::IAM::Policy")}
    found = []
    for name, role in of_type(resources, "AWS::IAM::Role").items():
        if not name.startswith(("NodesRole", "NodesPoolRole")):
            continue
        arns = role["Properties"]["ManagedPolicyArns"]
        found += [json.dumps(one) for one in arns if one.get("Ref") not in policies]
        attached = {one["Ref"] for one in arns if "Ref" in one}
        attached |= {key for key, one in policies.items() if {"Ref": name} in one["Properties"].get("Roles", ())}
        found += [json.dumps(policies[one]["Properties"]["PolicyDocument"], sort_keys=True) for one in attached]
    assert len(found) > 3
    return sorted(text.replace("eks:eks-cluster-name", "eks:cluster-name") for text in found)


def test_back_and_forth_is_the_same_template_and_no_other_stack_changes(templates: dict[str, Templates]) -> None:
    assert templates["eks"] == templates[""]
    assert set(templates["karpenter"]) - set(templates["eks"]) == {"lab-karpenter"}
    changed = {name for name, text in templates["eks"].items() if templates["karpenter"][name] != text}
    # Queues place no jobs on nodes that come for pods.
    assert changed == {*FLEETS.values(), "lab-software"}
    assert "Topology" in templates["eks"]["lab-software"]


def test_nothing_is_imported_that_would_hold_a_stack_back(templates: dict[str, Templates]) -> None:
    assert not [name for name, text in templates["karpenter"].items() if "Fn::ImportValue" in text]


def test_karpenter_is_there_once_with_its_chart(templates: dict[str, Templates]) -> None:
    found = json.loads(templates["karpenter"]["lab-karpenter"])["Resources"]
    [chart] = of_type(found, "Custom::AWSCDK-EKS-HelmChart").values()
    assert chart["Properties"]["Chart"] == "karpenter"
    for stack in FLEETS.values():
        made = json.loads(templates["karpenter"][stack])["Resources"]
        assert not of_type(made, "AWS::Lambda::Function")
        assert "lab-karpenter" in json.dumps(only(made, MANIFEST)["ServiceToken"])


def test_manifests_write_what_the_deployment_applies(templates: dict[str, Templates], tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(FILE, encoding="utf-8")
    written = karpenter_objects(load_cluster(file))
    assert set(written) == set(FLEETS)
    for name, manifest in written.items():
        known = json.loads(re.sub(r"\$\{\w+GROUP_ID\}", "sg-0", json.dumps(manifest.objects)))
        assert check_objects(known, "1.35") == len(known)
        applied = specs(json.loads(templates["karpenter"][FLEETS[name]])["Resources"])
        assert [one["kind"] for one in manifest.objects] == list(applied)
        for one in manifest.objects:
            differ = set(differences(one["spec"], applied[one["kind"]]))
            assert differ <= {"instanceProfile", "userData", "securityGroupSelectorTerms", "placementGroupSelector"}
        overlays = [one for one in manifest.objects if one["kind"] == "NodeOverlay"]
        assert bool(overlays) is (name == "block")


def differences(one: Any, other: Any, name: str = "") -> list[str]:
    """Fields that differ; a variable in one is whatever the deployment has."""
    if isinstance(one, dict):
        assert list(one) == list(other), name
        return [found for key in one for found in differences(one[key], other[key], name or key)]
    if isinstance(one, list):
        assert len(one) == len(other), name
        return [found for each, pair in zip(one, other, strict=True) for found in differences(each, pair, name)]
    if isinstance(one, str) and one.startswith("${"):
        return [name]
    assert one == other, name
    return []
