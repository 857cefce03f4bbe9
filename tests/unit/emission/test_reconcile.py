"""The definition of the reconcile, as other programs than the emulator read and run it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

from cdk_gpu_clusters.compute.reconcile import BlockGroup, Reconcile, auto_scaling_calls, reconcile_alarms
from cdk_gpu_clusters.orchestration.eks.reconcile import node_group_calls
from cdk_gpu_clusters.rules.capacity import CapacityWindow
from gpu_clusters_emulator.clock import format_time
from gpu_clusters_emulator.jsonata_states import Failed, run_state

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)
NODES = 4


def window(start: float | None, drain: float | None, nodes: int = NODES, block: str | None = None) -> CapacityWindow:
    """A window in hours from now."""
    return CapacityWindow(
        starts_at=None if start is None else NOW + start * HOUR,
        drain_at=None if drain is None else NOW + drain * HOUR,
        node_count=nodes,
        reservation_id=block,
    )


def reconcile(*windows: CapacityWindow, **changes: Any) -> Reconcile:
    given: dict[str, Any] = {
        "calls": auto_scaling_calls("aws", "arn:aws:autoscaling:*", ends_instances=len(windows) > 1),
        "group": "trainers",
        "group_id": "Group",
        "windows": windows,
        "keeps_size": True,
        "is_paid": True,
        "fewest": 0,
        "block_group": None,
        "reservation_ids": ["cr-0123456789abcdef0"],
        "launch_alarm": "LaunchLoop",
        "partition": "aws",
        "account": "123456789012",
        "region": "us-east-1",
    }
    return Reconcile(**{**given, **changes})


HANDOVER = reconcile(window(-1, -0.01, 2, "cr-1"), window(-1, 2, 2, "cr-2"), launch_alarm=None)
GROUPED = BlockGroup(arn="Blocks", reservations="arn:aws:ec2:us-east-1:123456789012:capacity-reservation")
SEVERAL = reconcile(
    window(-1, 1, 2, "cr-1"), window(-1, 2, 2, "cr-2"), window(2, 3, 4, "cr-3"), launch_alarm=None, block_group=GROUPED
)
SHAPES = [
    reconcile(window(-1, 1)),
    reconcile(window(None, None), launch_alarm=None),
    reconcile(window(-1, 1, 2, "cr-1"), window(0, 2, 2, "cr-2")),
    HANDOVER,
    SEVERAL,
    reconcile(window(None, 1), keeps_size=False, is_paid=False, fewest=1),
    reconcile(window(-1, 1), calls=node_group_calls("aws", "arn:aws:eks:*"), launch_alarm=None),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_another_parser_reads_the_definition(shape: Reconcile) -> None:
    AmazonStateLanguageParser.parse(json.dumps(shape.definition()))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_state_is_reached_and_exists(shape: Reconcile) -> None:
    states = shape.definition()["States"]
    named = {"Look"}
    for state in states.values():
        rules = [*state.get("Choices", []), *state.get("Catch", []), state]
        named |= {rule[key] for rule in rules for key in ("Next", "Default") if key in rule}
    assert named == set(states)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_ends_before_the_next_one_starts(shape: Reconcile) -> None:
    """Even if every call fails until its last attempt, and every wait is the longest one."""
    definition = shape.definition()
    waits = max(
        sum(
            min(retry["IntervalSeconds"] * retry["BackoffRate"] ** attempt, retry["MaxDelaySeconds"])
            for attempt in range(retry["MaxAttempts"])
        )
        for state in definition["States"].values()
        for retry in state.get("Retry", [])
    )
    calls_in_a_row = 4  # look, alarm, resume, size
    assert calls_in_a_row * waits < definition["TimeoutSeconds"] < 300


def test_the_largest_handover_fits_into_a_run_too() -> None:
    """64 nodes, the most of a block, of which each call fails once and answers after three seconds."""
    definition = HANDOVER.definition()
    each = definition["States"]["EndEach"]
    tasks = [state for state in each["ItemProcessor"]["States"].values() if state["Type"] == "Task"]
    of_one = sum(2 * 3 + one["Retry"][0]["IntervalSeconds"] for one in tasks)
    assert all(one["Retry"][0]["MaxAttempts"] == 1 for one in tasks)
    assert -(-64 // each["MaxConcurrency"]) * of_one + 35 < definition["TimeoutSeconds"]


def group(desired: int, tags: Mapping[str, str] | None = None, *, least: int = 0) -> Any:
    """A group of moto's EC2 Auto Scaling; returns its client."""
    ec2, scaling = boto3.client("ec2"), boto3.client("autoscaling")
    image = "ami-12c6146b"
    ec2.create_launch_template(
        LaunchTemplateName="nodes", LaunchTemplateData={"ImageId": image, "InstanceType": "p5.48xlarge"}
    )
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="trainers",
        MinSize=least,
        MaxSize=NODES,
        DesiredCapacity=desired,
        AvailabilityZones=["us-east-1a"],
        LaunchTemplate={"LaunchTemplateName": "nodes"},
        Tags=[
            {
                "Key": key,
                "Value": value,
                "PropagateAtLaunch": False,
                "ResourceId": "trainers",
                "ResourceType": "auto-scaling-group",
            }
            for key, value in (tags or {}).items()
        ],
    )
    return scaling


