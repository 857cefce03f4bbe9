"""A closed network is closed: nothing leaves through its endpoints for another account, and nodes still work."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from cdk_gpu_clusters import ClusterNetwork, ConfigError, EndpointAccess, NetworkEgress, NetworkFeature
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from policies import allows

OWN, OTHER, THIRD, REGION = "111122223333", "999988887777", "444455556666", "us-east-1"
CLUSTER = """
version: 1
name: lab
account: "111122223333"
region: us-east-1
network: { availability_zone: use1-az4, egress: closed }
orchestrator: ORCHESTRATOR
data:
  ckpt: { checkpoints: { express_zone_id: use1-az4 } }
training:
  fleets:
    dev: { instance_type: g6.xlarge, nodes: 1, checkpoints: ckpt }
"""
#: Prefixes of IAM actions whose endpoints have other names.
SERVICES = {"cloudwatch": "monitoring", "ecr": "ecr.api", "s3express": "s3express"}


def flat(value: Any) -> Any:
    """A value of a template as AWS sees it, in the account and Region of the tests."""
    if isinstance(value, list):
        return [flat(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "Ref" in value:
        names = {
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::AccountId": OWN,
            "AWS::URLSuffix": "amazonaws.com",
        }
        return names.get(value["Ref"], value["Ref"])
    if "Fn::Join" in value:
        return "".join(str(flat(one)) for one in value["Fn::Join"][1])
    if "Fn::GetAtt" in value:
        return f"arn:aws:x:{REGION}:{OWN}:{value['Fn::GetAtt'][0]}"
    if any(key.startswith("Fn::") for key in value):
        return f"arn:aws:x:{REGION}:{OWN}:{json.dumps(value)}"
    return {key: flat(one) for key, one in value.items()}


def endpoints(template: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Policies of the endpoints by service; an endpoint without one carries everything."""
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    return {
        flat(one["Properties"]["ServiceName"]).partition(f".{REGION}.")[2]: flat(
            one["Properties"].get("PolicyDocument", everything)
        )
        for one in template["Resources"].values()
        if one["Type"] == "AWS::EC2::VPCEndpoint"
    }


