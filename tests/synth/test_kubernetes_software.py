"""Charts and manifests that a deployment applies, from inside the network of a cluster."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Annotations, Match

from cdk_gpu_clusters import ConfigError, EksGpuCluster, KubernetesSoftware
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.software import ChartRelease, cluster_software, slurm_software
from stack_fixtures import Resources, Site, of_type, only

CHART, MANIFEST = "Custom::AWSCDK-EKS-HelmChart", "Custom::AWSCDK-EKS-KubernetesResource"
FUNCTION, ROLE, ENTRY = "AWS::Lambda::Function", "AWS::IAM::Role", "AWS::EKS::AccessEntry"
POOL = node_pool("train", instance_type="p5.48xlarge", node_count=2)
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
RELEASE = ChartRelease(
    name="own",
    namespace="tools",
    chart="own",
    version="1.2.3",
    repository="oci://registry.example/charts/own",
    values={"replicas": 2},
    images=(),
)


def layer(site: Site) -> lambda_.ILayerVersion:
    """A layer that exists: the real one is 40 MB."""
    arn = "arn:aws:lambda:us-east-1:111122223333:layer:kubectl:1"
    return lambda_.LayerVersion.from_layer_version_arn(site.stack, "Layer", arn)


def on_new_cluster(site: Site, **options: Any) -> KubernetesSoftware:
    cluster = EksGpuCluster(site.stack, "Kube", vpc=site.vpc)
    return KubernetesSoftware(site.stack, "Software", **({"cluster": cluster, "kubectl_layer": layer(site)} | options))


def existing(site: Site, **options: Any) -> Any:
    given: dict[str, Any] = {
        "vpc": site.vpc,
        "cluster_name": "research",
        "cluster_security_group_id": "sg-0123456789abcdef0",
        "kubernetes_version": "1.35",
    }
    return EksGpuCluster.from_eks_gpu_cluster_attributes(site.stack, "Existing", **(given | options))


def charts(resources: Resources) -> dict[str, dict[str, Any]]:
    return {one["Properties"]["Release"]: one for one in of_type(resources, CHART).values()}


def kubectl(resources: Resources) -> dict[str, Any]:
    """The function that runs kubectl."""
    [one] = [
        function["Properties"]
        for function in of_type(resources, FUNCTION).values()
        if function["Properties"]["Handler"] == "index.handler"
    ]
    return dict(one)


def test_charts_are_installed_as_the_release_says(site: Site) -> None:
    on_new_cluster(site, releases=[RELEASE])
    resources = site.resources()
    made = charts(resources)["own"]["Properties"]
    [cluster] = of_type(resources, "AWS::EKS::Cluster")
    assert made["ClusterName"] == {"Ref": cluster}
    assert (made["Chart"], made["Version"], made["Repository"]) == ("own", "1.2.3", RELEASE.repository)
    assert (made["Namespace"], made["CreateNamespace"]) == ("tools", True)
    assert json.loads(made["Values"]) == {"replicas": 2}


def test_each_step_waits_for_the_one_before_and_the_first_for_nodes_and_rights(site: Site) -> None:
    releases = cluster_software([POOL])
    software = on_new_cluster(site, releases=releases)
    software.apply("Research", [NAMESPACE])
    resources = site.resources()
    made = charts(resources)
    keys = {one["Properties"]["Release"]: key for key, one in of_type(resources, CHART).items()}
    names = [release.name for release in releases]
    assert list(made) == names
    first = set(made[names[0]]["DependsOn"])
    assert {*of_type(resources, "AWS::EKS::Nodegroup"), *of_type(resources, ENTRY)} <= first
    for earlier, later in pairwise(names):
        assert made[later]["DependsOn"] == [keys[earlier]]
    [manifest] = of_type(resources, MANIFEST).values()
    assert manifest["DependsOn"] == [keys[names[-1]]]


def test_a_deployment_waits_for_what_runs_on_system_nodes_only(site: Site) -> None:
    slurm = slurm_software([POOL])
    on_new_cluster(site, releases=[*cluster_software([POOL]), *slurm])
    made = charts(site.resources())
    assert {one.name: json.loads(made[one.name]["Properties"]["Values"]) for one in slurm} == {
        one.name: one.values for one in slurm
    }
    waits = {name: "Wait" in one["Properties"] for name, one in made.items()}
    assert {name for name, wait in waits.items() if not wait} == {
        "nvidia-device-plugin",
        "aws-efa-k8s-device-plugin",
        "dcgm-exporter",
        "slurm",
    }
    assert {"kueue", "jobset", "lws", "slurm-operator"} <= {name for name, wait in waits.items() if wait}


def test_helm_ends_before_the_function_that_runs_it(site: Site) -> None:
    on_new_cluster(site, releases=[RELEASE])
    resources = site.resources()
    timeout = charts(resources)["own"]["Properties"]["Timeout"]
    assert int(timeout.removesuffix("s")) < kubectl(resources)["Timeout"]


def test_objects_are_applied_and_pruned(site: Site) -> None:
    software = on_new_cluster(site)
    software.apply("Research", [NAMESPACE, {"kind": "ResourceQuota", "metadata": {"name": "gpus"}}])
    made = only(site.resources(), MANIFEST)
    objects = json.loads(made["Manifest"])
    assert [one["kind"] for one in objects] == ["Namespace", "ResourceQuota"]
    assert made["PruneLabel"]
    for one in objects:
        assert made["PruneLabel"] in one["metadata"]["labels"]
    assert "labels" not in NAMESPACE["metadata"]


def test_the_functions_stand_in_the_private_subnets_and_the_group_of_the_cluster(site: Site) -> None:
    on_new_cluster(site)
    resources = site.resources()
    [cluster] = of_type(resources, "AWS::EKS::Cluster")
    for function in of_type(resources, FUNCTION).values():
        assert function["Properties"]["VpcConfig"] == {
            "SubnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
            "SecurityGroupIds": [{"Fn::GetAtt": [cluster, "ClusterSecurityGroupId"]}],
        }


def test_they_stand_where_one_says(site: Site) -> None:
    on_new_cluster(site, vpc_subnets=ec2.SubnetSelection(subnets=[site.vpc.private_subnets[1]]))
    assert kubectl(site.resources())["VpcConfig"]["SubnetIds"] == ["subnet-0123456789abcdef1"]


def test_its_role_administers_this_cluster_and_no_other(site: Site) -> None:
    on_new_cluster(site)
    resources = site.resources()
    role = kubectl(resources)["Role"]["Fn::GetAtt"][0]
    entry = only(resources, ENTRY)
    assert entry["PrincipalArn"] == {"Fn::GetAtt": [role, "Arn"]}
    assert "AmazonEKSClusterAdminPolicy" in json.dumps(entry["AccessPolicies"])
    [cluster] = of_type(resources, "AWS::EKS::Cluster")
    own = [
        one["Properties"]["PolicyDocument"]["Statement"]
        for name, one in of_type(resources, "AWS::IAM::ManagedPolicy").items()
        if "Sessions" not in name  # of the system nodes
    ]
    [[describes, logs_in]] = own
    assert describes["Action"] == "eks:DescribeCluster"
    assert {"Ref": cluster} in describes["Resource"]["Fn::Join"][1]
    assert logs_in["Action"] == ["ecr-public:GetAuthorizationToken", "sts:GetServiceBearerToken"]
    assert not any(
        role in json.dumps(one["Properties"]["Roles"]) for one in of_type(resources, "AWS::IAM::Policy").values()
    )


def test_an_existing_cluster_lets_a_new_role_in_by_an_access_entry(site: Site) -> None:
    KubernetesSoftware(site.stack, "Software", cluster=existing(site), releases=[RELEASE], kubectl_layer=layer(site))
    resources = site.resources()
    assert only(resources, ENTRY)["ClusterName"] == "research"
    assert charts(resources)["own"]["DependsOn"] == list(of_type(resources, ENTRY))


def test_an_existing_cluster_has_a_role_that_is_used_as_it_is(site: Site) -> None:
    arn = "arn:aws:iam::111122223333:role/kubectl"
    cluster = existing(site, kubectl_role_arn=arn)
    KubernetesSoftware(site.stack, "Software", cluster=cluster, releases=[RELEASE], kubectl_layer=layer(site))
    template = site.template()
    resources = template["Resources"]
    assert kubectl(resources)["Role"] == arn
    assert of_type(resources, ENTRY) == {}
    assert not any(
        "kubectl" in json.dumps(one["Properties"]["Roles"]) for one in of_type(resources, "AWS::IAM::Policy").values()
    )
    assert "Conditions" not in template


def test_no_warning_is_left(site: Site) -> None:
    on_new_cluster(site, releases=[RELEASE])
    assert Annotations.from_stack(site.stack).find_warning("*", Match.any_value()) == []


def test_the_installed_kubectl_is_taken(site: Site) -> None:
    """Of the extra `eks`: within one minor version of the cluster."""
    KubernetesSoftware(site.stack, "Software", cluster=existing(site, kubernetes_version="1.36"))
    descriptions = [
        one["Properties"].get("Description", "")
        for one in of_type(site.resources(), "AWS::Lambda::LayerVersion").values()
    ]
    assert any("kubectl 1.35." in description for description in descriptions)


def test_a_version_that_only_a_deployment_knows_takes_the_kubectl_of_the_default_one(site: Site) -> None:
    version = cdk.Fn.import_value("version")
    KubernetesSoftware(site.stack, "Software", cluster=existing(site, kubernetes_version=version))
    assert len(of_type(site.resources(), FUNCTION)) == 2


def test_without_a_fitting_kubectl_the_packages_are_named(site: Site) -> None:
    with pytest.raises(ConfigError) as caught:
        KubernetesSoftware(site.stack, "Software", cluster=existing(site, kubernetes_version="1.31"))
    [finding] = caught.value.findings
    assert finding.id == "GPU-EKS-027"
    assert finding.path.startswith("Site/Software")
    assert "aws-cdk.lambda-layer-kubectl-v31" in finding.allowed
    assert "gpu-clusters manifests" in finding.fix