def run(shape: Reconcile) -> None:
    """Run the definition by moto's own interpreter."""
    states = boto3.client("stepfunctions")
    text = json.dumps(shape.definition())
    machine = states.create_state_machine(
        name="reconcile", definition=text, roleArn="arn:aws:iam::123456789012:role/r"
    )["stateMachineArn"]
    started = states.start_execution(stateMachineArn=machine, input='{"group": "trainers"}')["executionArn"]
    for _ in range(100):
        found = states.describe_execution(executionArn=started)
        if found["status"] != "RUNNING":
            break
        time.sleep(0.05)
    assert found["status"] == "SUCCEEDED", found


def sizes(scaling: Any) -> tuple[int, int, int]:
    (found,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    return found["MinSize"], found["DesiredCapacity"], found["MaxSize"]


def desired(scaling: Any) -> int:
    return sizes(scaling)[1]


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("windows", "before", "tags", "after"),
    [
        ([window(-1, 1)], 0, {}, NODES),
        ([window(-1, 1)], NODES, {}, NODES),
        ([window(-1, 1)], 2, {}, NODES),
        ([window(-1, 1)], 2, {"gpu-clusters:size": "manual"}, 2),
        ([window(-2, -1)], 2, {"gpu-clusters:size": "manual"}, 0),
        ([window(1, 2)], 2, {}, 0),
        ([window(None, None)], 1, {}, NODES),
        ([window(-2, -1, 4, "cr-1"), window(-1, 1, 3, "cr-2")], 4, {}, 3),
        ([window(-2, 1, 2, "cr-1"), window(-1, 1, 2, "cr-2")], 2, {}, 4),
    ],
)
def test_another_interpreter_runs_it(
    windows: list[CapacityWindow], before: int, tags: dict[str, str], after: int
) -> None:
    scaling = group(before, tags)
    run(reconcile(*windows, launch_alarm=None))
    assert desired(scaling) == after


@pytest.mark.usefixtures("account")
def test_a_group_whose_least_size_was_raised_drains_too() -> None:
    """`SetDesiredCapacity` refuses a size below `MinSize` (EC2 Auto Scaling API reference)."""
    scaling = group(2, least=2)
    run(reconcile(window(-2, -1), launch_alarm=None))
    assert sizes(scaling) == (0, 0, NODES)


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("windows", "before", "after"),
    [
        ([window(None, 1)], (0, 0), (2, 2, NODES)),
        ([window(None, 1)], (0, 3), (2, 3, NODES)),
        ([window(None, 1)], (2, 3), (2, 3, NODES)),
        ([window(None, -1)], (2, 3), (0, 0, NODES)),
        ([window(None, -1)], (0, 0), (0, 0, NODES)),
    ],
)
def test_a_group_that_scales_has_its_least_size_until_the_end(
    windows: list[CapacityWindow], before: tuple[int, int], after: tuple[int, int, int]
) -> None:
    scaling = group(before[1], least=before[0])
    run(reconcile(*windows, keeps_size=False, is_paid=False, fewest=2, launch_alarm=None))
    assert sizes(scaling) == after


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("keeps_size", [True, False])
def test_a_group_that_cloudformation_deletes_is_left_alone(keeps_size: bool) -> None:
    """Its handler sets all sizes to 0 first (registry schema of AWS::AutoScaling::AutoScalingGroup), and runs go on."""
    scaling = group(0)
    scaling.update_auto_scaling_group(AutoScalingGroupName="trainers", MinSize=0, MaxSize=0, DesiredCapacity=0)
    run(reconcile(window(-1, 1), keeps_size=keeps_size, fewest=1, launch_alarm=None))
    assert sizes(scaling) == (0, 0, 0)


