"""What gateways, names and scaled models get in an account, compared with what their projects publish."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_route53 as route53

from cdk_gpu_clusters import (
    ArgoRollouts,
    ExternalDns,
    Keda,
    KubernetesSoftware,
    LoadBalancerController,
    MetricsWorkspace,
)
from cdk_gpu_clusters.kubernetes.gateway import ModelGateway, gateway_objects
from cdk_gpu_clusters.observability.workspace import QUERY
from node_groups import existing_cluster
from stack_fixtures import Resources, Site, SiteFactory, of_type

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "load-balancer-controller" / "iam_policy.yaml"
POLICY, ASSOCIATION = "AWS::IAM::ManagedPolicy", "AWS::EKS::PodIdentityAssociation"
ENVIRONMENT = cdk.Environment(account="111122223333", region="us-east-1")
WORKSPACE = "arn:aws:aps:us-east-1:111122223333:workspace/ws-0123abcd"


@pytest.fixture(scope="module")
def site(app_factory: Any) -> Site:
    """One stack with all of them in an existing cluster, and the charts installed."""
    site = Site(app_factory(), ENVIRONMENT)
    cluster = existing_cluster(site, kubectl_role_arn="arn:aws:iam::111122223333:role/kubectl")
    zone = route53.HostedZone.from_hosted_zone_attributes(
        site.stack, "Zone", hosted_zone_id="Z0123456789ABCDEFGHIJ", zone_name="models.internal"
    )
    workspace = MetricsWorkspace.from_metrics_workspace_attributes(site.stack, "Workspace", workspace_arn=WORKSPACE)
    layer = lambda_.LayerVersion.from_layer_version_arn(
        site.stack, "Layer", "arn:aws:lambda:us-east-1:111122223333:layer:kubectl:1"
    )
    software = KubernetesSoftware(site.stack, "Software", cluster=cluster, kubectl_layer=layer)
    LoadBalancerController(site.stack, "Balancers", cluster=cluster).install(software)
    ExternalDns(site.stack, "Names", cluster=cluster, zone=zone).install(software)
    Keda(site.stack, "Keda", cluster=cluster, workspace=workspace).install(software)
    ArgoRollouts(site.stack, "Versions", cluster=cluster, workspace=workspace).install(software)
    software.apply("Gateway", gateway_objects(ModelGateway(plain_http=True, clients=["pl-0123456789abcdef0"])))
    return site


@pytest.fixture(scope="module")
def resources(site: Site) -> Resources:
    return site.resources()


def statements(resources: Resources, construct: str) -> list[dict[str, Any]]:
    policies = [one for name, one in of_type(resources, POLICY).items() if name.startswith(construct)]
    return [one for policy in policies for one in policy["Properties"]["PolicyDocument"]["Statement"]]


def test_an_empty_list_of_ranges_reaches_the_cluster(resources: Resources) -> None:
    (manifest,) = of_type(resources, "Custom::AWSCDK-EKS-KubernetesResource").values()
    # Without it the controller would admit all addresses beside the prefix list.
    assert '"sourceRanges":[]' in json.dumps(manifest["Properties"]["Manifest"]).replace('\\"', '"')


#: The chart does not enable them, and no gateway here asks for them.
LEFT_OUT = ("waf-regional:", "wafv2:", "shield:", "cognito-idp:", "elasticloadbalancing:SetWebAcl")


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def allowed(found: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """The resources for which statements allow an action under a condition; CDK merges and sorts statements."""
    resources: dict[tuple[str, str], set[str]] = {}
    for one in found:
        for action in listed(one["Action"]):
            key = (action, json.dumps(one.get("Condition"), sort_keys=True))
            resources.setdefault(key, set()).update(json.dumps(each) for each in listed(one["Resource"]))
    return resources


def test_the_controller_of_load_balancers_may_do_what_its_project_publishes_and_no_more(resources: Resources) -> None:
    published = yaml.safe_load(PUBLISHED.read_text("utf-8"))["Statement"]
    assert len(published) == 16
    theirs = {key: of for key, of in allowed(published).items() if not key[0].startswith(LEFT_OUT)}
    ours = allowed(statements(resources, "Balancers"))
    assert ours.keys() == theirs.keys()
    assert len(allowed(published)) - len(theirs) == 14
    for key, own in ours.items():
        if theirs[key] != {'"*"'}:
            anywhere = {one.replace("us-east-1:111122223333", "*:*") for one in own}
            assert anywhere == theirs[key], key
        elif own != {'"*"'}:
            assert all(":111122223333:" in one for one in own), key


def test_no_policy_is_too_long(resources: Resources) -> None:
    for policy in of_type(resources, POLICY).values():
        text = json.dumps(policy["Properties"]["PolicyDocument"], separators=(",", ":"))
        assert len(text) < 5_500, len(text)  # IAM takes 6,144; names of Regions are longer than this one


def test_names_are_kept_in_one_zone_alone(resources: Resources) -> None:
    records, zones = statements(resources, "Names")
    assert records["Resource"] == "arn:aws:route53:::hostedzone/Z0123456789ABCDEFGHIJ"
    assert "route53:ChangeResourceRecordSets" in records["Action"]
    assert (zones["Action"], zones["Resource"]) == ("route53:ListHostedZones", "*")


@pytest.mark.parametrize("program", ["Keda", "Versions"])
def test_each_program_queries_one_workspace_and_nothing_else(resources: Resources, program: str) -> None:
    (queries,) = statements(resources, program)
    assert (set(queries["Action"]), queries["Resource"]) == (set(QUERY), WORKSPACE)


def test_queries_are_signed_beside_the_controller_for_the_workspace(resources: Resources) -> None:
    charts = of_type(resources, "Custom::AWSCDK-EKS-HelmChart").values()
    (values,) = (one["Properties"]["Values"] for one in charts if one["Properties"]["Release"] == "argo-rollouts")
    assert '"--host","aps-workspaces.us-east-1.' in json.dumps(values).replace('\\"', '"')


def test_each_role_is_for_the_pods_of_one_account(resources: Resources) -> None:
    found = {
        (one["Properties"]["Namespace"], one["Properties"]["ServiceAccount"])
        for one in of_type(resources, ASSOCIATION).values()
    }
    assert found == {
        ("kube-system", "aws-load-balancer-controller"),
        ("external-dns", "external-dns"),
        ("keda", "keda-operator"),
        ("argo-rollouts", "argo-rollouts"),
    }


def test_charts_come_after_the_roles_of_their_pods_and_crds_before_all(resources: Resources) -> None:
    charts = of_type(resources, "Custom::AWSCDK-EKS-HelmChart")
    by_release = {one["Properties"]["Release"]: (name, one.get("DependsOn", [])) for name, one in charts.items()}
    order = ["gateway-api-crds", "aws-load-balancer-controller", "external-dns", "keda", "argo-rollouts"]
    for before, after in pairwise(order):
        assert by_release[before][0] in by_release[after][1]
    associations = of_type(resources, ASSOCIATION)
    for name, association in associations.items():
        namespace = association["Properties"]["Namespace"]  # of the release of the same name, but for one
        release = namespace if namespace in by_release else "aws-load-balancer-controller"
        assert name in by_release[release][1]


def test_a_cluster_that_has_the_gateway_api_keeps_it(make_site: SiteFactory) -> None:
    site = make_site()
    controller = LoadBalancerController(site.stack, "Known", cluster=existing_cluster(site), gateway_api=False)
    assert [one.chart for one in controller.releases] == ["aws-load-balancer-controller"]
