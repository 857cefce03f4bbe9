"""Stacks of inference fleets: where nodes and load balancers stand, what reaches the nodes, and that no other moves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from cdk_gpu_clusters_stacks.fleets import Site
from cdk_gpu_clusters_stacks.inference import InferenceStack
from cdk_gpu_clusters_stacks.network import cluster_place
from cdk_gpu_clusters_stacks.spec import load_cluster
from cdk_gpu_clusters_stacks.spec.planned_fleet import planned_fleets
from cluster_files.inference import EVERYTHING, MINIMAL, PARAMETER, PUBLIC, SECRET
from shared_assemblies import SharedAssemblies
from stack_fixtures import Resources, of_type, only, readable

GROUP = "AWS::AutoScaling::AutoScalingGroup"
BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"
TEMPLATE = "AWS::EC2::LaunchTemplate"

Templates = dict[str, dict[str, Any]]
Synthesize = Callable[[str], dict[str, str]]


@pytest.fixture(scope="module")
def synthesize(assemblies_of_files: SharedAssemblies) -> Synthesize:
    """Synthesize the text of a cluster file; the text of each template by stack name."""

    def run(text: str) -> dict[str, str]:
        folder = assemblies_of_files.of(text)
        return {path.name.removesuffix(".template.json"): path.read_text() for path in folder.glob("*.template.json")}

    return run


@pytest.fixture(scope="module")
def everything(synthesize: Synthesize) -> Templates:
    return {name: json.loads(text) for name, text in synthesize(EVERYTHING).items()}


@pytest.fixture(scope="module")
def chat(everything: Templates) -> Resources:
    resources: Resources = everything["all-inference-chat"]["Resources"]
    return resources


@pytest.fixture(scope="module")
def slices(everything: Templates) -> Resources:
    resources: Resources = everything["all-inference-slices"]["Resources"]
    return resources


def outputs(subnets: list[Any]) -> list[str]:
    """Names of the network's outputs that a list of subnets consists of."""
    return [subnet["Fn::GetStackOutput"]["OutputName"] for subnet in subnets]


