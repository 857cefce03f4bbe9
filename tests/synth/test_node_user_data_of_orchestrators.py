"""Nodes that Amazon EKS and AWS PCS launch: their templates, permissions, and what is refused."""

from __future__ import annotations

import email
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match

from cdk_gpu_clusters import (
    ConfigError,
    EksCluster,
    GpuLaunchTemplate,
    LustreStore,
    MigLayout,
    NodeConfig,
    NodeFile,
    NodeImage,
    NodeRole,
    NodeUserData,
    Orchestrator,
    UserDataPart,
)
from cdk_gpu_clusters.catalogue import instance_type
from stack_fixtures import Resources, Site, of_type, only
from user_data import node_files, user_data

EKS, SELF, PCS = Orchestrator.EKS_MANAGED, Orchestrator.EKS_SELF_MANAGED, Orchestrator.PCS
CLUSTER = EksCluster(
    name="training",
    endpoint="https://0.gr7.us-east-1.eks.amazonaws.com",
    certificate_authority="LS0t",
    service_cidr="172.20.0.0/16",
)
FEWER = {"maxPods": 29}
GIVEN: dict[Orchestrator, dict[str, Any]] = {
    EKS: {},
    SELF: {"node_config": NodeConfig(cluster=CLUSTER)},
    PCS: {"slurm_version": "25.11"},
}


def nodes(site: Site, orchestrator: Orchestrator, kind: str = "p5.48xlarge", **options: Any) -> NodeUserData:
    role = NodeRole(site.stack, "Role")
    given = {**GIVEN.get(orchestrator, {}), **options}
    return NodeUserData(site.stack, "Nodes", instance_type=kind, orchestrator=orchestrator, role=role, **given)


def launched(site: Site, orchestrator: Orchestrator, **options: Any) -> Resources:
    """The resources of a stack with such nodes and their launch template."""
    made = nodes(site, orchestrator, **options)
    GpuLaunchTemplate(
        site.stack,
        "Template",
        instance_type="p5.48xlarge",
        orchestrator=orchestrator,
        efa=False,
        security_groups=[group(site)],
        image=NodeImage.from_id("ami-0123456789abcdef0") if orchestrator is SELF else None,
        user_data=made.text,
    )
    return site.resources()


def group(site: Site) -> ec2.ISecurityGroup:
    return ec2.SecurityGroup.from_security_group_id(site.stack, "Given", "sg-0123456789abcdef0")


def documents(text: str) -> dict[str, str]:
    """The parts of a document by their type."""
    message = email.message_from_string(text)
    assert not message.defects
    return {part.get_content_type(): str(part.get_payload()) for part in message.walk() if not part.is_multipart()}


def setting(text: str, name: str) -> str:
    [line] = [line.strip() for line in text.splitlines() if line.strip().startswith(f"{name}=")]
    return line.partition("=")[2].strip("'")


@pytest.mark.parametrize(("orchestrator", "told"), [(EKS, "eks"), (SELF, "eks"), (PCS, "pcs")])
def test_the_template_tells_the_node_what_it_is(site: Site, orchestrator: Orchestrator, told: str) -> None:
    text = user_data(launched(site, orchestrator))
    record = instance_type("p5.48xlarge")
    assert setting(text, "GPU_ORCHESTRATOR") == told
    assert record.accelerator is not None
    assert setting(text, "GPU_ACCELERATOR_COUNT") == str(record.accelerator.count)
    assert setting(text, "GPU_LAUNCH_HOOK") == setting(text, "GPU_TERMINATE_HOOK") == ""
    # EKS gives up on a managed group after 15 minutes; elsewhere a node has 25 of the 30 minutes.
    assert setting(text, "GPU_BOOT_DEADLINE") == ("780" if orchestrator is EKS else "1500")
    assert setting(text, "GPU_EFA_COUNT") == "32"
    log_group = only_id(site.resources(), "AWS::Logs::LogGroup")
    assert setting(text, "GPU_LOG_GROUP") == json.dumps({"Ref": log_group})


def only_id(resources: Resources, kind: str) -> str:
    [found] = of_type(resources, kind)
    return found


def test_pcs_nodes_drain_themselves_with_the_programs_of_their_cluster(site: Site) -> None:
    text = nodes(site, PCS).text
    assert setting(text, "GPU_SLURM_BIN") == "/opt/aws/pcs/scheduler/slurm-25.11/bin"


