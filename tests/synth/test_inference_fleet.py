"""Model servers behind a load balancer: the template that comes out, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ssm as ssm

from cdk_gpu_clusters import (
    Capacity,
    ClusterNetwork,
    ConfigError,
    GpuFleet,
    InferenceFleet,
    LustreStore,
    MigLayout,
    ModelServer,
    ModelWeights,
    NodeFile,
    PlacementStrategy,
    ServerSecret,
    ServerSlots,
    UpdatePolicy,
    UserDataPart,
)
from cdk_gpu_clusters.node.model_server import NODE_HEALTH_PATH
from stack_fixtures import Resources, Site, SiteFactory, of_type, only

GROUP = "AWS::AutoScaling::AutoScalingGroup"
TEMPLATE = "AWS::EC2::LaunchTemplate"
BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"
LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
TARGETS = "AWS::ElasticLoadBalancingV2::TargetGroup"
POLICY = "AWS::AutoScaling::ScalingPolicy"
IMAGE = "vllm/vllm-openai:v0.11.0"
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-AbCdEf"
CLIENTS = ec2.Peer.ipv4("10.0.0.0/16")
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", starts_at="2026-12-01T11:30Z", ends_at="2026-12-15T11:30Z")
SEVENTHS = MigLayout(["1g.5gb"] * 7)
SPLIT: dict[str, Any] = {"instance_type": "p4d.24xlarge", "mig": SEVENTHS}


def service(site: Site, name: str = "Chat", **options: Any) -> InferenceFleet:
    given: dict[str, Any] = {
        "vpc": site.vpc,
        "instance_type": "g6e.48xlarge",
        "min_node_count": 2,
        "max_node_count": 6,
        "server": ModelServer(image=IMAGE),
        "plain_http": True,
    }
    return InferenceFleet(site.stack, name, **(given | options))


def certificate(site: Site) -> acm.ICertificate:
    arn = site.stack.format_arn(service="acm", resource="certificate", resource_name="c-1")
    return acm.Certificate.from_certificate_arn(site.stack, "Certificate", arn)


def user_data(resources: Resources) -> str:
    encoded = only(resources, TEMPLATE)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    if isinstance(encoded, str):
        return encoded
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in encoded["Fn::Join"][1])


def attributes(properties: dict[str, Any], name: str) -> dict[str, Any]:
    return {entry["Key"]: entry["Value"] for entry in properties[name]}


def statements(resources: Resources) -> list[dict[str, Any]]:
    return [
        statement
        for policy in of_type(resources, "AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def test_the_load_balancer_is_internal_in_two_zones_and_made_for_streams(site: Site) -> None:
    service(site)
    resources = site.resources()
    balancer = only(resources, BALANCER)
    assert balancer["Scheme"] == "internal"
    assert len(balancer["Subnets"]) == 2
    settings = attributes(balancer, "LoadBalancerAttributes")
    assert settings["idle_timeout.timeout_seconds"] == "300"
    assert settings["routing.http.drop_invalid_header_fields.enabled"] == "true"
    assert settings["access_logs.s3.enabled"] == "true"
    targets = only(resources, TARGETS)
    assert (targets["HealthCheckPath"], targets["Port"], targets["TargetType"]) == (
        NODE_HEALTH_PATH,
        8080,
        "instance",
    )
    choice = attributes(targets, "TargetGroupAttributes")
    assert choice["load_balancing.algorithm.type"] == "least_outstanding_requests"
    assert choice["deregistration_delay.timeout_seconds"] == "300"


def test_access_logs_go_to_a_bucket_that_only_their_service_fills(site: Site) -> None:
    service(site)
    resources = site.resources()
    (bucket_id,) = of_type(resources, "AWS::S3::Bucket")
    bucket = resources[bucket_id]
    assert (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    (policy,) = of_type(resources, "AWS::S3::BucketPolicy").values()
    assert policy["DeletionPolicy"] == "RetainExceptOnCreate", (
        "a bucket that stays without its policy takes requests in the clear"
    )
    document = policy["Properties"]["PolicyDocument"]["Statement"]
    (write,) = [statement for statement in document if statement["Action"] == "s3:PutObject"]
    assert write["Principal"] == {"Service": "logdelivery.elasticloadbalancing.amazonaws.com"}
    assert any(s["Effect"] == "Deny" and "aws:SecureTransport" in json.dumps(s) for s in document)
    (balancer,) = of_type(resources, BALANCER).values()
    assert set(of_type(resources, "AWS::S3::BucketPolicy")) <= set(balancer["DependsOn"])


def test_tls_takes_the_certificate_and_leaves_no_clear_port(site: Site) -> None:
    made = service(site, certificate=certificate(site), plain_http=False, internet_facing=True)
    assert made.url.startswith("https://")
    resources = site.resources()
    listener = only(resources, LISTENER)
    assert (listener["Port"], listener["Protocol"]) == (443, "HTTPS")
    assert "TLS13" in listener["SslPolicy"]
    assert only(resources, BALANCER)["Scheme"] == "internet-facing"
    assert only(resources, BALANCER)["Subnets"] == ["subnet-0123456789abcdef2", "subnet-0123456789abcdef3"]


def test_only_clients_reach_the_load_balancer_and_only_it_reaches_the_nodes(site: Site) -> None:
    service(site, clients=[CLIENTS])
    resources = site.resources()
    groups = of_type(resources, "AWS::EC2::SecurityGroup")
    inline = [rule for group in groups.values() for rule in group["Properties"].get("SecurityGroupIngress", [])]
    assert [(rule["CidrIp"], rule["FromPort"]) for rule in inline] == [("10.0.0.0/16", 80)]
    ingress = only(resources, "AWS::EC2::SecurityGroupIngress")
    egress = only(resources, "AWS::EC2::SecurityGroupEgress")
    assert (ingress["FromPort"], ingress["ToPort"]) == (egress["FromPort"], egress["ToPort"]) == (8080, 8080)
    assert ingress["SourceSecurityGroupId"] == egress["GroupId"]


def test_nodes_join_the_target_group_and_are_replaced_when_it_finds_them_ill(site: Site) -> None:
    service(site)
    resources = site.resources()
    (targets_id,) = of_type(resources, TARGETS)
    (group,) = of_type(resources, GROUP).values()
    properties = group["Properties"]
    assert properties["TargetGroupARNs"] == [{"Ref": targets_id}]
    assert properties["HealthCheckType"] == "ELB"
    assert len(properties["VPCZoneIdentifier"]) == 2
    assert "DesiredCapacity" not in properties
    assert set(of_type(resources, LISTENER)) <= set(group["DependsOn"])


@pytest.mark.parametrize(
    ("options", "healthy"),
    [({}, (100, 110)), ({"capacity": Capacity.from_reservation_id("cr-0123456789abcdef0")}, (75, 100))],
)
def test_an_update_launches_before_it_terminates_unless_the_capacity_is_full(
    site: Site, options: dict[str, Any], healthy: tuple[int, int]
) -> None:
    """A service of two nodes would have no healthy target if one ended first."""
    service(site, max_node_count=4, vpc_subnets=site.one_subnet, **options)
    (group,) = of_type(site.resources(), GROUP).values()
    refresh = group["UpdatePolicy"]["AutoScalingInstanceRefresh"]
    assert refresh["Strategy"] == "Rolling"
    preferences = refresh["Preferences"]
    assert (preferences["MinHealthyPercentage"], preferences["MaxHealthyPercentage"]) == healthy


def test_running_nodes_stay_where_asked_for(site: Site) -> None:
    service(site, update_policy=UpdatePolicy.NEVER_REPLACE)
    (group,) = of_type(site.resources(), GROUP).values()
    assert "UpdatePolicy" not in group


@pytest.mark.parametrize(
    ("options", "strategy"),
    [
        ({}, "spread"),
        ({"max_node_count": 14}, "spread"),
        ({"max_node_count": 15}, None),
        ({"placement": PlacementStrategy.NONE}, None),
        ({"placement": PlacementStrategy.PARTITION}, "partition"),
    ],
)
def test_nodes_stand_apart_where_that_fits(site: Site, options: dict[str, Any], strategy: str | None) -> None:
    service(site, **options)
    made = of_type(site.resources(), "AWS::EC2::PlacementGroup").values()
    assert [group["Properties"]["Strategy"] for group in made] == ([strategy] if strategy else [])


def test_reserved_capacity_pins_the_nodes_and_not_the_load_balancer(site: Site) -> None:
    service(
        site,
        instance_type="p5.48xlarge",
        capacity=Capacity.from_reservation_id("cr-0123456789abcdef0"),
        vpc_subnets=site.one_subnet,
        min_node_count=2,
        max_node_count=None,
    )
    resources = site.resources()
    assert len(only(resources, BALANCER)["Subnets"]) == 2
    assert len(only(resources, GROUP)["VPCZoneIdentifier"]) == 1
    assert not of_type(resources, "AWS::EC2::PlacementGroup")
    (interface,) = only(resources, TEMPLATE)["LaunchTemplateData"]["NetworkInterfaces"]
    assert interface["InterfaceType"] == "interface", "model servers exchange no EFA traffic"


@pytest.mark.parametrize(
    ("instance_type", "slots", "kind", "count", "devices"),
    [
        ("g5.2xlarge", None, "gpu", 1, "0"),
        ("g6e.48xlarge", ServerSlots.tensor_parallel(4), "gpu", 2, "0,1,2,3 4,5,6,7"),
        ("inf2.48xlarge", None, "neuron", 12, " ".join(map(str, range(12)))),
        ("p4d.24xlarge", ServerSlots.per_mig_slice(56), "mig", 56, ""),
    ],
)
def test_a_node_is_told_its_servers_within_the_limit_of_user_data(
    site: Site, instance_type: str, slots: ServerSlots | None, kind: str, count: int, devices: str
) -> None:
    made = service(site, instance_type=instance_type, slots=slots)
    assert made.servers.server_count == count
    text = user_data(site.resources())
    assert f"MODEL_KIND={kind}\n" in text
    assert f"MODEL_COUNT={count}\n" in text
    (line,) = [line for line in text.splitlines() if line.startswith("MODEL_DEVICES=")]
    assert line == f"MODEL_DEVICES=({devices})"
    # What MIG and a file system add must still fit.
    assert len(text) < 12_000


def test_a_server_runs_on_each_slice_of_the_layout(site: Site) -> None:
    mixed = MigLayout(["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"])
    made = service(site, instance_type="p4d.24xlarge", mig=[SEVENTHS] * 4 + [mixed] * 4)
    assert made.servers.server_count == 4 * 7 + 4 * 4
    text = user_data(site.resources())
    assert "MODEL_COUNT=44" in text
    assert "gpu-mig" in text
    assert len(text) < 16_384


def test_the_nodes_take_what_every_node_takes(site: Site) -> None:
    """`NodeProps` reach the fleet without being named again; files and parts go beside those of the servers."""
    service(
        site,
        evidence_bucket=s3.Bucket.from_bucket_name(site.stack, "Evidence", "evidence"),
        evidence_prefix="failures",
        log_retention=logs.RetentionDays.ONE_WEEK,
        environment={"TEAM": "chat"},
        user_data_parts=[UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\necho more\n")],
        node_files=[NodeFile(path="/etc/team.conf", text="chat\n")],
    )
    resources = site.resources()
    groups = [one["Properties"] for one in of_type(resources, "AWS::Logs::LogGroup").values()]
    (of_nodes,) = (one for one in groups if "vendedlogs" not in str(one))
    assert of_nodes["RetentionInDays"] == 7
    text = user_data(resources)
    assert "s3://evidence/failures/Site/Chat/Fleet" in text
    assert "echo more" in text
    assert "TEAM" in text


def test_the_hook_outlasts_the_drain(site: Site) -> None:
    service(site, drain_timeout=cdk.Duration.minutes(20))
    resources = site.resources()
    hooks = only(resources, GROUP)["LifecycleHookSpecificationList"]
    (hook,) = [hook for hook in hooks if "TERMINATING" in hook["LifecycleTransition"]]
    assert hook["HeartbeatTimeout"] > 1200 + 25 + 60
    (line,) = [line for line in user_data(resources).splitlines() if "GPU_DRAIN_DEADLINE=" in line]
    assert int(line.partition("=")[2]) > 1200 + 25
    choice = attributes(only(resources, TARGETS), "TargetGroupAttributes")
    assert choice["deregistration_delay.timeout_seconds"] == "1200"


def test_secrets_are_named_and_granted_and_never_shown(site: Site) -> None:
    stored = secretsmanager.Secret.from_secret_complete_arn(site.stack, "Stored", SECRET)
    parameter = ssm.StringParameter.from_secure_string_parameter_attributes(
        site.stack, "Parameter", parameter_name="/models/key"
    )
    service(
        site,
        server=ModelServer(
            image=IMAGE,
            environment={"MAX_MODEL_LEN": "8192"},
            secrets={
                "HF_TOKEN": ServerSecret.from_secret(stored, "token"),
                "API_KEY": ServerSecret.from_parameter(parameter),
                "OTHER": ServerSecret.from_arn(SECRET.replace("hub", "other")),
            },
            registry_login=ServerSecret.from_arn(SECRET.replace("hub", "registry")),
        ),
    )
    resources = site.resources()
    text = user_data(resources)
    assert f"HF_TOKEN {SECRET} token" in text
    assert "MAX_MODEL_LEN=8192" in text
    reads = [s for s in statements(resources) if "secretsmanager:GetSecretValue" in s["Action"]]
    named = set(re.findall(r"secret:(\w+)", json.dumps([s["Resource"] for s in reads])))
    assert named == {"hub", "other", "registry"}
    (parameters,) = [s for s in statements(resources) if "ssm:GetParameter" in s["Action"]]
    assert "parameter/models/key" in json.dumps(parameters["Resource"])


def test_a_repository_and_a_bucket_get_what_they_need_and_no_more(site: Site) -> None:
    repository = ecr.Repository.from_repository_name(site.stack, "Repository", "servers")
    bucket = s3.Bucket.from_bucket_name(site.stack, "Bucket", "weights")
    service(
        site,
        server=ModelServer(image=repository, tag="2026-11-01", weights=ModelWeights.from_bucket(bucket, "llama/")),
    )
    resources = site.resources()
    text = user_data(resources)
    assert "MODEL_WEIGHTS_URI=s3://weights/llama" in text
    assert "/servers:2026-11-01" in text
    (pull,) = [s for s in statements(resources) if "ecr:BatchGetImage" in s["Action"]]
    assert "repository/servers" in json.dumps(pull["Resource"])
    read = [s["Resource"] for s in statements(resources) if "s3:GetObject" in s["Action"]]
    names = [f":s3:::weights/{name}" for name in ("llama/*", "llama")]  # the second, to ask whether it is there
    assert read == [{"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, name]]} for name in names]


def weights(site: Site, path: str) -> ModelServer:
    bucket = s3.Bucket.from_bucket_name(site.stack, "Bucket", "weights")
    return ModelServer(image=IMAGE, weights=ModelWeights.from_bucket(bucket, "llama/", path=path))


@pytest.mark.parametrize(
    ("path", "options", "disks"),
    [
        ("/scratch/llama", {}, "2"),
        ("/scratch/llama", {"scratch": True}, "2"),
        ("/opt/gpu-cluster/model", {}, None),
        ("/opt/gpu-cluster/model", {"scratch": True}, "2"),
        ("/scratchy", {}, None),
        ("/opt/gpu-cluster/model", {"scratch": True, "instance_type": "inf2.48xlarge"}, None),
    ],
)
def test_local_disks_are_mounted_if_the_weights_lie_there(
    site: Site, path: str, options: dict[str, Any], disks: str | None
) -> None:
    service(site, server=weights(site, path), **({"instance_type": "g6e.24xlarge"} | options))
    text = user_data(site.resources())
    assert re.findall(r"GPU_SCRATCH_DISKS=(\d+)", text) == ([disks] if disks else [])
    assert f"MODEL_WEIGHTS_PATH={path}\n" in text


def test_a_file_system_may_be_mounted_where_local_disks_would_be(site: Site) -> None:
    store = LustreStore.from_lustre_store_attributes(
        site.stack, "Store", file_system_id="fs-0123456789abcdef0", mount_name="abcdefgh",
        security_group=ec2.SecurityGroup.from_security_group_id(site.stack, "Servers", "sg-0123456789abcdef0"),
    )  # fmt: skip
    server = ModelServer(image=IMAGE, weights=ModelWeights.from_path("/scratch/llama"))
    service(site, server=server, mounts={"/scratch": store})
    assert "GPU_SCRATCH" not in user_data(site.resources())


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"instance_type": "inf2.48xlarge"}, "the type has no local disks"),
        ({"scratch": False}, "which are left alone"),
    ],
)
def test_weights_on_disks_that_are_not_there_are_refused(site: Site, options: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigError, match=rf"GPU-INF-023: Site/Chat: .*{cause}"):
        service(site, server=weights(site, "/scratch/llama"), **options)


def test_scaling_follows_requests_and_any_other_metric(site: Site) -> None:
    made = service(site, requests_per_minute_per_node=120)
    activity = cloudwatch.Metric(
        namespace="Gpu", metric_name="Utilization", dimensions_map={"Fleet": "chat"}, statistic="Average"
    )
    made.add_scaling("ScaleOnActivity", metric=activity, target_value=70)
    policies = [
        policy["Properties"]["TargetTrackingConfiguration"] for policy in of_type(site.resources(), POLICY).values()
    ]
    (requests,) = [policy for policy in policies if "PredefinedMetricSpecification" in policy]
    assert requests["PredefinedMetricSpecification"]["PredefinedMetricType"] == "ALBRequestCountPerTarget"
    assert requests["TargetValue"] == 120
    (other,) = [policy for policy in policies if "CustomizedMetricSpecification" in policy]
    assert other["CustomizedMetricSpecification"]["Dimensions"] == [{"Name": "Fleet", "Value": "chat"}]


def test_metrics_and_connections(site: Site) -> None:
    made = service(site)
    names = [
        made.metric_requests(), made.metric_requests_per_node(), made.metric_response_time(),
        made.metric_healthy_nodes(), made.metric_server_errors(),
    ]  # fmt: skip
    assert [str(metric.metric_name) for metric in names if isinstance(metric, cloudwatch.Metric)] == [
        "RequestCount", "RequestCountPerTarget", "TargetResponseTime", "HealthyHostCount",
        "HTTPCode_Target_5XX_Count",
    ]  # fmt: skip
    made.connections.allow_default_port_from(ec2.Peer.ipv4("10.9.0.0/16"))
    assert "10.9.0.0/16" in json.dumps(site.resources())


@pytest.mark.parametrize(
    ("env", "partition"),
    [
        (None, set()),
        (cdk.Environment(account="123456789012", region="cn-north-1"), {"aws-cn"}),
        (cdk.Environment(account="123456789012", region="us-gov-west-1"), {"aws-us-gov"}),
    ],
)
def test_no_other_partition_is_written_down(
    make_site: SiteFactory, env: cdk.Environment | None, partition: set[str]
) -> None:
    site = make_site(env=env)
    service(site, certificate=certificate(site), plain_http=False, requests_per_minute_per_node=60)
    text = json.dumps(site.template())
    assert set(re.findall(r"arn:(aws[a-z-]*):", text)) <= partition


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"plain_http": False}, {"GPU-INF-012"}),
        ({"internet_facing": True}, {"GPU-INF-012"}),
        ({"idle_timeout": cdk.Duration.seconds(4001)}, {"GPU-INF-013"}),
        ({"drain_timeout": cdk.Duration.hours(2)}, {"GPU-INF-017"}),
        ({"min_servers_per_node": 9}, {"GPU-INF-018"}),
        ({"min_servers_per_node": 0}, {"GPU-INF-018"}),
        ({"slots": ServerSlots.tensor_parallel(3)}, {"GPU-INF-001"}),
        ({"instance_type": "m8g.4xlarge"}, {"GPU-INF-002"}),
        (SPLIT | {"slots": ServerSlots.per_mig_slice(55)}, {"GPU-INF-022"}),
        (SPLIT | {"slots": ServerSlots.per_accelerator()}, {"GPU-INF-022"}),
        (SPLIT | {"mig": [MigLayout.whole_gpu(), *[SEVENTHS] * 7]}, {"GPU-INF-022"}),
        (SPLIT | {"instance_type": "g6e.48xlarge"}, {"GPU-MIG-001"}),
        ({"instance_type": "p99.48xlarge"}, {"GPU-INST-001"}),
        ({"node_port": 9003}, {"GPU-INF-004"}),
        ({"server": ModelServer(image="https://x/y")}, {"GPU-INF-006"}),
        ({"server": ModelServer(image=IMAGE, tag="1")}, {"GPU-INF-006"}),
        ({"server": ModelServer(image=IMAGE, health_path="health")}, {"GPU-INF-005"}),
        ({"server": ModelServer(image=IMAGE, port=0)}, {"GPU-INF-020"}),
        ({"server": ModelServer(image=IMAGE, command=["a\nb"])}, {"GPU-INF-021"}),
        ({"server": ModelServer(image=IMAGE, cache_path="/scratch")}, {"GPU-INF-028"}),
        ({"server": ModelServer(image=IMAGE, command=["--model", "a/llama-3.3-70b"])}, {"GPU-INF-027"}),
        ({"server": ModelServer(image=IMAGE, environment={"A-B": "1"})}, {"GPU-INF-008"}),
        (
            {"server": ModelServer(image=IMAGE, secrets={"A": ServerSecret.from_arn("hunter2")})},
            {"GPU-INF-009"},
        ),
        ({"server": ModelServer(image=IMAGE, weights=ModelWeights.from_path("models"))}, {"GPU-INF-011"}),
        ({"server": ModelServer(image=IMAGE, max_concurrent_requests=0)}, {"GPU-INF-019"}),
        (
            {"server": ModelServer(image=IMAGE, environment={"KEY": "AKIA" + "ABCDEFGHIJKLMNOP"})},
            {"GPU-UD-002"},
        ),
        ({"server": ModelServer(image=IMAGE, command=["--api-key", "sesame"])}, {"GPU-UD-002"}),
        ({"requests_per_minute_per_node": 0}, {"GPU-INF-019"}),
        ({"requests_per_minute_per_node": 60, "max_node_count": None}, {"GPU-INF-016"}),
        ({"min_node_count": 3, "max_node_count": 2}, {"GPU-FLT-001"}),
        (
            {"slots": ServerSlots.tensor_parallel(3), "plain_http": False, "server": ModelServer(image="A")},
            {"GPU-INF-001", "GPU-INF-006", "GPU-INF-012"},
        ),
    ],
)
def test_faults(site: Site, options: dict[str, Any], expected: set[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        service(site, **options)
    assert {finding.id for finding in caught.value.findings} == expected
    assert all(finding.path.startswith("Site/Chat") for finding in caught.value.findings)


def test_a_load_balancer_in_one_zone_is_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-INF-014"):
        service(site, load_balancer_subnets=site.one_subnet)


def test_nodes_that_the_load_balancer_does_not_reach_are_refused(site: Site) -> None:
    elsewhere = ec2.Subnet.from_subnet_attributes(
        site.stack, "Elsewhere", subnet_id="subnet-0123456789abcdef9", availability_zone="us-east-1c"
    )
    with pytest.raises(ConfigError, match=r"GPU-INF-026.*us-east-1c"):
        service(
            site,
            instance_type="p5.48xlarge",
            capacity=Capacity.from_reservation_id("cr-0123456789abcdef0"),
            vpc_subnets=ec2.SubnetSelection(subnets=[elsewhere]),
        )


def test_nodes_spread_over_zones_that_only_the_deployment_knows(site: Site) -> None:
    network = ClusterNetwork(site.stack, "Network", availability_zone="us-east-1a")
    subnets = ec2.SubnetSelection(subnets=network.load_balancer_subnets)
    service(
        site,
        vpc=network.vpc,
        vpc_subnets=subnets,
        load_balancer_subnets=subnets,
        min_node_count=14,
        max_node_count=14,
    )
    assert only(site.resources(), "AWS::EC2::PlacementGroup")["Strategy"] == "spread"


def test_a_block_sets_its_own_size(site: Site) -> None:
    with pytest.raises(ConfigError, match=r"GPU-INF-016.*Capacity Block"):
        service(
            site,
            instance_type="p5.48xlarge",
            capacity=BLOCK,
            vpc_subnets=site.one_subnet,
            requests_per_minute_per_node=60,
        )


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"server": ModelServer(image="vllm/vllm-openai")}, "GPU-INF-007"),
        ({"vpc_subnets": "one"}, "GPU-INF-015"),
        ({"slots": ServerSlots.tensor_parallel(8)}, "GPU-INF-010"),
        (
            {"server": ModelServer(image=IMAGE, weights=ModelWeights.from_path("/scratch/llama"))},
            "GPU-INF-023",
        ),
    ],
)
def test_what_is_only_pointed_out(site: Site, options: dict[str, Any], rule: str) -> None:
    if options.get("vpc_subnets") == "one":
        options = {"vpc_subnets": site.one_subnet}
    made = service(site, **options)
    assert any(rule in json.dumps(entry.data) for entry in made.node.metadata)


def test_a_cache_makes_local_disks_one_file_system(site: Site) -> None:
    service(site, server=ModelServer(image=IMAGE, cache_path="/scratch/cache"))
    text = user_data(site.resources())
    assert "MODEL_CACHE_PATH=/scratch/cache" in text
    assert "GPU_SCRATCH=/scratch" in text


def test_files_of_a_fleet_reach_the_node_compressed_and_are_checked(site: Site) -> None:
    drain = NodeFile(path="/etc/gpu-cluster/on-drain", text="#!/bin/sh\nsync\n", mode=0o755)
    place: dict[str, Any] = {"vpc": site.vpc, "instance_type": "g6.xlarge", "node_count": 1}
    GpuFleet(site.stack, "Good", **place, node_files=[drain])
    for name, wrong in (
        ("Relative", NodeFile(path="etc/x", text="")),
        ("Token", NodeFile(path="/etc/x", text=site.stack.region)),
    ):
        with pytest.raises(ConfigError, match="GPU-UD-006"):
            GpuFleet(site.stack, name, **place, node_files=[wrong])
