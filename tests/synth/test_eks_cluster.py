"""A cluster of EKS: closed, logged, encrypted, and ready for GPU nodes."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from jsonschema import Draft7Validator

from cdk_gpu_clusters import ClusterNetwork, ConfigError, ContainerInsights, EksGpuCluster, IEksGpuCluster
from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION
from cdk_gpu_clusters.rules.eks_cluster import AFTER_NODES, BEFORE_NODES
from stack_fixtures import Resources, Site, SiteFactory, of_type, only, readable

CLUSTER, ADD_ON, GROUP = "AWS::EKS::Cluster", "AWS::EKS::Addon", "AWS::EKS::Nodegroup"
LOG_GROUP = "AWS::Logs::LogGroup"
ENTRY, ROLE, TEMPLATE = "AWS::EKS::AccessEntry", "AWS::IAM::Role", "AWS::EC2::LaunchTemplate"
PLATFORM = "arn:aws:iam::111122223333:role/teams/platform"
RESEARCH = "arn:aws:iam::111122223333:role/research"


def cluster(site: Site, name: str = "Kube", **options: Any) -> EksGpuCluster:
    return EksGpuCluster(site.stack, name, **({"vpc": site.vpc} | options))


def existing(site: Site, **options: Any) -> IEksGpuCluster:
    given: dict[str, Any] = {
        "vpc": site.vpc,
        "cluster_name": "research",
        "cluster_security_group_id": "sg-0123456789abcdef0",
        "kubernetes_version": "1.35",
    }
    return EksGpuCluster.from_eks_gpu_cluster_attributes(site.stack, "Existing", **(given | options))


@pytest.fixture(scope="module")
def resources(app_factory: Any) -> Resources:
    """A cluster with nothing said."""
    site = Site(app_factory(), None)
    cluster(site)
    return site.resources()


def add_ons(resources: Resources) -> dict[str, dict[str, Any]]:
    return {one["Properties"]["AddonName"]: one for one in of_type(resources, ADD_ON).values()}


def policies_of(entry: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Policies of an access entry by name, with their namespaces."""
    found = {}
    for one in entry["AccessPolicies"]:
        scope = one["AccessScope"]
        assert (scope["Type"] == "namespace") is ("Namespaces" in scope)
        found[one["PolicyArn"]["Fn::Join"][1][-1].rpartition("/")[2]] = tuple(scope.get("Namespaces", ()))
    return found


def test_the_api_server_is_reached_from_inside_only(resources: Resources) -> None:
    network = only(resources, CLUSTER)["ResourcesVpcConfig"]
    assert network["EndpointPrivateAccess"] is True
    assert network["EndpointPublicAccess"] is False
    assert "PublicAccessCidrs" not in network


def test_named_networks_reach_it_over_the_internet(site: Site) -> None:
    made = cluster(site, public_access_cidrs=["203.0.113.0/24", "198.51.100.7/32"])
    assert made.is_public
    network = only(site.resources(), CLUSTER)["ResourcesVpcConfig"]
    assert network["EndpointPrivateAccess"] is True
    assert network["EndpointPublicAccess"] is True
    assert network["PublicAccessCidrs"] == ["203.0.113.0/24", "198.51.100.7/32"]


def test_all_five_kinds_of_logs_go_to_a_group_with_an_end_that_is_there_before(resources: Resources) -> None:
    [(key, made)] = of_type(resources, CLUSTER).items()
    kinds = [one["Type"] for one in made["Properties"]["Logging"]["ClusterLogging"]["EnabledTypes"]]
    assert sorted(kinds) == ["api", "audit", "authenticator", "controllerManager", "scheduler"]
    [(group_key, group)] = of_type(resources, "AWS::Logs::LogGroup").items()
    assert group["Properties"] == {
        "LogGroupName": f"/aws/eks/{made['Properties']['Name']}/cluster",
        "RetentionInDays": 90,
    }
    assert made["DependsOn"] == [group_key]
    assert key not in json.dumps(group)


