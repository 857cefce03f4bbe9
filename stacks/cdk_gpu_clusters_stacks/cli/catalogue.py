"""`gpu-clusters catalogue`: instance types, listed, filtered and side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from cdk_gpu_clusters.catalogue.instances import InstanceType, instance_type, instance_types
from cdk_gpu_clusters.catalogue.prices import newest_price
from cdk_gpu_clusters.catalogue.regions import region as check_region

from . import complete, output
from .group import examples, new_app

UNKNOWN = "unknown"
_MIB_PER_GIB = 1024
_EXAMPLES = "gpu-clusters catalogue compare p5.48xlarge p5en.48xlarge"

app = new_app(
    help="Instance types: list, filter and compare them.\n\n"
    + examples("gpu-clusters catalogue list --efa --mig --region us-east-1", _EXAMPLES),
)


def _accelerators(one: InstanceType) -> str:
    found = one.accelerator
    if found is None:
        return "none"
    share = "" if found.partition_fraction == 1 else f" (1/{round(1 / found.partition_fraction)} each)"
    return f"{found.logical_count} x {found.marketing_name or found.name}{share}"


def _accelerator_memory(one: InstanceType) -> str:
    return f"{one.accelerator.memory_mib_each / _MIB_PER_GIB:.0f}" if one.accelerator else "-"


def _nvlink(one: InstanceType) -> str:
    if one.accelerator is None or one.accelerator.nvlink_gbytes_per_s_per_gpu is None:
        return "-"
    return f"{one.accelerator.nvlink_gbytes_per_s_per_gpu:g}"


def _efa(one: InstanceType) -> str:
    efa = one.network.efa
    if efa is None:
        return "none"
    return f"{efa.max_interfaces}, {UNKNOWN if efa.ceiling_gbps is None else f'{efa.ceiling_gbps:g} Gbps'}"


def _disks(one: InstanceType) -> str:
    return " + ".join(f"{disk.count} x {disk.size_gb} GB" for disk in one.local_disks) or "none"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


#: What a comparison shows, in its order: a name with its unit, and how to read it.
_ROWS: dict[str, Callable[[InstanceType], str]] = {
    "accelerators": _accelerators,
    "memory of each, GiB": _accelerator_memory,
    "NVLink, GB/s per GPU": _nvlink,
    "vCPUs": lambda one: str(one.vcpus),
    "memory, GiB": lambda one: f"{one.memory_mib / _MIB_PER_GIB:g}",
    "architecture": lambda one: one.architecture.value,
    "network": lambda one: one.network.performance,
    "network cards": lambda one: str(len(one.network.cards)),
    "EFA interfaces, bandwidth": _efa,
    "local disks": _disks,
    "MIG": lambda one: _yes(bool(one.accelerator and one.accelerator.mig_capable)),
    "Capacity Blocks": lambda one: _yes(one.supports_capacity_block),
    "UltraServers only": lambda one: _yes(one.ultraserver_only),
    "Regions": lambda one: str(len(one.regions)) if one.regions else UNKNOWN,
    "record": lambda one: one.record_status,
}
_Region = Annotated[
    str | None,
    typer.Option(help="Only types offered there, with its on-demand price.", autocompletion=complete.regions),
]


@app.command("list", epilog=examples("gpu-clusters catalogue list --efa --mig --region us-east-1"))
def list_types(
    family: Annotated[
        str | None, typer.Option(help="Only this family, such as p5.", autocompletion=complete.families)
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="Only with this accelerator, such as H100.")] = None,
    efa: Annotated[bool, typer.Option("--efa", help="Only with EFA.")] = False,
    mig: Annotated[bool, typer.Option("--mig", help="Only with GPUs that can be split.")] = False,
    capacity_block: Annotated[
        bool, typer.Option("--capacity-block", help="Only types that Capacity Blocks exist for.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Types without accelerators, too.")] = False,
    minimum_memory_gib: Annotated[
        float, typer.Option(metavar="GIB", help="Least memory of one accelerator, in GiB.")
    ] = 0,
    region: _Region = None,
    as_json: output.Json = False,
) -> None:
    """List instance types."""
    if region is not None:
        check_region(region)

    def wanted(one: InstanceType) -> bool:
        found = one.accelerator
        names = "" if found is None else f"{found.name} {found.marketing_name or ''}".lower()
        return (
            (plain or found is not None)
            and (family is None or one.family == family)
            and (gpu is None or gpu.lower() in names)
            and (not efa or one.supports_efa)
            and (not mig or bool(found and found.mig_capable))
            and (not capacity_block or one.supports_capacity_block)
            and (found.memory_mib_each / _MIB_PER_GIB if found else 0) >= minimum_memory_gib
            and (region is None or region in one.regions)
        )

    found = [one for one in instance_types().values() if wanted(one)]
    if as_json:
        output.write_document({"instance_types": [_record(one, region) for one in found]})
        return
    if not found:
        output.stop("no instance type of the catalogue is like this")
    columns = ("type", "accelerators", "GiB each", "vCPUs", "memory GiB", "EFA", "local disks")
    price = () if region is None else (f"USD/h in {region}",)
    output.write_table(
        (*columns, *price),
        (
            (
                one.name,
                _accelerators(one),
                _accelerator_memory(one),
                str(one.vcpus),
                f"{one.memory_mib / _MIB_PER_GIB:g}",
                _efa(one),
                _disks(one),
                *(() if region is None else (_price(one, region),)),
            )
            for one in found
        ),
        right=("GiB each", "vCPUs", "memory GiB", *price),
    )


@app.command(epilog=examples(_EXAMPLES))
def compare(
    types: Annotated[
        list[str], typer.Argument(metavar="TYPE...", help="Instance types.", autocompletion=complete.instance_types)
    ],
    region: _Region = None,
    sources: Annotated[bool, typer.Option("--sources", help="Say where the numbers come from.")] = False,
    as_json: output.Json = False,
) -> None:
    """Show instance types side by side, with what is not known."""
    found = [instance_type(name) for name in types]
    if region is not None:
        check_region(region)
    if as_json:
        output.write_document({"instance_types": [_record(one, region) for one in found]})
        return
    rows = [[name, *map(read, found)] for name, read in _ROWS.items()]
    if region is not None:
        rows.append([f"USD/h in {region}", *(_price(one, region) for one in found)])
    output.write_table(("", *types), rows)
    output.write(_footnotes(found, with_sources=sources))


def _footnotes(types: Sequence[InstanceType], *, with_sources: bool) -> str:
    lines = []
    for one in types:
        lines += [f"{one.name}: {text}" for text in one.disagreements]
        if one.unverified_fields:
            lines.append(f"{one.name}: unverified: {', '.join(one.unverified_fields)}")
    if with_sources:
        lines += ["sources:", *dict.fromkeys(f"  {source}" for one in types for source in one.sources)]
    return "".join(f"{line}\n" for line in ("", *lines)) if lines else ""


def _price(one: InstanceType, region: str) -> str:
    price = newest_price(one.name, region)
    return UNKNOWN if price is None else f"{price.usd} ({price.as_of})"


def _record(one: InstanceType, region: str | None) -> dict[str, Any]:
    record: dict[str, Any] = output.as_json(one)
    if region is not None:
        record["on_demand_price"] = output.as_json(newest_price(one.name, region))
    return record
