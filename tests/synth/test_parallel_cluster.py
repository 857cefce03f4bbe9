"""Clusters of AWS ParallelCluster by AWS's custom resource."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import assertions
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import ConfigError, ParallelCluster, ParallelClusterProvider
from cdk_gpu_clusters.rules.parallelcluster import check_cluster_name, check_provider, check_removal
from parallelcluster.deployment import as_texts
from parallelcluster.installed import schema_faults

_QUEUE = {
    "Name": "train",
    "CapacityType": "ONDEMAND",
    "ComputeResources": [
        {
            "Name": "train",
            "InstanceType": "p5.48xlarge",
            "MinCount": 2,
            "MaxCount": 2,
            "Efa": {"Enabled": True},
            "Networking": {"PlacementGroup": {"Enabled": False}},
        }
    ],
    "Networking": {"SubnetIds": ["subnet-0123456789abcdef0"]},
}
_CONFIGURATION: dict[str, Any] = {
    "Region": "us-east-1",
    "Image": {"Os": "alinux2023"},
    "HeadNode": {"InstanceType": "m7i.xlarge", "Networking": {"SubnetId": "subnet-0123456789abcdef0"}},
    "Scheduling": {"Scheduler": "slurm", "SlurmQueues": [_QUEUE]},
}


@pytest.fixture(scope="module")
def template() -> assertions.Template:
    stack = cdk.Stack(cdk.App(), "Research", env=cdk.Environment(region="us-east-1"))
    role = iam.Role.from_role_name(stack, "Role", "cluster-operators")
    provider = ParallelClusterProvider(stack, "Provider", role=role)
    ParallelCluster(stack, "Kept", cluster_name="kept", configuration=_CONFIGURATION, provider=provider)
    ParallelCluster(
        stack,
        "Gone",
        cluster_name="gone",
        configuration=_CONFIGURATION,
        provider=provider,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    return assertions.Template.from_stack(stack)


def clusters(template: assertions.Template) -> dict[str, Any]:
    found = template.find_resources("Custom::PclusterCluster")
    return {one["Properties"]["ClusterName"]: one["Properties"] for one in found.values()}


def test_the_provider_is_aws_own_template_of_one_version(template: assertions.Template) -> None:
    [stack] = template.find_resources("AWS::CloudFormation::Stack").values()
    url = "".join(
        part if isinstance(part, str) else f"<{part['Ref']}>"
        for part in stack["Properties"]["TemplateURL"]["Fn::Join"][1]
    )
    assert url == (
        "https://us-east-1-aws-parallelcluster.s3.us-east-1.<AWS::URLSuffix>/parallelcluster/3.16.1/templates/"
        "custom_resource/cluster.yaml"
    )
    assert set(stack["Properties"]["Parameters"]) == {"CustomLambdaRole"}


def test_a_cluster_outlives_its_stack_unless_it_is_told_otherwise(template: assertions.Template) -> None:
    assert clusters(template)["kept"]["DeletionPolicy"] == "Retain"
    assert clusters(template)["gone"]["DeletionPolicy"] == "Delete"
    assert list(clusters(template)["kept"]["ServiceToken"]) == ["Fn::GetAtt"]


def test_the_schema_takes_the_configuration_as_cloudformation_passes_it(template: assertions.Template) -> None:
    configuration = clusters(template)["kept"]["ClusterConfiguration"]
    assert configuration == _CONFIGURATION
    wrong = {**_CONFIGURATION, "Imags": {}}
    right, refused = schema_faults([yaml.safe_dump(as_texts(one)) for one in (configuration, wrong)])
    assert right == {}
    assert refused


@pytest.mark.parametrize(
    ("name", "database", "is_taken"),
    [("research", False, True), ("1st", False, False), ("x" * 60, False, True), ("x" * 41, True, False)],
)
def test_names_of_clusters(name: str, database: bool, is_taken: bool) -> None:
    assert (check_cluster_name(name, records_jobs=database) == []) is is_taken


def test_a_wrong_name_is_refused_in_the_construct() -> None:
    stack = cdk.Stack(cdk.App(), "Research")
    provider = ParallelClusterProvider(stack, "Provider")
    with pytest.raises(ConfigError, match="GPU-PCL-013"):
        ParallelCluster(stack, "Cluster", cluster_name="a_b", configuration=_CONFIGURATION, provider=provider)


def test_what_is_surprising_is_a_warning() -> None:
    assert check_provider(version="3.16.1", has_role=True) == []
    assert [one.id for one in check_provider(version="3.17.0", has_role=False)] == ["GPU-PCL-015", "GPU-PCL-014"]
    assert check_removal(is_deleted=False) == []
    assert [one.id for one in check_removal(is_deleted=True)] == ["GPU-PCL-016"]
    found = [*check_provider(version="3.17.0", has_role=False), *check_removal(is_deleted=True)]
    assert {one.severity.value for one in found} == {"warning"}