def test_logs_take_a_key_and_a_time(site: Site) -> None:
    key = kms.Key(site.stack, "LogKey")
    cluster(site, log_retention=logs.RetentionDays.ONE_YEAR, log_encryption_key=key)
    resources = site.resources()
    group = only(resources, "AWS::Logs::LogGroup")
    assert group["RetentionInDays"] == 365
    name = group["KmsKeyId"]["Fn::GetAtt"][0]
    statements = resources[name]["Properties"]["KeyPolicy"]["Statement"]
    assert any("logs." in json.dumps(one["Principal"]) for one in statements)


def test_secrets_are_encrypted_with_a_key_that_outlives_the_stack(resources: Resources) -> None:
    [(name, key)] = of_type(resources, "AWS::KMS::Key").items()
    assert (key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert key["Properties"]["EnableKeyRotation"] is True
    assert only(resources, CLUSTER)["EncryptionConfig"] == [
        {"Provider": {"KeyArn": {"Fn::GetAtt": [name, "Arn"]}}, "Resources": ["secrets"]}
    ]


def test_a_given_key_is_used(site: Site) -> None:
    arn = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    made = cluster(site, secrets_encryption_key=kms.Key.from_key_arn(site.stack, "Given", arn))
    resources = site.resources()
    assert made.secrets_encryption_key.key_arn == arn
    assert of_type(resources, "AWS::KMS::Key") == {}
    assert only(resources, CLUSTER)["EncryptionConfig"][0]["Provider"] == {"KeyArn": arn}


def test_nobody_is_an_administrator_unless_said(resources: Resources) -> None:
    assert only(resources, CLUSTER)["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    assert of_type(resources, ENTRY) == {}


def test_there_is_no_auto_mode_no_default_capacity_and_no_add_on_that_nobody_updates(
    resources: Resources,
) -> None:
    made = only(resources, CLUSTER)
    assert made["BootstrapSelfManagedAddons"] is False
    assert made["ComputeConfig"] == {"Enabled": False}
    assert made["StorageConfig"] == {"BlockStorage": {"Enabled": False}}
    assert made["KubernetesNetworkConfig"] == {
        "ElasticLoadBalancing": {"Enabled": False},
        "IpFamily": "ipv4",
        "ServiceIpv4Cidr": "172.20.0.0/16",
    }
    kinds = {resource["Type"] for resource in resources.values()}
    assert not {"AWS::EKS::FargateProfile", "AWS::AutoScaling::AutoScalingGroup"} & kinds
    assert not any(kind.startswith(("Custom::", "AWS::Lambda")) for kind in kinds)
    assert len(of_type(resources, GROUP)) == 1


def test_the_add_ons_come_in_their_order(resources: Resources) -> None:
    made = add_ons(resources)
    assert set(made) == {*BEFORE_NODES, *AFTER_NODES}
    [(group_key, group)] = of_type(resources, GROUP).items()
    keys = {json.dumps(one): key for key, one in of_type(resources, ADD_ON).items()}
    before = {keys[json.dumps(made[name])] for name in BEFORE_NODES}
    assert set(group["DependsOn"]) == before
    for name in BEFORE_NODES:
        assert "DependsOn" not in made[name]
    for name in AFTER_NODES:
        assert made[name]["DependsOn"] == [group_key]


def test_what_the_template_says_of_an_add_on_wins(resources: Resources) -> None:
    for one in add_ons(resources).values():
        assert one["Properties"]["ResolveConflicts"] == "OVERWRITE"
        assert "AddonVersion" not in one["Properties"]


def test_an_add_on_has_the_version_that_is_given(site: Site) -> None:
    cluster(site, add_on_versions={"coredns": "v1.12.1-eksbuild.2"})
    made = add_ons(site.resources())
    assert made["coredns"]["Properties"]["AddonVersion"] == "v1.12.1-eksbuild.2"


@pytest.mark.parametrize(
    ("name", "account", "policies"),
    [
        ("vpc-cni", "aws-node", ["AmazonEKS_CNI_Policy"]),
        ("aws-ebs-csi-driver", "ebs-csi-controller-sa", ["service-role/AmazonEBSCSIDriverPolicy"]),
        ("aws-mountpoint-s3-csi-driver", "s3-csi-driver-sa", []),
    ],
)
def test_only_the_pods_of_one_service_account_of_this_cluster_take_a_role(
    resources: Resources, name: str, account: str, policies: list[str]
) -> None:
    [association] = add_ons(resources)[name]["Properties"]["PodIdentityAssociations"]
    assert association["ServiceAccount"] == account
    role = resources[association["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert set(statement["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
    asked = statement["Condition"]["StringEquals"]
    [cluster_key] = of_type(resources, CLUSTER)
    assert {"Ref": cluster_key} in asked.pop("aws:RequestTag/eks-cluster-arn")["Fn::Join"][1]
    assert asked == {
        "aws:RequestTag/kubernetes-namespace": "kube-system",
        "aws:RequestTag/kubernetes-service-account": account,
    }
    attached = [one["Fn::Join"][1][-1] for one in role.get("ManagedPolicyArns", [])]
    assert attached == [f":iam::aws:policy/{policy}" for policy in policies]


def test_the_other_add_ons_have_no_role(resources: Resources) -> None:
    with_role = {name for name, one in add_ons(resources).items() if "PodIdentityAssociations" in one["Properties"]}
    assert with_role == {"vpc-cni", "aws-ebs-csi-driver", "aws-mountpoint-s3-csi-driver"}


def test_a_bucket_is_mounted_when_it_is_said(site: Site) -> None:
    bucket = s3.Bucket.from_bucket_name(site.stack, "Corpus", "my-corpus")
    made = cluster(site)
    made.grant_bucket_volumes(bucket)
    [policy] = of_type(site.resources(), "AWS::IAM::Policy").values()
    text = json.dumps(policy)
    assert '"s3:GetObject"' in text
    assert "s3:PutObject" not in text
    assert ":s3:::my-corpus" in text


def test_an_add_on_can_be_left_out(site: Site) -> None:
    made = cluster(site, without_add_ons=["aws-mountpoint-s3-csi-driver", "vpc-cni"])
    assert set(made.add_ons) == {*BEFORE_NODES, *AFTER_NODES} - {"aws-mountpoint-s3-csi-driver", "vpc-cni"}
    bucket = s3.Bucket.from_bucket_name(site.stack, "Corpus", "my-corpus")
    with pytest.raises(ValueError, match="there is no aws-mountpoint-s3-csi-driver"):
        made.grant_bucket_volumes(bucket)
    assert set(add_ons(site.resources())) == set(made.add_ons)


def test_a_further_add_on_waits_for_the_nodes(site: Site) -> None:
    made = cluster(site)
    made.add_add_on("snapshot-controller", version="v8.3.0-eksbuild.1", configuration={"replicas": 2})
    resources = site.resources()
    further = add_ons(resources)["snapshot-controller"]
    assert further["Properties"]["AddonVersion"] == "v8.3.0-eksbuild.1"
    assert json.loads(further["Properties"]["ConfigurationValues"]) == {"replicas": 2}
    assert next(iter(of_type(resources, GROUP))) in further["DependsOn"]


INSIGHTS = "amazon-cloudwatch-observability"
KINDS = {"performance", "application", "dataplane", "host"}


def of_insights(resources: Resources) -> dict[str, dict[str, Any]]:
    """Log groups of Container Insights by the last part of their names."""
    groups = {json.dumps(one["Properties"]["LogGroupName"]): one for one in of_type(resources, LOG_GROUP).values()}
    return {name.rstrip('"]}').rpartition("/")[2]: one for name, one in groups.items() if "containerinsights" in name}


def test_a_cluster_has_no_container_insights_by_itself(resources: Resources) -> None:
    assert INSIGHTS not in add_ons(resources)
    assert of_insights(resources) == {}


def test_the_log_groups_of_container_insights_are_there_before_it_with_an_end(site: Site) -> None:
    made = ContainerInsights(site.stack, "Insights", cluster=cluster(site))
    resources = site.resources()
    groups = of_insights(resources)
    assert set(groups) == set(made.log_groups) == KINDS
    assert {one["Properties"]["RetentionInDays"] for one in groups.values()} == {30}
    keys = {key for key, one in of_type(resources, LOG_GROUP).items() if one in groups.values()}
    [cluster_key] = of_type(resources, CLUSTER)
    assert groups["host"]["Properties"]["LogGroupName"] == {
        "Fn::Join": ["", ["/aws/containerinsights/", {"Ref": cluster_key}, "/host"]]
    }
    add_on = add_ons(resources)[INSIGHTS]
    assert keys < set(add_on["DependsOn"])
    # Its operator is a Deployment, for which there must be nodes.
    assert next(iter(of_type(resources, GROUP))) in add_on["DependsOn"]
    agent = json.loads(add_on["Properties"]["ConfigurationValues"])
    assert agent["containerLogs"] == {"enabled": True}
    collected = agent["agent"]["config"]["logs"]["metrics_collected"]
    assert collected == {"kubernetes": {"enhanced_container_insights": True, "accelerated_compute_metrics": True}}


def test_the_agent_of_container_insights_has_a_role_of_its_own(site: Site) -> None:
    ContainerInsights(site.stack, "Insights", cluster=cluster(site))
    resources = site.resources()
    [association] = add_ons(resources)[INSIGHTS]["Properties"]["PodIdentityAssociations"]
    assert association["ServiceAccount"] == "cloudwatch-agent"
    role = resources[association["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    asked = statement["Condition"]["StringEquals"]
    assert asked["aws:RequestTag/kubernetes-namespace"] == "amazon-cloudwatch"
    assert asked["aws:RequestTag/kubernetes-service-account"] == "cloudwatch-agent"
    [policy] = role["ManagedPolicyArns"]
    assert policy["Fn::Join"][1][-1] == ":iam::aws:policy/CloudWatchAgentServerPolicy"


def test_container_insights_of_an_existing_cluster_sends_metrics_only_where_that_is_asked_for(site: Site) -> None:
    ContainerInsights(
        site.stack,
        "Insights",
        cluster=existing(site),
        version="v6.2.0-eksbuild.1",
        accelerator_metrics=False,
        container_logs=False,
        log_retention=logs.RetentionDays.ONE_YEAR,
        log_encryption_key=kms.Key(site.stack, "LogKey"),
    )
    resources = site.resources()
    [group] = of_type(resources, LOG_GROUP).values()
    assert group["Properties"]["LogGroupName"] == "/aws/containerinsights/research/performance"
    assert group["Properties"]["RetentionInDays"] == 365
    [key] = of_type(resources, "AWS::KMS::Key").values()
    assert any("logs." in json.dumps(one["Principal"]) for one in key["Properties"]["KeyPolicy"]["Statement"])
    made = only(resources, ADD_ON)
    assert made["AddonVersion"] == "v6.2.0-eksbuild.1"
    configuration = json.loads(made["ConfigurationValues"])
    assert configuration["containerLogs"] == {"enabled": False}
    assert configuration["agent"]["config"]["logs"]["metrics_collected"]["kubernetes"] == {
        "enhanced_container_insights": True,
        "accelerated_compute_metrics": False,
    }


def test_a_value_of_another_type_is_refused_of_container_insights(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-ARG-001"):
        ContainerInsights(site.stack, "Insights", cluster=existing(site), container_logs="yes")  # type: ignore[arg-type]


def test_system_nodes_are_two_small_ones_over_the_zones(resources: Resources) -> None:
    group = only(resources, GROUP)
    assert group["AmiType"] == "AL2023_x86_64_STANDARD"
    assert group["Version"] == DEFAULT_KUBERNETES_VERSION
    assert group["ScalingConfig"] == {"MinSize": 2, "DesiredSize": 2, "MaxSize": 2}
    assert group["Subnets"] == ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    assert group["NodeRepairConfig"] == {"Enabled": True}
    assert not {"InstanceTypes", "DiskSize", "RemoteAccess", "NodegroupName"} & set(group)


def test_the_template_of_system_nodes_is_closed(resources: Resources) -> None:
    data = only(resources, TEMPLATE)["LaunchTemplateData"]
    assert data["InstanceType"] == "m7i.large"
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    [interface] = data["NetworkInterfaces"]
    [cluster_key] = of_type(resources, CLUSTER)
    assert interface["Groups"] == [{"Fn::GetAtt": [cluster_key, "ClusterSecurityGroupId"]}]
    assert interface["AssociatePublicIpAddress"] is False
    assert "ImageId" not in data


def test_a_session_through_a_system_node_reaches_the_private_api_server(resources: Resources) -> None:
    """What the page on day 2 says instead of a bastion: sessions, the cluster's own group, and no way in."""
    role = resources[only(resources, GROUP)["NodeRole"]["Fn::GetAtt"][0]]["Properties"]
    attached = [resources[one["Ref"]]["Properties"] for one in role["ManagedPolicyArns"] if "Ref" in one]
    actions = {action for one in attached for action in one["PolicyDocument"]["Statement"][0]["Action"]}
    assert {"ssmmessages:CreateDataChannel", "ssmmessages:OpenDataChannel"} <= actions
    assert not of_type(resources, "AWS::EC2::SecurityGroupIngress")


def test_system_nodes_of_another_architecture_have_its_image(site: Site) -> None:
    cluster(site, system_instance_type="m8g.large", system_node_count=3)
    group = only(site.resources(), GROUP)
    assert group["AmiType"] == "AL2023_ARM_64_STANDARD"
    assert group["ScalingConfig"]["DesiredSize"] == 3


def test_devices_of_a_node_are_filled_before_those_of_the_next(resources: Resources) -> None:
    [control_plane] = [one["Properties"] for one in of_type(resources, CLUSTER).values()]
    scoring = control_plane["KubeSchedulerConfig"]["NodeResourcesFit"]["ScoringStrategy"]
    assert scoring["Type"] == "MostAllocated"
    weights = {one["Name"]: one["Weight"] for one in scoring["Resources"]}
    # Amazon EKS user guide, "Advanced Kubernetes control plane configuration": the names that EKS takes.
    assert set(weights) == {"cpu", "memory", "nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"}
    assert (
        1 <= weights["cpu"] == weights["memory"] < weights["nvidia.com/gpu"] == weights["aws.amazon.com/neuron"] <= 100
    )
    # The registry schema of cfn-lint 1.58.0 is a second opinion.
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", CLUSTER).schema
    part = {"$ref": "#/definitions/KubeSchedulerConfig", "definitions": schema["definitions"]}
    Draft7Validator(part).validate(control_plane["KubeSchedulerConfig"])


def test_a_control_plane_says_what_may_bill_and_where_it_goes_out(resources: Resources, site: Site) -> None:
    [plain] = [one["Properties"] for one in of_type(resources, CLUSTER).values()]
    assert plain["UpgradePolicy"] == {"SupportType": "EXTENDED"}
    assert "ControlPlaneScalingConfig" not in plain
    assert "ControlPlaneEgressMode" not in plain["ResourcesVpcConfig"]
    cluster(
        site,
        control_plane_tier="tier-2xl",
        control_plane_egress_mode="CUSTOMER_ROUTED",
        support_type="STANDARD",
        pack_devices=False,
    )
    [given] = [one["Properties"] for one in of_type(site.resources(), CLUSTER).values()]
    assert given["ControlPlaneScalingConfig"] == {"Tier": "tier-2xl"}
    assert given["ResourcesVpcConfig"]["ControlPlaneEgressMode"] == "CUSTOMER_ROUTED"
    assert given["UpgradePolicy"] == {"SupportType": "STANDARD"}
    # Explicit, as EKS keeps what an update leaves out.
    scoring = given["KubeSchedulerConfig"]["NodeResourcesFit"]["ScoringStrategy"]
    assert scoring["Type"] == "LeastAllocated"
    assert scoring["Resources"] == [{"Name": "cpu", "Weight": 1}, {"Name": "memory", "Weight": 1}]


def test_a_name_and_a_version_are_passed_on(site: Site) -> None:
    made = cluster(site, cluster_name="research", kubernetes_version="1.34")
    resources = site.resources()
    assert only(resources, CLUSTER)["Name"] == "research"
    assert only(resources, CLUSTER)["Version"] == made.kubernetes_version == "1.34"
    assert only(resources, "AWS::Logs::LogGroup")["LogGroupName"] == "/aws/eks/research/cluster"


def test_two_clusters_of_a_stack_have_two_names(site: Site) -> None:
    cluster(site, "One")
    cluster(site, "Two")
    names = {one["Properties"]["Name"] for one in of_type(site.resources(), CLUSTER).values()}
    assert len(names) == 2


def test_deletion_protection_is_off_unless_said(site: Site, resources: Resources) -> None:
    cluster(site, deletion_protection=True)
    assert only(resources, CLUSTER)["DeletionProtection"] is False
    assert only(site.resources(), CLUSTER)["DeletionProtection"] is True


def test_an_identity_has_one_entry_with_each_policy_once(site: Site) -> None:
    made = cluster(site, admin_principal_arns=[PLATFORM])
    assert made.grant_view(RESEARCH, namespaces=["alpha"]) is made.grant_edit(RESEARCH, namespaces=["alpha"])
    made.grant_edit(RESEARCH, namespaces=["beta", "alpha"])
    made.grant_view(RESEARCH)
    made.grant_view(RESEARCH, namespaces=["gamma"])  # everywhere is everywhere
    entries = {
        one["Properties"]["PrincipalArn"]: one["Properties"] for one in of_type(site.resources(), ENTRY).values()
    }
    assert policies_of(entries[PLATFORM]) == {"AmazonEKSClusterAdminPolicy": ()}
    assert policies_of(entries[RESEARCH]) == {
        "AmazonEKSViewPolicy": (),
        "AmazonEKSEditPolicy": ("alpha", "beta"),
    }
    assert {entry["Type"] for entry in entries.values()} == {"STANDARD"}


def test_a_member_of_groups_has_one_entry_with_the_policies(site: Site) -> None:
    made = existing(site)
    for group in ("gpu-team:research", "gpu-team:product", "gpu-team:research"):
        made.grant_group(RESEARCH, group)
    made.grant_view(RESEARCH)
    made.grant_group(PLATFORM, "gpu-team:product")
    entries = {
        one["Properties"]["PrincipalArn"]: one["Properties"] for one in of_type(site.resources(), ENTRY).values()
    }
    assert entries[RESEARCH]["KubernetesGroups"] == ["gpu-team:research", "gpu-team:product"]
    assert policies_of(entries[RESEARCH]) == {"AmazonEKSViewPolicy": ()}
    assert entries[PLATFORM]["KubernetesGroups"] == ["gpu-team:product"]
    assert "AccessPolicies" not in entries[PLATFORM]


def test_roles_users_and_tokens_are_given_access(site: Site) -> None:
    made = existing(site)
    role = iam.Role(site.stack, "Analysts", assumed_by=iam.AccountRootPrincipal())
    made.grant_view(role)
    made.grant_edit(role.role_arn)  # the same identity
    made.grant_admin(iam.User.from_user_name(site.stack, "Root", "root-of-all"))
    made.grant_admin(cdk.Fn.import_value("deployer"))
    entries = [one["Properties"] for one in of_type(site.resources(), ENTRY).values()]
    assert len(entries) == 3
    of_role = next(one for one in entries if "Fn::GetAtt" in one["PrincipalArn"])
    assert set(policies_of(of_role)) == {"AmazonEKSViewPolicy", "AmazonEKSEditPolicy"}


def test_an_existing_cluster_is_used(site: Site) -> None:
    made = existing(site, service_ipv4_cidr="10.100.0.0/16", public_endpoint=True)
    made.grant_view(RESEARCH)
    made.add_add_on("coredns")
    made.connections.allow_default_port_from(ec2.Peer.ipv4("10.9.0.0/16"))
    assert made.service_ipv4_cidr == "10.100.0.0/16"
    assert made.is_public
    assert [subnet.subnet_id for subnet in made.subnets] == [
        "subnet-0123456789abcdef0",
        "subnet-0123456789abcdef1",
    ]
    resources = site.resources()
    assert only(resources, ENTRY)["ClusterName"] == only(resources, ADD_ON)["ClusterName"] == "research"
    rule = only(resources, "AWS::EC2::SecurityGroupIngress")
    assert (rule["GroupId"], rule["FromPort"]) == ("sg-0123456789abcdef0", 443)


def test_what_no_cluster_has_is_refused_of_an_existing_one(site: Site) -> None:
    with pytest.raises(ConfigError) as caught:
        existing(site, kubernetes_version="latest", cluster_name="-", service_ipv4_cidr="8.8.8.0/24")
    assert [finding.id for finding in caught.value.findings] == ["GPU-EKS-020", "GPU-EKS-023", "GPU-EKS-025"]


def test_a_shell_line_finds_the_cluster(site: Site) -> None:
    line = site.stack.resolve(existing(site).kubeconfig_command)
    assert line["Fn::Join"][1] == [
        "aws eks update-kubeconfig --region ",
        {"Ref": "AWS::Region"},
        " --name research",
    ]


def test_tags_for_load_balancers_are_no_warning(site: Site) -> None:
    """CDK warns of each subnet that it cannot tag; only the controller of load balancers asks for the tag."""
    cluster(site)
    assert Annotations.from_stack(site.stack).find_warning("*", Match.any_value()) == []


def test_it_stands_in_the_control_subnets_of_our_network(make_site: SiteFactory) -> None:
    site = make_site()
    network = ClusterNetwork(site.stack, "Network", availability_zone="us-east-1a")
    cluster(site, vpc=network.vpc, vpc_subnets=ec2.SubnetSelection(subnets=list(network.control_subnets)))
    resources = site.resources()
    [made] = of_type(resources, CLUSTER).values()
    named = [resources[one["Ref"]]["Properties"] for one in made["Properties"]["ResourcesVpcConfig"]["SubnetIds"]]
    assert len({json.dumps(one["AvailabilityZone"]) for one in named}) == 2


def test_every_fault_is_told_at_once_with_its_place(site: Site) -> None:
    with pytest.raises(ConfigError) as caught:
        cluster(
            site,
            vpc_subnets=site.one_subnet,
            kubernetes_version="1.21",
            cluster_name="no spaces",
            public_access_cidrs=["0.0.0.0/0"],
            service_ipv4_cidr="8.8.8.0/24",
            system_instance_type="p5.48xlarge",
            without_add_ons=["nothing"],
        )
    findings = caught.value.findings
    assert [finding.id for finding in findings] == [f"GPU-EKS-0{number}" for number in (20, 23, 25, 22, 21, 24, 26)]
    assert {finding.path.partition(".")[0] for finding in findings} == {"Site/Kube"}


def test_a_type_that_nobody_knows_is_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match=r"m7i\.lrage"):
        cluster(site, system_instance_type="m7i.lrage")


def test_a_newer_version_is_made_with_a_warning(site: Site) -> None:
    cluster(site, kubernetes_version="1.99")
    Annotations.from_stack(site.stack).has_warning("*", Match.string_like_regexp("GPU-EKS-020"))


def test_tokens_are_left_to_the_deployment(site: Site) -> None:
    given = {key: cdk.Fn.import_value(key) for key in ("name", "version", "services", "office")}
    cluster(
        site,
        cluster_name=given["name"],
        kubernetes_version=given["version"],
        service_ipv4_cidr=given["services"],
        public_access_cidrs=[given["office"]],
    )
    made = only(site.resources(), CLUSTER)
    assert made["Name"] == {"Fn::ImportValue": "name"}
    assert made["Version"] == {"Fn::ImportValue": "version"}
    assert made["ResourcesVpcConfig"]["PublicAccessCidrs"] == [{"Fn::ImportValue": "office"}]


def test_ids_of_what_holds_data_stay(resources: Resources) -> None:
    """A changed id replaces the key, and with it the cluster."""
    kept = {kind: list(of_type(resources, kind)) for kind in (CLUSTER, "AWS::KMS::Key", "AWS::Logs::LogGroup")}
    assert kept == {
        CLUSTER: ["KubeCluster86ACF792"],
        "AWS::KMS::Key": ["KubeKey73F6AE24"],
        "AWS::Logs::LogGroup": ["KubeLogsFFB29549"],
    }


def test_a_cluster_is_as_recorded(site: Site, snapshot_json: Any) -> None:
    made = cluster(site, admin_principal_arns=[PLATFORM], public_access_cidrs=["203.0.113.0/24"])
    made.grant_edit(RESEARCH, namespaces=["research"])
    assert readable(site.template()) == snapshot_json
