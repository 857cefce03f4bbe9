"""What advice chooses from: shapes of models, instance types, and the cheapest rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.catalogue.lookup import instance_type, instance_types
from cdk_gpu_clusters.catalogue.models import ModelShape, model_shape, nearest_shape
from cdk_gpu_clusters.catalogue.prices import newest_price
from cdk_gpu_clusters_stacks.advice.model import AdviceRow
from cdk_gpu_clusters_stacks.advice.numbers import BYTES_PER_GB

_HOURS_PER_DAY = 24
#: Rows of a table: more only repeats dearer ways.
_MOST_ROWS = 12

ESTIMATE = (
    "An estimate: frameworks add buffers and fragments of their own. The fewest nodes that hold the model are rarely "
    "the fastest."
)


def choose_shape(model: str | None, parameters: int) -> ModelShape:
    """The shape of a published model by its name, or of the one that is nearest in size.

    Raises:
        ConfigError: GPU-MODEL-001 if there is no such name.
    """
    return nearest_shape(parameters) if model is None else model_shape(model)


def choose_types(type_name: str | None, region: str) -> Sequence[InstanceType]:
    """The type of that name, or all that the Region offers."""
    if type_name is not None:
        return [instance_type(type_name)]
    # UltraServers come by agreement with AWS, and as a block only: they are looked at when they are asked for.
    return [one for one in instance_types().values() if region in one.regions and not one.ultraserver_only]


def price_row(
    one: InstanceType,
    nodes: int,
    how: str,
    needed: int,
    usable: int,
    region: str,
    *,
    devices_per_replica: int = 1,
    mig_profile: str | None = None,
    mig_instances_per_gpu: int = 0,
) -> AdviceRow:
    """A row with what its nodes cost a day, on demand."""
    price = newest_price(one.name, region)
    return AdviceRow(
        instance_type=one.name,
        nodes=nodes,
        gpus=nodes * (one.accelerator.count if one.accelerator else 0),
        how=how,
        gb_per_device=round(needed / BYTES_PER_GB, 1),
        usable_gb_per_device=round(usable / BYTES_PER_GB, 1),
        usd_per_day=None if price is None else price.usd * nodes * _HOURS_PER_DAY,
        price_as_of=None if price is None else price.as_of,
        price_source=None if price is None else price.source,
        devices_per_replica=devices_per_replica,
        mig_profile=mig_profile,
        mig_instances_per_gpu=mig_instances_per_gpu,
    )


def cheapest(rows: Iterable[AdviceRow]) -> tuple[AdviceRow, ...]:
    """The cheapest rows first, those of unknown price last."""
    ordered = sorted(
        rows, key=lambda row: (row.usd_per_day is None, row.usd_per_day or 0, row.nodes, row.instance_type)
    )
    return tuple(ordered[:_MOST_ROWS])
