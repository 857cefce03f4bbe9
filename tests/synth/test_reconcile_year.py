"""A year of a fleet on forty blocks, by the state machine and the alarms that its template has."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import Capacity, GpuFleet
from cdk_gpu_clusters.compute.reconcile import (
    BlockGroup,
    Reconcile,
    auto_scaling_calls,
    reconcile_alarms,
    shortage_alarms,
)
from cdk_gpu_clusters.rules.capacity import BlockTerms, CapacityKind, CapacityTerms, capacity_windows
from paid_year import DAY, Account, Block, Deployed, Year, calendar
from stack_fixtures import Site

SEED = 1
MOST = 6


def terms_of(blocks: Sequence[Block]) -> list[BlockTerms]:
    return [
        BlockTerms(reservation_id=one.id, starts_at=one.starts, ends_at=one.ends, node_count=one.nodes)
        for one in blocks
    ]


def deployed(blocks: Sequence[Block]) -> Deployed:
    """What a deployment of the list of blocks writes; the first test compares it with a template."""
    windows = capacity_windows(CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK, blocks=tuple(terms_of(blocks))), MOST)
    made = Reconcile(
        calls=auto_scaling_calls("aws", "arn:*", ends_instances=True),
        group="trainers",
        group_id="Group",
        windows=windows,
        keeps_size=True,
        is_paid=True,
        fewest=0,
        block_group=BlockGroup(arn="arn:*", reservations="arn:*"),
        reservation_ids=[one.id for one in blocks],
        launch_alarm="LaunchLoop",
        partition="aws",
        account="123456789012",
        region="us-east-1",
    )
    alarms = {**reconcile_alarms(), **shortage_alarms("trainers", windows, ready_timeout_seconds=1800)}
    named = {path.rpartition("/")[2]: one["Properties"] for path, one in alarms.items()}
    return Deployed(machine=made.definition(), alarms=named)


def year(blocks: int, deploy: Callable[[Sequence[Block]], Deployed] = deployed) -> tuple[Year, list[Block]]:
    chance = random.Random(SEED)
    planned = calendar(chance, blocks)
    return Year(Account(blocks=planned, chance=chance), deploy, chance), planned


def test_the_year_is_run_by_what_a_template_has(site: Site) -> None:
    blocks = calendar(random.Random(SEED), 5)
    GpuFleet(
        site.stack,
        "Fleet",
        vpc=site.vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[site.vpc.private_subnets[0]]),
        instance_type="p5.48xlarge",
        node_count=MOST,
        capacity=Capacity.capacity_blocks(terms_of(blocks)),
    )
    expected = deployed(blocks)
    resources = site.resources()
    (text,) = [
        plain(one["Properties"]["DefinitionString"])
        for name, one in resources.items()
        if one["Type"] == "AWS::StepFunctions::StateMachine" and "Reconcile" in name
    ]
    assert json.loads(text) == expected.machine
    for name, alarm in expected.alarms.items():
        (found,) = [one for path, one in resources.items() if path.startswith(f"FleetAlarms{name}")]
        assert without_dimensions(found["Properties"]) == without_dimensions(alarm), name


def plain(value: Any) -> str:
    """A text of a template in the partition `aws`."""
    match value:
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(plain, parts))
        case {"Ref": "AWS::Partition"}:
            return "aws"
    return str(value)


def without_dimensions(value: Any) -> Any:
    if isinstance(value, list):
        return [without_dimensions(one) for one in value]
    if isinstance(value, dict):
        return {key: without_dimensions(one) for key, one in value.items() if key != "Dimensions"}
    return value


def test_the_size_is_right_and_idle_capacity_is_told_all_year() -> None:
    passed, planned = year(40)
    passed.pass_by(planned[-1].ends + DAY)
    assert passed.minutes > 10_000
    assert passed.executed > 500
    assert passed.failed > 10
    assert passed.told > 500


def expression(name: str, change: Callable[[str], str]) -> Callable[[Deployed], None]:
    """Changes what the first state assigns."""

    def mutate(one: Deployed) -> None:
        assigned = one.machine["States"]["Look"]["Assign"]
        changed = change(assigned[name])
        assert changed != assigned[name]
        assigned[name] = changed

    return mutate


def moved(minutes: int, key: str) -> Callable[[str], str]:
    """Moves one side of every window."""

    def change(text: str) -> str:
        def later(match: re.Match[str]) -> str:
            moment = datetime.fromisoformat(match[2]) + timedelta(minutes=minutes)
            return f"{match[1]}{moment:%Y-%m-%dT%H:%M:%S}"

        return re.sub(rf'("{key}": ")([^"]+)', later, text)

    return change


def rule_less(condition: str) -> Callable[[Deployed], None]:
    """Takes a rule out of the first choice."""

    def mutate(one: Deployed) -> None:
        choices = one.machine["States"]["Decide"]["Choices"]
        kept = [rule for rule in choices if condition not in rule["Condition"]]
        assert len(kept) == len(choices) - 1
        choices[:] = kept

    return mutate


def state(name: str, **changes: Any) -> Callable[[Deployed], None]:
    """Gives a state other fields."""

    def mutate(one: Deployed) -> None:
        states = one.machine["States"]
        inner = states.get("EndEach", {}).get("ItemProcessor", {}).get("States", {})
        (states if name in states else inner)[name].update(changes)

    return mutate


def without(name: str, *fields: str) -> Callable[[Deployed], None]:
    """Takes fields from a state."""

    def mutate(one: Deployed) -> None:
        for key in fields:
            del one.machine["States"][name][key]

    return mutate


def find_any(one: Deployed) -> None:
    """Looks for the nodes of any block."""
    find = one.machine["States"]["EndEach"]["ItemProcessor"]["States"]["FindOne"]
    del find["Arguments"]["Filters"][1]


def alarm(name: str, **changes: Any) -> Callable[[Deployed], None]:
    """Gives an alarm other properties."""

    def mutate(one: Deployed) -> None:
        one.alarms[name] |= changes

    return mutate


def computed(name: str, change: Callable[[str], str]) -> Callable[[Deployed], None]:
    """Changes the expression of an alarm."""

    def mutate(one: Deployed) -> None:
        query = one.alarms[name]["Metrics"][0]
        changed = change(query["Expression"])
        assert changed != query["Expression"]
        query["Expression"] = changed

    return mutate


ENDED = {"InstanceId": "{% $instance %}", "ShouldDecrementDesiredCapacity": False}
MUTATIONS: dict[str, Callable[[Deployed], None]] = {
    "the window begins late": expression("wanted", moved(6, "from")),
    "the window begins early": expression("wanted", moved(-6, "from")),
    "the window ends early": expression("wanted", moved(-6, "until")),
    "no time to drain": expression("wanted", moved(40, "until")),
    "only one window counts": expression("wanted", lambda text: text.replace("$sum(", "$max(")),
    "a block that ends is found late": expression("ending", moved(10, "from")),
    "blocks join early": expression("running", moved(-600, "from")),
    "never empties": rule_less("$wanted = 0 and"),
    "never ends the nodes of one block": rule_less("and $periodic"),
    "never groups": rule_less("$seen.serving"),
    "never resumes": state("Fill", Choices=[{"Condition": "{% $seen.manual %}", "Next": "Done"}]),
    "heeds no operator": state("Fill", Choices=[{"Condition": "{% $seen.suspended %}", "Next": "LookAtAlarm"}]),
    "heeds no alarm": state("IsCalm", Choices=[], Default="Resume"),
    "resumes never": state("IsCalm", Choices=[], Default="IsSized"),
    "never sizes": state("IsSized", Choices=[]),
    "ends nodes of any block": find_any,
    "ends nodes and launches others": state("EndOne", Arguments=ENDED),
    "looks once": without("Look", "Retry"),
    "idle capacity is told late": alarm("UnusedCapacity", EvaluationPeriods=12),
    "idle capacity is told early": alarm("UnusedCapacity", EvaluationPeriods=1, DatapointsToAlarm=1),
    "idle capacity is told from two nodes on": alarm("UnusedCapacity", Threshold=2),
    "idle capacity is told before the start": computed("UnusedCapacity", lambda text: text.replace(">=", "<")),
    "nodes that boot count as missing": computed("UnusedCapacity", lambda text: text.replace(" - booting", "")),
    "missing nodes are told late": alarm("MissingNodes", EvaluationPeriods=45),
    "missing nodes are told early": alarm("MissingNodes", EvaluationPeriods=30),
    "missing runs are told late": computed("NotReconciled", lambda _: "succeeded"),
}


@pytest.mark.parametrize("change", list(MUTATIONS.values()), ids=list(MUTATIONS))
def test_a_wrong_definition_does_not_pass_the_year(change: Callable[[Deployed], None]) -> None:
    def deploy(blocks: Sequence[Block]) -> Deployed:
        made = deployed(blocks)
        change(made)
        return made

    passed, planned = year(40, deploy)
    with pytest.raises((AssertionError, ValueError)):
        passed.pass_by(planned[-1].ends + DAY)
