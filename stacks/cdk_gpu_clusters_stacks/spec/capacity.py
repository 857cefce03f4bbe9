"""`capacity` of a fleet: where its instances come from, in one of nine forms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    StringConstraints,
    Tag,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from cdk_gpu_clusters.rules.capacity import BlockTerms, CapacityKind, CapacityTerms, terms_of_blocks

from ._base import AsTuple, JsonSchema, SpecModel, form_of, form_tag

ReservationId = Annotated[str, StringConstraints(pattern=r"^cr-([0-9a-f]{8}|[0-9a-f]{17})$")]
ResourceGroupArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/[A-Za-z0-9._/-]+$"),
]

_UTC_TEXT = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:00(?:\.0+)?)?(Z|[+-]\d{2}:\d{2})")


def _utc(value: object) -> datetime:
    """Read an ISO 8601 time that names its offset, to the minute, as UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        moment = value
    else:
        match = _UTC_TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise PydanticCustomError("utc_time", "not a UTC time to the minute")
        offset = "+00:00" if match[4] == "Z" else match[4]
        try:
            moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{offset}")
        except ValueError as fault:
            raise PydanticCustomError("utc_time", "no such date or time") from fault
    try:
        return moment.astimezone(UTC)
    except OverflowError as fault:
        raise PydanticCustomError("utc_time", "no such date or time") from fault


def utc_text(moment: datetime) -> str:
    """Write a time as this file format has it, such as `2026-12-15T11:30Z`."""
    return (moment - (moment.utcoffset() or timedelta())).strftime("%Y-%m-%dT%H:%MZ")


UtcTime = Annotated[
    datetime,
    BeforeValidator(_utc),
    PlainSerializer(utc_text, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:00)?(Z|[+-]\d{2}:\d{2})$",
            "examples": ["2026-12-15T11:30Z"],
        }
    ),
]


def _no_group(value: object) -> object:
    """The word `none` in the file is no placement group."""
    return None if value == "none" else value


PlacementGroupName = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=255)] | None,
    BeforeValidator(_no_group),
    Field(
        description="Name of the cluster placement group that the reservation was made in; "
        "`none` (default) if it was made in none.",
    ),
]

_STARTS_AT = Field(
    default=None,
    description="When the block starts, in UTC, such as 2026-12-01T11:30Z. Default: it runs already.",
)
_ENDS_AT = Field(
    description="When the block ends, in UTC; AWS ends blocks at 11:30. Nodes are drained before it. "
    "Synthesis cannot look it up.",
    examples=["2026-12-15T11:30Z"],
)


_LIFE_SPAN = Field(
    default=None,
    description="When the fleet shall have no nodes any more, in UTC; they drain 15 minutes before. Default: no end.",
)
_RESERVATION_END = Field(
    default=None,
    description="When the reservation ends, in UTC, the last of several. Its instances do not end with it, and are "
    "billed on demand from then on: with this, the nodes drain 15 minutes before. Default: no end.",
)


class _WordOrOptions(SpecModel):
    """A form with one key, which is written as that word alone where it has no options."""

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: object) -> object:
        (word,) = cls.model_fields
        return {word: {}} if value == word else value

    @model_serializer
    def _to_word(self) -> Any:
        ((word, options),) = self
        given = options.model_dump(exclude_none=True)
        return {word: given} if given else word

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        fields = schema
        while "schema" in fields and fields["type"] != "model":
            fields = fields["schema"]
        form = handler.resolve_ref_schema(handler({**fields, "serialization": None}))
        (word,) = cls.model_fields
        return {"anyOf": [{"const": word}, form], "description": cls.__doc__ or ""}


class OnDemandOptions(SpecModel):
    """How long on-demand instances are used."""

    ends_at: UtcTime | None = _LIFE_SPAN


class OnDemand(_WordOrOptions):
    """`on_demand`, or `{on_demand: {ends_at: …}}`: ordinary instances, no reservation."""

    on_demand: OnDemandOptions = Field(default=OnDemandOptions(), description="Options of on-demand instances.")


