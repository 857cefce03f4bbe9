"""The state machine that sizes a compute node group, run against a group that behaves as AWS PCS says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import botocore.session
import pytest
from botocore.model import StringShape

from cdk_gpu_clusters import Capacity
from gpu_clusters_emulator.alarms import evaluated
from gpu_clusters_emulator.clock import format_time
from gpu_clusters_emulator.jsonata_states import Failed, caught, run_state
from gpu_clusters_emulator.state_machines import StateError
from slurm_clusters import CLUSTER_ID, slurm_nodes
from stack_fixtures import Resources, Site, SiteFactory, of_type, only

STARTS, ENDS = "2026-12-01T11:30Z", "2026-12-15T11:30Z"
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", starts_at=STARTS, ends_at=ENDS)
RESERVED = Capacity.from_reservation_id("cr-0123456789abcdef0", ends_at=ENDS)
ELASTIC = {"node_count": None, "min_node_count": 0, "max_node_count": 4}
BEFORE, INSIDE, DRAINING, AFTER = (
    datetime.fromisoformat(text)
    for text in ("2026-12-01T11:00:00Z", "2026-12-03T00:00:00Z", "2026-12-15T10:55:00Z", "2026-12-15T11:35:00Z")
)


@dataclass
class Group:
    """A compute node group, and how many of its nodes report themselves."""

    least: int
    most: int
    status: str = "ACTIVE"
    cluster: str = "ACTIVE"
    becomes: str = "ACTIVE"  # the status of the group, once a change was refused
    refuses: bool = False
    reports: list[int] = field(default_factory=list)
    updates: list[tuple[int, int]] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)

    def call(self, task: dict[str, Any], sent: dict[str, Any]) -> Any:
        service, operation = task["Resource"].split(":")[-2:]
        check_call(service, operation, sent)
        return getattr(self, operation)(**sent)

    def getComputeNodeGroup(self, ClusterIdentifier: str, ComputeNodeGroupIdentifier: str) -> Any:  # noqa: N802, N803
        assert (ClusterIdentifier, ComputeNodeGroupIdentifier) == (CLUSTER_ID, "pcs_group")
        sizes = {"MinInstanceCount": self.least, "MaxInstanceCount": self.most}
        return {"ComputeNodeGroup": {"Status": self.status, "ScalingConfiguration": sizes}}

    def getCluster(self, ClusterIdentifier: str) -> Any:  # noqa: N802, N803
        assert ClusterIdentifier == CLUSTER_ID
        return {"Cluster": {"Status": self.cluster}}

    def updateComputeNodeGroup(self, ScalingConfiguration: dict[str, int], **_: str) -> Any:  # noqa: N802, N803
        if self.refuses or self.cluster != "ACTIVE":  # botocore, pcs: ConflictException
            self.status = self.becomes
            raise StateError("Pcs.ConflictException", "another change is under way")
        self.least, self.most = ScalingConfiguration["MinInstanceCount"], ScalingConfiguration["MaxInstanceCount"]
        self.updates.append((self.least, self.most))
        self.status = "ACTIVE"
        return {}

    def getMetricStatistics(self, **sent: Any) -> Any:  # noqa: N802
        assert sent["Dimensions"] == [{"Name": "Fleet", "Value": "Site/Trainers"}]
        since, until = (datetime.fromisoformat(sent[key]) for key in ("StartTime", "EndTime"))
        assert until - since == timedelta(minutes=5)
        return {"Datapoints": [{"SampleCount": one} for one in self.reports]}

    def putMetricData(self, MetricData: list[dict[str, Any]], **_: Any) -> Any:  # noqa: N802, N803
        self.missing.append(MetricData[0]["Value"])
        return {}


def check_call(service: str, operation: str, sent: dict[str, Any]) -> None:
    """Compare a call with the service model of AWS: the operation, and the names that it takes."""
    model = botocore.session.get_session().get_service_model(service)
    shape = model.operation_model(operation[0].upper() + operation[1:]).input_shape
    members = {} if shape is None else shape.members
    assert {one.lower() for one in sent} <= {one.lower() for one in members}


def statuses(of: str) -> set[str]:
    """The statuses in the service model of AWS."""
    found = botocore.session.get_session().get_service_model("pcs").shape_for(of)
    assert isinstance(found, StringShape)
    return set(found.enum)


def under_way(of: str) -> set[str]:
    """Those that end by themselves: CREATING and the like."""
    return {one for one in statuses(of) if one.endswith("ING")}


def machine_of(resources: Resources) -> dict[str, Any]:
    text = only(resources, "AWS::StepFunctions::StateMachine")["DefinitionString"]
    found: dict[str, Any] = json.loads(text if isinstance(text, str) else "".join(map(_plain, text["Fn::Join"][1])))
    return found


def _plain(part: Any) -> str:
    return part if isinstance(part, str) else "aws"


def run(machine: dict[str, Any], group: Group, now: datetime) -> bool:
    """One execution; False if it ended in a Fail state."""
    data: Any = {"group": f"arn:aws:pcs:us-east-1:111122223333:cluster/{CLUSTER_ID}/computenodegroup/pcs_group"}
    name, variables = machine["StartAt"], dict[str, Any]()
    context = {"State": {"EnteredTime": format_time(now)}}
    while name is not None:
        state = machine["States"][name]
        try:
            name, data = run_state(state, data, context, variables, group.call)
        except Failed:
            return False
        except StateError as error:
            found = caught(state, error.name, error.cause, data, variables)
            if found is None:
                return False
            name, data = found
    return True


def made(site: Site, capacity: Capacity, **size: Any) -> tuple[dict[str, Any], Group]:
    """The machine of a group of four nodes, and the group as the template makes it."""
    slurm_nodes(site, capacity=capacity, **(size or {"node_count": 4}))
    resources = site.resources()
    sizes = only(resources, "AWS::PCS::ComputeNodeGroup")["ScalingConfiguration"]
    return machine_of(resources), Group(sizes["MinInstanceCount"], sizes["MaxInstanceCount"])


@pytest.mark.parametrize("size", [{"node_count": 4}, ELASTIC])
def test_a_block_is_filled_when_it_runs_and_no_job_is_ended_before_it_does(site: Site, size: dict[str, Any]) -> None:
    machine, group = made(site, BLOCK, **size)
    assert (group.least, group.most) == (4, 4), "a group on a block is static"
    sizes = []
    for now in (BEFORE, INSIDE, INSIDE, DRAINING, AFTER):
        assert run(machine, group, now)
        sizes.append((group.least, group.most))
    assert sizes == [(0, 4), (4, 4), (4, 4), (0, 4), (0, 4)]
    assert len(group.updates) == 3, "a run that finds nothing to do does nothing"


def test_a_deployment_in_the_middle_of_a_block_changes_nothing(site: Site) -> None:
    machine, group = made(site, BLOCK)  # as every deployment writes it
    assert run(machine, group, INSIDE)
    assert group.updates == []


def test_a_deployment_starts_a_run_when_all_of_the_stack_is_deployed(site: Site) -> None:
    """PCS refuses a queue whose node group is UPDATING (botocore, pcs: ConflictException)."""
    slurm_nodes(site, capacity=BLOCK)
    resources = site.resources()
    patterns = [
        one["Properties"]["EventPattern"]
        for one in of_type(resources, "AWS::Events::Rule").values()
        if "aws.cloudformation" in one["Properties"].get("EventPattern", {}).get("source", ())
    ]
    assert patterns == [
        {
            "source": ["aws.cloudformation"],
            "detail-type": ["CloudFormation Stack Status Change"],
            "detail": {
                "stack-id": [{"Ref": "AWS::StackId"}],
                "status-details": {"status": ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"]},
            },
        }
    ]


def test_other_capacity_keeps_its_nodes_to_the_end_and_has_none_after_it(site: Site) -> None:
    machine, group = made(site, RESERVED)
    assert (group.least, group.most) == (4, 4)
    for now in (BEFORE, DRAINING):  # the nodes drain themselves
        assert run(machine, group, now)
    assert group.updates == []
    assert run(machine, group, AFTER)
    assert group.updates == [(0, 0)]
    group.least = group.most = 4  # a late deployment
    assert run(machine, group, AFTER)
    assert group.updates[1:] == [(0, 0)]


def test_a_group_that_scales_ends_too_and_is_not_made_static(site: Site) -> None:
    machine, group = made(site, Capacity.on_demand(ends_at=ENDS), **ELASTIC)
    assert run(machine, group, INSIDE)
    assert group.updates == []
    run(machine, group, AFTER)
    assert group.updates == [(0, 0)]
    assert run(machine, group, INSIDE), "a later end"
    assert group.updates[1:] == [(0, 4)]
    assert group.missing == [], "idle nodes are none that are missing"


@pytest.mark.parametrize(("reports", "missing"), [([], 4), ([3, 4, 4], 0), ([1, 2], 2), ([6], 0)])
def test_paid_nodes_that_do_not_report_themselves_are_counted(site: Site, reports: list[int], missing: int) -> None:
    machine, group = made(site, RESERVED)
    group.reports = reports
    assert run(machine, group, INSIDE)
    assert group.missing == [missing]


def test_an_update_under_way_is_left_alone_and_one_that_failed_is_tried_again(site: Site) -> None:
    machine, group = made(site, BLOCK)
    group.least = 0
    group.status = "UPDATING"
    assert run(machine, group, INSIDE)
    assert group.updates == []
    group.status = "UPDATE_FAILED"
    assert run(machine, group, INSIDE)
    assert group.updates == [(4, 4)]
    group.status = "UPDATE_FAILED"
    assert not run(machine, group, INSIDE), "the alarm on runs is raised"


@pytest.mark.parametrize("now", [INSIDE, DRAINING], ids=["size", "drain"])
def test_a_change_of_the_cluster_or_of_another_run_is_left_to_the_next_run(site: Site, now: datetime) -> None:
    machine, group = made(site, BLOCK)
    group.least = 0 if now is INSIDE else 4
    before = group.least
    for group.cluster in under_way("ClusterStatus"):
        assert run(machine, group, now), f"the cluster is {group.cluster}: no alarm"
    group.cluster, group.refuses = "ACTIVE", True
    for group.becomes in under_way("ComputeNodeGroupStatus"):
        group.status = "ACTIVE"
        assert run(machine, group, now), f"another run came first, the group is {group.becomes}: no alarm"
    assert (group.least, group.updates) == (before, [])
    group.refuses, group.status = False, "ACTIVE"
    assert run(machine, group, now)
    assert group.updates == [(4 - before, 4)]


def test_a_refusal_that_does_not_end_by_itself_fails_the_run(site: Site) -> None:
    machine, group = made(site, BLOCK)
    group.least, group.refuses = 0, True
    for group.cluster in statuses("ClusterStatus") - under_way("ClusterStatus"):
        assert not run(machine, group, INSIDE), group.cluster


@pytest.mark.parametrize(("cluster", "state"), [("UPDATING", "OK"), ("SUSPENDED", "ALARM")])
def test_the_alarm_on_runs_is_silent_while_a_cluster_is_updated_and_rings_if_it_stays_out_of_use(
    site: Site, cluster: str, state: str
) -> None:
    """An hour of runs, each five minutes after the other one, and the alarm as CloudWatch computes it."""
    machine, group = made(site, BLOCK)
    alarm = next(
        one["Properties"]
        for name, one in of_type(site.resources(), "AWS::CloudWatch::Alarm").items()
        if "NotReconciled" in name
    )
    group.least, group.cluster = 0, cluster
    moments = [INSIDE + timedelta(minutes=minute) for minute in range(0, 60, 5)]
    succeeded = [now for now in moments if run(machine, group, now)]

    def values(metric: dict[str, Any], since: datetime, until: datetime) -> list[float]:
        assert metric["MetricName"] == "ExecutionsSucceeded"
        return [1.0 for one in succeeded if since < one <= until]

    assert evaluated(alarm, values, moments[-1]) == state


@pytest.mark.parametrize("size", [{"node_count": 4}, ELASTIC])
def test_capacity_without_an_end_has_no_machine(make_site: SiteFactory, size: dict[str, Any]) -> None:
    for capacity in (Capacity.on_demand(), Capacity.spot()):
        site = make_site()
        slurm_nodes(site, capacity=capacity, **size)
        assert not of_type(site.resources(), "AWS::StepFunctions::StateMachine")


def test_the_machine_may_make_its_calls_and_launches_nothing_by_itself(site: Site) -> None:
    slurm_nodes(site, capacity=BLOCK)
    resources = site.resources()
    [policy] = [
        one["Properties"]["PolicyDocument"]["Statement"]
        for name, one in of_type(resources, "AWS::IAM::ManagedPolicy").items()
        if name.startswith("TrainersReconcileMachinePolicy")
    ]
    by_action = {json.dumps(one["Action"]): one for one in policy}
    tasks = [one["Resource"] for one in machine_of(resources)["States"].values() if one["Type"] == "Task"]
    calls = {f"{service}:{name[0].upper()}{name[1:]}" for *_, service, name in (one.split(":") for one in tasks)}
    assert "pcs:GetCluster" in calls
    assert [one for one in calls if not any(f'"{one}"' in text for text in by_action)] == []
    launches = next(one for text, one in by_action.items() if "ec2:RunInstances" in text)
    assert launches["Condition"] == {"Bool": {"aws:ViaAWSService": "true"}}
    updates = next(one for text, one in by_action.items() if "pcs:UpdateComputeNodeGroup" in text)
    assert all(f"cluster/{CLUSTER_ID}" in json.dumps(one) for one in updates["Resource"])
    [role] = [name for name in of_type(resources, "AWS::IAM::Role") if name.startswith("TrainersRole")]
    passes = next(one for text, one in by_action.items() if "iam:PassRole" in text)
    assert passes["Resource"] == {"Fn::GetAtt": [role, "Arn"]}


def test_alarms_tell_of_runs_events_and_missing_nodes(site: Site) -> None:
    group = slurm_nodes(site, capacity=BLOCK)
    assert group.alarms is not None
    assert {"NotReconciled", "UndeliveredEvents", "MissingNodes"} <= set(group.alarms.names)
