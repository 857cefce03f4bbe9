"""How an account is read for failures: which calls, side effects of missing answers, denials, and what is saved."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from moto import mock_aws

from cdk_gpu_clusters_stacks import failures
from cdk_gpu_clusters_stacks.failures import Reading, calls, failures_of, policy_to_explain, read_account, read_saved
from cdk_gpu_clusters_stacks.preflight import Account, Unusable, boto3_clients
from cdk_gpu_clusters_stacks.preflight.call import Call
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, CLIENTS_GROUP, FLEET_SUBNET, NEW, NOW, ON_EKS, ON_PCS, OWN_TAGS, spec_of

CALLS = {name: one for name, one in vars(calls).items() if isinstance(one, Call)}
ENCODED = "JUmMphVKvdVLB83WorEP2n5lOkl7LJT5E1K6lCJAxAjpvkJzdk--3vcnRXFh0Yj6Ez"
STACK = "arn:aws:cloudformation:us-east-1:111122223333:stack/llama/1"
FLEET_STACK = "llama-fleet-trainers"
NODE_GROUP = "arn:aws:pcs:us-east-1:111122223333:cluster/pcs_abc1234567/computenodegroup/pcs_def1234567"
DECODED = {
    "allowed": False,
    "explicitDeny": True,
    "context": {
        "principal": {"arn": "arn:aws:sts::111122223333:assumed-role/scaling/x"},
        "action": "ec2:RunInstances",
        "resource": "arn:aws:ec2:us-east-1:111122223333:instance/*",
    },
}


def activity(minutes: int, text: str, **changes: Any) -> dict[str, Any]:
    return {
        "ActivityId": str(minutes),
        "AutoScalingGroupName": "trainers-group",
        "Cause": "At some time an instance was started",
        "StartTime": NOW - timedelta(minutes=minutes),
        "StatusCode": "Failed",
        "StatusMessage": text,
        **changes,
    }


CAPACITY = (
    "We currently do not have sufficient p5.48xlarge capacity in the Availability Zone you requested (us-east-1a)."
)


def resources(asked: Any) -> dict[str, Any]:
    """What the stack of the fleet has; other stacks are empty."""
    rows = [
        ("AWS::AutoScaling::AutoScalingGroup", "trainers-group"),
        ("AWS::EC2::LaunchTemplate", "lt-0123456789abcdef0"),
        ("AWS::Logs::LogGroup", "trainers-logs"),
        ("AWS::FSx::FileSystem", "fs-0123456789abcdef0"),
        ("AWS::EKS::Nodegroup", "llama/trainers"),
        ("AWS::PCS::Cluster", "arn:aws:pcs:us-east-1:111122223333:cluster/pcs_abc1234567"),
        ("AWS::PCS::ComputeNodeGroup", NODE_GROUP),
        ("AWS::IAM::Role", ""),
    ]
    return {
        "StackResourceSummaries": [
            {
                "LogicalResourceId": f"Resource{number}",
                "PhysicalResourceId": name,
                "ResourceType": kind,
                "ResourceStatus": "CREATE_COMPLETE",
                "LastUpdatedTimestamp": NOW,
            }
            for number, (kind, name) in enumerate(rows)
            if asked["StackName"] == FLEET_STACK
        ]
    }


def stack_events(*events: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """The events of the stack of the fleet."""
    common = {"StackId": STACK, "EventId": "1", "StackName": FLEET_STACK, "Timestamp": NOW}
    return lambda asked: {"StackEvents": [common | one for one in events if asked["StackName"] == FLEET_STACK]}


def trail(*events: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    rows = [{"EventName": "RunInstances", "EventTime": NOW, "CloudTrailEvent": json.dumps(one)} for one in events]
    return lambda asked: {"Events": rows if asked["LookupAttributes"][0]["AttributeValue"] == "RunInstances" else []}


def quiet() -> FakeAws:
    """An account with every stack and no failure."""
    group = {
        "AutoScalingGroupName": "trainers-group",
        "MinSize": 0,
        "MaxSize": 2,
        "DesiredCapacity": 2,
        "DefaultCooldown": 300,
        "AvailabilityZones": ["us-east-1a"],
        "HealthCheckType": "EC2",
        "CreatedTime": NOW,
        "Instances": [
            {
                "InstanceId": "i-0123456789abcdef0",
                "AvailabilityZone": "us-east-1a",
                "LifecycleState": "InService",
                "HealthStatus": "Healthy",
                "ProtectedFromScaleIn": False,
            }
        ],
    }
    return FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me"},
            "sts.decode_authorization_message": {"DecodedMessage": json.dumps(DECODED)},
            "cloudformation.describe_stack_events": {"StackEvents": []},
            "cloudformation.list_stack_resources": resources,
            "autoscaling.describe_scaling_activities": {"Activities": []},
            "autoscaling.describe_auto_scaling_groups": {"AutoScalingGroups": [group]},
            "ec2.describe_fleets": {"Fleets": [{"FleetId": "fleet-other"}]},
            "ec2.describe_fleet_history": {"HistoryRecords": []},
            "cloudtrail.lookup_events": {"Events": []},
            "eks.describe_nodegroup": {
                "nodegroup": {"nodegroupName": "trainers", "resources": {"autoScalingGroups": [{"name": "eks-group"}]}}
            },
            "pcs.get_cluster": {"cluster": _pcs("llama")},
            "pcs.get_compute_node_group": {"computeNodeGroup": _pcs_group()},
            "fsx.describe_file_systems": {"FileSystems": []},
            "logs.filter_log_events": {"events": []},
        }
    )


def _pcs(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "id": "pcs_abc1234567",
        "arn": f"arn:aws:pcs:us-east-1:{ACCOUNT}:cluster/pcs_abc1234567",
        "status": "ACTIVE",
        "createdAt": NOW,
        "modifiedAt": NOW,
        "scheduler": {"type": "SLURM", "version": "26.05"},
        "size": "SMALL",
        "networking": {"subnetIds": [FLEET_SUBNET], "securityGroupIds": [CLIENTS_GROUP]},
        **changes,
    }


def _pcs_group(**changes: Any) -> dict[str, Any]:
    return {
        "name": "trainers",
        "id": "pcs_def1234567",
        "arn": NODE_GROUP,
        "clusterId": "pcs_abc1234567",
        "createdAt": NOW,
        "modifiedAt": NOW,
        "status": "CREATE_FAILED",
        "subnetIds": [FLEET_SUBNET],
        "customLaunchTemplate": {"id": "lt-0123456789abcdef0", "version": "1"},
        "iamInstanceProfileArn": f"arn:aws:iam::{ACCOUNT}:instance-profile/AWSPCS-x",
        "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 2},
        "instanceConfigs": [{"instanceType": "p5.48xlarge"}],
        **changes,
    }


def read(aws: FakeAws, spec: str = NEW) -> Reading:
    with Account(aws.clients, region="us-east-1") as account:
        return read_account(spec_of(spec), account, now=NOW, hours=24)


def known(reading: Reading) -> list[tuple[str, list[str]]]:
    return [(one.about, [meaning.known.id for meaning in one.meanings]) for one in failures_of(reading)]


def test_a_quiet_account_has_no_failure_and_leaves_nothing_unread() -> None:
    reading = read(quiet())
    assert (reading.account, reading.unread, reading.absent) == (ACCOUNT, [], [])
    assert failures_of(reading) == []


def test_the_nodes_of_each_group_are_counted() -> None:
    reading = read(quiet())
    lines = list(failures.format_failures(reading, [], rule_titles={}))
    assert "  training.fleets.trainers: 1 in service, 2 desired" in lines


def test_no_access_key_and_no_property_of_a_resource_is_kept() -> None:
    secret = {"ResourceStatus": "CREATE_FAILED", "ResourceProperties": "user data"}
    aws = quiet().but(
        cloudformation__describe_stack_events=stack_events(secret),
        cloudtrail__lookup_events=trail(
            {"errorCode": "x", "a": "llama", "userIdentity": {"accessKeyId": "AKIA"}, "requestParameters": "user data"}
        ),
    )
    kept = failures.saved_text(read(aws))
    assert len(failures_of(read_saved(kept))) == 2
    assert "AKIA" not in kept
    assert "user data" not in kept


def test_every_call_is_made_with_its_parameters() -> None:
    """botocore's own clients check each of them, and every answer of the fake account."""
    own = {"FleetId": "fleet-own", "Tags": OWN_TAGS}
    aws = quiet().but(
        ec2__describe_fleets={"Fleets": [own]},
        eks__describe_nodegroup={"nodegroup": {"health": {"issues": [{"code": "AccessDenied", "message": "no"}]}}},
        cloudtrail__lookup_events=trail({"errorCode": "x", "a": "lt-0123456789abcdef0", "errorMessage": _denial()}),
    )
    read(aws)
    made = {f"{one.service}.{one.operation}" for one in CALLS.values()}
    assert made <= aws.names()
    asked = {one.name: one.parameters for one in aws.asked}
    assert asked["ec2.describe_fleet_history"]["FleetId"] == "fleet-own"
    assert asked["pcs.get_compute_node_group"] == {
        "clusterIdentifier": "pcs_abc1234567",
        "computeNodeGroupIdentifier": "pcs_def1234567",
    }
    assert asked["eks.describe_nodegroup"] == {"clusterName": "llama", "nodegroupName": "trainers"}
    assert asked["logs.filter_log_events"]["startTime"] == int((NOW - timedelta(hours=24)).timestamp() * 1000)
    assert asked["sts.decode_authorization_message"] == {"EncodedMessage": ENCODED}