class SpotOptions(SpecModel):
    """How spot instances are asked for."""

    max_price_usd_per_hour: float | None = Field(
        default=None,
        gt=0,
        description="Most to pay per instance-hour, in US dollars. Default: the On-Demand price.",
    )
    ends_at: UtcTime | None = _LIFE_SPAN


class Spot(_WordOrOptions):
    """`spot`, or `{spot: {max_price_usd_per_hour: 20}}`: spare instances that AWS takes back on two minutes' notice."""

    spot: SpotOptions = Field(description="Options of the spot request.")


class Reservation(SpecModel):
    """An On-Demand Capacity Reservation that exists already."""

    reservation: ReservationId = Field(description="Id of the reservation.", examples=["cr-0123456789abcdef0"])
    placement_group: PlacementGroupName = None
    ends_at: UtcTime | None = _RESERVATION_END


class ReservationGroup(SpecModel):
    """A resource group of On-Demand Capacity Reservations."""

    reservation_group: ResourceGroupArn = Field(description="ARN of the resource group.")
    placement_group: PlacementGroupName = None
    ends_at: UtcTime | None = _RESERVATION_END


class CapacityBlock(SpecModel):
    """A Capacity Block for ML that was bought already: one zone, one instance type, a start and an end."""

    capacity_block: ReservationId = Field(
        description="Id of the block's reservation.", examples=["cr-0123456789abcdef0"]
    )
    starts_at: UtcTime | None = _STARTS_AT
    ends_at: UtcTime = _ENDS_AT


class BlockInList(CapacityBlock):
    """One of several Capacity Blocks."""

    nodes: int | None = Field(
        default=None,
        ge=1,
        description="Instances bought. Default: as many as the fleet has nodes.",
    )


class CapacityBlocks(SpecModel):
    """Several Capacity Blocks for one fleet, one after the other or side by side, all of its type and in its zone."""

    capacity_blocks: Annotated[tuple[BlockInList, ...], AsTuple] = Field(
        min_length=1,
        description="The blocks. Each is drained at its own end; one that is over may stay until the next edit.",
    )


class UltraServerBlock(SpecModel):
    """A Capacity Block of UltraServers that was bought already."""

    ultraserver_block: ResourceGroupArn = Field(
        description="ARN of the resource group that holds the block's reservations."
    )
    reservation: ReservationId | None = Field(
        default=None,
        description="Id of the block's reservation, to follow EC2's events about it. Needed with `orchestrator: eks`. "
        "Default: the fleet grows and drains by the clock alone.",
    )
    starts_at: UtcTime | None = _STARTS_AT
    ends_at: UtcTime = _ENDS_AT


class NewReservationOptions(SpecModel):
    """The On-Demand Capacity Reservation to make. It bills from its creation, used or not."""

    end_date: UtcTime | None = Field(
        default=None, description="When the reservation ends, in UTC. Either this or `unlimited: true`."
    )
    unlimited: bool = Field(
        default=False,
        description="True: the reservation stays, and bills, until it is deleted. Explicit on purpose.",
    )
    match: Literal["targeted", "open"] = Field(
        default="targeted",
        description="`targeted`: only this fleet's instances use it. `open`: any matching instance of the account.",
    )


class NewReservation(SpecModel):
    """An On-Demand Capacity Reservation made here, for as many instances as the fleet has nodes at most."""

    new_reservation: NewReservationOptions = Field(description="The reservation to make.")


class TrainingPlan(SpecModel):
    """A flexible training plan of SageMaker that was bought already, with an `orchestrator` of HyperPod."""

    training_plan: Annotated[str, StringConstraints(min_length=1)] = Field(
        description="ARN of the plan.",
        examples=["arn:aws:sagemaker:us-east-1:123456789012:training-plan/research"],
    )


#: Leading keys of the forms that are mappings.
_KEYS = (
    "on_demand",
    "spot",
    "reservation",
    "reservation_group",
    "capacity_block",
    "capacity_blocks",
    "ultraserver_block",
    "new_reservation",
    "training_plan",
)


