"""Where nodes leave their evidence, and that they may put it there and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import ConfigError, GpuFleet, NodeWatch, WatchMode
from stack_fixtures import Resources, Site, of_type
from user_data import user_data

POLICY = "AWS::IAM::ManagedPolicy"


def fleet(site: Site, **options: Any) -> GpuFleet:
    return GpuFleet(site.stack, "Trainers", vpc=site.vpc, instance_type="g6.xlarge", node_count=1, **options)


def writes(resources: Resources) -> list[dict[str, Any]]:
    return [
        statement
        for policy in of_type(resources, POLICY).values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "s3:PutObject" in json.dumps(statement) or "kms:" in json.dumps(statement)
    ]


def test_without_a_bucket_the_evidence_stays_on_the_node(site: Site) -> None:
    fleet(site)
    resources = site.resources()
    assert writes(resources) == []
    assert "GPU_EVIDENCE_URI=''\n" in user_data(resources)


def test_nodes_write_below_the_prefix_of_their_fleet_and_nowhere_else(site: Site) -> None:
    bucket = s3.Bucket.from_bucket_name(site.stack, "Logs", "my-logs")
    fleet(site, evidence_bucket=bucket, evidence_prefix="/gpu/")
    resources = site.resources()
    (write,) = writes(resources)
    assert write["Action"] == "s3:PutObject"
    assert json.dumps(write["Resource"]).endswith(
        ':s3:::my-logs/gpu/Site/Trainers/${aws:Ec2InstanceSourcePrivateIPv4}/*"]]}'
    )
    assert "GPU_EVIDENCE_URI=s3://my-logs/gpu/Site/Trainers\n" in user_data(resources)


def test_a_bucket_with_a_key_lets_the_nodes_use_it(site: Site) -> None:
    key = kms.Key(site.stack, "Key")
    bucket = s3.Bucket(site.stack, "Logs", encryption_key=key)
    fleet(site, evidence_bucket=bucket)
    _, use = writes(site.resources())
    assert sorted(use["Action"]) == ["kms:Decrypt", "kms:GenerateDataKey"]
    (key_id,) = of_type(site.resources(), "AWS::KMS::Key")
    assert use["Resource"] == {"Fn::GetAtt": [key_id, "Arn"]}


def test_the_watchdog_is_told_what_it_may_do(site: Site) -> None:
    fleet(site, watch=NodeWatch(mode=WatchMode.DRY_RUN, actions_per_hour=5))
    told = user_data(site.resources())
    assert "GPU_ORCHESTRATOR=ec2\n" in told
    assert "GPU_WATCH=dry-run\n    GPU_WATCH_ACTIONS_PER_HOUR=5\n" in told


def test_a_watchdog_that_cannot_work_is_refused_at_synthesis(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-UD-008") as caught:
        fleet(site, watch=NodeWatch(interval_seconds=300))
    assert caught.value.findings[0].path == "Site/Trainers.watch.interval_seconds"


def test_nodes_may_leave_their_group_and_no_other(site: Site) -> None:
    fleet(site)
    statements = [
        statement
        for policy in of_type(site.resources(), POLICY).values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    (own,) = [one for one in statements if "autoscaling:SetInstanceHealth" in one["Action"]]
    (group,) = of_type(site.resources(), "AWS::AutoScaling::AutoScalingGroup")
    assert json.dumps(own["Resource"]).endswith(
        f'autoScalingGroupName/", {{"Ref": "AWS::StackName"}}, "-{group}-*"]]}}'
    )


def test_fleet_admits_health_checks_from_the_ranges_given_and_from_nowhere_else(site: Site) -> None:
    fleet(site, watch=NodeWatch(health_from=("10.0.1.0/24",), health_port=9001))
    (group,) = of_type(site.resources(), "AWS::EC2::SecurityGroup").values()
    (rule,) = group["Properties"]["SecurityGroupIngress"]
    assert {name: rule[name] for name in ("CidrIp", "FromPort", "ToPort", "IpProtocol")} == {
        "CidrIp": "10.0.1.0/24",
        "FromPort": 9001,
        "ToPort": 9001,
        "IpProtocol": "tcp",
    }


def test_fleet_without_ranges_has_no_way_in(site: Site) -> None:
    fleet(site, watch=NodeWatch())
    (group,) = of_type(site.resources(), "AWS::EC2::SecurityGroup").values()
    assert "SecurityGroupIngress" not in group["Properties"]
