"""Load balancers, their targets and scaling policies in the emulator: what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpu_clusters_emulator import provisioning
from gpu_clusters_emulator.models.registry import creation_faults, deletion_faults
from gpu_clusters_emulator.reservations import zone_name
from gpu_clusters_emulator.seeds import plant
from gpu_clusters_emulator.service_shapes import documented_attributes
from gpu_clusters_emulator.world import World
from mutations import Mutation, drop, put

Json = dict[str, Any]

BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"
LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
RULE = "AWS::ElasticLoadBalancingV2::ListenerRule"
TARGETS = "AWS::ElasticLoadBalancingV2::TargetGroup"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
POLICY = "AWS::AutoScaling::ScalingPolicy"
VPC, OTHER_VPC = "AWS::EC2::VPC", "vpc-0cccccccccccccccc"
CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/c-1"
SEED: Json = {
    "vpcs": [OTHER_VPC],
    "subnets": {"subnet-0aaaaaaaaaaaaaaaa": "us-east-1a", "subnet-0bbbbbbbbbbbbbbbb": "us-east-1b"},
    "security_groups": ["sg-0123456789abcdef0"],
    "buckets": {"logs": "us-east-1", "far-logs": "eu-west-1"},
    "certificates": [CERTIFICATE],
}


class Site:
    """A VPC with three subnets in two zones, and the ids of what was made in it."""

    def __init__(self) -> None:
        self.world = World()
        plant(self.world, SEED)
        self.vpc = self.make(VPC, {"CidrBlock": "10.0.0.0/16"}, "vpc-")
        self.first = self.subnet("us-east-1a", "10.0.0.0/24")
        self.second = self.subnet("us-east-1b", "10.0.1.0/24")
        self.third = self.subnet("us-east-1b", "10.0.2.0/24")
        self.balancer = self.make(BALANCER, self.good(BALANCER))
        self.targets = self.make(TARGETS, self.good(TARGETS))
        self.listener = self.make(LISTENER, self.good(LISTENER))
        template = self.make("AWS::EC2::LaunchTemplate", {"LaunchTemplateData": {"InstanceType": "g6e.48xlarge"}})
        self.template = {"LaunchTemplateId": template, "Version": "1"}
        self.group = self.make(GROUP, self.good(GROUP))

    def make(self, type_name: str, properties: Json, prefix: str = "") -> str:
        assert creation_faults(type_name, properties, self.world) == []
        number = f"Made{len(self.world.resources)}"
        return provisioning.create(self.world, type_name, number, properties, prefix + "stack").physical_id

    def subnet(self, zone: str, cidr: str) -> str:
        return self.make("AWS::EC2::Subnet", {"VpcId": self.vpc, "AvailabilityZone": zone, "CidrBlock": cidr})

    def messages(self, type_name: str, properties: Json) -> str:
        return "\n".join(map(str, creation_faults(type_name, properties, self.world)))

    def label(self) -> str:
        found = [self.world.find(BALANCER, self.balancer), self.world.find(TARGETS, self.targets)]
        names = ("LoadBalancerFullName", "TargetGroupFullName")
        return "/".join(one.attributes[name] for one, name in zip(found, names, strict=True) if one)

    def good(self, type_name: str) -> Json:
        """A right resource of a type, in this site."""
        if type_name == BALANCER:
            return {
                "Type": "application",
                "Scheme": "internal",
                "Subnets": [self.first, self.second],
                "SecurityGroups": ["sg-0123456789abcdef0"],
                "LoadBalancerAttributes": [
                    {"Key": "idle_timeout.timeout_seconds", "Value": "300"},
                    {"Key": "access_logs.s3.enabled", "Value": "true"},
                    {"Key": "access_logs.s3.bucket", "Value": "logs"},
                ],
            }
        if type_name == TARGETS:
            return {
                "VpcId": self.vpc,
                "Port": 8080,
                "Protocol": "HTTP",
                "TargetType": "instance",
                "HealthCheckPath": "/health",
                "HealthCheckIntervalSeconds": 10,
                "HealthCheckTimeoutSeconds": 5,
                "TargetGroupAttributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "120"}],
            }
        if type_name == LISTENER:
            return {
                "LoadBalancerArn": self.balancer,
                "Port": 443,
                "Protocol": "HTTPS",
                "Certificates": [{"CertificateArn": CERTIFICATE}],
                "DefaultActions": [{"Type": "forward", "TargetGroupArn": self.targets}],
            }
        if type_name == GROUP:
            return {
                "MinSize": "2",
                "MaxSize": "4",
                "VPCZoneIdentifier": [self.first, self.second],
                "LaunchTemplate": self.template,
                "TargetGroupARNs": [self.targets],
            }
        return {
            "AutoScalingGroupName": self.group,
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingConfiguration": {
                "TargetValue": 120,
                "PredefinedMetricSpecification": {
                    "PredefinedMetricType": "ALBRequestCountPerTarget",
                    "ResourceLabel": self.label(),
                },
            },
        }


@pytest.fixture
def site() -> Site:
    return Site()


def attribute(kind: str, key: str, value: str) -> Mutation:
    return put(f"{kind}Attributes", [{"Key": key, "Value": value}])


BALANCER_FAULTS = [
    (lambda site: put("Subnets", [site.first]), "at least two subnets in two different Availability Zones must be specified, got 1"),
    (lambda site: put("Subnets", [site.second, site.third]), "a load balancer has one subnet in a zone; 2 are in us-east-1b"),
    (lambda site: put("Subnets", [site.first, "subnet-0dddddddddddddddd"]), "the subnet 'subnet-0dddddddddddddddd' does not exist"),
    (lambda site: put("Subnets", [site.first, site.subnet("us-east-1b", "10.0.3.0/28")]), "a /27 at least, got 10.0.3.0/28"),
    (lambda _: put("SecurityGroups", ["sg-0aaaaaaaaaaaaaaaa"]), "the security group 'sg-0aaaaaaaaaaaaaaaa' does not exist"),
    (lambda _: put("Scheme", "internet-facing"), "has no internet gateway"),
    (lambda _: put("Scheme", "public"), "'public' is not one of ['internal', 'internet-facing']"),
    (lambda _: put("Name", "internal-chat"), "no internal- first, got 'internal-chat'"),
    (lambda _: attribute("LoadBalancer", "idle_timeout.timeout_seconds", "4001"), "idle_timeout.timeout_seconds is 1 to 4,000, got 4001"),
    (lambda _: attribute("LoadBalancer", "idle.timeout", "60"), "the attribute 'idle.timeout' is not recognized"),
    (lambda _: attribute("LoadBalancer", "dns_record.client_routing_policy", "any"), "is not supported by Application Load Balancers"),
    (lambda _: attribute("LoadBalancer", "access_logs.s3.enabled", "true"), "logs need the name of a bucket"),
    (lambda _: put("LoadBalancerAttributes.2.Value", "nobodys-logs"), "the S3 bucket 'nobodys-logs' does not exist"),
    (lambda _: put("LoadBalancerAttributes.2.Value", "far-logs"), "the S3 bucket 'far-logs' is in eu-west-1, the load balancer in us-east-1"),
]  # fmt: skip
TARGET_FAULTS = [
    (lambda _: put("HealthCheckTimeoutSeconds", 10), "time-out is smaller than its interval, got 10 s and 10 s"),
    (lambda _: put("HealthCheckIntervalSeconds", 301), "301 is greater than the maximum of 300"),
    (lambda _: put("HealthyThresholdCount", 1), "1 is less than the minimum of 2"),
    (lambda _: put("HealthCheckPath", "health"), "a path begins with /, got 'health'"),
    (lambda _: put("Matcher", {"HttpCode": "ok"}), "codes are 200 to 499, such as 200,202 or 200-299, got 'ok'"),
    (lambda _: put("Port", 65_536), "65536 is greater than the maximum of 65535"),
    (lambda _: put("TargetType", "node"), "'node' is not one of"),
    (lambda _: put("VpcId", "vpc-0dddddddddddddddd"), "the VPC 'vpc-0dddddddddddddddd' does not exist"),
    (lambda _: drop("Port"), "Port must be specified"),
    (lambda _: attribute("TargetGroup", "deregistration_delay.timeout_seconds", "3601"), "is 0 to 3,600, got 3601"),
    (lambda _: attribute("TargetGroup", "load_balancing.algorithm.type", "random"), "is one of round_robin, least_outstanding_requests, weighted_random, got random"),
    (lambda _: put("TargetGroupAttributes", [{"Key": "slow_start.duration_seconds", "Value": "60"}, {"Key": "load_balancing.algorithm.type", "Value": "least_outstanding_requests"}]), "slow start works with round_robin only"),
]  # fmt: skip
LISTENER_FAULTS = [
    (lambda _: put("LoadBalancerArn", "arn:aws:elasticloadbalancing:us-east-1:123456789012:loadbalancer/app/a/b"), "loadbalancer/app/a/b' does not exist"),
    (lambda _: drop("Certificates"), "a listener of protocol HTTPS has exactly one certificate, got 0"),
    (lambda _: put("Certificates.0.CertificateArn", CERTIFICATE + "0"), "c-10' not found"),
    (lambda _: put("Protocol", "HTTP"), "Certificates cannot be specified for a listener of protocol HTTP"),
    (lambda _: put("Protocol", "TCP"), "listeners of Application Load Balancers have HTTP or HTTPS, got TCP"),
    (lambda _: put("Port", 443), "a listener already exists on port 443 of this load balancer"),
    (lambda _: put("DefaultActions.0.TargetGroupArn", "arn:gone"), "the target group 'arn:gone' does not exist"),
    (lambda site: put("DefaultActions.0.TargetGroupArn", site.make(TARGETS, {**site.good(TARGETS), "Protocol": "TCP"})), "a target group of protocol TCP is for Network Load Balancers, this one is Application"),
    (lambda site: put("DefaultActions.0.TargetGroupArn", site.make(TARGETS, {**site.good(TARGETS), "VpcId": OTHER_VPC})), "are in different VPCs"),
    (lambda site: put("LoadBalancerArn", site.make(BALANCER, site.good(BALANCER))), "is associated with another load balancer"),
]  # fmt: skip
GROUP_FAULTS = [
    (lambda _: put("TargetGroupARNs", ["arn:gone"]), "one or more target groups not found: arn:gone"),
    (lambda site: put("TargetGroupARNs", [site.make(TARGETS, {**site.good(TARGETS), "TargetType": "ip"})]), "has targets of type ip, not instance"),
    (lambda site: put("TargetGroupARNs", [site.make(TARGETS, {**site.good(TARGETS), "VpcId": OTHER_VPC})]), "is in another VPC than the group's subnets"),
]  # fmt: skip
TRACKING = "TargetTrackingConfiguration"
POLICY_FAULTS = [
    (lambda _: put("AutoScalingGroupName", "gone"), "the group 'gone' does not exist"),
    (lambda _: put("PolicyType", "SimpleScaling"), "policy type TargetTrackingScaling and TargetTrackingConfiguration go together"),
    (lambda _: drop(f"{TRACKING}.PredefinedMetricSpecification"), "give exactly one of PredefinedMetricSpecification and CustomizedMetricSpecification"),
    (lambda _: put(f"{TRACKING}.PredefinedMetricSpecification.PredefinedMetricType", "Requests"), "'Requests' is not one of"),
    (lambda _: put(f"{TRACKING}.PredefinedMetricSpecification.ResourceLabel", "app/chat"), "the resource label names no load balancer with its target group: 'app/chat'"),
]  # fmt: skip
FAULTS = [
    (type_name, make, message)
    for type_name, faults in (
        (BALANCER, BALANCER_FAULTS),
        (TARGETS, TARGET_FAULTS),
        (LISTENER, LISTENER_FAULTS),
        (GROUP, GROUP_FAULTS),
        (POLICY, POLICY_FAULTS),
    )
    for make, message in faults
]


@pytest.mark.parametrize(("type_name", "make", "message"), FAULTS)
def test_a_wrong_resource_is_refused(
    type_name: str, make: Callable[[Site], Mutation], message: str, site: Site
) -> None:
    properties = site.good(type_name)
    if type_name == LISTENER:
        properties["Port"] = 8443
    assert site.messages(type_name, properties) == ""
    make(site)(properties)
    assert message in site.messages(type_name, properties)


def test_a_policy_on_requests_needs_the_way_from_the_load_balancer(site: Site) -> None:
    policy = site.good(POLICY)
    provisioning.delete(site.world, LISTENER, site.listener)
    assert "does not route traffic to the target group" in site.messages(POLICY, policy)


def test_a_policy_on_requests_needs_the_target_group_on_the_fleet(site: Site) -> None:
    other = site.make(GROUP, {**site.good(GROUP), "TargetGroupARNs": []})
    policy = {**site.good(POLICY), "AutoScalingGroupName": other}
    assert f"is not attached to the group {other}" in site.messages(POLICY, policy)


def test_rules_of_a_listener_have_a_priority_each(site: Site) -> None:
    rule: Json = {
        "ListenerArn": site.listener,
        "Priority": 1,
        "Conditions": [{"Field": "path-pattern", "PathPatternConfig": {"Values": ["/v1/*"]}}],
        "Actions": [{"Type": "forward", "TargetGroupArn": site.targets}],
    }
    made = site.make(RULE, rule)
    assert ":listener-rule/app/" in made
    assert "priority 1 is currently in use" in site.messages(RULE, rule)
    assert "the listener 'arn:gone' does not exist" in site.messages(RULE, {**rule, "ListenerArn": "arn:gone"})


def test_what_is_in_use_stays(site: Site) -> None:
    (fault,) = deletion_faults(TARGETS, site.targets, site.world)
    assert "is currently in use by a listener or a rule" in str(fault)
    (fault,) = deletion_faults("AWS::CertificateManager::Certificate", CERTIFICATE, site.world)
    assert f"is in use by {site.listener}" in str(fault)
    (fault,) = deletion_faults("AWS::EC2::Subnet", site.first, site.world)
    assert "has dependencies and cannot be deleted" in str(fault)
    assert site.balancer in str(fault)
    (fault,) = deletion_faults("AWS::EC2::SecurityGroup", "sg-0123456789abcdef0", site.world)
    assert site.balancer in str(fault)
    provisioning.delete(site.world, LISTENER, site.listener)
    assert deletion_faults(TARGETS, site.targets, site.world) == []


def test_deletion_protection_holds_until_it_is_taken_off(site: Site) -> None:
    given = site.good(BALANCER)
    given["LoadBalancerAttributes"].append({"Key": "deletion_protection.enabled", "Value": "true"})
    balancer = site.make(BALANCER, given)
    (fault,) = deletion_faults(BALANCER, balancer, site.world)
    assert "cannot be deleted because deletion protection is enabled" in str(fault)
    resource = site.world.find(BALANCER, balancer)
    assert resource is not None
    provisioning.update(site.world, resource, site.good(BALANCER))
    assert deletion_faults(BALANCER, balancer, site.world) != [], "what a template drops keeps its value"
    given["LoadBalancerAttributes"][-1]["Value"] = "false"
    provisioning.update(site.world, resource, given)
    assert deletion_faults(BALANCER, balancer, site.world) == []


BUCKET = "AWS::S3::Bucket"
WRITES = {
    "Effect": "Allow",
    "Action": "s3:PutObject",
    "Principal": {"Service": "logdelivery.elasticloadbalancing.amazonaws.com"},
    "Resource": "*",
}
READS = {**WRITES, "Action": "s3:GetObject"}
KMS = {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}]}


@pytest.mark.parametrize(
    ("bucket", "statement", "message"),
    [
        ({}, WRITES, ""),
        ({}, READS, "its policy does not let Elastic Load Balancing write"),
        ({"BucketEncryption": KMS}, WRITES, "is encrypted with KMS; logs take S3's own keys only"),
    ],
)
def test_the_bucket_of_the_logs_lets_them_in(site: Site, bucket: Json, statement: Json, message: str) -> None:
    name = site.make(BUCKET, {"BucketName": "chat-logs", **bucket})
    document = {"Version": "2012-10-17", "Statement": [statement]}
    site.make("AWS::S3::BucketPolicy", {"Bucket": name, "PolicyDocument": document})
    given = site.good(BALANCER)
    given["LoadBalancerAttributes"][2]["Value"] = name
    found = site.messages(BALANCER, given)
    assert message in found
    assert bool(message) == bool(found)


def test_rolling_updates_leave_room(site: Site) -> None:
    rolling: Json = {"AutoScalingRollingUpdate": {"MinInstancesInService": 4}}
    (fault,) = creation_faults(GROUP, site.good(GROUP), site.world, update_policy=rolling)
    assert "MinInstancesInService must be less than the group's MaxSize, got 4 and 4" in str(fault)
    rolling = {"AutoScalingRollingUpdate": {"MinInstancesInService": "3"}}
    assert creation_faults(GROUP, site.good(GROUP), site.world, update_policy=rolling) == []


@pytest.mark.parametrize(
    ("shape", "key", "default", "bounds"),
    [
        ("LoadBalancerAttribute", "idle_timeout.timeout_seconds", "60", (1, 4_000)),
        ("LoadBalancerAttribute", "client_keep_alive.seconds", "3600", (60, 604_800)),
        ("TargetGroupAttribute", "deregistration_delay.timeout_seconds", "300", (0, 3_600)),
        ("TargetGroupAttribute", "slow_start.duration_seconds", "0", (30, 900)),
        ("TargetGroupAttribute", "stickiness.lb_cookie.duration_seconds", "86400", (1, 604_800)),
    ],
)
def test_the_api_models_texts_are_read_rightly(shape: str, key: str, default: str, bounds: tuple[int, int]) -> None:
    found = documented_attributes("elbv2", shape)[key]
    assert (found.default, found.bounds) == (default, bounds)
    assert found.message(default) == ""


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        ("use1-az4", "us-east-1d"),
        ("us-east-1b", "us-east-1b"),
        ("use1-dfw2-az1", "us-east-1-dfw-2a"),
        ("", ""),
    ],
)
def test_a_zone_has_one_name_however_it_is_written(zone: str, name: str) -> None:
    assert zone_name(zone) == name


def test_zones_by_id_and_by_name_are_one(site: Site) -> None:
    by_id = {"VpcId": site.vpc, "CidrBlock": "10.0.8.0/24", "AvailabilityZoneId": "use1-az1"}
    same, other = (
        site.make("AWS::EC2::Subnet", by_id),
        {**by_id, "CidrBlock": "10.0.9.0/24", "AvailabilityZoneId": "use1-az3"},
    )
    given = site.good(BALANCER)
    assert "2 are in us-east-1a" in site.messages(BALANCER, {**given, "Subnets": [site.first, same]})
    apart = [site.first, site.make("AWS::EC2::Subnet", other)]
    assert site.messages(BALANCER, {**given, "Subnets": apart}) == ""
