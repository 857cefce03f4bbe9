"""Clusters and node groups of EKS in the emulator: made, read back, changed, replaced, called by state machines, deleted."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from cdk_gpu_clusters.kubernetes.canary import Canary
from cdk_gpu_clusters.kubernetes.model_deployment import ServerScaling, model_deployment
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace
from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from mutations import Mutation, drop, put
from plain_fleet import allow, policy, role

Json = dict[str, Any]

SUBNETS = {"subnet-0aaaaaaaaaaaaaaaa": "us-east-1a", "subnet-0bbbbbbbbbbbbbbbb": "us-east-1b"}
IAM = "arn:aws:iam::123456789012:role"
ADMIN = f"{IAM}/platform"
POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
SEED: Json = {
    "subnets": SUBNETS,
    "security_groups": ["sg-0123456789abcdef0"],
    "clusters": {"shared": {"version": "1.34", "security_group": "sg-0123456789abcdef0", "subnets": list(SUBNETS)}},
}


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed=SEED) as made:
        yield made


def part(kind: str, **properties: Any) -> Json:
    return {"Type": f"AWS::EKS::{kind}", "Properties": {"ClusterName": {"Ref": "Cluster"}, **properties}}


def arn(name: str) -> Json:
    return {"Fn::GetAtt": [name, "Arn"]}


def template(**more: Json) -> Json:
    """A cluster with two nodes, an add-on that needs them, an administrator and a service account."""
    cluster = {
        "RoleArn": arn("ControlPlane"),
        "Version": "1.34",
        "ResourcesVpcConfig": {
            "SubnetIds": list(SUBNETS),
            "EndpointPrivateAccess": True,
            "EndpointPublicAccess": False,
        },
        "KubernetesNetworkConfig": {"ServiceIpv4Cidr": "172.20.0.0/16"},
        "AccessConfig": {"AuthenticationMode": "API"},
        "Tags": [{"Key": "team", "Value": "speech"}],
    }
    nodes = {
        "NodeRole": arn("Nodes"),
        "Subnets": list(SUBNETS),
        "AmiType": "AL2023_x86_64_STANDARD",
        "LaunchTemplate": {
            "Id": {"Ref": "Template"},
            "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
        },
        "ScalingConfig": {"MinSize": 2, "MaxSize": 4, "DesiredSize": 2},
        "Labels": {"gpu-cluster/fleet": "system"},
    }
    entry = {"PolicyArn": POLICY, "AccessScope": {"Type": "cluster"}}
    identity = {"Namespace": "kube-system", "ServiceAccount": "fsx", "RoleArn": arn("Pods")}
    resources = {
        "ControlPlane": role("eks.amazonaws.com"),
        "Nodes": role("ec2.amazonaws.com"),
        "Pods": role("pods.eks.amazonaws.com"),
        "Cluster": {"Type": "AWS::EKS::Cluster", "Properties": cluster},
        "Template": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {"LaunchTemplateData": {"InstanceType": "m7i.large"}},
        },
        "Group": part("Nodegroup", **nodes),
        "Dns": {**part("Addon", AddonName="coredns"), "DependsOn": ["Group"]},
        "Admin": part("AccessEntry", PrincipalArn=ADMIN, AccessPolicies=[entry]),
        "Identity": part("PodIdentityAssociation", **identity),
        **more,
    }
    shown = {
        "Cluster": {"Ref": "Cluster"},
        "ClusterArn": arn("Cluster"),
        "SecurityGroup": {"Fn::GetAtt": ["Cluster", "ClusterSecurityGroupId"]},
        "Endpoint": {"Fn::GetAtt": ["Cluster", "Endpoint"]},
        "Issuer": {"Fn::GetAtt": ["Cluster", "OpenIdConnectIssuerUrl"]},
        "Group": {"Ref": "Group"},
        "GroupName": {"Fn::GetAtt": ["Group", "NodegroupName"]},
        "GroupArn": arn("Group"),
        "AddOn": {"Ref": "Dns"},
        "Identity": {"Ref": "Identity"},
    }
    return {"Resources": resources, "Outputs": {key: {"Value": value} for key, value in shown.items()}}


def edited(path: str, value: Any) -> Json:
    after = copy.deepcopy(template())
    put(f"Resources.{path}", value)(after)
    return after


def described(account: InProcessEmulator, shown: dict[str, str]) -> Json:
    found: Json = account.client("eks").describe_nodegroup(
        clusterName=shown["Cluster"], nodegroupName=shown["GroupName"]
    )["nodegroup"]
    return found


def node_ids(account: InProcessEmulator) -> set[str]:
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return {one["InstanceId"] for one in group["Instances"]}


def test_references_have_the_forms_of_cloudformation(account: InProcessEmulator) -> None:
    shown = account.deploy(template())
    name = shown["Cluster"]
    assert shown["ClusterArn"] == f"arn:aws:eks:us-east-1:123456789012:cluster/{name}"
    assert shown["Group"] == f"{name}/{shown['GroupName']}", "Ref of a node group has the cluster in front"
    assert shown["GroupArn"].startswith(f"arn:aws:eks:us-east-1:123456789012:nodegroup/{shown['Group']}/")
    assert shown["AddOn"] == f"{name}|coredns"
    assert shown["Identity"].startswith(f"arn:aws:eks:us-east-1:123456789012:podidentityassociation/{name}/a-")
    assert shown["Endpoint"].endswith(".us-east-1.eks.amazonaws.com")
    assert shown["Issuer"].startswith("https://oidc.eks.us-east-1.amazonaws.com/id/")


def test_eks_tells_what_the_template_says(account: InProcessEmulator) -> None:
    shown = account.deploy(template())
    eks, name = account.client("eks"), shown["Cluster"]
    cluster = eks.describe_cluster(name=name)["cluster"]
    assert (cluster["status"], cluster["version"], cluster["tags"]["team"]) == ("ACTIVE", "1.34", "speech")
    assert cluster["resourcesVpcConfig"]["clusterSecurityGroupId"] == shown["SecurityGroup"]
    assert cluster["kubernetesNetworkConfig"] == {"serviceIpv4Cidr": "172.20.0.0/16"}
    assert sorted(eks.list_clusters()["clusters"]) == sorted([name, "shared"])
    group = described(account, shown)
    assert group["labels"] == {"gpu-cluster/fleet": "system"}
    assert group["scalingConfig"] == {"minSize": 2, "maxSize": 4, "desiredSize": 2}
    assert eks.describe_addon(clusterName=name, addonName="coredns")["addon"]["status"] == "ACTIVE"
    entries = eks.list_access_entries(clusterName=name)["accessEntries"]
    assert entries == [ADMIN, group["nodeRole"]], "EKS makes an entry for the role of managed nodes"
    (policy,) = eks.list_associated_access_policies(clusterName=name, principalArn=ADMIN)["associatedAccessPolicies"]
    assert (policy["policyArn"], policy["accessScope"]["type"]) == (POLICY, "cluster")
    (association,) = eks.list_pod_identity_associations(clusterName=name)["associations"]
    assert association["associationArn"] == shown["Identity"]
    assert association["serviceAccount"] == "fsx"


def test_the_group_of_the_cluster_is_in_ec2_and_takes_rules(account: InProcessEmulator) -> None:
    rule: dict[str, Any] = {
        "GroupId": {"Fn::GetAtt": ["Cluster", "ClusterSecurityGroupId"]},
        "IpProtocol": "tcp",
    }
    rule |= {"FromPort": 443, "ToPort": 443, "CidrIp": "10.0.0.0/16"}
    shown = account.deploy(template(Rule={"Type": "AWS::EC2::SecurityGroupIngress", "Properties": rule}))
    ec2 = account.client("ec2")
    (group,) = ec2.describe_security_groups(GroupIds=[shown["SecurityGroup"]])["SecurityGroups"]
    assert group["GroupName"].startswith(f"eks-cluster-sg-{shown['Cluster']}-")
    itself, added = group["IpPermissions"]
    assert [one["GroupId"] for one in itself["UserIdGroupPairs"]] == [shown["SecurityGroup"]]
    assert added["IpRanges"][0]["CidrIp"] == "10.0.0.0/16"
    account.destroy()
    left = [one["GroupId"] for one in ec2.describe_security_groups()["SecurityGroups"]]
    assert shown["SecurityGroup"] not in left


def test_changes_in_place_keep_every_id_and_node(account: InProcessEmulator) -> None:
    before = account.deploy(template())
    nodes = node_ids(account)
    for path, value in (
        ("Group.Properties.Labels", {"team": "vision"}),
        ("Group.Properties.Taints", [{"Key": "a", "Effect": "PREFER_NO_SCHEDULE"}]),
        ("Group.Properties.ScalingConfig", {"MinSize": 2, "MaxSize": 6}),
        ("Cluster.Properties.Logging", {"ClusterLogging": {"EnabledTypes": [{"Type": "audit"}]}}),
        ("Cluster.Properties.Version", "1.35"),
    ):
        assert account.deploy(edited(path, value)) == before, path
        assert node_ids(account) == nodes, path
    assert described(account, before)["version"] == "1.34", "nodes stay at their version until they are updated"


def test_another_template_version_replaces_every_node(account: InProcessEmulator) -> None:
    before = account.deploy(template())
    nodes = node_ids(account)
    larger = {"InstanceType": "m7i.xlarge"}
    assert account.deploy(edited("Template.Properties.LaunchTemplateData", larger)) == before
    assert len(node_ids(account)) == 2
    assert not node_ids(account) & nodes


def test_what_a_cluster_is_made_with_makes_another(account: InProcessEmulator) -> None:
    before = account.deploy(template())
    network = "Cluster.Properties.KubernetesNetworkConfig.ServiceIpv4Cidr"
    after = account.deploy(edited(network, "10.100.0.0/16"))
    assert not set(before.values()) & set(after.values()), "whatever stands in a cluster goes with it"
    assert account.client("eks").list_clusters()["clusters"] == ["shared", after["Cluster"]]


def test_a_cluster_with_a_name_is_not_replaced(account: InProcessEmulator) -> None:
    named = edited("Cluster.Properties.Name", "train")
    account.deploy(named)
    put("Resources.Cluster.Properties.BootstrapSelfManagedAddons", False)(named)
    with pytest.raises(DeployFailed, match="custom-named resource requires replacing"):
        account.deploy(named)


def test_a_cluster_goes_after_its_node_groups(account: InProcessEmulator) -> None:
    shown = account.deploy(template())
    nodes = template()["Resources"]["Group"]["Properties"]
    guest = {**nodes, "ClusterName": shown["Cluster"], "AmiType": "AL2023_x86_64_STANDARD"}
    guest |= {"NodeRole": f"{IAM}/nodes", "InstanceTypes": ["m7i.large"]}
    del guest["LaunchTemplate"]
    account.deploy({"Resources": {"Group": {"Type": "AWS::EKS::Nodegroup", "Properties": guest}}}, stack_name="guest")
    with pytest.raises(DeployFailed, match="Cluster has nodegroups attached"):
        account.destroy()
    eks = account.client("eks")
    with pytest.raises(eks.exceptions.ResourceInUseException, match="Cluster has nodegroups attached"):
        eks.delete_cluster(name=shown["Cluster"])
    account.destroy("guest")
    account.destroy()
    assert {one["type"] for one in account.resources()} == {"AWS::EKS::Cluster"}, "the shared one stays"


def test_the_api_takes_sizes_and_refuses_the_rest_by_name(account: InProcessEmulator) -> None:
    shown = account.deploy(template())
    eks = account.client("eks")
    names = {"clusterName": shown["Cluster"], "nodegroupName": shown["GroupName"]}
    eks.update_nodegroup_config(**names, scalingConfig={"desiredSize": 4})
    assert len(node_ids(account)) == 4
    with pytest.raises(eks.exceptions.InvalidParameterException, match="desiredSize can't be greater"):
        eks.update_nodegroup_config(**names, scalingConfig={"desiredSize": 5})
    with pytest.raises(eks.exceptions.ResourceNotFoundException, match="No cluster found for name: gone"):
        eks.describe_cluster(name="gone")
    eks.update_nodegroup_config(**names, labels={"addOrUpdateLabels": {"a": "b"}})
    assert eks.describe_nodegroup(**names)["nodegroup"]["labels"]["a"] == "b"
    with pytest.raises(eks.exceptions.ClientError, match="warm pools are not emulated"):
        eks.update_nodegroup_config(**names, warmPoolConfig={"enabled": True})
    with pytest.raises(eks.exceptions.ClientError, match="no model answers eks:CreateCluster"):
        eks.create_cluster(name="x", roleArn=ADMIN, resourcesVpcConfig={})
    eks.delete_nodegroup(**names)
    assert account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []


MACHINE = {
    "StartAt": "Look",
    "States": {
        "Look": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:eks:describeNodegroup",
            "Parameters": {"ClusterName": "${Cluster}", "NodegroupName.$": "$.detail.group"},
            "ResultSelector": {
                "desired.$": "$.Nodegroup.ScalingConfig.DesiredSize",
                "labels.$": "$.Nodegroup.Labels",
            },
            "ResultPath": "$.found",
            "Catch": [{"ErrorEquals": ["Eks.ResourceNotFoundException"], "Next": "Gone"}],
            "Next": "Grow",
        },
        "Grow": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:eks:updateNodegroupConfig",
            "Parameters": {
                "ClusterName": "${Cluster}",
                "NodegroupName.$": "$.detail.group",
                "ScalingConfig": {"DesiredSize": 3},
            },
            "ResultPath": "$.update",
            "End": True,
        },
        "Gone": {"Type": "Succeed"},
    },
}


def test_a_state_machine_sizes_a_node_group_in_its_own_letter_case(account: InProcessEmulator) -> None:
    """Step Functions names members with a capital letter first, also where the API does not."""
    machine = {
        "RoleArn": arn("Actor"),
        "DefinitionString": json.dumps(MACHINE),
        "DefinitionSubstitutions": {"Cluster": {"Ref": "Cluster"}},
    }
    rule: dict[str, Any] = {"EventPattern": {"source": ["test"]}}
    rule |= {"Targets": [{"Id": "it", "Arn": {"Ref": "Machine"}, "RoleArn": arn("Starter")}]}
    acting = allow("*", "eks:DescribeNodegroup", "eks:UpdateNodegroupConfig")
    shown = account.deploy(
        template(
            Machine={"Type": "AWS::StepFunctions::StateMachine", "Properties": machine},
            Rule={"Type": "AWS::Events::Rule", "Properties": rule},
            Actor=role("states.amazonaws.com"),
            Act=policy("Actor", acting),
            Starter=role("events.amazonaws.com"),
            Start=policy("Starter", allow({"Ref": "Machine"}, "states:StartExecution")),
        )
    )
    for group in (shown["GroupName"], "gone"):
        account.emit({"source": "test", "detail-type": "grow", "detail": {"group": group}})
    grown, missed = account.history()["executions"]
    assert grown["output"]["found"] == {"desired": 2, "labels": {"gpu-cluster/fleet": "system"}}
    assert grown["output"]["update"]["Update"]["Status"] == "Successful"
    assert described(account, shown)["scalingConfig"]["desiredSize"] == 3
    assert (missed["status"], missed["states"]) == ("SUCCEEDED", ["Look", "Gone"])


def function(role_name: str, **more: Any) -> Json:
    given = {
        "Code": {"ZipFile": "def handler(*_): pass"},
        "Handler": "index.handler",
        "Runtime": "python3.13",
    }
    return {"Type": "AWS::Lambda::Function", "Properties": {**given, "Role": arn(role_name), **more}}


def with_kubectl() -> Json:
    """The cluster with a chart and a manifest, applied by CDK's two functions, as CDK puts them together."""
    inside = {
        "SubnetIds": list(SUBNETS),
        "SecurityGroupIds": [{"Fn::GetAtt": ["Cluster", "ClusterSecurityGroupId"]}],
    }
    variables = {"Variables": {"USER_ON_EVENT_FUNCTION_ARN": arn("Runner")}}
    chart = {"Release": "lws", "Chart": "lws", "Version": "0.10.0", "Values": '{"replicas": 1}'}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
    common = {"ServiceToken": arn("Framework"), "ClusterName": {"Ref": "Cluster"}}
    resources = {
        "Functions": role("lambda.amazonaws.com"),
        "Runner": function("Functions", VpcConfig=inside),
        "Framework": function("Functions", Environment=variables),
        "Access": part("AccessEntry", PrincipalArn=arn("Functions")),
        "Chart": {
            "Type": "Custom::AWSCDK-EKS-HelmChart",
            "Properties": {**common, **chart},
            "DependsOn": ["Access"],
        },
        "Objects": {
            "Type": "Custom::AWSCDK-EKS-KubernetesResource",
            "Properties": {**common, "Manifest": json.dumps([namespace])},
            "DependsOn": ["Chart"],
        },
    }
    return template(**resources)


