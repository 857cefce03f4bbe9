"""Rules about roles, keys, endpoints and the metadata service: where they end, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.node_role import SESSION_ACTIONS
from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from cdk_gpu_clusters.template_rules.template import Template

AWS = "arn:aws:iam::aws:policy"
OF_POLICIES = ("GPU-IAM-001", "GPU-IAM-002", "GPU-IAM-003")

Json = dict[str, Any]


def resource(kind: str, **properties: Any) -> Json:
    return {"Type": kind, "Properties": properties}


def verdicts(rule: str, **resources: Any) -> list[Verdict]:
    rules = [one for one in every_rule() if one.id == rule]
    return judge(Template.of({"Resources": resources}), rules)


def outcomes(rule: str, **resources: Any) -> set[Outcome]:
    return {verdict.outcome for verdict in verdicts(rule, **resources)}


def severities(rule: str, **resources: Any) -> list[Severity]:
    return [one.severity for one in verdicts(rule, **resources) if one.outcome is Outcome.NOT_COMPLIANT]


def nodes(instance_type: str = "p5.48xlarge", **data: Any) -> Json:
    held = {"InstanceType": instance_type, **data}
    return resource("AWS::EC2::LaunchTemplate", LaunchTemplateData=held)


PROFILE = resource("AWS::IAM::InstanceProfile", Roles=[{"Ref": "Role"}])
WITH_PROFILE: Json = {"IamInstanceProfile": {"Arn": {"Fn::GetAtt": ["Profile", "Arn"]}}}


def role(*statements: Json, **properties: Any) -> Json:
    policy = {"PolicyName": "policy", "PolicyDocument": {"Statement": list(statements)}}
    return resource("AWS::IAM::Role", **({"Policies": [policy]} if statements else {}), **properties)


def allow(action: Any, on: Any = "*", **more: Any) -> Json:
    return {"Effect": "Allow", "Action": action, "Resource": on, **more}


def of_nodes(rule: str, given: Json, instance_type: str = "p5.48xlarge", **more: Any) -> list[Verdict]:
    """The verdicts on a role that the nodes of a launch template have."""
    return verdicts(rule, Role=given, Profile=PROFILE, Nodes=nodes(instance_type, **WITH_PROFILE), **more)


def found(said: list[Verdict]) -> list[str]:
    return [one.finding.got for one in said if one.finding]


# Whose role it is


@pytest.mark.parametrize(
    "user",
    [
        nodes(**WITH_PROFILE),
        nodes(IamInstanceProfile={"Name": {"Ref": "Profile"}}),
        resource("AWS::EC2::Instance", InstanceType="g6.xlarge", IamInstanceProfile={"Ref": "Profile"}),
        resource("AWS::EKS::Nodegroup", InstanceTypes=["g6.xlarge"], NodeRole={"Fn::GetAtt": ["Role", "Arn"]}),
        resource(
            "AWS::Batch::ComputeEnvironment",
            ComputeResources={"InstanceTypes": ["g6"], "InstanceRole": {"Ref": "Profile"}},
        ),
        resource(
            "AWS::PCS::ComputeNodeGroup",
            InstanceConfigs=[{"InstanceType": "g6.xlarge"}],
            IamInstanceProfileArn={"Fn::GetAtt": ["Profile", "Arn"]},
        ),
        resource(
            "AWS::SageMaker::Cluster",
            InstanceGroups=[{"InstanceType": "ml.p5.48xlarge", "ExecutionRole": {"Fn::GetAtt": ["Role", "Arn"]}}],
        ),
    ],
    ids=["launch template", "by name", "instance", "EKS", "Batch", "PCS", "HyperPod"],
)
def test_the_role_of_nodes_is_found_wherever_it_is_named(user: Json) -> None:
    given = role(ManagedPolicyArns=[f"{AWS}/AmazonSSMManagedInstanceCore"])
    assert outcomes("GPU-IAM-001", Role=given, Profile=PROFILE, User=user) == {Outcome.NOT_COMPLIANT}


@pytest.mark.parametrize("rule", OF_POLICIES)
def test_roles_of_plain_nodes_and_of_functions_are_left_alone(rule: str) -> None:
    given = role(allow("*"), ManagedPolicyArns=[f"{AWS}/AdministratorAccess", f"{AWS}/AmazonSSMManagedInstanceCore"])
    assert {one.outcome for one in of_nodes(rule, given, "m7i.large")} == {Outcome.NOT_APPLICABLE}
    assert outcomes(rule, Role=given, Nodes=nodes()) == {Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize("rule", OF_POLICIES)
def test_a_role_of_nodes_whose_type_is_not_known_is_undecidable_only_if_it_has_a_fault(rule: str) -> None:
    launch = resource("AWS::EC2::LaunchTemplate", LaunchTemplateData=WITH_PROFILE)
    wide = role(allow("*"), ManagedPolicyArns=[f"{AWS}/AdministratorAccess", f"{AWS}/AmazonSSMManagedInstanceCore"])
    assert outcomes(rule, Role=wide, Profile=PROFILE, Nodes=launch) == {Outcome.UNDECIDABLE}
    assert outcomes(rule, Role=role(allow("s3:ListBucket")), Profile=PROFILE, Nodes=launch) == {Outcome.COMPLIANT}


def test_an_attached_policy_that_only_a_deployment_knows_is_undecidable() -> None:
    given = role(ManagedPolicyArns=[{"Fn::ImportValue": "policy"}])
    assert {one.outcome for one in of_nodes("GPU-IAM-002", given)} == {Outcome.UNDECIDABLE}


# Managed policies


@pytest.mark.parametrize(
    ("policy", "severity"),
    [
        (f"{AWS}/AdministratorAccess", [Severity.ERROR]),
        (f"{AWS}/IAMFullAccess", [Severity.ERROR]),
        (f"{AWS}/AmazonFSxFullAccess", [Severity.WARNING]),
        ({"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/AmazonEC2FullAccess"}, [Severity.WARNING]),
        (f"{AWS}/AmazonEKSWorkerNodePolicy", []),
        (f"{AWS}/service-role/AmazonEC2ContainerServiceforEC2Role", []),
        ("arn:aws:iam::111122223333:policy/AmazonS3FullAccess", []),
    ],
)
def test_a_policy_of_an_entire_service_is_a_warning_and_one_of_the_account_an_error(
    policy: Any, severity: list[Severity]
) -> None:
    given = {"Role": role(ManagedPolicyArns=[policy]), "Profile": PROFILE, "Nodes": nodes(**WITH_PROFILE)}
    assert severities("GPU-IAM-002", **given) == severity


def test_the_fix_names_the_actions_that_our_own_role_has() -> None:
    [rule] = [one for one in every_rule() if one.id == "GPU-IAM-001"]
    assert all(action in rule.fix for action in SESSION_ACTIONS)


# Wildcards


@pytest.mark.parametrize(
    ("statement", "severity"),
    [
        (allow("*"), [Severity.ERROR]),
        (allow(["ec2:DescribeInstances", "iam:*"]), [Severity.ERROR]),
        (allow("s3:*"), [Severity.WARNING]),
        (allow("s3:Get*", "arn:aws:s3:::*"), [Severity.WARNING]),
        (allow("ssm:GetParameter*"), [Severity.WARNING]),
        (allow("kms:Decrypt", {"Fn::Sub": "arn:aws:kms:*:${AWS::AccountId}:key/*"}), [Severity.WARNING]),
        (allow("sts:AssumeRole", "arn:aws:iam::*:role/*"), [Severity.WARNING]),
        ({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}, [Severity.WARNING]),
        ({"Effect": "Allow", "Action": "s3:GetObject", "NotResource": "arn:aws:s3:::a/*"}, [Severity.WARNING]),
        (allow("s3:*", "arn:aws:s3:::corpus/*"), []),
        (allow("ec2:Describe*"), []),
        (allow(list(SESSION_ACTIONS)), []),
        (allow("secretsmanager:GetSecretValue", {"Ref": "Secret"}), []),
        (allow("kms:Decrypt", Condition={"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}), []),
        ({"Effect": "Deny", "Action": "*", "Resource": "*"}, []),
    ],
)
def test_entire_services_and_data_are_not_allowed_on_every_resource(statement: Json, severity: list[Severity]) -> None:
    secret = resource("AWS::SecretsManager::Secret")
    given = {"Role": role(statement), "Profile": PROFILE, "Nodes": nodes(**WITH_PROFILE), "Secret": secret}
    assert severities("GPU-IAM-003", **given) == severity


def test_a_single_statement_needs_no_list() -> None:
    policy = {"PolicyName": "all", "PolicyDocument": {"Statement": allow("*")}}
    assert found(of_nodes("GPU-IAM-003", resource("AWS::IAM::Role", Policies=[policy]))) == ["* on every resource"]


@pytest.mark.parametrize(
    "attached",
    [
        resource("AWS::IAM::Policy", Roles=[{"Ref": "Role"}], PolicyDocument={"Statement": [allow("s3:*")]}),
        resource("AWS::IAM::ManagedPolicy", Roles=[{"Ref": "Role"}], PolicyDocument={"Statement": [allow("s3:*")]}),
        resource("AWS::IAM::RolePolicy", RoleName={"Ref": "Role"}, PolicyDocument={"Statement": [allow("s3:*")]}),
    ],
    ids=lambda one: one["Type"],
)
def test_policies_beside_the_role_count(attached: Json) -> None:
    assert found(of_nodes("GPU-IAM-003", role(), Policy=attached)) == ["s3:* on every resource"]


def test_a_managed_policy_that_the_role_names_counts() -> None:
    policy = resource("AWS::IAM::ManagedPolicy", PolicyDocument={"Statement": [allow("s3:*")]})
    given = role(ManagedPolicyArns=[{"Ref": "Policy"}])
    assert found(of_nodes("GPU-IAM-003", given, Policy=policy)) == ["s3:* on every resource"]


# Versions


def bucket(status: str = "Enabled", **properties: Any) -> Json:
    return resource("AWS::S3::Bucket", VersioningConfiguration={"Status": status}, **properties)


OBJECTS = {"Fn::Sub": "${Bucket.Arn}/trainers/*"}
DELETES = allow("s3:DeleteObject*", OBJECTS)
DENIAL = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObjectVersion", "Resource": OBJECTS}


@pytest.mark.parametrize(
    ("statement", "given", "faults"),
    [
        (DELETES, bucket(), 1),
        (allow("s3:*"), bucket(), 1),
        (allow("*", "*"), bucket(), 1),
        (allow("s3:DeleteObjectVersion", "arn:aws:s3:::states/*"), bucket(BucketName="states"), 1),
        (allow("s3:DeleteObjectVersion", "arn:aws:s3:::others/*"), bucket(BucketName="states"), 0),
        (allow("s3:*", {"Fn::GetAtt": ["Bucket", "Arn"]}), bucket(), 0),
        (allow(["s3:DeleteObject", "s3:PutObject"], OBJECTS), bucket(), 0),
        (DELETES, bucket("Suspended"), 0),
        (DELETES, resource("AWS::S3::Bucket"), 0),
    ],
)
def test_nodes_delete_no_versions_of_a_versioned_bucket(statement: Json, given: Json, faults: int) -> None:
    assert len(found(of_nodes("GPU-IAM-004", role(statement), Bucket=given))) == faults


@pytest.mark.parametrize(
    ("mode", "actions", "faults"),
    [
        ("COMPLIANCE", "s3:*", 0),
        ("GOVERNANCE", "s3:DeleteObject*", 0),
        ("GOVERNANCE", "s3:*", 1),
    ],
)
def test_object_lock_keeps_versions_from_those_who_may_not_bypass_it(mode: str, actions: str, faults: int) -> None:
    lock = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": mode, "Days": 30}}}
    locked = bucket(ObjectLockEnabled=True, ObjectLockConfiguration=lock)
    assert len(found(of_nodes("GPU-IAM-004", role(allow(actions, OBJECTS)), Bucket=locked))) == faults


def test_a_denial_of_the_role_or_of_the_bucket_counts() -> None:
    policy = resource("AWS::S3::BucketPolicy", Bucket={"Ref": "Bucket"}, PolicyDocument={"Statement": [DENIAL]})
    assert found(of_nodes("GPU-IAM-004", role(DELETES), Bucket=bucket(), Policy=policy)) == []
    assert found(of_nodes("GPU-IAM-004", role(DELETES, DENIAL), Bucket=bucket())) == []


@pytest.mark.parametrize(
    ("user", "outcome"),
    [
        (
            resource("AWS::EKS::PodIdentityAssociation", RoleArn={"Fn::GetAtt": ["Role", "Arn"]}),
            Outcome.NOT_COMPLIANT,
        ),
        (
            resource("AWS::Batch::JobDefinition", ContainerProperties={"JobRoleArn": {"Fn::GetAtt": ["Role", "Arn"]}}),
            Outcome.NOT_COMPLIANT,
        ),
        (resource("AWS::Lambda::Function", Role={"Fn::GetAtt": ["Role", "Arn"]}), Outcome.NOT_APPLICABLE),
    ],
    ids=["pod", "job", "function"],
)
def test_roles_of_jobs_delete_no_versions_either(user: Json, outcome: Outcome) -> None:
    """The function that empties a bucket when its stack is deleted has to."""
    assert outcomes("GPU-IAM-004", Role=role(DELETES), User=user, Bucket=bucket(), Nodes=nodes()) == {outcome}


# Pods and the metadata service


def hops(limit: int) -> Json:
    return {"MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": limit}}


def user_data(text: str) -> Json:
    return {"UserData": {"Fn::Base64": text}}


CLUSTER_TAG = {"Key": "kubernetes.io/cluster/research", "Value": "owned"}
BY_TAG: Json = {"TagSpecifications": [{"ResourceType": "instance", "Tags": [CLUSTER_TAG]}]}


@pytest.mark.parametrize(
    ("data", "kubernetes"),
    [
        (user_data("#!/bin/bash\n/etc/eks/bootstrap.sh research\n"), True),
        (user_data("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"), True),
        (user_data('[settings.kubernetes]\ncluster-name = "research"\n'), True),
        (BY_TAG, True),
        (user_data("#!/bin/bash\ndocker run training\n"), False),
        ({}, False),
    ],
)
def test_two_hops_are_for_containers_and_one_is_for_nodes_of_kubernetes(data: Json, kubernetes: bool) -> None:
    expected = Outcome.NOT_COMPLIANT if kubernetes else Outcome.NOT_APPLICABLE
    assert outcomes("GPU-EKS-052", Nodes=nodes(**hops(2), **data)) == {expected}
    assert outcomes("GPU-EKS-052", Nodes=nodes(**hops(1), **data)) == {Outcome.COMPLIANT}
    assert outcomes("GPU-LT-011", Nodes=nodes(**hops(2), **data)) == {Outcome.COMPLIANT}


def test_a_tag_that_the_group_gives_to_its_nodes_counts() -> None:
    launch = {"LaunchTemplateId": {"Ref": "Nodes"}, "Version": {"Fn::GetAtt": ["Nodes", "LatestVersionNumber"]}}
    tags = [{**CLUSTER_TAG, "PropagateAtLaunch": True}]
    group = resource("AWS::AutoScaling::AutoScalingGroup", LaunchTemplate=launch, MaxSize=1, Tags=tags)
    assert outcomes("GPU-EKS-052", Nodes=nodes(**hops(2)), Group=group) == {Outcome.NOT_COMPLIANT}


def test_more_than_two_hops_are_reported_once() -> None:
    assert outcomes("GPU-LT-011", Nodes=nodes(**hops(3))) == {Outcome.NOT_COMPLIANT}
    assert outcomes("GPU-LT-011", Nodes=nodes(**hops(3), **BY_TAG)) == {Outcome.COMPLIANT}
    assert outcomes("GPU-EKS-052", Nodes=nodes(**hops(3), **BY_TAG)) == {Outcome.NOT_COMPLIANT}


# Endpoints

NETWORK = resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16")
SUBNET = resource("AWS::EC2::Subnet", VpcId={"Ref": "Network"}, CidrBlock="10.0.0.0/24")


def endpoint(**properties: Any) -> Json:
    properties = {"ServiceName": "com.amazonaws.us-east-1.s3", "VpcId": {"Ref": "Network"}, **properties}
    return resource("AWS::EC2::VPCEndpoint", **properties)


def policy(**more: Any) -> Json:
    return {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*", **more}]}


WITHIN = {"StringEquals": {"aws:ResourceAccount": {"Ref": "AWS::AccountId"}}}


@pytest.mark.parametrize(
    ("properties", "outcome"),
    [
        ({}, Outcome.NOT_COMPLIANT),
        ({"VpcEndpointType": "Interface"}, Outcome.NOT_COMPLIANT),
        ({"PolicyDocument": policy()}, Outcome.NOT_COMPLIANT),
        ({"PolicyDocument": policy(Condition=WITHIN)}, Outcome.COMPLIANT),
        ({"PolicyDocument": policy(Resource="arn:aws:s3:::states/*")}, Outcome.COMPLIANT),
        ({"VpcEndpointType": "GatewayLoadBalancer"}, Outcome.NOT_APPLICABLE),
        ({"VpcEndpointType": "Interface", "ServiceName": "com.amazonaws.vpce.us-east-1.vpce-svc-0"}, None),
        ({"VpcId": "vpc-0123456789abcdef0"}, Outcome.UNDECIDABLE),
    ],
)
def test_an_endpoint_of_a_closed_network_needs_a_policy_that_limits(properties: Json, outcome: Outcome | None) -> None:
    said = outcomes("GPU-NET-146", Network=NETWORK, Endpoint=endpoint(**properties), Nodes=nodes())
    assert said == {outcome or Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize(
    "way",
    [
        resource("AWS::EC2::VPCGatewayAttachment", VpcId={"Ref": "Network"}, InternetGatewayId="igw-0"),
        resource("AWS::EC2::NatGateway", SubnetId={"Ref": "Subnet"}),
        resource("AWS::EC2::EgressOnlyInternetGateway", VpcId={"Ref": "Network"}),
        resource("AWS::EC2::TransitGatewayAttachment", VpcId={"Ref": "Network"}),
    ],
    ids=lambda one: one["Type"],
)
def test_a_policy_of_an_endpoint_holds_nothing_beside_another_way_out(way: Json) -> None:
    said = outcomes("GPU-NET-146", Network=NETWORK, Subnet=SUBNET, Endpoint=endpoint(), Way=way, Nodes=nodes())
    assert said == {Outcome.NOT_APPLICABLE}


def test_whether_a_network_of_its_own_is_for_gpu_nodes_is_open() -> None:
    assert outcomes("GPU-NET-146", Network=NETWORK, Endpoint=endpoint()) == {Outcome.UNDECIDABLE}
    plain = nodes("m7i.large")
    assert outcomes("GPU-NET-146", Network=NETWORK, Endpoint=endpoint(), Nodes=plain) == {Outcome.NOT_APPLICABLE}


# Keys


@pytest.mark.parametrize(
    ("properties", "instance_type", "outcome"),
    [
        ({}, "p5.48xlarge", Outcome.NOT_COMPLIANT),
        ({"EnableKeyRotation": False}, "p5.48xlarge", Outcome.NOT_COMPLIANT),
        ({"EnableKeyRotation": True}, "p5.48xlarge", Outcome.COMPLIANT),
        ({"KeySpec": "RSA_2048"}, "p5.48xlarge", Outcome.NOT_APPLICABLE),
        ({"Origin": "EXTERNAL"}, "p5.48xlarge", Outcome.NOT_APPLICABLE),
        ({}, "m7i.large", Outcome.NOT_APPLICABLE),
    ],
)
def test_symmetric_keys_beside_gpu_nodes_rotate(properties: Json, instance_type: str, outcome: Outcome) -> None:
    key = resource("AWS::KMS::Key", **properties)
    assert outcomes("GPU-KEY-001", Key=key, Nodes=nodes(instance_type)) == {outcome}


def encrypted(**default: str) -> Json:
    rules = [{"ServerSideEncryptionByDefault": default}]
    return {"BucketEncryption": {"ServerSideEncryptionConfiguration": rules}}


@pytest.mark.parametrize(
    ("encryption", "outcome"),
    [
        ({}, Outcome.NOT_COMPLIANT),
        (encrypted(SSEAlgorithm="AES256"), Outcome.NOT_COMPLIANT),
        (encrypted(SSEAlgorithm="aws:kms"), Outcome.NOT_COMPLIANT),
        (encrypted(SSEAlgorithm="aws:kms", KMSMasterKeyID="alias/data"), Outcome.COMPLIANT),
    ],
)
@pytest.mark.parametrize("kind", ["AWS::S3::Bucket", "AWS::S3Express::DirectoryBucket"])
def test_a_bucket_that_nodes_read_has_a_key_of_its_own(kind: str, encryption: Json, outcome: Outcome) -> None:
    reads = role(allow("s3:GetObject", {"Fn::Sub": "${Bucket.Arn}/*"}))
    assert {one.outcome for one in of_nodes("GPU-KEY-002", reads, Bucket=resource(kind, **encryption))} == {outcome}


def test_a_bucket_that_lustre_is_linked_to_has_a_key_of_its_own() -> None:
    link = resource("AWS::FSx::DataRepositoryAssociation", DataRepositoryPath={"Fn::Sub": "s3://${Bucket}/corpus/"})
    assert outcomes("GPU-KEY-002", Bucket=bucket(), Link=link) == {Outcome.NOT_COMPLIANT}


def test_a_bucket_of_logs_that_no_node_uses_needs_none() -> None:
    """Elastic Load Balancing writes its access logs under no KMS key."""
    reads = role(allow("s3:GetObject", "arn:aws:s3:::corpus/*"))
    assert {one.outcome for one in of_nodes("GPU-KEY-002", reads, Bucket=bucket())} == {Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("deployment", "outcome"),
    [
        ("PERSISTENT_2", Outcome.NOT_COMPLIANT),
        ("PERSISTENT_1", Outcome.NOT_COMPLIANT),
        ("SCRATCH_2", Outcome.NOT_APPLICABLE),
    ],
)
def test_a_scratch_file_system_takes_no_key(deployment: str, outcome: Outcome) -> None:
    lustre = {"DeploymentType": deployment}
    file_system = resource("AWS::FSx::FileSystem", FileSystemType="LUSTRE", LustreConfiguration=lustre)
    assert outcomes("GPU-KEY-003", Corpus=file_system) == {outcome}
