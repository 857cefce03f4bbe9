"""What rules find out about node groups of orchestrators, and what they leave open."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import Outcome
from cdk_gpu_clusters.template_rules.template import Template

LAUNCH = {"LaunchTemplateId": {"Ref": "Nodes"}, "Version": {"Fn::GetAtt": ["Nodes", "LatestVersionNumber"]}}
P5, ARM, TRAINIUM, PLAIN = "p5.48xlarge", "g5g.xlarge", "trn2.48xlarge", "m7i.large"


def outcomes(rule: str, **resources: Any) -> set[Outcome]:
    rules = [one for one in every_rule() if one.id == rule]
    return {verdict.outcome for verdict in judge(Template.of({"Resources": resources}), rules)}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def launch_template(**data: Any) -> dict[str, Any]:
    return resource("AWS::EC2::LaunchTemplate", LaunchTemplateData=data)


def node_group(**properties: Any) -> dict[str, Any]:
    return resource("AWS::EKS::Nodegroup", **properties)


@pytest.mark.parametrize(
    ("ami_type", "instance_type", "outcome"),
    [
        ("AL2023_x86_64_NVIDIA", P5, Outcome.COMPLIANT),
        ("AL2_x86_64_GPU", P5, Outcome.COMPLIANT),
        ("BOTTLEROCKET_x86_64_NVIDIA_FIPS", P5, Outcome.COMPLIANT),
        ("AL2023_x86_64_NEURON", TRAINIUM, Outcome.COMPLIANT),
        ("AL2023_ARM_64_NVIDIA", ARM, Outcome.COMPLIANT),
        ("AL2023_x86_64_STANDARD", PLAIN, Outcome.COMPLIANT),
        ("AL2023_x86_64_NVIDIA", ARM, Outcome.NOT_COMPLIANT),
        ("AL2023_x86_64_NVIDIA", TRAINIUM, Outcome.NOT_COMPLIANT),
        ("CUSTOM", P5, Outcome.NOT_APPLICABLE),
        (None, P5, Outcome.UNDECIDABLE),
    ],
)
def test_ami_types_carry_the_drivers(ami_type: str | None, instance_type: str, outcome: Outcome) -> None:
    group = node_group(AmiType=ami_type, InstanceTypes=[instance_type])
    assert outcomes("GPU-EKS-016", Group=group) == {outcome}


def test_a_launch_template_of_another_stack_is_left_open() -> None:
    group = node_group(LaunchTemplate={"Id": "lt-0123456789abcdef0", "Version": "1"})
    assert outcomes("GPU-EKS-011", Group=group) == {Outcome.UNDECIDABLE}


def test_a_node_group_without_launch_template_is_no_matter() -> None:
    assert outcomes("GPU-EKS-011", Group=node_group(InstanceTypes=[P5])) == {Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("option", "market_type", "outcome"),
    [
        ("CAPACITY_BLOCK", "capacity-block", Outcome.COMPLIANT),
        ("SPOT", None, Outcome.COMPLIANT),
        (None, None, Outcome.COMPLIANT),
        ("CAPACITY_BLOCK", None, Outcome.NOT_COMPLIANT),
        ("ON_DEMAND", "capacity-block", Outcome.NOT_COMPLIANT),
        ("SPOT", "spot", Outcome.NOT_COMPLIANT),
    ],
)
def test_purchase_options_and_market_types_go_together(
    option: str | None, market_type: str | None, outcome: Outcome
) -> None:
    nodes = launch_template(InstanceType=P5, InstanceMarketOptions={"MarketType": market_type})
    eks = node_group(CapacityType=option, LaunchTemplate={"Id": {"Ref": "Nodes"}})
    pcs = resource(
        "AWS::PCS::ComputeNodeGroup",
        PurchaseOption=option,
        CustomLaunchTemplate={"TemplateId": {"Ref": "Nodes"}},
    )
    assert outcomes("GPU-EKS-012", Nodes=nodes, Group=eks) == {outcome}
    assert outcomes("GPU-PCS-012", Nodes=nodes, Group=pcs) == {outcome}


@pytest.mark.parametrize(
    ("groups", "outcome"),
    [
        ([{"Fn::GetAtt": ["Own", "GroupId"]}], Outcome.NOT_COMPLIANT),
        ([{"Fn::GetAtt": ["Own", "GroupId"]}, "sg-0123456789abcdef0"], Outcome.UNDECIDABLE),
        ([{"Fn::GetAtt": ["Cluster", "ClusterSecurityGroupId"]}], Outcome.COMPLIANT),
        ([], Outcome.NOT_APPLICABLE),
    ],
)
def test_the_group_of_the_cluster_is_among_those_of_the_nodes(groups: list[Any], outcome: Outcome) -> None:
    found = outcomes(
        "GPU-EKS-017",
        Cluster=resource("AWS::EKS::Cluster"),
        Own=resource("AWS::EC2::SecurityGroup"),
        Nodes=launch_template(SecurityGroupIds=groups),
        Group=node_group(LaunchTemplate={"Id": {"Ref": "Nodes"}}),
    )
    assert found == {outcome}


@pytest.mark.parametrize(
    ("role", "outcome"),
    [
        ({"Path": "/aws-pcs/"}, Outcome.COMPLIANT),
        ({"RoleName": "AWSPCS-nodes"}, Outcome.COMPLIANT),
        ({"RoleName": "nodes"}, Outcome.NOT_COMPLIANT),
        ({}, Outcome.NOT_COMPLIANT),
        ({"Path": {"Ref": "AWS::StackName"}}, Outcome.UNDECIDABLE),
    ],
)
def test_roles_of_pcs_have_their_name(role: dict[str, Any], outcome: Outcome) -> None:
    found = outcomes(
        "GPU-PCS-014",
        Role=resource("AWS::IAM::Role", **role),
        Profile=resource("AWS::IAM::InstanceProfile", Roles=[{"Ref": "Role"}]),
        Group=resource("AWS::PCS::ComputeNodeGroup", IamInstanceProfileArn={"Fn::GetAtt": ["Profile", "Arn"]}),
    )
    assert found == {outcome}


def hyperpod(**group: Any) -> dict[str, Any]:
    return resource("AWS::SageMaker::Cluster", InstanceGroups=[group])


@pytest.mark.parametrize(
    ("uri", "outcome"),
    [
        ("s3://sagemaker-scripts/base", Outcome.COMPLIANT),
        ("s3://scripts/base", Outcome.NOT_COMPLIANT),
        ({"Fn::Sub": "s3://sagemaker-${AWS::AccountId}/base"}, Outcome.COMPLIANT),
        ({"Fn::Sub": "s3://${AWS::AccountId}-scripts/base"}, Outcome.UNDECIDABLE),
        (None, Outcome.COMPLIANT),
    ],
)
def test_lifecycle_scripts_lie_where_the_managed_policy_reads(uri: Any, outcome: Outcome) -> None:
    assert outcomes("GPU-HYP-004", Cluster=hyperpod(LifeCycleConfig={"SourceS3Uri": uri})) == {outcome}


@pytest.mark.parametrize(
    ("action", "outcome"), [("s3:Get*", Outcome.COMPLIANT), ("s3:ListBucket", Outcome.NOT_COMPLIANT)]
)
def test_lifecycle_scripts_lie_where_the_role_itself_reads(action: str, outcome: Outcome) -> None:
    group = {
        "LifeCycleConfig": {"SourceS3Uri": "s3://scripts/base"},
        "ExecutionRole": {"Fn::GetAtt": ["Role", "Arn"]},
    }
    statement = {"Effect": "Allow", "Action": action, "Resource": "arn:aws:s3:::scripts/base/*"}
    policy = resource("AWS::IAM::ManagedPolicy", PolicyDocument={"Statement": [statement]}, Roles=[{"Ref": "Role"}])
    role = resource("AWS::IAM::Role", AssumeRolePolicyDocument={})
    assert outcomes("GPU-HYP-004", Cluster=hyperpod(**group), Role=role, Policy=policy) == {outcome}


def test_a_label_of_hyperpod_may_name_a_configuration_of_its_chart() -> None:
    labels = {"nvidia.com/mig.config": "mixed-1-3g.40gb-1-4g.40gb"}
    for kind, outcome in ((P5, Outcome.COMPLIANT), ("p4d.24xlarge", Outcome.NOT_COMPLIANT)):
        cluster = hyperpod(InstanceType=f"ml.{kind}", KubernetesConfig={"Labels": labels})
        assert outcomes("GPU-MIG-011", Cluster=cluster) == {outcome}
    assert outcomes("GPU-MIG-011", Group=node_group(Labels=labels, InstanceTypes=[P5])) == {Outcome.UNDECIDABLE}


def test_a_group_of_hyperpod_may_have_a_network_of_its_own() -> None:
    cluster = hyperpod(InstanceType=f"ml.{P5}", OverrideVpcConfig={"SecurityGroupIds": ["sg-0123456789abcdef0"]})
    assert outcomes("GPU-HYP-005", Cluster=cluster) == {Outcome.UNDECIDABLE}


@pytest.mark.parametrize(
    ("label", "instance_type", "outcome"),
    [
        ("all-1g.10gb", P5, Outcome.COMPLIANT),
        ("all-balanced", P5, Outcome.COMPLIANT),
        ("all-disabled", "g6.xlarge", Outcome.COMPLIANT),
        ("all-1g.5gb", P5, Outcome.NOT_COMPLIANT),
        ("all-1g.10gb", "g6.xlarge", Outcome.NOT_COMPLIANT),
        ("all-enabled", "g6.xlarge", Outcome.NOT_COMPLIANT),
        ("ours", P5, Outcome.UNDECIDABLE),
        (None, P5, Outcome.NOT_APPLICABLE),
    ],
)
def test_labels_ask_for_what_the_gpu_has(label: str | None, instance_type: str, outcome: Outcome) -> None:
    labels = {"nvidia.com/mig.config": label}
    eks = node_group(Labels=labels, InstanceTypes=[instance_type])
    cluster = hyperpod(InstanceType=f"ml.{instance_type}", KubernetesConfig={"Labels": labels})
    assert outcomes("GPU-MIG-011", Group=eks) == {outcome}
    assert outcomes("GPU-MIG-011", Cluster=cluster) == {outcome}