def _form(value: object) -> str | None:
    """The form by its leading key; `reservation` leads only where it does not say more about an UltraServer block."""
    if isinstance(value, str):
        return form_tag(value) if value in ("on_demand", "spot") else None
    of_ultraservers = form_of(value, ["ultraserver_block"]) is not None
    return form_of(value, [key for key in _KEYS if key != "reservation" or not of_ultraservers])


CapacitySpec = Annotated[
    Annotated[OnDemand, Tag("<on_demand>")]
    | Annotated[Spot, Tag("<spot>")]
    | Annotated[Reservation, Tag("<reservation>")]
    | Annotated[ReservationGroup, Tag("<reservation_group>")]
    | Annotated[CapacityBlock, Tag("<capacity_block>")]
    | Annotated[CapacityBlocks, Tag("<capacity_blocks>")]
    | Annotated[UltraServerBlock, Tag("<ultraserver_block>")]
    | Annotated[NewReservation, Tag("<new_reservation>")]
    | Annotated[TrainingPlan, Tag("<training_plan>")],
    Discriminator(_form),
]


def capacity_terms(capacity: CapacitySpec) -> CapacityTerms:
    """A capacity as the plain values that the library's rules take.

    A reservation made here has no id yet, so its terms have none. Of a training plan only SageMaker knows the terms.
    """
    if isinstance(capacity, TrainingPlan):
        return CapacityTerms(kind=CapacityKind.ON_DEMAND)
    if isinstance(capacity, OnDemand):
        return CapacityTerms(kind=CapacityKind.ON_DEMAND, ends_at=capacity.on_demand.ends_at)
    if isinstance(capacity, Spot):
        options = capacity.spot
        return CapacityTerms(
            kind=CapacityKind.SPOT, max_price_usd_per_hour=options.max_price_usd_per_hour, ends_at=options.ends_at
        )
    if isinstance(capacity, Reservation):
        return CapacityTerms(
            kind=CapacityKind.RESERVATION, reservation_id=capacity.reservation, ends_at=capacity.ends_at
        )
    if isinstance(capacity, ReservationGroup):
        return CapacityTerms(
            kind=CapacityKind.RESERVATION, reservation_group_arn=capacity.reservation_group, ends_at=capacity.ends_at
        )
    if isinstance(capacity, CapacityBlocks):
        return terms_of_blocks(
            [
                BlockTerms(
                    reservation_id=block.capacity_block,
                    starts_at=block.starts_at,
                    ends_at=block.ends_at,
                    node_count=block.nodes,
                )
                for block in capacity.capacity_blocks
            ]
        )
    if isinstance(capacity, CapacityBlock):
        return CapacityTerms(
            kind=CapacityKind.CAPACITY_BLOCK,
            reservation_id=capacity.capacity_block,
            starts_at=capacity.starts_at,
            ends_at=capacity.ends_at,
        )
    if isinstance(capacity, UltraServerBlock):
        return CapacityTerms(
            kind=CapacityKind.ULTRASERVER_BLOCK,
            reservation_id=capacity.reservation,
            reservation_group_arn=capacity.ultraserver_block,
            starts_at=capacity.starts_at,
            ends_at=capacity.ends_at,
        )
    return CapacityTerms(kind=CapacityKind.RESERVATION, ends_at=capacity.new_reservation.end_date)


def block_sizes(capacity: CapacitySpec, node_count: int) -> dict[str, int]:
    """The instances of each block of a fleet, by its id, or its resource group of an UltraServer block.

    Args:
        capacity: The capacity of the fleet.
        node_count: Most nodes of the fleet.
    """
    terms = capacity_terms(capacity)
    if not terms.kind.is_block:
        return {}
    if not terms.blocks:
        return {terms.reservation_group_arn or str(terms.reservation_id): node_count}
    return {block.reservation_id: block.node_count or node_count for block in terms.blocks}


def training_plan_of(capacity: CapacitySpec) -> str | None:
    """ARN of the training plan that nodes of HyperPod come from; None for other capacity."""
    return capacity.training_plan if isinstance(capacity, TrainingPlan) else None


def placement_group_of(capacity: CapacitySpec) -> str | None:
    """Name of the placement group that an existing reservation was made in."""
    return capacity.placement_group if isinstance(capacity, Reservation | ReservationGroup) else None