@pytest.fixture(scope="module", params=["ec2", "eks"])
def templates(request: pytest.FixtureRequest, app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("closed") / "cluster.yaml"
    file.write_text(CLUSTER.replace("ORCHESTRATOR", request.param), encoding="utf-8")
    app = app_factory()
    build_cluster(app, load_cluster(file))
    folder = Path(app.synth().directory)
    return {one.name: json.loads(one.read_text()) for one in folder.glob("*.template.json")}


@pytest.fixture(scope="module")
def policies(templates: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return endpoints(templates["lab-network.template.json"])


def context(principal: str | None = OWN, resource: str = OWN, **more: str) -> dict[str, str]:
    own = {} if principal is None else {"aws:PrincipalAccount": principal}
    return {**own, "aws:ResourceAccount": resource, **more}


ATTACKS = [
    ("s3", "s3:PutObject", "arn:aws:s3:::bucket-of-another/loot", context(resource=OTHER)),
    ("s3", "s3:GetObject", "arn:aws:s3:::bucket-of-another/tool", context(resource=OTHER)),
    ("s3", "s3:PutObject", "arn:aws:s3:::bucket-of-another/loot", context(OTHER, OTHER)),
    ("s3", "s3:PutObject", "arn:aws:s3:::public-bucket/loot", context(None, OTHER)),
    ("s3", "s3:PutObject", "arn:aws:s3:::prod-us-east-1-starport-layer-bucket/loot", context(resource=OTHER)),
    ("s3express", "s3express:CreateSession", f"arn:aws:s3express:{REGION}:{OTHER}:bucket/b", context(OTHER, OTHER)),
    ("logs", "logs:PutLogEvents", f"arn:aws:logs:{REGION}:{OTHER}:log-group:loot", context(OTHER, OTHER)),
    ("monitoring", "cloudwatch:PutMetricData", "*", context(OTHER, OTHER)),
    ("ssm", "ssm:PutParameter", f"arn:aws:ssm:{REGION}:{OTHER}:parameter/loot", context(OTHER, OTHER)),
    ("ec2", "ec2:CreateTags", f"arn:aws:ec2:{REGION}:{OTHER}:instance/i-1", context(OTHER, OTHER)),
]


@pytest.mark.parametrize(("service", "action", "resource", "asked"), ATTACKS)
def test_nothing_leaves_for_another_account(
    policies: dict[str, Any], service: str, action: str, resource: str, asked: dict[str, str]
) -> None:
    assert not allows(policies[service], action, resource, asked)


def test_the_driver_of_ebs_makes_volumes_although_the_request_names_no_account_of_the_resource(
    policies: dict[str, Any],
) -> None:
    volume = f"arn:aws:ec2:{REGION}:{OWN}:volume/*"
    assert allows(policies["ec2"], "ec2:CreateVolume", volume, {"aws:PrincipalAccount": OWN})
    assert not allows(policies["ec2"], "ec2:CreateVolume", volume, {"aws:PrincipalAccount": OTHER})


def test_images_are_pulled_from_anywhere_and_pushed_to_the_own_account_only(policies: dict[str, Any]) -> None:
    if "ecr.api" not in policies:
        assert "eks" not in policies, "nodes of EKS pull images"
        return
    registry = f"arn:aws:ecr:{REGION}:602401143452:repository/eks/coredns"
    for service in ("ecr.api", "ecr.dkr"):
        assert allows(policies[service], "ecr:BatchGetImage", registry, context(resource="602401143452"))
        assert not allows(policies[service], "ecr:PutImage", registry, context(resource="602401143452"))
        assert not allows(policies[service], "ecr:GetAuthorizationToken", "*", context(OTHER, OTHER))
        assert allows(policies[service], "ecr:PutImage", registry, context())


def test_what_aws_signs_or_publishes_is_carried(policies: dict[str, Any]) -> None:
    signed = context("602401143452", "602401143452")
    for bucket in ("prod-us-east-1-starport-layer-bucket", "al2023-repos-us-east-1-de612dc2", "amazon-ssm-us-east-1"):
        assert allows(policies["s3"], "s3:GetObject", f"arn:aws:s3:::{bucket}/object", signed)
        assert allows(policies["s3"], "s3:GetObject", f"arn:aws:s3:::{bucket}/object", context(None, OTHER))
    answers = "arn:aws:s3:::cloudformation-custom-resource-response-useast1/answer"
    assert allows(policies["s3"], "s3:PutObject", answers, context(OTHER, OTHER))
    document = f"arn:aws:ssm:{REGION}::document/AWS-StartSSHSession"
    assert allows(policies["ssm"], "ssm:GetDocument", document, context(resource=""))


def granted(templates: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every action and resource that the policies of all roles allow."""
    for template in templates.values():
        for one in template["Resources"].values():
            properties = one.get("Properties", {})
            documents = [properties[key] for key in ("PolicyDocument",) if "IAM" in one["Type"] and key in properties]
            documents += [each["PolicyDocument"] for each in properties.get("Policies", []) if isinstance(each, dict)]
            for document in documents:
                for statement in flat(document["Statement"]):
                    actions, resources = statement["Action"], statement["Resource"]
                    for action in [actions] if isinstance(actions, str) else actions:
                        for resource in [resources] if isinstance(resources, str) else resources:
                            yield action, resource


def test_everything_that_the_roles_may_do_is_carried(
    templates: Mapping[str, Any], policies: dict[str, dict[str, Any]]
) -> None:
    seen = set()
    for action, resource in granted(templates):
        service = action.partition(":")[0]
        policy = policies.get(SERVICES.get(service, service))
        if policy is not None:
            seen.add(service)
            assert allows(policy, action.replace("*", "x"), resource.replace("*", "x"), context()), (action, resource)
    assert {"s3", "s3express", "logs", "ec2"} <= seen


def test_further_accounts_organizations_and_buckets_are_named() -> None:
    stack = cdk.Stack(cdk.App(), "Net", env=cdk.Environment(account=OWN, region=REGION))
    ClusterNetwork(
        stack, "Network", availability_zone="us-east-1a", egress=NetworkEgress.CLOSED,
        features=[NetworkFeature.LOGS],
        endpoint_access=EndpointAccess(
            accounts=[THIRD], organization_id="o-a1b2c3d4e5", readable_buckets=["public-corpus"]
        ),
    )  # fmt: skip
    app = stack.node.root
    assert isinstance(app, cdk.App)
    policy = endpoints(json.loads((Path(app.synth().directory) / "Net.template.json").read_text()))["s3"]
    weights = "arn:aws:s3:::weights/llama"
    assert allows(policy, "s3:GetObject", weights, context(resource=THIRD))
    assert allows(policy, "s3:PutObject", weights, context(OTHER, OTHER, **{
        "aws:PrincipalOrgID": "o-a1b2c3d4e5", "aws:ResourceOrgID": "o-a1b2c3d4e5"}))  # fmt: skip
    assert allows(policy, "s3:GetObject", "arn:aws:s3:::public-corpus/part", context(None, OTHER))
    assert not allows(policy, "s3:PutObject", "arn:aws:s3:::public-corpus/part", context(resource=OTHER))
    assert not allows(policy, "s3:PutObject", weights, context(resource=OTHER))


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"accounts": ["1234"]}, "accounts"),
        ({"organization_id": "my-organization"}, "organization_id"),
        ({"readable_buckets": ["*"]}, "readable_buckets"),
    ],
)
def test_wrong_names(options: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError, match="GPU-NET-122") as error:
        EndpointAccess(**options)
    assert error.value.findings[0].path == path


def test_a_nat_gateway_goes_around_the_policies() -> None:
    with pytest.raises(ConfigError, match="GPU-NET-122"):
        ClusterNetwork(
            cdk.Stack(), "Network", availability_zone="us-east-1a", endpoint_access=EndpointAccess(accounts=[OTHER])
        )