def test_charts_and_manifests_are_kept_and_nothing_runs(account: InProcessEmulator) -> None:
    given = with_kubectl()
    account.deploy(given)
    (chart,) = account.resources("Custom::AWSCDK-EKS-HelmChart")
    assert (chart["answered_by"], chart["properties"]["Version"]) == ("model", "0.10.0")
    put("Resources.Chart.Properties.Version", "0.11.0")(given)
    account.deploy(given)
    (newer,) = account.resources("Custom::AWSCDK-EKS-HelmChart")
    assert (newer["physical_id"], newer["properties"]["Version"]) == (chart["physical_id"], "0.11.0")
    (objects,) = account.resources("Custom::AWSCDK-EKS-KubernetesResource")
    assert json.loads(objects["properties"]["Manifest"])[0]["kind"] == "Namespace"
    account.destroy()
    assert {one["type"] for one in account.resources()} == {"AWS::EKS::Cluster"}, "the shared one stays"


def deployed(image: str, kind: str, at_once: int | None = None) -> list[Json]:
    """What runs our servers, on one to four nodes of four each; `at_once` is a number in place of the share."""
    pool = node_pool("chat", instance_type="g6e.12xlarge", node_count=4)
    canary = Canary(workspace=PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1"))
    objects = model_deployment(
        "chat",
        pool,
        ServerPod(image=image),
        scaling=ServerScaling(min_servers=4),
        canary=canary if kind == "Rollout" else None,
    )
    (servers,) = [one for one in objects if one["kind"] == kind]
    if at_once is not None:
        (strategy,) = [one for one in servers["spec"]["strategy"].values() if isinstance(one, dict)]
        strategy["maxUnavailable"] = at_once
    return objects


@pytest.mark.parametrize("kind", ["Deployment", "Rollout"])
@pytest.mark.parametrize(("at_once", "lost"), [(4, ["chat"]), (None, [])])
def test_a_rollout_by_a_number_takes_every_server_of_the_smallest_size(
    account: InProcessEmulator, kind: str, at_once: int | None, lost: list[str]
) -> None:
    """A quarter of the most servers is all of the fewest; a share is a quarter of those that are there."""
    given = with_kubectl()
    for image in ("server:v1", "server:v2"):
        put("Resources.Objects.Properties.Manifest", json.dumps(deployed(image, kind, at_once)))(given)
        account.deploy(given)
    assert [(one["kind"], one["name"]) for one in account.history()["outages"]] == [(kind, name) for name in lost]


@pytest.mark.parametrize(
    ("mutate", "message"),
    [
        (drop("Resources.Runner.Properties.VpcConfig"), "does not reach the private endpoint"),
        (put("Resources.Access.Properties.PrincipalArn", ADMIN + "-2"), "You must be logged in to the server"),
        (put("Resources.Chart.Properties.Values", "{"), "Values is not JSON"),
        (put("Resources.Objects.Properties.Manifest", '[{"kind": "Job"}]'), "object 0 has no apiVersion, no metadata.name"),
        (put("Resources.Chart.Properties.ClusterName", "gone"), "No cluster found for name: gone"),
    ],
)  # fmt: skip
def test_what_kubectl_could_not_apply_is_refused(mutate: Mutation, message: str, account: InProcessEmulator) -> None:
    given = with_kubectl()
    mutate(given)
    with pytest.raises(DeployFailed, match=message):
        account.deploy(given)


@pytest.mark.parametrize("name", ["DesiredSize", "MinSize"])
def test_a_group_is_created_with_all_of_its_sizes(account: InProcessEmulator, name: str) -> None:
    given = template()
    drop(f"Resources.Group.Properties.ScalingConfig.{name}")(given)
    with pytest.raises(DeployFailed, match=name):
        account.deploy(given)


def test_a_cluster_that_was_there_before_takes_node_groups(account: InProcessEmulator) -> None:
    given = template()
    for name in ("Cluster", "Dns", "Admin", "Identity"):
        del given["Resources"][name]
    put("Resources.Group.Properties.ClusterName", "shared")(given)
    del given["Outputs"]
    account.deploy(given)
    assert len(account.client("eks").list_nodegroups(clusterName="shared")["nodegroups"]) == 1
    assert len(node_ids(account)) == 2
