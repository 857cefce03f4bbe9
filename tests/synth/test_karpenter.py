"""What Karpenter gets in an account, compared with its own CloudFormation template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import ConfigError, Karpenter
from node_groups import existing_cluster
from stack_fixtures import Resources, Site, SiteFactory, of_type, only

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "karpenter" / "cloudformation.yaml"
QUEUE, POLICY, ENTRY = "AWS::SQS::Queue", "AWS::IAM::ManagedPolicy", "AWS::EKS::AccessEntry"
ENVIRONMENT = cdk.Environment(account="111122223333", region="us-east-1")
KNOWN = {
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::AccountId": "111122223333",
    "ClusterName": "research",
    "KarpenterNodeRole.Arn": "nodes",
    "KarpenterInterruptionQueue.Arn": "queue",
}
#: Node classes of this library name an instance profile, and the chart does not enable zonal shifts.
LEFT_OUT = {
    "AllowZonalShiftStatusReadOnly",
    "AllowScopedInstanceProfileCreationActions",
    "AllowScopedInstanceProfileTagActions",
    "AllowScopedInstanceProfileActions",
}


#: By these, Karpenter ends nodes with jobs: at once where a status check is impaired for two minutes, and with a drain on
#: the day on which EC2 announces maintenance for a later one.
WITHOUT_ACTIONS = {"AllowRegionalReadActions": {"ec2:DescribeInstanceStatus"}}
WITHOUT_NOTICES = {("aws.health", "AWS Health Event")}


class _Template(yaml.SafeLoader):
    """A template with its short forms of functions."""


_Template.add_multi_constructor("!", lambda _, name, node: {name: getattr(node, "value", None)})


def published() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(PUBLISHED.read_text("utf-8"), _Template)["Resources"]  # noqa: S506 - a SafeLoader
    return found


def published_statements() -> dict[str, Any]:
    statements: dict[str, Any] = {}
    for one in published().values():
        if one["Type"] == POLICY:
            text = one["Properties"]["PolicyDocument"]["Sub"]
            for name, value in KNOWN.items():
                text = text.replace(f"${{{name}}}", value)
            statements |= {each["Sid"]: each for each in json.loads(text)["Statement"]}
    return statements


def plain(value: Any) -> Any:
    """A value of a template with what its references stand for."""
    if isinstance(value, dict):
        if "Fn::Join" in value:
            separator, parts = value["Fn::Join"]
            return separator.join(plain(part) for part in parts)
        if "Fn::GetAtt" in value:
            return "queue" if value["Fn::GetAtt"][0].startswith("KarpenterQueue") else "nodes"
        if "Ref" in value:
            return KNOWN[value["Ref"]]
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def as_lists(statement: dict[str, Any]) -> dict[str, Any]:
    """A statement as IAM reads it: one action is a list of one, and the order does not matter."""
    listed = {
        key: sorted([statement[key]] if isinstance(statement[key], str) else statement[key])
        for key in ("Action", "Resource")
    }
    return {**statement, **listed}


@pytest.fixture(scope="module")
def resources(app_factory: Any) -> Resources:
    """One stack with Karpenter in an existing cluster, and the role of one group of nodes."""
    site = Site(app_factory(), ENVIRONMENT)
    karpenter = Karpenter(site.stack, "Karpenter", cluster=existing_cluster(site))
    role = iam.Role(site.stack, "Nodes", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    assert karpenter.admit(role) is karpenter.admit(role)
    return site.resources()


def test_its_controller_may_do_what_its_own_template_allows_but_for_what_is_left_out(resources: Resources) -> None:
    made = {
        one["Sid"]: as_lists(plain(one))
        for policy in of_type(resources, POLICY).values()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
    }
    theirs = published_statements()
    assert len(theirs) == 18
    expected = {sid: as_lists(one) for sid, one in theirs.items() if sid not in LEFT_OUT}
    for sid, actions in WITHOUT_ACTIONS.items():
        assert actions < set(expected[sid]["Action"]), "it is in the published template, and not alone there"
        expected[sid]["Action"] = [one for one in expected[sid]["Action"] if one not in actions]
    assert made == expected


def test_a_managed_policy_is_not_too_long(resources: Resources) -> None:
    for policy in of_type(resources, POLICY).values():
        text = json.dumps(plain(policy["Properties"]["PolicyDocument"]), separators=(",", ":"))
        assert len(text) < 5_500, len(text)  # IAM takes 6,144; names of clusters are longer than this one


def test_notices_are_those_of_its_own_template_but_for_maintenance(resources: Resources) -> None:
    def patterns(found: Resources) -> set[tuple[str, str]]:
        rules = [one["Properties"]["EventPattern"] for one in of_type(found, "AWS::Events::Rule").values()]
        return {(source, kind) for one in rules for source in one["source"] for kind in one["detail-type"]}

    assert patterns(published()) - patterns(resources) == WITHOUT_NOTICES
    assert patterns(resources) < patterns(published())
    assert len(patterns(resources)) == 4
    theirs = only(published(), QUEUE)
    ours = only(resources, QUEUE)
    assert {key: ours[key] for key in ("MessageRetentionPeriod", "SqsManagedSseEnabled")} == {
        key: theirs[key] for key in ("MessageRetentionPeriod", "SqsManagedSseEnabled")
    }
    statements = only(resources, "AWS::SQS::QueuePolicy")["PolicyDocument"]["Statement"]
    assert [one["Effect"] for one in statements].count("Deny") == 1
    senders = [one for one in statements if one["Effect"] == "Allow"]
    assert {one["Principal"]["Service"] for one in senders} == {"events.amazonaws.com"}
    assert len(senders) == 4


def test_its_pods_take_the_role_and_its_nodes_join(resources: Resources) -> None:
    association = only(resources, "AWS::EKS::PodIdentityAssociation")
    assert (association["Namespace"], association["ServiceAccount"]) == ("kube-system", "karpenter")
    [role] = [one for name, one in of_type(resources, "AWS::IAM::Role").items() if name.startswith("Karpenter")]
    trust = role["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]
    assert trust["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert trust["Condition"]["StringEquals"]["aws:RequestTag/kubernetes-service-account"] == "karpenter"
    entry = only(resources, ENTRY)
    assert (entry["Type"], entry["ClusterName"]) == ("EC2_LINUX", "research")
    assert "AccessPolicies" not in entry


def test_roles_of_several_groups_may_be_passed(site: Site) -> None:
    karpenter = Karpenter(site.stack, "Karpenter", cluster=existing_cluster(site))
    for name in ("A", "B"):
        karpenter.admit(iam.Role(site.stack, name, assumed_by=iam.ServicePrincipal("ec2.amazonaws.com")))
    resources = site.resources()
    [passed] = [
        one
        for policy in of_type(resources, POLICY).values()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if one["Sid"] == "AllowPassingInstanceRole"
    ]
    assert len(passed["Resource"]) == 2
    assert len(of_type(resources, ENTRY)) == 2


def test_the_chart_names_cluster_and_queue(site: Site) -> None:
    karpenter = Karpenter(site.stack, "Karpenter", cluster=existing_cluster(site), is_isolated=True)
    settings = site.stack.resolve(karpenter.release.values)["settings"]
    assert settings["clusterName"] == "research"
    assert next(iter(settings["interruptionQueue"]["Fn::GetAtt"])).startswith("KarpenterQueue")
    assert settings["isolatedVPC"] is True


def test_a_cluster_whose_name_is_a_token_is_refused(make_site: SiteFactory) -> None:
    site = make_site()
    name = cdk.CfnParameter(site.stack, "Name").value_as_string
    with pytest.raises(ConfigError, match="GPU-EKS-066"):
        Karpenter(site.stack, "Karpenter", cluster=existing_cluster(site, cluster_name=name))