@pytest.mark.parametrize(
    ("state", "wanted"), [("Standby", 3), ("EnteringStandby", 3), ("Pending", 4), ("Terminating:Wait", 4)]
)
def test_a_node_in_standby_keeps_its_slot(state: str, wanted: int) -> None:
    """EnterStandby takes it out of the desired capacity; a run that raised it again would launch one too many."""
    instances = [{"InstanceId": f"i-{number}", "LifecycleState": "InService"} for number in range(3)]
    found = {
        "AutoScalingGroups": [
            {
                "DesiredCapacity": 3,
                "MinSize": 0,
                "MaxSize": NODES,
                "Instances": [*instances, {"InstanceId": "i-3", "LifecycleState": state}],
            }
        ]
    }
    assert fill(found) == (None if wanted == 3 else wanted)


def fill(found: dict[str, Any]) -> int | None:
    """The size that a run sets for what it sees, inside a window of four nodes; None for none."""
    definition = reconcile(window(-1, 1), launch_alarm=None).definition()
    sent = walk(definition, {"describeAutoScalingGroups": lambda _: found})
    sizes = [one["DesiredCapacity"] for one in sent if one["action"] == "setDesiredCapacity"]
    return sizes[0] if sizes else None


def walk(
    definition: dict[str, Any],
    answers: dict[str, Callable[[Any], Any]],
    sent: list[dict[str, Any]] | None = None,
    *,
    periodic: bool = True,
    group: str = "trainers",
) -> list[dict[str, Any]]:
    """The calls of a run, whose answers are given by action; no answer is longer than a state may return."""
    sent = [] if sent is None else sent

    def call(task: dict[str, Any], arguments: dict[str, Any]) -> Any:
        action = task["Resource"].rpartition(":")[2]
        sent.append({"action": action, **arguments})
        answer = answers[action](arguments) if action in answers else {}
        assert len(json.dumps(answer)) <= 262_144, f"{action}: States.DataLimitExceeded"
        return answer

    name, data, variables = definition["StartAt"], dict[str, Any](group=group, periodic=periodic), dict[str, Any]()
    context = {"State": {"EnteredTime": format_time(NOW)}}
    while name is not None:
        name, data = run_state(definition["States"][name], data, context, variables, call)
    return sent


NODES_OF_TWO_BLOCKS = {f"i-{number}": "cr-1" if number < 16 else "cr-2" for number in range(32)}
# An instance with 32 interfaces takes about 25 KB in the answer of DescribeInstances.
INTERFACES = ["x" * 780] * 32


def described_group(_: Any) -> Any:
    instances = [{"InstanceId": name, "LifecycleState": "InService"} for name in NODES_OF_TWO_BLOCKS]
    return {"AutoScalingGroups": [{"DesiredCapacity": 32, "MinSize": 0, "MaxSize": 32, "Instances": instances}]}


def described_instances(arguments: dict[str, Any]) -> Any:
    values = {one["Name"]: one["Values"] for one in arguments["Filters"]}
    found = [
        {"Instances": [{"InstanceId": name, "NetworkInterfaces": INTERFACES}]}
        for name, block in NODES_OF_TWO_BLOCKS.items()
        if name in values.get("instance-id", [name]) and block in values["capacity-reservation-id"]
    ]
    return {"Reservations": found}


def test_the_nodes_of_a_block_that_ends_are_ended_however_much_is_described() -> None:
    answers = {"describeAutoScalingGroups": described_group, "describeInstances": described_instances}
    sent = walk(HANDOVER.definition(), answers)
    ended = [one["InstanceId"] for one in sent if one["action"] == "terminateInstanceInAutoScalingGroup"]
    assert ended == [name for name, block in NODES_OF_TWO_BLOCKS.items() if block == "cr-1"]


class Refused(Exception):
    name = "AutoScaling.AutoScalingException"


@pytest.mark.parametrize(
    ("words", "fails"),
    [
        ("Instance Id not found - No managed instance found for instance ID: i-0 (Service: AutoScaling)", False),
        ("User: arn:aws:sts::123456789012:assumed-role/r is not authorized to perform: autoscaling:X", True),
    ],
)
def test_a_node_that_is_gone_is_no_fault_and_a_missing_permission_is(words: str, fails: bool) -> None:
    def refuse(_: Any) -> Any:
        raise Refused(words)

    answers = {
        "describeAutoScalingGroups": described_group,
        "describeInstances": described_instances,
        "terminateInstanceInAutoScalingGroup": refuse,
    }
    with pytest.raises(Failed) if fails else nullcontext():
        walk(HANDOVER.definition(), answers)