def _denial() -> str:
    return f"You are not authorized to perform this operation. Encoded authorization failure message: {ENCODED}"


def test_the_newest_failure_comes_first_and_repeated_ones_once() -> None:
    aws = quiet().but(
        autoscaling__describe_scaling_activities={
            "Activities": [
                activity(5, CAPACITY),
                activity(10, "Launch of i-0123456789abcdef0 failed: something new"),
                activity(20, CAPACITY),
                activity(30, "Launch of i-0123456789abcdef1 failed: something new"),
                activity(60 * 25, CAPACITY),  # before the 24 hours
            ]
        },
        fsx__describe_file_systems={"FileSystems": [{"FailureDetails": {"Message": "Internal failure"}}]},
    )
    found = [one for one in failures_of(read(aws)) if one.message.place is not failures.Place.FILE_SYSTEM]
    # The node group of EKS has the same activities: its group is another one, but the fake account has one answer.
    assert [(one.count, one.message.when) for one in found] == [
        (4, NOW - timedelta(minutes=5)),
        (4, NOW - timedelta(minutes=10)),
    ]
    assert found[0].first == NOW - timedelta(minutes=20)
    assert found[0].about == "training.fleets.trainers"
    assert found[1].meanings == ()
    assert found[1].message.text == "Launch of i-0123456789abcdef0 failed: something new"


