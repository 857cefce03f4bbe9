"""Facts of nodes against the settings in their launch template: found once, and never guessed."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import facts as node_facts
from cdk_gpu_clusters.node.gpunode import nvidia_smi, spool
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node
from cdk_gpu_clusters.node.mig import MigSettings
from cdk_gpu_clusters.node.settings import NodeSettings, UserDataPart
from cdk_gpu_clusters.node.software import SoftwareObject
from cdk_gpu_clusters.node.storage import LustreEfa
from cdk_gpu_clusters.node.user_data import render_user_data
from cdk_gpu_clusters_stacks.doctor import Diagnosis, as_json, examine, format_diagnosis
from cdk_gpu_clusters_stacks.doctor.nodes import FACTS_OF_NODES, INSTANCE, WINDOW, NodePlan, facts_of, plan_of
from cdk_gpu_clusters_stacks.preflight import Account
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, NEW, NOW, spec_of

STACK, GROUP = "llama-fleet-trainers", "/gpu-cluster/trainers"
AT = datetime(2026, 11, 27, 12, tzinfo=UTC)
NODES = ("i-1", "i-2", "i-3")
HEALTHY: dict[str, Any] = {
    "efa_devices": 4,
    "accelerators": 8,
    "driver": "570.133.20",
    "mig_devices": {"3g.20gb": 8, "2g.10gb": 16},
    "lustre_over_efa": True,
    "huge_pages": 5128,
    "clock_synchronized": True,
    "software": "0" * 12,
}
ADDRESSES = {"i-1": "10.0.0.1", "i-2": "10.0.0.2", "i-3": "10.0.0.3"}
STREAMS = {node: f"{node}/{address}" for node, address in ADDRESSES.items()}
PLANNED = NodeSettings(
    fleet_name="it's trainers",
    log_group_name=GROUP,
    accelerator_kind="gpu",
    accelerator_count=8,
    efa_interface_count=4,
    huge_pages=5128,
    lustre_efa=LustreEfa(interface_count=2, driver_version="2.12.1"),
    mig=MigSettings(partition="3g.20gb,2g.10gb,2g.10gb", gpu_count=8, device_count=24),
)


def user_data(settings: NodeSettings = PLANNED) -> str:
    text = render_user_data(settings, SoftwareObject(bucket_name="b", object_key="k", sha256="0" * 64))
    return base64.b64encode(text.encode()).decode()


def with_changes(**changes: Any) -> NodeSettings:
    return replace(PLANNED, **changes)


def event(instance: str, facts: Any, *, minutes_ago: int = 5, **more: Any) -> dict[str, Any]:
    message = json.dumps({"stage": "facts", "state": "ok", "instance_id": instance, "facts": facts, **more})
    moment = AT - timedelta(minutes=minutes_ago)
    return {"logStreamName": STREAMS[instance], "timestamp": int(moment.timestamp() * 1000), "message": message}


def aws(
    events: Any,
    *,
    settings: NodeSettings = PLANNED,
    states: tuple[str, ...] = ("InService",) * 3,
    versions: tuple[str, ...] = ("1",) * 3,
) -> FakeAws:
    """An account with one stack, as planned, and nodes that report."""
    data = {"UserData": user_data(settings)}
    resources = {
        "Nodes": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": {"MaxSize": "3"}},
        "Launch": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}},
    }
    rows = [
        {
            "LogicalResourceId": name,
            "PhysicalResourceId": physical,
            "ResourceType": resources[name]["Type"],
            "ResourceStatus": "CREATE_COMPLETE",
            "LastUpdatedTimestamp": NOW,
        }
        for name, physical in (("Nodes", "nodes"), ("Launch", "lt-1"))
    ]
    stack = {"StackName": STACK, "CreationTime": NOW, "StackStatus": "CREATE_COMPLETE"}
    used = {"LaunchTemplateId": "lt-1", "Version": "1"}
    instances = [
        {
            "InstanceId": name,
            "AvailabilityZone": "us-east-1a",
            "LifecycleState": state,
            "HealthStatus": "Healthy",
            "ProtectedFromScaleIn": False,
            "LaunchTemplate": {**used, "Version": number},
        }
        for name, state, number in zip(NODES, states, versions, strict=True)
    ]
    running = [{"InstanceId": name, "PrivateIpAddress": address} for name, address in ADDRESSES.items()]
    group = {
        "AutoScalingGroupName": "nodes",
        "MinSize": 0,
        "MaxSize": 3,
        "DesiredCapacity": 3,
        "DefaultCooldown": 300,
        "AvailabilityZones": ["us-east-1a"],
        "HealthCheckType": "EC2",
        "CreatedTime": NOW,
        "LaunchTemplate": used,
        "Instances": instances,
    }
    version = {"LaunchTemplateId": "lt-1", "VersionNumber": 1, "LaunchTemplateData": data}

    def only_the_fleet(answer: Any) -> Any:
        absent = Refusal("ValidationError", "Stack with id x does not exist")
        return lambda asked: answer if asked["StackName"] == STACK else absent

    return FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me"},
            "cloudformation.describe_stacks": only_the_fleet({"Stacks": [stack]}),
            "cloudformation.get_template": only_the_fleet({"TemplateBody": json.dumps({"Resources": resources})}),
            "cloudformation.list_stack_resources": only_the_fleet({"StackResourceSummaries": rows}),
            "autoscaling.describe_auto_scaling_groups": {"AutoScalingGroups": [group]},
            "autoscaling.describe_lifecycle_hooks": {"LifecycleHooks": []},
            "ec2.describe_instances": {"Reservations": [{"Instances": [one]} for one in running]},
            "ec2.describe_launch_template_versions": {"LaunchTemplateVersions": [version]},
            "logs.filter_log_events": {"events": events} if isinstance(events, list) else events,
        }
    )


def found_in(fake: FakeAws) -> Diagnosis:
    with Account(fake.clients, region="us-east-1") as account:
        return examine(spec_of(NEW), account, rules=(), now=AT)


def reported(**changes: Any) -> list[dict[str, Any]]:
    """Healthy nodes, the second of them with other facts; None for one that it leaves out."""
    second = {name: value for name, value in {**HEALTHY, **changes}.items() if value is not None}
    return [event("i-1", HEALTHY), event("i-2", second), event("i-3", HEALTHY)]


def causes(found: Diagnosis) -> list[str]:
    return [one.cause for one in found.unread]


def test_nodes_as_planned_differ_in_nothing() -> None:
    fake = aws(reported())
    found = found_in(fake)
    assert (found.drifts, found.unread, found.unknown) == ([], [], [])
    assert (found.compared, found.nodes) == (2, 3)
    assert "2 resources and 3 nodes compared" in next(iter(format_diagnosis(found)))
    (asked,) = (one.parameters for one in fake.asked if one.name == "logs.filter_log_events")
    assert (asked["logGroupName"], asked["logStreamNamePrefix"]) == (GROUP, "i-")
    assert asked["endTime"] - asked["startTime"] == WINDOW.total_seconds() * 1000


CHANGES = [
    ("efa_devices", 3, "EfaDevices", 4),
    ("accelerators", 7, "Accelerators", 8),
    ("mig_devices", {}, "MigDevices", HEALTHY["mig_devices"]),
    ("mig_devices", {"3g.20gb": 8, "2g.10gb": 15}, "MigDevices", HEALTHY["mig_devices"]),
    ("lustre_over_efa", False, "LustreOverEfa", True),
    ("huge_pages", 0, "HugePages", 5128),
    ("clock_synchronized", False, "ClockSynchronized", True),
    ("driver", "535.1", "Driver", "570.133.20"),
    ("software", "f" * 12, "Software", "0" * 12),
]


@pytest.mark.parametrize(("name", "value", "shown", "planned"), CHANGES)
def test_each_fact_that_differs_is_found_once(name: str, value: Any, shown: str, planned: Any) -> None:
    found = found_in(aws(reported(**{name: value})))
    (drift,) = found.drifts
    assert (drift.type, drift.physical_id, drift.path) == ("AWS::EC2::Instance", "i-2", (shown,))
    assert (drift.live, drift.planned, drift.logical_id) == (value, planned, "Nodes")
    assert drift.breaks
    assert drift.fix
    assert found.unread == []
    assert not found.is_healthy
    (plain,) = as_json(found)["drifts"]
    assert (plain["live"], plain["exists"]) == (value, True)


def test_nodes_with_the_same_value_are_one_drift() -> None:
    events = [event(one, {**HEALTHY, "efa_devices": seen}) for one, seen in zip(NODES, (3, 3, 2), strict=True)]
    found = found_in(aws(events))
    assert [(one.physical_id, one.live) for one in found.drifts] == [("i-1, i-2", 3), ("i-3", 2)]


@pytest.mark.parametrize(("name", "value"), [("efa_devices", 5), ("accelerators", 9), ("huge_pages", 9_999)])
def test_more_than_planned_is_no_drift(name: str, value: int) -> None:
    assert found_in(aws(reported(**{name: value}))).drifts == []


def test_what_the_plan_does_not_set_is_not_compared() -> None:
    plain = NodeSettings(fleet_name="trainers", log_group_name=GROUP)
    nothing = {"efa_devices": 0, "accelerators": 0, "mig_devices": {}, "huge_pages": 0, "clock_synchronized": True}
    nothing["software"] = "0" * 12
    found = found_in(aws([event(one, nothing) for one in NODES], settings=plain))
    assert (found.drifts, found.unread) == ([], [])


def test_drivers_are_compared_with_those_of_most_nodes_and_then_with_the_newest() -> None:
    one = {**HEALTHY, "driver": "9.1"}
    found = found_in(aws([event("i-1", one), event("i-2", one), event("i-3", HEALTHY)]))
    assert [(drift.physical_id, drift.planned) for drift in found.drifts] == [("i-3", "9.1")]
    found = found_in(aws([event("i-1", one), event("i-2", HEALTHY)], states=("InService", "InService", "Pending")))
    assert [(drift.physical_id, drift.planned) for drift in found.drifts] == [("i-1", "570.133.20")]


def test_huge_pages_without_a_plan_are_compared_with_those_of_most_nodes() -> None:
    fake = aws(reported(huge_pages=100), settings=with_changes(huge_pages=None))
    assert [(one.physical_id, one.path, one.planned) for one in found_in(fake).drifts] == [
        ("i-2", ("HugePages",), 5128)
    ]


@pytest.mark.parametrize("name", [one.name for one in FACTS_OF_NODES if one.name != "driver"])
def test_a_fact_that_a_node_leaves_out_cannot_be_told(name: str) -> None:
    found = found_in(aws(reported(**{name: None})))
    assert found.drifts == []
    (cause,) = causes(found)
    assert cause.endswith("from i-2")
    assert found.is_healthy


def test_a_node_that_reports_nothing_cannot_be_told_by_name() -> None:
    found = found_in(aws([event("i-1", HEALTHY)]))
    assert found.drifts == []
    assert causes(found) == ["none in the last 2 hours from i-2, i-3"]
    assert "facts of nodes training.fleets.trainers: none in the last 2 hours" in "\n".join(format_diagnosis(found))


def test_nodes_that_are_not_in_service_are_not_asked_for() -> None:
    found = found_in(aws([event("i-1", HEALTHY)], states=("InService", "Pending:Wait", "Terminating")))
    assert (found.drifts, found.unread, found.nodes) == ([], [], 1)
    fake = aws([], states=("Pending", "Pending:Wait", "Terminating"))
    assert found_in(fake).unread == []
    assert "logs.filter_log_events" not in fake.names()


def test_the_newest_report_counts() -> None:
    old = event("i-2", {**HEALTHY, "efa_devices": 0}, minutes_ago=60)
    assert found_in(aws([*reported(), old])).drifts == []
    assert len(found_in(aws([*reported(), event("i-2", old, minutes_ago=0)])).unread) == len(FACTS_OF_NODES) - 1


REFUSALS = {
    "denied": Refusal("AccessDeniedException", "User: me is not authorized to perform: logs:FilterLogEvents"),
    "throttled": Refusal("ThrottlingException", "Rate exceeded"),
    "broken": Refusal("InternalFailure", "x"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_without_an_answer_nothing_can_be_told(refusal: str) -> None:
    found = found_in(aws(REFUSALS[refusal]))
    (unread,) = found.unread
    assert found.drifts == []
    assert found.is_healthy
    assert unread.permission == ("logs:FilterLogEvents" if refusal == "denied" else "")


def test_a_log_group_that_is_gone_has_no_facts() -> None:
    found = found_in(aws(Refusal("ResourceNotFoundException", "The specified log group does not exist.")))
    assert found.drifts == []
    assert causes(found) == ["none in the last 2 hours from i-1, i-2, i-3"]


def test_a_plan_without_a_log_group_is_named() -> None:
    fake = aws([], settings=with_changes(log_group_name=None))
    (cause,) = causes(found_in(fake))
    assert "no log group" in cause
    assert "logs.filter_log_events" not in fake.names()


HOSTILE = "\x1b[2J\x07<b>x</b>\u202e\n" + "A" * 100_000
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**30,
    "",
    HOSTILE,
    [],
    [HOSTILE],
    {HOSTILE: 1},
    {"1g.5gb": HOSTILE},
    {"": {}},
)


@pytest.mark.parametrize("value", ODD, ids=lambda one: str(one)[:12].encode("unicode_escape").decode())
def test_hostile_values_are_no_drift_and_reach_no_terminal(value: Any) -> None:
    odd = {name: value for name in HEALTHY if not (isinstance(value, bool) and isinstance(HEALTHY[name], bool))}
    found = found_in(aws([*reported(), event("i-2", {**HEALTHY, **odd}, minutes_ago=0)]))
    shown = "\n".join(format_diagnosis(found))
    assert all(line.isprintable() for line in shown.splitlines())
    assert HOSTILE not in json.dumps(as_json(found))
    assert all(one.path != ("Driver",) for one in found.drifts)
    assert max(map(len, shown.splitlines())) < 400
    # A dictionary without a single profile is no layout either, apart from the empty one.
    assert found.drifts == []


@pytest.mark.parametrize(
    "message",
    [
        " ",
        "{",
        "[]",
        "null",
        "[" * 99_999,
        '{"stage": "facts"}',
        '{"stage": "facts", "instance_id": "i-2", "facts": []}',
        '{"stage": "node", "instance_id": "i-2", "facts": {"efa_devices": 0}}',
        '{"stage": "facts", "instance_id": "i-2", "facts": {"efa_devices": 0',
    ],
)
def test_broken_and_foreign_records_change_nothing(message: str) -> None:
    moment = int(AT.timestamp() * 1000)
    broken = {"logStreamName": STREAMS["i-2"], "timestamp": moment, "message": message}
    found = found_in(aws([*reported(), broken]))
    assert (found.drifts, found.unread) == ([], [])


# Another node's role cannot write the stream of this one (`aws:Ec2InstanceSourcePrivateIPv4`), and what users print is in
# the streams of jobs: such records prove nothing, whatever they name.
FOREIGN_STREAMS = ("i-2/10.0.0.9", "i-2", "jobs/job-1/i-2/10.0.0.2", "i-2/10.0.0.2/metrics", "repairs/i-2")


@pytest.mark.parametrize("stream", FOREIGN_STREAMS)
def test_facts_in_the_stream_of_another_writer_are_ignored(stream: str) -> None:
    forged = {**event("i-2", {**HEALTHY, "accelerators": 0}, minutes_ago=0), "logStreamName": stream}
    found = found_in(aws([*reported(), forged]))
    assert (found.drifts, found.unread) == ([], [])


def test_a_node_speaks_only_for_itself() -> None:
    """Its record may name any instance: the stream says which one it is."""
    lying = {**event("i-2", {**HEALTHY, "accelerators": 7}, minutes_ago=0), "logStreamName": STREAMS["i-1"]}
    assert [one.physical_id for one in found_in(aws([*reported(), lying])).drifts] == ["i-1"]


def test_an_old_address_of_a_node_that_ended_is_ignored() -> None:
    """EC2 gives addresses again. The stream has the id of the node that ended."""
    old = {**event("i-2", {**HEALTHY, "accelerators": 7}, minutes_ago=0), "logStreamName": "i-0/10.0.0.2"}
    assert found_in(aws([*reported(), old])).drifts == []


def with_version_7(fake: FakeAws, settings: NodeSettings) -> FakeAws:
    """The account with one more version of the launch template."""
    (first,) = fake.answers["ec2.describe_launch_template_versions"]["LaunchTemplateVersions"]
    seventh = {**first, "VersionNumber": 7, "LaunchTemplateData": {"UserData": user_data(settings)}}

    def answer(asked: Any) -> Any:
        return {"LaunchTemplateVersions": [seventh if asked["Versions"] == ["7"] else first]}

    return fake.but(ec2__describe_launch_template_versions=answer)


def test_nodes_that_started_with_other_settings_are_named_and_not_compared() -> None:
    fake = aws(reported(accelerators=4), versions=("1", "7", "1"))
    found = found_in(with_version_7(fake, with_changes(accelerator_count=4)))
    assert [one.path for one in found.drifts] == [("Instances",)]
    assert found.nodes == 2
    assert causes(found) == ["i-2 started from a version of the launch template with other settings"]


def test_nodes_of_another_version_with_the_same_settings_are_compared() -> None:
    fake = aws(reported(accelerators=7), versions=("1", "7", "1"))
    found = found_in(with_version_7(fake, PLANNED))
    assert [one.physical_id for one in found.drifts] == ["i-2"]
    assert (found.nodes, found.unread) == (3, [])


def test_a_group_that_mixes_kinds_of_capacity_is_read() -> None:
    """A fleet on a block and on its own reservations has its launch template elsewhere in the answer."""
    fake = aws(reported(accelerators=7))
    (group,) = fake.answers["autoscaling.describe_auto_scaling_groups"]["AutoScalingGroups"]
    template = {"LaunchTemplateSpecification": group.pop("LaunchTemplate")}
    group["MixedInstancesPolicy"] = {"LaunchTemplate": template}
    found = found_in(fake)
    assert ([one.physical_id for one in found.drifts if one.type == INSTANCE], found.nodes) == (["i-2"], 3)


def test_more_events_than_are_read_tell_nothing() -> None:
    many = [event("i-1", {**HEALTHY, "accelerators": 7})] * 20_001
    found = found_in(aws(many))
    assert (found.drifts, found.nodes) == ([], 0)
    (cause,) = causes(found)
    assert cause == f"log group {GROUP} has more than 20,000 of them in 2 hours"


def test_without_addresses_no_event_is_attributed() -> None:
    denied = Refusal("UnauthorizedOperation", "You are not authorized to perform this operation.")
    fake = aws(reported(accelerators=7)).but(ec2__describe_instances=denied)
    found = found_in(fake)
    assert (found.drifts, found.nodes) == ([], 0)
    assert [one.permission for one in found.unread] == ["ec2:DescribeInstances"]
    assert "logs.filter_log_events" not in fake.names()


def test_many_nodes_are_named_shortly() -> None:
    ids = [f"i-{number}" for number in range(500)]
    message = event("i-1", HEALTHY)["message"]
    events = [{"timestamp": 1, "logStreamName": f"{one}/10.0.0.1", "message": message} for one in ids]
    assert len(facts_of(events, {one: f"{one}/10.0.0.1" for one in ids})) == 500


def test_what_a_node_writes_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the node's own program, with the settings that its user data give it, to the answer without a drift."""
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/nr_hugepages").write_text("5128\n")
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    answers: dict[str, Any] = {
        "efa_devices": lambda: list("abcd"),
        "lustre_is_over_efa": lambda: True,
        "_gpu_facts": lambda: {"accelerators": 8, "driver": "570.133.20"},
        "_clock_synchronized": lambda: True,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(node_facts, name, answer)
    monkeypatch.setattr(nvidia_smi, "mig_profiles", lambda: HEALTHY["mig_devices"])
    monkeypatch.setattr(node_facts, "boot_result", lambda: {"state": "ready"})
    kept: list[Any] = []
    monkeypatch.setattr(spool, "keep", lambda _, record: kept.append(record))
    plan = plan_of(user_data())
    assert plan is not None
    node_facts.record_facts(Node(plan.settings, Metadata(), "i-2", Aws("us-east-1")))
    (record,) = kept
    assert record["facts"] == HEALTHY
    written = {**event("i-2", {}), "message": json.dumps(record)}
    found = found_in(aws([event("i-1", HEALTHY), written, event("i-3", HEALTHY)]))
    assert (found.drifts, found.unread, found.nodes) == ([], [], 3)


# The plan.


def mig(partition: str, count: int = 8) -> dict[str, int] | None:
    settings = with_changes(mig=MigSettings(partition=partition, gpu_count=8, device_count=count))
    found = plan_of(user_data(settings))
    assert found is not None
    return dict(found.mig_devices) if found.mig_devices is not None else None


@pytest.mark.parametrize("orchestrator", [None, "ec2", "eks", "slurm", "pcs"])
def test_the_plan_is_read_from_user_data_of_every_kind(orchestrator: str | None) -> None:
    found = plan_of(user_data(with_changes(orchestrator=orchestrator)))
    assert isinstance(found, NodePlan)
    assert found.settings.text("fleet") == "it's trainers"
    assert {one.name: one.planned(found) for one in FACTS_OF_NODES} == {**HEALTHY, "driver": None}


def test_layouts_of_single_gpus_and_numbers_of_profiles() -> None:
    assert mig("7g.40gb;off;off;off;off;off;off;1g.5gb,1g.5gb") == {"7g.40gb": 1, "1g.5gb": 2}
    assert mig("1g.10gb+me") == {"1g.10gb+me": 8}
    assert mig("19,19") is None  # the node resolves the ids


def test_a_users_part_does_not_change_the_plan() -> None:
    part = UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\nGPU_EFA_COUNT=1\nGPU_LOG_GROUP=other\n")
    found = plan_of(user_data(with_changes(user_parts=(part,))))
    assert found is not None
    assert (found.number("efa_count"), found.settings.text("log_group")) == (4, GROUP)


@pytest.mark.parametrize("data", ["", "x", "IyEvYmluL3NoCg==", "ÿ", base64.b64encode(b"\xff\x00").decode()])
def test_user_data_of_others_are_no_plan(data: str) -> None:
    assert plan_of(data) is None