def test_only_a_periodic_run_ends_the_nodes_of_one_block() -> None:
    """Another one may run at the same time: both would lower the size for the same node."""
    answers = {"describeAutoScalingGroups": described_group, "describeInstances": described_instances}
    sent = walk(HANDOVER.definition(), answers, periodic=False)
    assert [one["action"] for one in sent] == ["describeAutoScalingGroups"]
    rules = [one["Properties"] for one in HANDOVER.resources().values() if one["Type"] == "AWS::Events::Rule"]
    periodic = [one for one in rules if "periodic" in one["Targets"][0].get("Input", "")]
    assert [one["ScheduleExpression"] for one in periodic] == ["rate(5 minutes)"]


@pytest.mark.parametrize("failed", [[], [{"ResourceArn": "${Reservations}/cr-2", "ErrorCode": "ValidationError"}]])
def test_blocks_join_the_group_when_they_run_and_before_it_grows(failed: list[Any]) -> None:
    found = {"AutoScalingGroups": [{"DesiredCapacity": 0, "MinSize": 0, "MaxSize": NODES}]}
    answers: dict[str, Callable[[Any], Any]] = {
        "describeAutoScalingGroups": lambda _: found,
        "groupResources": lambda _: {"Succeeded": [], "Failed": failed, "Pending": []},
    }
    sent: list[dict[str, Any]] = []
    with pytest.raises(Failed) if failed else nullcontext():
        walk(SEVERAL.definition(), answers, sent)
    assert [one["action"] for one in sent] == ["describeAutoScalingGroups", "groupResources", "setDesiredCapacity"]
    assert sent[1]["ResourceArns"] == ["${Reservations}/cr-1", "${Reservations}/cr-2"]


def test_a_group_without_blocks_that_run_is_never_asked_to_take_one() -> None:
    shape = reconcile(window(1, 2, 4, "cr-1"), window(2, 3, 4, "cr-2"), launch_alarm=None, block_group=GROUPED)
    found = {"AutoScalingGroups": [{"DesiredCapacity": 0, "MinSize": 0, "MaxSize": NODES}]}
    sent = walk(shape.definition(), {"describeAutoScalingGroups": lambda _: found})
    assert [one["action"] for one in sent] == ["describeAutoScalingGroups"]


def test_the_alarm_on_runs_waits_for_the_first_one() -> None:
    """The periodic rule names the group: an alarm that is made before it would be raised while nodes boot."""
    (needed,) = reconcile_alarms()["Alarms/NotReconciled"]["DependsOn"]
    target = reconcile(window(-1, 1)).resources()[needed]["Properties"]["Targets"][0]
    assert "trainers" in target["Input"]


@pytest.mark.parametrize(("states", "missing"), [(["InService"] * 4, 0), (["InService", "Pending"], 3), ([], 4)])
@pytest.mark.parametrize("tags", [{}, {"gpu-clusters:size": "manual"}])
def test_the_nodes_of_a_node_group_are_counted_whoever_sets_the_size(
    states: list[str], missing: int, tags: dict[str, str]
) -> None:
    shape = SHAPES[-1]
    behind = {"AutoScalingGroups": [{"Name": "eks-trainers"}]}
    found = {"Status": "ACTIVE", "ScalingConfig": {"DesiredSize": 4}, "Tags": tags, "Resources": behind, "Health": {}}
    nodes = [{"InstanceId": f"i-{number}", "LifecycleState": state} for number, state in enumerate(states)]
    answers: dict[str, Callable[[Any], Any]] = {
        "describeNodegroup": lambda _: {"Nodegroup": found},
        "describeAutoScalingGroups": lambda asked: {
            "AutoScalingGroups": [{"Instances": nodes}] * (asked["AutoScalingGroupNames"] == ["eks-trainers"])
        },
    }
    sent = walk(shape.definition(), answers, group="research/trainers")
    (told,) = [one for one in sent if one["action"] == "putMetricData"]
    assert [one["Value"] for one in told["MetricData"]] == [missing]


def test_a_node_group_that_eks_still_makes_is_not_counted() -> None:
    """Without names every group of the account would be described."""
    found = {"Status": "ACTIVE", "ScalingConfig": {"DesiredSize": 4}, "Resources": {}, "Health": {}}
    answers: dict[str, Callable[[Any], Any]] = {"describeNodegroup": lambda _: {"Nodegroup": found}}
    sent = walk(SHAPES[-1].definition(), answers, group="research/trainers")
    assert [one["action"] for one in sent] == ["describeNodegroup"]
