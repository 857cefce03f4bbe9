"""What `status` reads and shows of an account of canned answers: widths, and answers that are missing or odd."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest

from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.preflight import Account
from cdk_gpu_clusters_stacks.spec import load_cluster
from cdk_gpu_clusters_stacks.stack_names import fleet_path
from cdk_gpu_clusters_stacks.status import NodeState, Status, policy_for_status, read_status, status_text
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, ON_EKS, ON_PCS, spec_of

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "p5-capacity-block.yaml"
NOW = datetime(2026, 12, 15, 8, 30, tzinfo=UTC)
STACK = "llama-train-fleet-trainers"
ABSENT = Refusal("ValidationError", "Stack with id x does not exist")
DENIED = Refusal("AccessDeniedException", "User: me is not authorized to perform: x:Y")
THROTTLED = Refusal("Throttling", "Rate exceeded")
BLOCK = {
    "CapacityReservationId": "cr-0123456789abcdef0",
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": "us-east-1a",
    "TotalInstanceCount": 16,
    "AvailableInstanceCount": 14,
    "State": "active",
    "StartDate": datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
    "EndDate": datetime(2026, 12, 15, 11, 30, tzinfo=UTC),
    "ReservationType": "capacity-block",
}


def resource(kind: str, logical_id: str, name: str) -> dict[str, Any]:
    return {
        "LogicalResourceId": logical_id,
        "PhysicalResourceId": name,
        "ResourceType": kind,
        "ResourceStatus": "CREATE_COMPLETE",
        "LastUpdatedTimestamp": NOW,
    }


def node(name: str, state: str = "InService", health: str = "Healthy") -> dict[str, Any]:
    return {
        "InstanceId": name,
        "AvailabilityZone": "us-east-1a",
        "LifecycleState": state,
        "HealthStatus": health,
        "ProtectedFromScaleIn": False,
    }


def group(*nodes: dict[str, Any], desired: int = 2) -> dict[str, Any]:
    one = {
        "AutoScalingGroupName": "nodes",
        "MinSize": 0,
        "MaxSize": 16,
        "DesiredCapacity": desired,
        "DefaultCooldown": 300,
        "AvailabilityZones": ["us-east-1a"],
        "HealthCheckType": "EC2",
        "CreatedTime": NOW,
        "Instances": list(nodes),
    }
    return {"AutoScalingGroups": [one]}


def alarm(state: str) -> dict[str, Any]:
    dimensions = [{"Name": "Fleet", "Value": "llama-train-fleet-trainers/Fleet"}]
    one = {"AlarmName": "a-xid", "StateValue": state, "Namespace": "GpuCluster", "Dimensions": dimensions}
    return {"MetricAlarms": [{**one, "StateReason": "one Xid", "StateUpdatedTimestamp": NOW}]}


def metrics(*values: tuple[int, float]) -> dict[str, Any]:
    return {"MetricDataResults": [{"Id": f"n{index}", "Values": [value]} for index, value in values]}


ROWS = [
    resource("AWS::AutoScaling::AutoScalingGroup", "Fleet", "nodes"),
    resource("AWS::CloudWatch::Alarm", "FleetAlarmsXid", "a-xid"),
    resource("AWS::Logs::LogGroup", "FleetLogs", "logs"),
    resource("AWS::Logs::LogGroup", "StateMachines", "/aws/vendedlogs/states/x"),
]


def aws(**answers: Any) -> FakeAws:
    """An account with the stack of the fleet, in which two nodes are well."""
    return FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT},
            "cloudformation.list_stack_resources": lambda asked: (
                {"StackResourceSummaries": ROWS} if asked["StackName"] == STACK else ABSENT
            ),
            "autoscaling.describe_auto_scaling_groups": group(node("i-1"), node("i-2")),
            "cloudwatch.describe_alarms": alarm("OK"),
            "cloudwatch.get_metric_data": metrics((0, 0.0), (1, 0.0)),
            "logs.filter_log_events": {"events": []},
            "ec2.describe_instances": {"Reservations": []},
            "ec2.describe_capacity_reservations": {"CapacityReservations": [BLOCK]},
        }
    ).but(**answers)


def read(fake: FakeAws) -> Status:
    with Account(fake.clients, region="us-east-1") as account:
        return read_status(load_cluster(EXAMPLE), account, now=NOW)


def shown(status: Status, width: int = 110) -> str:
    return " ".join(status_text(status, width=width).split())


def states(status: Status) -> dict[str, NodeState]:
    return {one.instance_id: one.state for fleet in status.fleets for one in fleet.nodes or ()}


def test_a_cluster_that_is_well() -> None:
    status = read(aws())
    assert (status.is_well, status.unread) == (True, [])
    assert states(status) == {"i-1": NodeState.IN_SERVICE, "i-2": NodeState.IN_SERVICE}
    assert "2 wanted: 2 in service" in shown(status)
    assert "raised none of 1" in shown(status)
    assert "llama-train-network" in status.absent


@pytest.mark.parametrize(
    ("lifecycle", "health", "severity", "state"),
    [
        ("Pending", "Healthy", None, NodeState.BOOTING),
        ("Pending:Wait", "Healthy", None, NodeState.BOOTING),
        ("InService", "Healthy", None, NodeState.IN_SERVICE),
        ("InService", "Healthy", 2, NodeState.IN_SERVICE),
        ("InService", "Healthy", 3, NodeState.FAILING),
        ("InService", "Unhealthy", 0, NodeState.FAILING),
        ("Terminating:Wait", "Unhealthy", 5, NodeState.LEAVING),
        ("EnteringStandby", "Healthy", 0, NodeState.STANDBY),
        ("Standby", "Healthy", None, NodeState.STANDBY),
    ],
)
def test_states_of_nodes(lifecycle: str, health: str, severity: float | None, state: NodeState) -> None:
    fake = aws(
        autoscaling__describe_auto_scaling_groups=group(node("i-1", lifecycle, health)),
        cloudwatch__get_metric_data=metrics(*([] if severity is None else [(0, severity)])),
    )
    status = read(fake)
    assert states(status) == {"i-1": state}
    here = state not in (NodeState.LEAVING, NodeState.STANDBY)
    assert status.fleets[0].missing == (1 if here else 2)
    assert not status.is_well  # a node is missing


def test_a_boot_that_failed_is_a_problem_after_its_node_has_gone() -> None:
    record = {"state": "failed", "stage": "node", "reason": "no EFA", "instance_id": "i-9"}
    events = {"events": [{"message": json.dumps(record), "timestamp": 1, "eventId": "1", "logStreamName": "i-9"}]}
    fake = aws(logs__filter_log_events=events)
    status = read(fake)
    assert status.fleets[0].problems == ["1 boot failed in the last hour: no EFA"]
    assert not status.is_well
    assert [one.parameters["logGroupName"] for one in fake.asked if one.name == "logs.filter_log_events"] == ["logs"]


def test_an_alarm_and_the_end_of_a_block_that_moved() -> None:
    moved = {**BLOCK, "EndDate": datetime(2026, 12, 15, 8, 0, tzinfo=UTC)}
    fake = aws(
        cloudwatch__describe_alarms=alarm("ALARM"),
        ec2__describe_capacity_reservations={"CapacityReservations": [moved]},
    )
    text = shown(read(fake), width=200)
    assert "1 alarm raised" in text
    assert "FleetAlarmsXid since 2026-12-15T08:30Z: one Xid" in text
    assert "ended 30 min ago (2026-12-15T08:00Z), the cluster file has 2026-12-15T11:30Z as its end" in text
    assert "2 of 16 used" in text


CALLS = {
    "autoscaling.describe_auto_scaling_groups": ("autoscaling:DescribeAutoScalingGroups", "unknown wanted"),
    "cloudwatch.describe_alarms": ("cloudwatch:DescribeAlarms", "raised unknown"),
    "cloudwatch.get_metric_data": ("cloudwatch:GetMetricData", "2 wanted: 2 in service"),
    "logs.filter_log_events": ("logs:FilterLogEvents", "2 wanted: 2 in service"),
    "ec2.describe_instances": ("ec2:DescribeInstances", "a day unknown"),
    "ec2.describe_capacity_reservations": ("ec2:DescribeCapacityReservations", "ends in 3 h 0 min"),
    "cloudformation.list_stack_resources": ("cloudformation:ListStackResources", "could be read"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_denied_call_is_named_and_the_rest_is_shown(call: str) -> None:
    action, rest = CALLS[call]
    denied = Refusal("AccessDenied", f"User: me is not authorized to perform: {action}")
    text = shown(read(aws(**{call.replace(".", "__"): denied})), width=200)
    assert f"{action} is not allowed" in text
    assert "cannot tell:" in text
    assert rest in text


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("answer", [THROTTLED, {}], ids=["throttled", "empty"])
def test_a_throttled_or_empty_answer_leaves_the_rest(call: str, answer: Any) -> None:
    status = read(aws(**{call.replace(".", "__"): answer}))
    assert shown(status)
    if answer is THROTTLED:
        assert "was throttled to the last retry" in shown(status)


def test_answers_that_lack_members_are_named() -> None:
    fake = aws(
        autoscaling__describe_auto_scaling_groups={"AutoScalingGroups": [{"AutoScalingGroupName": "nodes"}]},
        cloudwatch__describe_alarms={"MetricAlarms": [{"AlarmName": "of another"}]},
        cloudwatch__get_metric_data={"MetricDataResults": [{"Id": "n0", "Values": [9.0]}]},
    )
    status = read(fake)
    assert {one.call for one in status.unread} >= {"autoscaling:DescribeAutoScalingGroups", "cloudwatch:DescribeAlarms"}
    assert "AWS answered in a form that is unknown here" in shown(status)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_lines_are_no_wider_than_the_terminal_unless_a_name_is(width: int) -> None:
    fake = aws(
        autoscaling__describe_auto_scaling_groups=group(
            *(node(f"i-{number:017x}", "Pending") for number in range(12)), desired=16
        ),
        cloudwatch__describe_alarms=alarm("ALARM"),
        ec2__describe_instances=DENIED,
    )
    for line in status_text(read(fake), width=width).splitlines():
        assert len(line) <= width or " " not in line.strip(" "), line


def test_each_group_of_a_stack_has_a_name_of_its_own() -> None:
    rows = [*ROWS, resource("AWS::AutoScaling::AutoScalingGroup", "Second", "more-nodes")]
    status = read(
        aws(
            cloudformation__list_stack_resources=lambda asked: (
                {"StackResourceSummaries": rows} if asked["StackName"] == STACK else ABSENT
            )
        )
    )
    assert [one.name for one in status.fleets] == ["training.fleets.trainers", "training.fleets.trainers, Second"]
    assert shown(status, width=200).count("capacity-block cr-") == 1


def test_many_nodes_are_counted() -> None:
    names = [node(f"i-{number}", "Pending") for number in range(12)]
    assert "and 4 more" in shown(read(aws(autoscaling__describe_auto_scaling_groups=group(*names, desired=12))))


# The command.


def run(monkeypatch: pytest.MonkeyPatch, fake: FakeAws, *more: str) -> int:
    monkeypatch.setattr(preflight, "boto3_clients", lambda *_, **__: fake.clients)
    return main(["status", str(EXAMPLE), *more])


def test_exit_statuses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, aws()) == 0
    assert run(monkeypatch, aws(cloudwatch__describe_alarms=alarm("ALARM"))) == 1
    assert "\x1b" not in capsys.readouterr().out
    assert run(monkeypatch, aws(cloudformation__list_stack_resources=ABSENT)) == 2
    printed = capsys.readouterr()
    assert "no fleet of llama-train in us-east-1 is deployed; deploy it: cdk deploy --all" in printed.err
    assert run(monkeypatch, aws(cloudformation__list_stack_resources=DENIED)) == 2
    printed = capsys.readouterr()
    assert "no fleet of llama-train in us-east-1 could be read" in printed.err
    assert "x:Y is not allowed" in printed.out


def test_json_and_a_pipe_that_is_watched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, aws(), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["fleets"][0]["nodes"][0]["state"] == "in service"
    assert printed["fleets"][0]["nodes"][0]["severity"] == 0
    assert printed["capacity"][0]["seconds_to_end"] is not None
    assert run(monkeypatch, aws(), "--watch", "5") == 0  # once: this is no terminal
    assert capsys.readouterr().out.count("llama-train in us-east-1") == 1


def test_a_page_is_written_over_nothing_of_a_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "status.html"
    assert run(monkeypatch, aws(), "--html", str(page)) == 0
    assert run(monkeypatch, aws(), "--html", str(page)) == 0  # its own page, unchanged
    assert "<title>llama-train: GPU cluster status</title>" in page.read_text("utf-8")
    page.write_text("mine", encoding="utf-8")
    assert run(monkeypatch, aws(), "--html", str(page)) == 2
    assert page.read_text("utf-8") == "mine"
    assert "--force" in capsys.readouterr().err
    assert run(monkeypatch, aws(), "--html", str(page), "--force") == 0


@pytest.mark.parametrize("more", [["--json", "--watch", "9"], ["--html", "x", "--json"], ["--force"], ["--watch", "1"]])
def test_options_that_do_not_go_together(monkeypatch: pytest.MonkeyPatch, more: list[str]) -> None:
    assert run(monkeypatch, aws(), *more) == 2


@pytest.mark.parametrize(("file", "service"), [(ON_EKS, "eks"), (ON_PCS, "pcs")])
def test_the_policy_has_read_only_actions_that_exist(file: str, service: str) -> None:
    actions = policy_for_status(spec_of(file))["Statement"][0]["Action"]
    assert f"{service}:Describe" in " ".join(actions) or f"{service}:Get" in " ".join(actions)
    for action in actions:
        name, _, operation = action.partition(":")
        client: Any = boto3.client(name, region_name="us-east-1")
        assert operation in client.meta.service_model.operation_names
        assert operation.startswith(("Describe", "Get", "List", "Filter"))


def test_the_fleet_of_each_example_has_the_name_that_its_nodes_send() -> None:
    """Recorded templates: the dimension of alarms on nodes, and what `status` asks for without them."""
    folder = Path(__file__).resolve().parents[2] / "synth" / "__snapshots__" / "test_plan_of_templates"
    names = ("AutoScaling::AutoScalingGroup", "EKS::Nodegroup", "PCS::ComputeNodeGroup", "Batch::ComputeEnvironment")
    groups = {f"AWS::{name}" for name in names}
    kinds = set()
    for file in folder.glob("*.json"):
        for name, template in json.loads(file.read_text("utf-8")).items():
            resources = template["Resources"].values()
            paths = {
                dimension["Value"]
                for one in resources
                if one["Type"] == "AWS::CloudWatch::Alarm" and one["Properties"].get("Namespace") == "GpuCluster"
                for dimension in one["Properties"]["Dimensions"]
            }
            for kind in groups & {one["Type"] for one in resources} if paths else ():
                stack = name.removesuffix(".template.json")
                of = next(one for one in ("login", "inference", "fleet") if f"-{one}" in stack)
                assert paths == {fleet_path(stack, of, group_type=kind)}
                kinds.add((kind.rpartition(":")[2], of))
    assert kinds == {
        ("AutoScalingGroup", "fleet"),
        ("AutoScalingGroup", "inference"),
        ("ComputeEnvironment", "fleet"),
        ("ComputeNodeGroup", "fleet"),
        ("ComputeNodeGroup", "login"),
        ("Nodegroup", "fleet"),
        ("Nodegroup", "inference"),
    }