def test_a_self_managed_node_joins_the_cluster_of_cdk_that_it_is_given(site: Site) -> None:
    cluster = eks.Cluster.from_cluster_attributes(
        site.stack,
        "Cluster",
        cluster_name="training",
        cluster_endpoint="https://0.gr7.us-east-1.eks.amazonaws.com",
        cluster_certificate_authority_data="LS0t",
    )
    config = NodeConfig(
        cluster=EksCluster.of(cluster, service_cidr="172.20.0.0/16"),
        labels={"team": "research"},
        taints=("nvidia.com/gpu=true:NoSchedule",),
        kubelet_flags=("--v=4",),
    )
    document = json.loads(documents(nodes(site, SELF, node_config=config).text)["application/node.eks.aws"])
    assert document == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": "training",
                "apiServerEndpoint": "https://0.gr7.us-east-1.eks.amazonaws.com",
                "certificateAuthority": "LS0t",
                "cidr": "172.20.0.0/16",
            },
            "instance": {"localStorage": {"strategy": "RAID0"}},
            "kubelet": {
                "flags": [
                    "--node-labels=team=research",
                    "--register-with-taints=nvidia.com/gpu=true:NoSchedule",
                    "--v=4",
                ]
            },
        },
    }


def test_local_disks_go_to_pods_on_eks_and_to_scratch_under_pcs(site: Site) -> None:
    on_eks = documents(nodes(site, EKS).text)
    assert json.loads(on_eks["application/node.eks.aws"])["spec"] == {
        "instance": {"localStorage": {"strategy": "RAID0"}}
    }
    assert "GPU_SCRATCH" not in on_eks["text/cloud-config"]


@pytest.mark.parametrize(
    ("orchestrator", "config", "is_over"),
    [
        (EKS, NodeConfig(kubelet_config=FEWER), True),
        (EKS, NodeConfig(), False),
        (SELF, NodeConfig(cluster=CLUSTER, kubelet_config=FEWER), False),
    ],
)
def test_kubelet_of_a_managed_node_is_told_over_what_eks_says(
    site: Site, orchestrator: Orchestrator, config: NodeConfig, is_over: bool
) -> None:
    """EKS has a number of pods of its own in the user data, and its part may come last."""
    made = nodes(site, orchestrator, node_config=config)
    site.resources()
    over_eks = node_files(made.text, Path(site.app.outdir)).get("/etc/eks/nodeadm.d/50-gpu-cluster.json")
    assert (over_eks is not None) is is_over
    if over_eks is not None:
        assert json.loads(over_eks)["spec"] == {"kubelet": {"config": FEWER}}


@pytest.mark.parametrize("orchestrator", [EKS, PCS])
def test_local_disks_are_left_alone_where_nobody_wants_them(site: Site, orchestrator: Orchestrator) -> None:
    text = nodes(site, orchestrator, scratch=False).text
    assert "localStorage" not in text
    assert "GPU_SCRATCH" not in text
    assert "gpu-scratch" not in text


def test_pcs_nodes_have_scratch(site: Site) -> None:
    text = nodes(site, PCS).text
    assert setting(text, "GPU_SCRATCH_DISKS") == "8"
    assert "systemctl enable gpu-scratch" in text