def user_data(resources: Resources) -> str:
    encoded = only(resources, TEMPLATE)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    parts = [encoded] if isinstance(encoded, str) else encoded["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


def allowed(resources: Resources, action: str) -> str:
    """The resources of the one statement of the nodes' policies that allows an action."""
    found = [
        statement["Resource"]
        for policy in of_type(resources, "AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if action in statement["Action"]
    ]
    assert found, action
    return json.dumps(found)


@pytest.mark.parametrize("name", ["MINIMAL", "EVERYTHING", "PUBLIC"])
def test_clusters_are_as_recorded(name: str, synthesize: Synthesize, snapshot_json: Any) -> None:
    text = {"MINIMAL": MINIMAL, "EVERYTHING": EVERYTHING, "PUBLIC": PUBLIC}[name]
    made = {stack: readable(json.loads(template)) for stack, template in sorted(synthesize(text).items())}
    assert made == snapshot_json


def test_each_fleet_is_a_stack_and_its_reservation_another(everything: Templates) -> None:
    assert set(everything) == {
        "all-network",
        "all-data-models",
        "all-fleet-lab",
        "all-inference-chat",
        "all-inference-slices",
        "all-capacity-slices",
    }


def test_load_balancer_and_nodes_stand_in_every_named_zone(chat: Resources) -> None:
    zones = [f"LoadBalancerSubnetIdUsEast1{letter}" for letter in "ABC"]
    assert outputs(only(chat, BALANCER)["Subnets"]) == zones
    assert outputs(only(chat, GROUP)["VPCZoneIdentifier"]) == zones


def test_without_names_they_stand_in_the_first_two_zones(synthesize: Synthesize) -> None:
    made = {name: json.loads(text) for name, text in synthesize(MINIMAL).items()}
    resources = made["serve-inference-chat"]["Resources"]
    assert outputs(only(resources, BALANCER)["Subnets"]) == [
        "LoadBalancerSubnetIdZone1",
        "LoadBalancerSubnetIdZone2",
    ]
    assert {
        name: output["Value"]["Ref"]
        for name, output in made["serve-network"]["Outputs"].items()
        if name.startswith("LoadBalancer")
    } == {
        f"LoadBalancerSubnetIdZone{number}": logical_id
        for number, logical_id in enumerate(
            [
                key
                for key in made["serve-network"]["Resources"]
                if re.match(r"NetworkSubnetsLoadBalancerZone\d[0-9A-F]{8}$", key)
            ],
            start=1,
        )
    }


def test_reserved_nodes_stand_in_the_fleet_subnet_behind_the_same_load_balancer(slices: Resources) -> None:
    assert outputs(only(slices, GROUP)["VPCZoneIdentifier"]) == ["FleetSubnetId"]
    assert len(only(slices, BALANCER)["Subnets"]) == 3
    target = only(slices, TEMPLATE)["LaunchTemplateData"]["CapacityReservationSpecification"]
    assert "all-capacity-slices" in json.dumps(target)
    assert not of_type(slices, "AWS::EC2::PlacementGroup")


def test_a_reservation_for_model_servers_is_made_in_no_placement_group(everything: Templates) -> None:
    resources = everything["all-capacity-slices"]["Resources"]
    assert only(resources, "AWS::EC2::CapacityReservation")["InstanceCount"] == 2
    assert not of_type(resources, "AWS::EC2::PlacementGroup")


def test_an_internet_facing_load_balancer_stands_in_public_subnets_and_its_nodes_do_not(
    synthesize: Synthesize,
) -> None:
    resources = json.loads(synthesize(PUBLIC)["open-inference-chat"])["Resources"]
    balancer = only(resources, BALANCER)
    assert balancer["Scheme"] == "internet-facing"
    assert balancer["Subnets"] == ["subnet-0123456789abcdef3", "subnet-0123456789abcdef4"]
    assert only(resources, GROUP)["VPCZoneIdentifier"] == [
        "subnet-0123456789abcdef1",
        "subnet-0123456789abcdef2",
    ]


def test_the_layout_reaches_the_nodes_and_each_slice_has_a_server(slices: Resources) -> None:
    text = user_data(slices)
    layout = plan_mig("p4d.24xlarge", MigLayout(["1g.5gb"] * 7))
    assert layout.partition in text
    assert "MODEL_KIND=mig" in text
    assert "MODEL_COUNT=56" in text
    assert "Before=nvidia-fabricmanager.service" in text
    assert "GPU_SCRATCH" not in text


def test_slices_with_a_file_system_and_local_disks_fit_into_user_data(synthesize: Synthesize) -> None:
    before = "      server:\n        image: vllm/vllm-openai:v0.11.0\n        weights: { path: /models/small }\n"
    after = before.replace("path: /models/small", "s3_uri: s3://my-models/small, path: /scratch/small")
    assert before in EVERYTHING
    text = EVERYTHING.replace(before, "      mounts: { /fsx: models }\n" + after)
    resources = json.loads(synthesize(text)["all-inference-slices"])["Resources"]
    written = user_data(resources)
    assert len(written) < 16_384
    assert "GPU_SCRATCH=/scratch" in written
    assert "/fsx" in written
    assert "MODEL_COUNT=56" in written


def test_weights_under_a_customer_key_can_be_decrypted(synthesize: Synthesize) -> None:
    """Amazon S3 user guide, "Using server-side encryption with AWS KMS keys": GetObject needs kms:Decrypt."""
    key = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    before = "weights: { path: /models/small }"
    text = EVERYTHING.replace(before, f"weights: {{ s3_uri: s3://my-models/small, encryption_key_arn: '{key}' }}")
    resources = json.loads(synthesize(text)["all-inference-slices"])["Resources"]
    statements = [
        statement
        for policy in of_type(resources, "AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Resource"] == key
    ]
    (allowed,) = statements
    assert allowed["Effect"] == "Allow"
    assert "kms:Decrypt" in allowed["Action"]


def test_a_training_fleet_gets_a_layout_for_each_gpu(everything: Templates) -> None:
    resources = everything["all-fleet-lab"]["Resources"]
    layout = plan_mig("p4d.24xlarge", [MigLayout("3g.20gb,4g.20gb")] * 7 + [MigLayout.whole_gpu()])
    assert layout.partition in user_data(resources)
    assert "GPU_SCRATCH=/scratch" in user_data(resources)


def test_the_file_s_words_reach_the_server(chat: Resources) -> None:
    text = user_data(chat)
    for line in (
        "MODEL_IMAGE=111122223333.dkr.ecr.us-east-1.amazonaws.com/models/server:v7",
        "MODEL_COUNT=2",
        "MODEL_PORT=8001",
        "MODEL_SHM_GIB=16",
        "MODEL_WEIGHTS_URI=s3://my-models/llama-3.1",
        "MODEL_WEIGHTS_PATH=/opt/gpu-cluster/model",
        "MODEL_COMMAND=(--model /opt/gpu-cluster/model --tensor-parallel-size 4)",
        "MAX_MODEL_LEN=8192",
        f"HF_TOKEN {SECRET} token",
    ):
        assert line in text, line


def test_the_load_balancer_is_as_the_file_says(chat: Resources) -> None:
    attributes = {one["Key"]: one["Value"] for one in only(chat, BALANCER)["LoadBalancerAttributes"]}
    assert attributes["idle_timeout.timeout_seconds"] == "600"
    assert attributes["access_logs.s3.bucket"] == "my-logs"
    assert not of_type(chat, "AWS::S3::Bucket")
    listener = only(chat, "AWS::ElasticLoadBalancingV2::Listener")
    assert (listener["Port"], listener["Certificates"][0]["CertificateArn"].split(":")[2]) == (443, "acm")
    targets = only(chat, "AWS::ElasticLoadBalancingV2::TargetGroup")["TargetGroupAttributes"]
    assert {"Key": "deregistration_delay.timeout_seconds", "Value": "120"} in targets


def test_clients_may_connect_and_nobody_else(chat: Resources) -> None:
    ranges = [
        rule["CidrIp"]
        for group in of_type(chat, "AWS::EC2::SecurityGroup").values()
        for rule in group["Properties"].get("SecurityGroupIngress", [])
    ]
    assert ranges == ["10.0.0.0/16"]
    sources = [
        (one["Properties"]["FromPort"], one["Properties"]["SourceSecurityGroupId"])
        for one in of_type(chat, "AWS::EC2::SecurityGroupIngress").values()
        if isinstance(one["Properties"].get("SourceSecurityGroupId"), str)
    ]
    assert sources == [(443, "sg-0123456789abcdef0")]


def test_a_fleet_scales_on_its_requests_or_not_at_all(chat: Resources, slices: Resources) -> None:
    policy = only(chat, "AWS::AutoScaling::ScalingPolicy")
    tracking = policy["TargetTrackingConfiguration"]
    assert tracking["TargetValue"] == 120
    assert tracking["PredefinedMetricSpecification"]["PredefinedMetricType"] == "ALBRequestCountPerTarget"
    group = only(chat, GROUP)
    assert (group["MinSize"], group["MaxSize"]) == ("2", "8")
    assert not of_type(slices, "AWS::AutoScaling::ScalingPolicy")


def test_updates_follow_the_file(everything: Templates) -> None:
    groups = {
        name: next(iter(of_type(everything[f"all-inference-{name}"]["Resources"], GROUP).values()))
        for name in ("chat", "slices")
    }
    assert "UpdatePolicy" not in groups["chat"]
    assert "AutoScalingInstanceRefresh" in groups["slices"]["UpdatePolicy"]


def test_a_mounted_file_system_lets_the_nodes_in(chat: Resources, everything: Templates) -> None:
    rules = [
        one["Properties"]["IpProtocol"]
        for one in chat.values()
        if one["Type"].startswith("AWS::EC2::SecurityGroup") and "all-data-models" in json.dumps(one)
    ]
    assert len(rules) == 8, "two port ranges, two ways, and the servers among themselves"
    assert "/fsx" in user_data(chat)
    (group,) = of_type(chat, GROUP).values()
    assert any(name.startswith("Data") for name in group["DependsOn"])
    assert "inference" not in json.dumps(everything["all-data-models"])


def test_nodes_may_read_what_the_file_names_and_no_more(chat: Resources, slices: Resources) -> None:
    secrets = allowed(chat, "secretsmanager:GetSecretValue")
    assert SECRET in secrets
    assert SECRET.replace("hub", "registry") in secrets
    assert PARAMETER in allowed(chat, "ssm:GetParameter")
    assert ":repository/models/server" in allowed(chat, "ecr:BatchGetImage")
    assert "my-models/llama-3.1/*" in allowed(chat, "s3:GetObject")
    for action in ("secretsmanager:", "ssm:GetParameter", "ecr:", "s3:"):
        policies = json.dumps(list(of_type(slices, "AWS::IAM::Policy").values()))
        assert f'"{action}' not in policies


def test_a_person_is_told_where_the_service_is(everything: Templates) -> None:
    outputs = everything["all-inference-chat"]["Outputs"]
    assert set(outputs) == {"Url", "FleetName", "SessionCommand", "LogGroupName"}
    assert "https://" in json.dumps(outputs["Url"])


def test_tags_of_cluster_and_fleet_reach_the_nodes_and_the_load_balancer(chat: Resources) -> None:
    for properties in (only(chat, BALANCER), only(chat, GROUP)):
        tags = {tag["Key"]: tag["Value"] for tag in properties["Tags"]}
        assert {"project": "llama", "owner": "search", "gpu-cluster": "all"}.items() <= tags.items()


def section(text: str, name: str) -> str:
    """The lines of one fleet."""
    (found,) = re.findall(rf"^    {name}:\n(?:      .*\n)+", text, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("name", ["chat", "slices"])
def test_an_inference_fleet_that_goes_leaves_every_other_template_byte_identical(
    name: str, synthesize: Synthesize
) -> None:
    before, after = synthesize(EVERYTHING), synthesize(EVERYTHING.replace(section(EVERYTHING, name), ""))
    assert after.items() <= before.items()
    gone = set(before) - set(after)
    assert f"all-inference-{name}" in gone
    assert gone <= {f"all-inference-{name}", f"all-capacity-{name}"}


def test_the_first_inference_fleet_of_a_training_cluster_changes_nothing(synthesize: Synthesize) -> None:
    start, end = EVERYTHING.index("inference:"), EVERYTHING.index("training:")
    before, after = synthesize(EVERYTHING[:start] + EVERYTHING[end:]), synthesize(EVERYTHING)
    assert before.items() <= after.items()
    assert set(before) == {"all-network", "all-data-models", "all-fleet-lab"}


def test_reordering_changes_nothing(synthesize: Synthesize) -> None:
    one, two = section(EVERYTHING, "chat"), section(EVERYTHING, "slices")
    assert synthesize(EVERYTHING.replace(one + two, two + one)) == synthesize(EVERYTHING)


def test_references_between_stacks_are_weak(everything: Templates) -> None:
    text = json.dumps(everything)
    assert "Fn::ImportValue" not in text
    assert '"Export"' not in text


@pytest.mark.parametrize("egress", ["nat", "closed"])
def test_a_closed_network_reaches_registry_and_secrets_whoever_runs_in_it(egress: str, synthesize: Synthesize) -> None:
    closed = MINIMAL.replace("us-east-1a }", f"us-east-1a, egress: {egress} }}").replace(
        "vllm/vllm-openai:v0.11.0", "111122223333.dkr.ecr.us-east-1.amazonaws.com/server:v1"
    )
    training = closed[: closed.index("inference:")] + (
        "training: { fleets: { a: { instance_type: g6.xlarge, nodes: 1 } } }\n"
    )
    network = synthesize(closed)["serve-network"]
    assert network == synthesize(training)["serve-network"]
    services = {
        json.dumps(one["Properties"]["ServiceName"]).rpartition("us-east-1.")[2].strip('"]}')
        for one in of_type(json.loads(network)["Resources"], "AWS::EC2::VPCEndpoint").values()
    }
    assert ({"ecr.api", "ecr.dkr", "secretsmanager", "ssm"} <= services) == (egress == "closed")


#: Where each partition stands: a Region of it.
PARTITIONS = {"aws": "us-west-2", "aws-us-gov": "us-gov-west-1", "aws-cn": "cn-north-1"}


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("account", ["111122223333", None])
def test_no_other_partition_is_written_down(partition: str, account: str | None, synthesize: Synthesize) -> None:
    text = EVERYTHING.replace("us-east-1", PARTITIONS[partition]).replace("arn:aws:", f"arn:{partition}:")
    if partition == "aws-cn":
        text = text.replace("amazonaws.com/", "amazonaws.com.cn/")
    if account is None:
        text = text.replace('account: "111122223333"\n', "")
    made = synthesize(text)
    chat = made["all-inference-chat"]
    assert set(re.findall(r"arn:(aws[a-z-]*):", chat)) == {partition}
    assert "ecr:BatchGetImage" in chat
    assert set(made) == {
        "all-network",
        "all-data-models",
        "all-fleet-lab",
        "all-inference-chat",
        "all-inference-slices",
        "all-capacity-slices",
    }


def test_a_stack_that_knows_no_region_synthesizes(app_factory: Any, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(MINIMAL, encoding="utf-8")
    spec, app, env = load_cluster(file), app_factory(), cdk.Environment()
    site = Site(app, spec, cluster_place(app, spec, env), {}, env)
    fleet = planned_fleets(spec)[0]
    stack = InferenceStack(site, fleet, spec.inference.fleets["chat"], capacity=None)
    text = (Path(app.synth().directory) / stack.template_file).read_text()
    assert "us-east-1" not in text
    assert "AWS::Region" in text
