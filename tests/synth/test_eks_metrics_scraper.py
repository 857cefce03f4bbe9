"""A collector of a cluster of Amazon EKS: where it stands, what it finds, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters import (
    ConfigError,
    EksGpuCluster,
    EksMetricsScraper,
    IEksGpuCluster,
    MetricsWorkspace,
    PodTarget,
)
from cdk_gpu_clusters.rules.scrape import check_pods
from stack_fixtures import Site, only

KIND = "AWS::APS::Scraper"
GROUP = "sg-0123456789abcdef0"


def cluster(site: Site) -> IEksGpuCluster:
    return EksGpuCluster.from_eks_gpu_cluster_attributes(
        site.stack,
        "Cluster",
        vpc=site.vpc,
        cluster_name="research",
        cluster_security_group_id=GROUP,
        kubernetes_version="1.35",
    )


def test_it_stands_where_the_control_plane_does_with_the_group_of_the_cluster(site: Site) -> None:
    workspace = MetricsWorkspace(site.stack, "Metrics")
    made = EksMetricsScraper(site.stack, "Scraper", cluster=cluster(site), fleets=["trainers"], workspace=workspace)
    resources = site.resources()
    scraper = only(resources, KIND)
    source = scraper["Source"]["EksConfiguration"]
    assert source.pop("ClusterArn")["Fn::Join"][1][-1] == ":cluster/research"
    assert source == {
        "SubnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
        "SecurityGroupIds": [GROUP],
    }
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-2", KIND).schema
    assert set(source) < set(schema["definitions"]["Source"]["properties"]["EksConfiguration"]["properties"])
    assert "AmpConfiguration" in scraper["Destination"]
    assert scraper["ScrapeConfiguration"] == {"ConfigurationBlob": {"Fn::Base64": made.configuration}}
    # The service makes the access entry, and EKS refuses one of others for its service-linked role.
    assert {one["Type"] for one in resources.values()} == {KIND, "AWS::APS::Workspace", "AWS::Logs::LogGroup"}


def test_metrics_of_nodes_and_pods_name_their_cluster(site: Site) -> None:
    made = EksMetricsScraper(site.stack, "Scraper", cluster=cluster(site), fleets=["trainers"])
    configuration = yaml.safe_load(made.configuration)
    assert configuration["global"]["external_labels"] == {"cluster": "research"}
    assert [one["job_name"] for one in configuration["scrape_configs"]] == ["gpunode", "dcgm", "vllm", "ray"]
    assert "CloudWatchConfiguration" in only(site.resources(), KIND)["Destination"]


@pytest.mark.parametrize(
    ("options", "rule", "words"),
    [
        ({"interval_seconds": 29}, "GPU-SCR-001", "interval"),
        ({"targets": []}, "GPU-SCR-002", "nothing to scrape"),
        ({"targets": [PodTarget(job="", ports=[1])]}, "GPU-SCR-009", "no name"),
        ({"targets": [PodTarget(job="a", ports=[1]), PodTarget(job="a", ports=[2])]}, "GPU-SCR-009", "another job"),
        ({"targets": [PodTarget(job="gpunode", ports=[1])], "fleets": ["a"]}, "GPU-SCR-009", "another job"),
        ({"targets": [PodTarget(job="a", ports=[])]}, "GPU-SCR-009", "no ports"),
        ({"targets": [PodTarget(job="a", ports=[1, 65_536])]}, "GPU-SCR-009", "no ports"),
        ({"targets": [PodTarget(job="a", ports=[1], path="metrics")]}, "GPU-SCR-009", "path"),
        ({"targets": [PodTarget(job="a", ports=[1], pod_labels={"a/b/c": "d"})]}, "GPU-SCR-009", "label"),
        ({"targets": [PodTarget(job="a", ports=[1], namespaces=["A"])]}, "GPU-SCR-009", "namespace"),
        ({"targets": [PodTarget(job="a", ports=[1], containers=["a.b"])]}, "GPU-SCR-009", "containers"),
        ({"targets": [PodTarget(job="a", ports=[1], pod_labels={"a": "b" * 300_000})]}, "GPU-SCR-003", "refuses"),
    ],
)
def test_what_would_not_be_scraped_is_refused(site: Site, options: dict[str, Any], rule: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){rule}.*{words}"):
        EksMetricsScraper(site.stack, "Scraper", **{"cluster": cluster(site), **options})


def test_what_kubernetes_has_is_taken() -> None:
    target = PodTarget(job="a", ports=[1, 65_535], pod_labels={"app.kubernetes.io/name": "x"}, namespaces=["a-1"])
    assert check_pods([target], fleets=["a"], interval_seconds=30, timeout_seconds=30) == []
    assert check_pods([], fleets=["a"], interval_seconds=30, timeout_seconds=30) == []


def test_one_subnet_or_a_workspace_with_a_key_is_refused(site: Site) -> None:
    workspace = MetricsWorkspace(site.stack, "Metrics", encryption_key=kms.Key(site.stack, "Key"))
    one: ec2.SubnetSelection = site.one_subnet
    with pytest.raises(ConfigError, match=r"(?s)GPU-SCR-004.*GPU-SCR-008"):
        EksMetricsScraper(site.stack, "Scraper", cluster=cluster(site), vpc_subnets=one, workspace=workspace)
