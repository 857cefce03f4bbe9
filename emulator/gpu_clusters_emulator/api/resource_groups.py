"""Resource Groups, as far as groups of capacity reservations need it.

Source: botocore's model of Resource Groups, GroupResources (what could not be added is in `Failed`); EC2 user guide,
"Add a Capacity Reservation to a group" and "View Capacity Blocks": active reservations only, and a block is scheduled
until it starts.
"""

from __future__ import annotations

from ..faults import ApiError
from ..world import Json, World


def group_resources(world: World, params: Json) -> Json:
    """Put reservations into a group; those that are not active are in `Failed`."""
    group = world.reservation_group(params["Group"])
    if group is None:
        raise ApiError("NotFoundException", f"there is no group {params['Group']}")
    known, now = world.reservations(), world.clock.now()
    taken: list[str] = []
    failed: list[Json] = []
    for arn in params["ResourceArns"]:
        found = known.get(str(arn).rsplit("/", 1)[-1])
        if found is not None and found.state(now) == "active":
            taken.append(arn)
        else:
            failed.append({"ResourceArn": arn, "ErrorCode": "ValidationError", "ErrorMessage": "it is not active"})
    present = [str(one) for one in group.properties.get("Resources", [])]
    group.properties["Resources"] = list(dict.fromkeys([*present, *taken]))
    return {"Succeeded": taken, "Failed": failed, "Pending": []}
