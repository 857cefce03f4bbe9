"""Records of private hosted zones, as far as state machines write them: those of simple routing.

Source: Route 53 API reference, ChangeResourceRecordSets (a DELETE names the values that the record has; changes of one
call are made together) and ListResourceRecordSets (order, from which name on), and "Quotas" (values in a request, those
of an UPSERT twice).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..faults import ApiError
from ..world import Json, Resource, Type, World

_MOST_VALUES = 1_000


def change_resource_record_sets(world: World, params: Json) -> Json:
    """Write and delete records of a zone, all of them or none."""
    zone, changes = _zone(world, params["HostedZoneId"]), params["ChangeBatch"]["Changes"]
    values = sum(
        len(one["ResourceRecordSet"].get("ResourceRecords", [])) * (2 if one["Action"] == "UPSERT" else 1)
        for one in changes
    )
    if values > _MOST_VALUES:
        raise ApiError("InvalidChangeBatch", f"Number of records limit of {_MOST_VALUES} exceeded.")
    records = {_key(one): one for one in _records(zone)}
    for change in changes:
        action, record = change["Action"], _absolute(change["ResourceRecordSet"])
        known = records.get(_key(record))
        if not record["ResourceRecords"]:
            raise ApiError("InvalidInput", "Invalid request: expected exactly one of [AliasTarget, ResourceRecords]")
        if action == "DELETE":
            if known is None or _sorted(known) != _sorted(record):
                raise ApiError("InvalidChangeBatch", f"Tried to delete {record['Name']}, but the values do not match")
            del records[_key(record)]
            continue
        if action == "CREATE" and known is not None:
            raise ApiError("InvalidChangeBatch", f"Tried to create {record['Name']}, but it already exists")
        records[_key(record)] = record
    zone.properties["Records"] = [records[key] for key in sorted(records)]
    submitted = world.clock.now()
    return {"ChangeInfo": {"Id": "/change/C1", "Status": "PENDING", "SubmittedAt": submitted}}


def list_resource_record_sets(world: World, params: Json) -> Json:
    """Records of a zone in the order of DNS, from a name on."""
    found = _records(_zone(world, params["HostedZoneId"]))
    start = params.get("StartRecordName")
    if start is not None:
        first = _order(f"{start.rstrip('.')}."), params.get("StartRecordType", "")
        found = [one for one in found if _key(one) >= first]
    most = int(params.get("MaxItems", "300"))
    listed: Sequence[Json] = found[:most]
    return {"ResourceRecordSets": listed, "IsTruncated": len(found) > most, "MaxItems": str(most)}


def _zone(world: World, identifier: str) -> Resource:
    found = world.find(Type.HOSTED_ZONE, identifier.removeprefix("/hostedzone/"))
    if found is None:
        raise ApiError("NoSuchHostedZone", f"No hosted zone found with ID: {identifier}")
    return found


def _records(zone: Resource) -> list[Json]:
    written: list[Json] = zone.properties.get("Records", [])
    return written


def _absolute(record: Json) -> Json:
    return {**record, "Name": f"{record['Name'].rstrip('.')}."}


def _key(record: Json) -> tuple[tuple[str, ...], str]:
    return _order(record["Name"]), record["Type"]


def _order(name: str) -> tuple[str, ...]:
    """By the labels from the last to the first."""
    return tuple(reversed(name.split(".")))


def _sorted(record: Json) -> Json:
    return {**record, "ResourceRecords": sorted(one["Value"] for one in record["ResourceRecords"])}