def test_what_follows_from_a_failure_is_left_out_unless_it_is_all_there_is() -> None:
    follows = {"ResourceStatus": "ROLLBACK_IN_PROGRESS", "ResourceStatusReason": "Resource creation cancelled"}
    cause = {"ResourceStatus": "CREATE_FAILED", "ResourceStatusReason": "The maximum number of VPCs has been reached."}
    both = quiet().but(cloudformation__describe_stack_events=stack_events(follows, cause))
    assert known(read(both)) == [("training.fleets.trainers", ["quota-vpcs"])]
    alone = quiet().but(cloudformation__describe_stack_events=stack_events(follows))
    assert known(read(alone)) == [("training.fleets.trainers", ["stack-cancelled"])]


def test_node_groups_of_eks_and_pcs_say_what_is_wrong() -> None:
    issue = {"code": "InsufficientFreeAddresses", "message": "words"}
    info = [{"code": "x", "message": "User data is limited to 16384 bytes"}]
    aws = quiet().but(
        eks__describe_nodegroup={"nodegroup": {"nodegroupName": "trainers", "health": {"issues": [issue]}}},
        pcs__get_compute_node_group={"computeNodeGroup": _pcs_group(errorInfo=info)},
    )
    where = "training.fleets.trainers"
    assert sorted(known(read(aws, ON_EKS))) == [
        (where, ["eks-InsufficientFreeAddresses"]),
        (where, ["user-data-size"]),
    ]
    assert sorted(known(read(aws, ON_PCS))) == sorted(known(read(aws, ON_EKS)))


def test_only_launches_that_name_the_cluster_are_its_failures() -> None:
    aws = quiet().but(
        cloudtrail__lookup_events=trail(
            {"errorCode": "VcpuLimitExceeded", "errorMessage": "other", "group": "other-group"},
            {"errorCode": "x", "errorMessage": "Max spot instance count exceeded", "group": "trainers-group"},
            {"group": "trainers-group"},
        )
    )
    assert known(read(aws)) == [("", ["quota-spot"])]


def test_a_denial_is_decoded() -> None:
    aws = quiet().but(cloudtrail__lookup_events=trail({"errorCode": "x", "errorMessage": _denial(), "a": "llama"}))
    (found,) = failures_of(read(aws))
    assert found.decoded == (
        "a statement denies ec2:RunInstances on arn:aws:ec2:us-east-1:111122223333:instance/* to "
        "arn:aws:sts::111122223333:assumed-role/scaling/x"
    )


def test_a_denial_that_may_not_be_decoded_is_still_a_failure() -> None:
    aws = quiet().but(
        cloudtrail__lookup_events=trail({"errorCode": "x", "errorMessage": _denial(), "a": "llama"}),
        sts__decode_authorization_message=Refusal("AccessDenied", "no"),
    )
    reading = read(aws)
    assert [one.permission for one in reading.unread] == ["sts:DecodeAuthorizationMessage"]
    assert [one.decoded for one in failures_of(reading)] == [""]


