"""Records of hosted zones, as the emulator's Route 53 takes them from state machines."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_clusters_emulator.api import call_from_states
from gpu_clusters_emulator.faults import ApiError
from gpu_clusters_emulator.world import Caller, Resource, Type, World

ZONE = "Z0123456789"
Json = dict[str, Any]


@pytest.fixture
def world() -> World:
    made = World(call_from_states)
    zone = {"Name": "lab.internal."}
    made.add(Resource(type=Type.HOSTED_ZONE, physical_id=ZONE, properties=zone, logical_id="Zone", region="us-east-1"))
    return made


def record(name: str, *values: str) -> Json:
    return {"Name": name, "Type": "A", "Ttl": 30, "ResourceRecords": [{"Value": value} for value in values]}


def change(world: World, action: str, *records: Json, zone: str = ZONE) -> None:
    changes = [{"Action": action, "ResourceRecordSet": one} for one in records]
    sent = {"HostedZoneId": zone, "ChangeBatch": {"Changes": changes}}
    call_from_states(world, "route53", "ChangeResourceRecordSets", sent, Caller(role="", session=""))


def listed(world: World, **options: Any) -> list[Json]:
    sent = {"HostedZoneId": f"/hostedzone/{ZONE}", **options}
    found = call_from_states(world, "route53", "ListResourceRecordSets", sent, Caller(role="", session=""))
    sets: list[Json] = found["ResourceRecordSets"]
    return sets


def test_records_have_the_names_of_step_functions_and_the_order_of_dns(world: World) -> None:
    change(world, "UPSERT", record("b.lab.internal", "10.0.0.2"), record("a.lab.internal.", "10.0.0.1"))
    change(world, "UPSERT", record("b.lab.internal", "10.0.0.3", "10.0.0.4"))
    assert listed(world) == [
        record("a.lab.internal.", "10.0.0.1"),
        record("b.lab.internal.", "10.0.0.3", "10.0.0.4"),
    ]
    from_b = {"StartRecordName": "b.lab.internal", "StartRecordType": "A"}
    assert [one["Name"] for one in listed(world, **from_b)] == ["b.lab.internal."]
    assert [one["Name"] for one in listed(world, MaxItems="1")] == ["a.lab.internal."]
    # A name that is not there: the next one follows.
    assert [one["Name"] for one in listed(world, StartRecordName="aa.lab.internal")] == ["b.lab.internal."]


def test_a_record_is_deleted_by_its_values(world: World) -> None:
    change(world, "CREATE", record("a.lab.internal", "10.0.0.1", "10.0.0.2"))
    with pytest.raises(ApiError, match="do not match"):
        change(world, "DELETE", record("a.lab.internal", "10.0.0.1"))
    change(world, "DELETE", record("a.lab.internal", "10.0.0.2", "10.0.0.1"))
    assert listed(world) == []


def test_a_call_changes_all_records_or_none(world: World) -> None:
    change(world, "UPSERT", record("b.lab.internal", "10.0.0.1"))
    with pytest.raises(ApiError, match="already exists"):
        change(world, "CREATE", record("a.lab.internal", "10.0.0.1"), record("b.lab.internal", "10.0.0.1"))
    assert [one["Name"] for one in listed(world)] == ["b.lab.internal."]


@pytest.mark.parametrize(("values", "is_refused"), [(500, False), (501, True)])
def test_the_values_of_an_upsert_count_twice(world: World, values: int, is_refused: bool) -> None:
    written = record("a.lab.internal", *(f"10.0.{one // 250}.{one % 250}" for one in range(values)))
    if is_refused:
        with pytest.raises(ApiError, match="1000"):
            change(world, "UPSERT", written)
    else:
        change(world, "UPSERT", written)


def test_what_route_53_refuses_is_refused(world: World) -> None:
    with pytest.raises(ApiError, match="No hosted zone"):
        change(world, "UPSERT", record("a.lab.internal", "10.0.0.1"), zone="Z9")
    with pytest.raises(ApiError):
        change(world, "UPSERT", record("a.lab.internal"))