def test_nodes_may_fetch_their_software_and_log_and_no_more(site: Site) -> None:
    bucket = s3.Bucket.from_bucket_name(site.stack, "Evidence", "my-logs")
    nodes(site, PCS, evidence_bucket=bucket)
    resources = site.resources()
    statements = [
        statement
        for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    listed = [one["Action"] if isinstance(one["Action"], list) else [one["Action"]] for one in statements]
    actions = {action for one in listed for action in one if not action.startswith("ssm")}
    writes = {"logs:CreateLogStream", "logs:PutLogEvents", "s3:PutObject"}
    assert actions == {"s3:GetObject", "logs:DescribeLogStreams", *writes}


def test_a_role_from_elsewhere_gets_the_same(site: Site) -> None:
    role = iam.Role.from_role_name(site.stack, "Theirs", "AWSPCS-nodes")
    NodeUserData(site.stack, "Nodes", instance_type="g6.xlarge", orchestrator=PCS, role=role, slurm_version="25.11")
    policies = of_type(site.resources(), "AWS::IAM::ManagedPolicy").values()
    assert [policy["Properties"]["Roles"] for policy in policies] == [["AWSPCS-nodes"]] * 2


def test_nodes_of_a_stack_share_their_software_with_its_fleets(site: Site) -> None:
    role = NodeRole(site.stack, "Role")
    first, second = (
        NodeUserData(site.stack, name, instance_type="g6.xlarge", orchestrator=EKS, role=role) for name in "AB"
    )
    assert first.node_asset is second.node_asset
    own = NodeUserData(
        site.stack,
        "C",
        instance_type="g6.xlarge",
        orchestrator=EKS,
        role=role,
        node_files=[NodeFile(path="/etc/late", text="late", early=False)],
    )
    assert own.node_asset is not first.node_asset


def test_lustre_is_mounted_and_its_clients_checked(site: Site) -> None:
    store = LustreStore(
        site.stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=38_400,
        throughput_mb_per_s_per_tib=250,
        efa=True,
    )
    text = nodes(site, PCS, mounts={"/fsx": store}, max_node_count=4).text
    assert setting(text, "GPU_MOUNTS") == "1"
    assert int(setting(text, "GPU_LUSTRE_EFA")) > 0
    assert "\n/fsx " in text


def found(site: Site, orchestrator: Orchestrator, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        nodes(site, orchestrator, **options)
    assert all(finding.path is not None and "Site/Nodes" in finding.path for finding in refusal.value.findings)
    return [finding.id for finding in refusal.value.findings]


@pytest.mark.parametrize(
    ("orchestrator", "options", "expected"),
    [
        (Orchestrator.EC2, {}, ["GPU-UD-009"]),
        (SELF, {"node_config": None}, ["GPU-EKS-001"]),
        (EKS, {"node_config": NodeConfig(labels={"team": "a"})}, ["GPU-EKS-002"]),
        (EKS, {"node_config": NodeConfig(cluster=CLUSTER, labels={"kubernetes.io/role": "gpu"})}, ["GPU-EKS-003"]),
        (SELF, {"node_config": NodeConfig(cluster=CLUSTER, taints=("gpu",))}, ["GPU-EKS-003"]),
        (EKS, {"node_config": NodeConfig(kubelet_config={"maxPods": object()})}, ["GPU-EKS-004"]),
        (PCS, {"node_config": NodeConfig()}, ["GPU-EKS-005"]),
        (PCS, {"slurm_version": "slurm-25.11"}, ["GPU-PCS-001"]),
        (PCS, {"user_data_parts": [UserDataPart(content_type="text/x-include-url", body="https://x")]}, ["GPU-PCS-002"]),
        (EKS, {"environment": {"A B": "1"}}, ["GPU-UD-003"]),
        (EKS, {"mig": MigLayout(["1g.10gb"]), "efa": True}, ["GPU-MIG-006"]),
        (EKS, {"kind": "p9.48xlarge"}, ["GPU-INST-001"]),
        (EKS, {"user_data_parts": [UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\n" + "#" * 16_000)]},
         ["GPU-UD-001"]),
    ],
)  # fmt: skip
def test_faults_are_named(site: Site, orchestrator: Orchestrator, options: dict[str, Any], expected: list[str]) -> None:
    assert found(site, orchestrator, **options) == expected


def test_a_certificate_is_given_room_that_its_token_does_not_show(site: Site) -> None:
    body = "#!/bin/sh\n" + "#" * 5_000
    parts = [UserDataPart(content_type="text/x-shellscript", body=body)]
    made = NodeUserData(
        site.stack, "Plain", instance_type="g6.xlarge", orchestrator=EKS, role=NodeRole(site.stack, "R"),
        user_data_parts=parts,
    )  # fmt: skip
    room = 16_384 - len(made.text)
    longer = [UserDataPart(content_type="text/x-shellscript", body=body + "#" * (room - 1_000))]
    assert found(site, SELF, kind="g6.xlarge", user_data_parts=longer) == ["GPU-UD-001"]


@pytest.mark.parametrize(
    ("orchestrator", "options", "has_room"),
    [
        (EKS, {}, False),
        # With the cluster, nodes have an image of their own, to which EKS adds nothing.
        (EKS, {"node_config": NodeConfig(cluster=CLUSTER)}, True),
        (SELF, {}, True),
        (PCS, {}, False),
    ],
)
def test_the_part_of_the_service_needs_room(
    site: Site, orchestrator: Orchestrator, options: dict[str, Any], has_room: bool
) -> None:
    role = NodeRole(site.stack, "Other")
    given = {"instance_type": "g6.xlarge", "orchestrator": orchestrator, "role": role, **GIVEN[orchestrator], **options}
    made = NodeUserData(site.stack, "Plain", **given)
    # The certificate takes 2,048 bytes in place of four.
    body = "#!/bin/sh\n" + "#" * (16_384 - len(made.text) - 2_700)
    longer = [UserDataPart(content_type="text/x-shellscript", body=body)]
    with nullcontext() if has_room else pytest.raises(ConfigError, match="GPU-UD-001"):
        nodes(site, orchestrator, kind="g6.xlarge", user_data_parts=longer, **options)


def test_an_unknown_slurm_version_is_warned_of(site: Site) -> None:
    nodes(site, PCS, slurm_version=None)
    warnings = Annotations.from_stack(site.stack).find_warning("*", Match.string_like_regexp("GPU-PCS-001"))
    assert len(warnings) == 1


def test_a_template_for_self_managed_nodes_names_its_image(site: Site) -> None:
    options: dict[str, Any] = {
        "instance_type": "g6.xlarge",
        "orchestrator": SELF,
        "security_groups": [group(site)],
    }
    with pytest.raises(ConfigError) as refusal:
        GpuLaunchTemplate(site.stack, "Without", **options)
    assert [finding.id for finding in refusal.value.findings] == ["GPU-LT-007"]
    profile = iam.InstanceProfile(site.stack, "Profile", role=NodeRole(site.stack, "Role"))
    image = NodeImage.from_parameter(
        "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    )
    GpuLaunchTemplate(site.stack, "With", image=image, instance_profile=profile, **options)
    data = only(site.resources(), "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert data["ImageId"]
    assert data["IamInstanceProfile"]