@pytest.mark.parametrize("decoded", ["", "no JSON", "[]", "{}", '{"context": 1}', '{"context": {"principal": []}}'])
def test_an_odd_decoded_denial_is_no_fault(decoded: str) -> None:
    aws = quiet().but(
        cloudtrail__lookup_events=trail({"errorCode": "x", "errorMessage": _denial(), "a": "llama"}),
        sts__decode_authorization_message={"DecodedMessage": decoded},
    )
    assert len(failures_of(read(aws))) == 1


# Missing answers.


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("code", "words"), [("AccessDeniedException", "is not allowed"), ("ThrottlingException", "was throttled")]
)
def test_a_call_without_an_answer_is_said_and_the_others_go_on(name: str, code: str, words: str) -> None:
    one = CALLS[name]
    key = f"{one.service}.{one.operation}"
    aws = quiet().but(
        ec2__describe_fleets={"Fleets": [{"FleetId": "fleet-own", "Tags": OWN_TAGS}]},
        cloudtrail__lookup_events=trail({"errorCode": "x", "errorMessage": _denial(), "a": "llama"}),
    )
    reading = read(aws.but(**{key: Refusal(code, "no")}))
    assert {(missed.call, words in missed.cause, bool(missed.fix)) for missed in reading.unread} == {
        (one.name, True, True)
    }
    assert reading.account == ACCOUNT


def test_stacks_that_are_not_deployed_are_named_and_are_no_failure() -> None:
    gone = Refusal("ValidationError", "Stack with id x does not exist")
    aws = quiet().but(cloudformation__describe_stack_events=gone, cloudformation__list_stack_resources=gone)
    reading = read(aws)
    assert FLEET_STACK in reading.absent
    assert len(reading.absent) == len(set(reading.absent)) > 3
    assert (reading.unread, failures_of(reading)) == ([], [])


def test_credentials_that_cannot_be_used_end_the_reading() -> None:
    with pytest.raises(Unusable):
        read(quiet().but(sts__get_caller_identity=Refusal("ExpiredToken")))


def test_a_list_without_end_is_read_to_its_limit_and_that_is_said() -> None:
    most = calls.ACTIVITIES.most
    assert most is not None
    numbers = itertools.count()

    def page(_: Any) -> dict[str, Any]:
        return {"Activities": [activity(5, CAPACITY)] * 100, "NextToken": f"page {next(numbers)}"}

    reading = read(quiet().but(autoscaling__describe_scaling_activities=page))
    assert {(one.call, one.cause) for one in reading.unread} == {
        ("autoscaling:DescribeScalingActivities", f"only {most} items were read, and there are more")
    }


PAGED = [name for name, one in CALLS.items() if name not in ("DECODED", "EKS_NODE_GROUP", "PCS_NODE_GROUP")]


@pytest.mark.parametrize("name", PAGED)
def test_lists_are_read_to_their_last_page(name: str) -> None:
    one = CALLS[name]
    client = quiet().clients(one.service, "us-east-1")
    operation = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[one.operation])
    assert client.can_paginate(one.operation) or "NextToken" in operation.output_shape.members


# Permissions and files.


def test_the_policy_has_the_permissions_that_a_file_needs_and_only_reads() -> None:
    (statement,) = policy_to_explain(spec_of(NEW))["Statement"]
    base = set(statement["Action"])
    assert "cloudtrail:LookupEvents" in base
    assert not any(action.startswith(("eks:", "pcs:")) for action in base)
    (eks,) = policy_to_explain(spec_of(ON_EKS))["Statement"]
    (pcs,) = policy_to_explain(spec_of(ON_PCS))["Statement"]
    assert set(eks["Action"]) - base == {"eks:DescribeNodegroup"}
    assert set(pcs["Action"]) - base == {"pcs:GetCluster", "pcs:GetComputeNodeGroup"}
    verbs = ("Describe", "Get", "List", "Lookup", "Filter", "Decode")
    for action in (*base, *eks["Action"], *pcs["Action"]):
        assert action.partition(":")[2].startswith(verbs)


def test_what_is_saved_is_read_back() -> None:
    gone = Refusal("AccessDenied", "no")
    reading = read(
        quiet().but(
            autoscaling__describe_scaling_activities={"Activities": [activity(5, CAPACITY)]},
            cloudtrail__lookup_events=trail({"errorCode": "x", "errorMessage": _denial(), "a": "llama"}),
            logs__filter_log_events=gone,
        )
    )
    again = read_saved(failures.saved_text(reading))
    assert again == reading
    assert failures_of(again) == failures_of(reading)
    assert len(failures_of(again)) == 2


def test_moto_answers_an_account_without_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another emulator of AWS, which knows the calls: no stack is there, and none of its answers is odd."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/no/such/file")
    with mock_aws(), Account(boto3_clients(), region="us-east-1") as account:
        reading = read_account(spec_of(NEW), account, now=NOW, hours=24)
    assert FLEET_STACK in reading.absent
    assert failures_of(reading) == []
