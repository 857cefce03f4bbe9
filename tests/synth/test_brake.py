"""The brake of a budget: what it may stop, what it is allowed, and when it says that it does not work."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdk_gpu_clusters import Capacity, ConfigError, FleetBrake, GpuFleet
from gpu_clusters_emulator.alarms import evaluated
from stack_fixtures import Resources, Site, of_type, only

LATER = "2026-12-15T11:30Z"
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", starts_at="2026-12-01T11:30Z", ends_at=LATER)
PAID = {
    "block": BLOCK,
    "reservation": Capacity.from_reservation_id("cr-0123456789abcdef0"),
    "open": Capacity.on_demand(uses_open_reservations=True),
}


def fleet(site: Site, name: str, **options: Any) -> GpuFleet:
    given = {"instance_type": "g6.xlarge", "node_count": 2, "vpc_subnets": site.one_subnet, "alarms": None}
    return GpuFleet(site.stack, name, vpc=site.vpc, **{**given, **options})


def braked(site: Site) -> Resources:
    workers = [fleet(site, "Workers"), fleet(site, "More", capacity=Capacity.spot(), node_count=4)]
    FleetBrake(site.stack, "Brake", budget_name="lab", fleets=workers)
    return {name: one for name, one in site.resources().items() if name.startswith("Brake")}


def test_it_may_change_its_own_groups_only(site: Site) -> None:
    resources = braked(site)
    [policy] = [
        one["Properties"]["PolicyDocument"]["Statement"]
        for name, one in of_type(resources, "AWS::IAM::ManagedPolicy").items()
        if name.startswith("BrakeMachinePolicy")
    ]
    by_action = {action: one for one in policy for action in one["Action"]}
    groups = json.dumps(by_action["autoscaling:UpdateAutoScalingGroup"]["Resource"])
    assert groups.count("autoScalingGroupName/") == 2
    assert '"Ref": "Workers' in groups
    assert '"Ref": "More' in groups
    assert ":billingview/primary" in json.dumps(by_action["billing:GetBillingViewData"]["Resource"])
    assert ":budget/lab" in json.dumps(by_action["budgets:ViewBudget"]["Resource"])
    reading = {name for name, one in by_action.items() if one["Resource"] == "*" and "logs" not in name}
    assert {one for one in reading if not one.startswith("xray")} == {
        "autoscaling:DescribeAutoScalingGroups",
        "ec2:DescribeLaunchTemplateVersions",
    }


def test_a_schedule_runs_it(site: Site) -> None:
    rule = only(braked(site), "AWS::Events::Rule")
    assert rule["ScheduleExpression"] == "rate(15 minutes)"
    assert rule["State"] == "ENABLED"


@pytest.mark.parametrize(("runs", "state"), [([10, 25, 40, 55], "OK"), ([55], "OK"), ([70], "ALARM"), ([], "ALARM")])
def test_an_hour_without_a_run_that_succeeds_raises_an_alarm(site: Site, runs: list[int], state: str) -> None:
    alarms = of_type(braked(site), "AWS::CloudWatch::Alarm")
    [alarm] = [one["Properties"] for name, one in alarms.items() if "NoBrake" in name]
    now = datetime(2026, 12, 2, 8, tzinfo=UTC)
    succeeded = [now - timedelta(minutes=ago) for ago in runs]

    def values(_: Any, since: datetime, until: datetime) -> list[float]:
        return [1.0 for moment in succeeded if since < moment <= until]

    assert evaluated(alarm, values, now) == state


@pytest.mark.parametrize("kind", PAID)
def test_capacity_that_is_paid_either_way_is_refused(site: Site, kind: str) -> None:
    paid = fleet(site, "Paid", capacity=PAID[kind], instance_type="p5.48xlarge", node_count=2)
    with pytest.raises(ConfigError, match=r"GPU-BUD-005.*Paid"):
        FleetBrake(site.stack, "Brake", budget_name="lab", fleets=[fleet(site, "Workers"), paid])


def test_all_faults_are_told_at_once(site: Site) -> None:
    imported = GpuFleet.from_gpu_fleet_attributes(
        site.stack, "Imported", fleet_name="others", role=fleet(site, "Workers").role, security_groups=[]
    )
    with pytest.raises(ConfigError) as refused:
        FleetBrake(site.stack, "Brake", budget_name="lab", fleets=[imported, imported], percent=0)
    assert sorted(one.id for one in refused.value.findings) == ["GPU-BUD-006", "GPU-BUD-006", "GPU-BUD-007"]


@pytest.mark.parametrize("percent", [float("nan"), float("inf"), -1])
def test_a_brake_needs_fleets_and_a_percentage(site: Site, percent: float) -> None:
    with pytest.raises(ConfigError, match=r"(?s)GPU-BUD-007.*GPU-BUD-006"):
        FleetBrake(site.stack, "Brake", budget_name="lab", fleets=[], percent=percent)


def test_the_name_of_a_budget_is_text(site: Site) -> None:
    FleetBrake(site.stack, "Brake", budget_name='the "lab"', fleets=[fleet(site, "Workers")])
    machine = only(site.resources(), "AWS::StepFunctions::StateMachine")
    parts = machine["DefinitionString"]["Fn::Join"][1]
    definition = json.loads("".join(one if isinstance(one, str) else "x" for one in parts))
    assert definition["States"]["Look"]["Arguments"]["BudgetName"] == 'the "lab"'
