"""A fleet behind a load balancer in the emulator: nodes register, fail, drain, are replaced, and are read back."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from mutations import put
from plain_fleet import BY_NAME, allow, policy, role

Json = dict[str, Any]
LOADED_AT = "2026-11-21T08:00Z"
HOOKS = [
    {"LifecycleHookName": "ready", "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "HeartbeatTimeout": 1800},
    {"LifecycleHookName": "drain", "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING", "HeartbeatTimeout": 600, "DefaultResult": "CONTINUE"},
]  # fmt: skip


def service(**group: Any) -> Json:
    """Two nodes in two zones behind an internal load balancer."""
    subnets = [{"Ref": "First"}, {"Ref": "Second"}]
    data = {
        "InstanceType": "g6e.48xlarge",
        "ImageId": "ami-0123456789abcdef0",
        "IamInstanceProfile": {"Arn": {"Fn::GetAtt": ["Profile", "Arn"]}},
    }
    resources: Json = {
        "NodeRole": role("ec2.amazonaws.com"),
        "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "NodeRole"}]}},
        "Permissions": policy("NodeRole", allow(BY_NAME, "autoscaling:CompleteLifecycleAction")),
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "First": _subnet("us-east-1a", "10.0.0.0/20"),
        "Second": _subnet("us-east-1b", "10.0.16.0/20"),
        "Front": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "clients", "VpcId": {"Ref": "Vpc"}},
        },
        "Balancer": {
            "Type": "AWS::ElasticLoadBalancingV2::LoadBalancer",
            "Properties": {
                "Scheme": "internal",
                "Subnets": subnets,
                "SecurityGroups": [{"Ref": "Front"}],
                "LoadBalancerAttributes": [{"Key": "idle_timeout.timeout_seconds", "Value": "300"}],
            },
        },
        "Targets": {
            "Type": "AWS::ElasticLoadBalancingV2::TargetGroup",
            "Properties": {
                "VpcId": {"Ref": "Vpc"},
                "Port": 8080,
                "Protocol": "HTTP",
                "TargetGroupAttributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "300"}],
            },
        },
        "Listener": {
            "Type": "AWS::ElasticLoadBalancingV2::Listener",
            "Properties": {
                "LoadBalancerArn": {"Ref": "Balancer"},
                "Port": 80,
                "Protocol": "HTTP",
                "DefaultActions": [{"Type": "forward", "TargetGroupArn": {"Ref": "Targets"}}],
            },
        },
        "Template": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}},
        "Fleet": {
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "Properties": {
                "MinSize": "2",
                "MaxSize": "4",
                "VPCZoneIdentifier": subnets,
                "HealthCheckType": "ELB",
                "HealthCheckGracePeriod": 300,
                "LifecycleHookSpecificationList": HOOKS,
                "TargetGroupARNs": [{"Ref": "Targets"}],
                "LaunchTemplate": {
                    "LaunchTemplateId": {"Ref": "Template"},
                    "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
                },
                **group,
            },
        },
        "Scaling": {
            "Type": "AWS::AutoScaling::ScalingPolicy",
            "DependsOn": "Listener",
            "Properties": {
                "AutoScalingGroupName": {"Ref": "Fleet"},
                "PolicyType": "TargetTrackingScaling",
                "TargetTrackingConfiguration": {
                    "TargetValue": 120,
                    "PredefinedMetricSpecification": {
                        "PredefinedMetricType": "ALBRequestCountPerTarget",
                        "ResourceLabel": {"Fn::Sub": "${Balancer.LoadBalancerFullName}/${Targets.TargetGroupFullName}"},
                    },
                },
            },
        },
    }
    return {"Resources": resources}


def _subnet(zone: str, cidr: str) -> Json:
    properties = {"VpcId": {"Ref": "Vpc"}, "CidrBlock": cidr, "AvailabilityZone": zone}
    return {"Type": "AWS::EC2::Subnet", "Properties": properties}


def edited(path: str, value: Any, *, rolling: bool = False) -> Json:
    template = copy.deepcopy(service())
    put(f"Resources.{path}", value)(template)
    return rolled(template) if rolling else template


def rolled(template: Json) -> Json:
    policy = {"AutoScalingRollingUpdate": {"MaxBatchSize": 1, "MinInstancesInService": 1}}
    template["Resources"]["Fleet"]["UpdatePolicy"] = policy
    return template


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"now": LOADED_AT}) as made:
        yield made


def group(account: InProcessEmulator) -> Json:
    (found,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return dict(found)


def states(account: InProcessEmulator) -> Counter[str]:
    return Counter(one["LifecycleState"] for one in group(account)["Instances"])


def health(account: InProcessEmulator) -> dict[str, str]:
    elb = account.client("elbv2")
    (targets,) = elb.describe_target_groups()["TargetGroups"]
    found = elb.describe_target_health(TargetGroupArn=targets["TargetGroupArn"])["TargetHealthDescriptions"]
    return {one["Target"]["Id"]: one["TargetHealth"]["State"] for one in found}


def balancer(account: InProcessEmulator) -> Json:
    (found,) = account.client("elbv2").describe_load_balancers()["LoadBalancers"]
    return dict(found)


def settings(account: InProcessEmulator) -> dict[str, str]:
    found = account.client("elbv2").describe_load_balancer_attributes(
        LoadBalancerArn=balancer(account)["LoadBalancerArn"]
    )
    return {one["Key"]: one["Value"] for one in found["Attributes"]}


def test_a_node_is_a_target_when_it_is_ready(account: InProcessEmulator) -> None:
    account.deploy(service())
    assert states(account) == {"Pending:Wait": 2}
    assert health(account) == {}
    ready = account.make_nodes_ready()
    assert states(account) == {"InService": 2}
    assert health(account) == dict.fromkeys(ready, "healthy")
    zones = {one["AvailabilityZone"] for one in group(account)["Instances"]}
    assert zones == {"us-east-1a", "us-east-1b"}


def test_a_node_that_stops_answering_is_replaced_after_the_grace_period(account: InProcessEmulator) -> None:
    account.deploy(service())
    first, second = account.make_nodes_ready()
    account.set_answering(first, answers=False)
    assert health(account) == {first: "unhealthy", second: "healthy"}
    assert states(account) == {"InService": 2}, "the grace period of five minutes lasts"
    account.move_clock("2026-11-21T08:06Z")
    assert states(account) == {"InService": 1, "Terminating": 1, "Pending:Wait": 1}
    assert health(account) == {first: "draining", second: "healthy"}


def test_a_node_that_answers_again_stays(account: InProcessEmulator) -> None:
    account.deploy(service())
    first, _ = account.make_nodes_ready()
    account.set_answering(first, answers=False)
    account.set_answering(first, answers=True)
    account.move_clock("2026-11-21T08:06Z")
    assert states(account) == {"InService": 2}


def test_a_fleet_without_elb_checks_keeps_a_node_that_does_not_answer(account: InProcessEmulator) -> None:
    account.deploy(service(HealthCheckType="EC2"))
    first, _ = account.make_nodes_ready()
    account.set_answering(first, answers=False)
    account.move_clock("2026-11-21T09:00Z")
    assert states(account) == {"InService": 2}
    account.client("autoscaling").set_instance_health(
        InstanceId=first, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False
    )
    assert states(account) == {"InService": 1, "Terminating": 1, "Pending:Wait": 1}


def test_a_leaving_node_drains_until_its_hook_ends(account: InProcessEmulator) -> None:
    account.deploy(service(DesiredCapacity="3"))
    account.make_nodes_ready()
    name = group(account)["AutoScalingGroupName"]
    scaling = account.client("autoscaling")
    scaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)
    (leaving,) = [key for key, state in health(account).items() if state == "draining"]
    assert states(account) == {"InService": 2, "Terminating": 1}, "the load balancer lets it go first"
    account.move_clock("2026-11-21T08:04Z")
    with pytest.raises(ClientError, match="No active Lifecycle Action found"):
        finish_drain(account, leaving)
    account.move_clock("2026-11-21T08:14Z")
    assert leaving not in health(account), "the deregistration delay of five minutes is over"
    assert states(account) == {"InService": 2, "Terminating:Wait": 1}, "its hook waits for ten, from then on"
    finish_drain(account, leaving)
    assert states(account) == {"InService": 2}


def finish_drain(account: InProcessEmulator, leaving: str) -> None:
    scaling, name = account.client("autoscaling"), group(account)["AutoScalingGroupName"]
    scaling.complete_lifecycle_action(
        AutoScalingGroupName=name,
        LifecycleHookName="drain",
        InstanceId=leaving,
        LifecycleActionResult="CONTINUE",
    )


def test_a_hook_that_nobody_completes_ends_with_its_default(account: InProcessEmulator) -> None:
    account.deploy(service())
    before = {one["InstanceId"] for one in group(account)["Instances"]}
    account.move_clock("2026-11-21T08:29Z")
    assert {one["InstanceId"] for one in group(account)["Instances"]} == before
    account.move_clock("2026-11-21T08:31Z")
    after = {one["InstanceId"] for one in group(account)["Instances"]}
    assert not before & after, "abandoned launches are tried again"
    assert states(account) == {"Pending:Wait": 2}


def test_a_heartbeat_gives_a_hook_more_time(account: InProcessEmulator) -> None:
    account.deploy(service())
    found = group(account)
    held = found["Instances"][0]["InstanceId"]
    account.move_clock("2026-11-21T08:20Z")
    account.client("autoscaling").record_lifecycle_action_heartbeat(
        AutoScalingGroupName=found["AutoScalingGroupName"], LifecycleHookName="ready", InstanceId=held
    )
    account.move_clock("2026-11-21T08:31Z")
    assert held in {one["InstanceId"] for one in group(account)["Instances"]}


IMAGE = "Template.Properties.LaunchTemplateData.ImageId"


@pytest.mark.parametrize(("rolling", "version"), [(True, "2"), (False, "1")])
def test_a_new_image_reaches_nodes_by_a_rolling_update_only(
    account: InProcessEmulator, *, rolling: bool, version: str
) -> None:
    account.deploy(rolled(service()) if rolling else service())
    before = set(account.make_nodes_ready())
    account.deploy(edited(IMAGE, "ami-0aaaaaaaaaaaaaaaa", rolling=rolling))
    nodes = group(account)["Instances"]
    assert {one["LaunchTemplate"]["Version"] for one in nodes} == {version}
    assert states(account) == {"InService": 2}
    assert bool(before & {one["InstanceId"] for one in nodes}) is not rolling
    assert set(health(account).values()) == {"healthy"}


def test_a_replacing_update_policy_is_refused_by_name(account: InProcessEmulator) -> None:
    template = service()
    template["Resources"]["Fleet"]["UpdatePolicy"] = {"AutoScalingReplacingUpdate": {"WillReplace": True}}
    with pytest.raises(DeployFailed, match="AutoScalingReplacingUpdate is not emulated"):
        account.deploy(template)


def test_a_load_balancer_is_changed_in_place_and_keeps_what_is_left_out(account: InProcessEmulator) -> None:
    account.deploy(service())
    before = balancer(account)
    assert (before["Scheme"], before["State"]["Code"]) == ("internal", "active")
    assert before["DNSName"].startswith("internal-")
    headers = [{"Key": "routing.http.drop_invalid_header_fields.enabled", "Value": "true"}]
    account.deploy(edited("Balancer.Properties.LoadBalancerAttributes", headers))
    assert balancer(account)["LoadBalancerArn"] == before["LoadBalancerArn"]
    found = settings(account)
    assert found["routing.http.drop_invalid_header_fields.enabled"] == "true"
    assert found["idle_timeout.timeout_seconds"] == "300", "an attribute that is left out keeps its value"
    assert found["client_keep_alive.seconds"] == "3600", "the documented default"


def test_another_scheme_makes_another_load_balancer(account: InProcessEmulator) -> None:
    template = service()
    template["Resources"]["Gateway"] = {"Type": "AWS::EC2::InternetGateway"}
    template["Resources"]["Attachment"] = {
        "Type": "AWS::EC2::VPCGatewayAttachment",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "InternetGatewayId": {"Ref": "Gateway"}},
    }
    account.deploy(template)
    before = balancer(account)
    changed = copy.deepcopy(template)
    del changed["Resources"]["Scaling"], changed["Resources"]["Listener"]
    put("Resources.Balancer.Properties.Scheme", "internet-facing")(changed)
    put("Resources.Balancer.DependsOn", "Attachment")(changed)
    account.deploy(changed)
    after = balancer(account)
    assert after["LoadBalancerArn"] != before["LoadBalancerArn"]
    assert after["Scheme"] == "internet-facing"


def test_a_listener_moves_to_another_port_in_place(account: InProcessEmulator) -> None:
    account.deploy(service())
    elb = account.client("elbv2")
    arn = balancer(account)["LoadBalancerArn"]
    (before,) = elb.describe_listeners(LoadBalancerArn=arn)["Listeners"]
    account.deploy(edited("Listener.Properties.Port", 8000))
    (after,) = elb.describe_listeners(LoadBalancerArn=arn)["Listeners"]
    assert (after["ListenerArn"], after["Port"]) == (before["ListenerArn"], 8000)


def test_another_port_of_the_targets_makes_another_target_group(account: InProcessEmulator) -> None:
    account.deploy(service())
    account.make_nodes_ready()
    before = health(account)
    elb = account.client("elbv2")
    (old,) = elb.describe_target_groups()["TargetGroups"]
    account.deploy(edited("Targets.Properties.Port", 9090))
    (new,) = elb.describe_target_groups()["TargetGroups"]
    assert new["TargetGroupArn"] != old["TargetGroupArn"]
    assert new["LoadBalancerArns"] == [balancer(account)["LoadBalancerArn"]]
    assert health(account) == before, "the fleet registered its nodes anew"


def test_a_scaling_policy_is_read_back(account: InProcessEmulator) -> None:
    account.deploy(service())
    (policy,) = account.client("autoscaling").describe_policies()["ScalingPolicies"]
    metric = policy["TargetTrackingConfiguration"]["PredefinedMetricSpecification"]
    assert metric["ResourceLabel"].startswith("app/")
    assert policy["PolicyARN"].startswith("arn:aws:autoscaling:us-east-1:123456789012:scalingPolicy:")


def test_a_target_group_without_a_listener_is_not_used(account: InProcessEmulator) -> None:
    template = service()
    del template["Resources"]["Listener"], template["Resources"]["Scaling"]
    account.deploy(template)
    account.make_nodes_ready()
    assert set(health(account).values()) == {"unused"}


def test_a_service_is_deleted_without_a_rest(account: InProcessEmulator) -> None:
    account.deploy(service())
    account.make_nodes_ready()
    account.destroy()
    assert account.resources() == []
    assert account.client("elbv2").describe_load_balancers()["LoadBalancers"] == []
