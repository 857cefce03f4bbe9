"""Find an instance type by name: API records and hand-sourced facts joined into an `InstanceType`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json
from cdk_gpu_clusters.catalogue.instances import (
    Accelerator,
    AcceleratorKind,
    Architecture,
    Efa,
    InstanceType,
    LocalDisk,
    Network,
    NetworkCard,
    UltraServer,
)
from cdk_gpu_clusters.errors import ConfigError, Finding, define_rule

Row = Mapping[str, Any]


def build_instance_type(
    name: str, row: Row, facts: Row, tables: Row, zones: Mapping[str, tuple[str, ...]]
) -> InstanceType:
    """The record of one type.

    Args:
        name: Instance type name.
        row: Its row in an EC2 data file.
        facts: Its hand-sourced facts, the family's and its own merged.
        tables: `sources` and `layout_bases` of the facts file, and the row's `origin` and `record_status`.
        zones: Zone ids that offer it, by Region.
    """
    family, _, size = name.partition(".")
    ebs = row["ebs"]
    return InstanceType(
        name=name,
        family=family,
        size=size,
        architecture=Architecture(row["architecture"]),
        vcpus=row["vcpus"],
        cores=row["cores"],
        threads_per_core=row["threads_per_core"],
        memory_mib=row["memory_mib"],
        bare_metal=row["bare_metal"],
        hypervisor=row.get("hypervisor"),
        current_generation=row.get("current_generation"),
        cpu_manufacturer=row["cpu_manufacturer"],
        cpu_model=facts.get("cpu_model"),
        accelerator=_accelerator(row.get("accelerator") or facts.get("accelerator"), facts),
        local_disks=tuple(LocalDisk(count=c, size_gb=s, kind=k) for c, s, k in row.get("disks", ())),
        network=_network(row["network"], facts, tables["layout_bases"]),
        ebs_baseline_mbps=ebs.get("baseline_mbps"),
        ebs_maximum_mbps=ebs.get("maximum_mbps"),
        ebs_maximum_iops=ebs.get("maximum_iops"),
        ebs_max_attachments=ebs.get("max_attachments"),
        usage_classes=frozenset(row["usage_classes"]),
        placement_strategies=_optional_set(row.get("placement_strategies")),
        boot_modes=_optional_set(row.get("boot_modes")),
        dedicated_hosts=row["dedicated_hosts"],
        ultraservers=tuple(
            UltraServer(name=n, instance_count=i, accelerator_count=a) for n, i, a in facts.get("ultraservers", ())
        ),
        ultraserver_only=facts.get("ultraserver_only", False),
        regions=tuple(zones),
        availability_zone_ids=MappingProxyType(dict(zones)),
        capacity_block_regions=tuple(facts.get("capacity_block_regions", ())),
        capacity_block_local_zones=tuple(facts.get("capacity_block_local_zones", ())),
        record_status=tables["record_status"],
        unverified_fields=tuple(facts.get("unverified", ())),
        disagreements=tuple(facts.get("disagreements", ())),
        sources=_sources(facts, tables),
    )


def _optional_set(values: list[str] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)


def _sources(facts: Row, tables: Row) -> tuple[str, ...]:
    named = (tables["sources"][key] for key in facts.get("sources", ()))
    return (*tables["origin"], *(f"{source['title']} ({source['date']})" for source in named))


def _accelerator(row: Row | None, facts: Row) -> Accelerator | None:
    if row is None:
        return None
    mig_profile_key, nvlink = facts.get("mig_profile_key"), facts.get("nvlink_gbytes_per_s_per_gpu")
    return Accelerator(
        kind=AcceleratorKind(row["kind"]),
        manufacturer=row["manufacturer"],
        name=row["name"],
        marketing_name=facts.get("marketing_name"),
        count=row["count"],
        logical_count=row.get("logical_count", row["count"]),
        partition_fraction=row.get("partition_fraction", 1.0),
        memory_mib_each=row["memory_mib_each"],
        memory_mib_for_sizing=facts.get("memory_mib_for_sizing", row["memory_mib_each"]),
        nvidia_architecture=facts.get("nvidia_architecture"),
        cuda_compute_capability=facts.get("cuda_compute_capability"),
        mig_capable=mig_profile_key is not None,
        mig_profile_key=mig_profile_key,
        nvlink_gbytes_per_s_per_gpu=nvlink,
        nvswitch=facts.get("nvswitch", False if nvlink == 0 else None),
        neuron_cores_each=row.get("neuron_cores_each"),
    )


def _network(row: Row, facts: Row, layout_bases: Row) -> Network:
    cards = _cards(row["cards"], facts)
    # On one card the instance and the card are the same thing, so the card's own limit is the answer.
    only_card_gbps = cards[0].peak_gbps if len(cards) == 1 else None
    extra = facts.get("extra_ena_cards", () if len(cards) == 1 else None)
    return Network(
        cards=cards,
        max_interfaces=row["max_interfaces"],
        ipv4_per_interface=row["ipv4_per_interface"],
        ipv6_per_interface=row["ipv6_per_interface"],
        efa=_efa(row, cards, facts, layout_bases),
        ena_express=row.get("ena_express"),
        extra_ena_cards=None if extra is None else tuple(extra),
        maximum_ena_gbps=facts.get("maximum_ena_gbps", only_card_gbps),
        primary_ena_gbps=facts.get("primary_ena_gbps", only_card_gbps),
        performance=row["performance"],
    )


def _cards(rows: list[Row], facts: Row) -> tuple[NetworkCard, ...]:
    efa_gbps = _by_card(facts.get("card_efa_gbps", ()))
    ena_gbps = _by_card(facts.get("card_ena_gbps", ()))
    if len(rows) == 1 and rows[0]["to"] == 0:
        # The one card is the instance: its limit holds for either traffic, unless a fact says otherwise.
        peak = rows[0].get("peak_gbps")
        ena_gbps[0] = facts.get("primary_ena_gbps", peak)
        if "efa" in rows[0]["interface_types"]:
            efa_gbps[0] = facts.get("efa_gbps", peak)
    return tuple(
        NetworkCard(
            index=index,
            max_interfaces=row["max_interfaces"],
            interface_types=frozenset(row["interface_types"]),
            baseline_gbps=row.get("baseline_gbps"),
            peak_gbps=row.get("peak_gbps"),
            efa_gbps=efa_gbps.get(index),
            ena_gbps=ena_gbps.get(index),
        )
        for row in rows
        for index in range(row["from"], row["to"] + 1)
    )


def _by_card(ranges: Iterable[tuple[int, int, int, float]]) -> dict[int, float | None]:
    """Expand `[from, to, step, gbps]` ranges."""
    return {card: gbps for first, last, step, gbps in ranges for card in range(first, last + 1, step)}


def _efa(row: Row, cards: tuple[NetworkCard, ...], facts: Row, layout_bases: Row) -> Efa | None:
    if not row.get("efa_interfaces"):
        return None
    capable = tuple(card.index for card in cards if card.supports_efa)
    one_card = len(cards) == 1
    layout = facts.get("layout", "single" if one_card else "generic")
    return Efa(
        max_interfaces=row["efa_interfaces"],
        ceiling_gbps=facts.get("efa_gbps", cards[0].peak_gbps if one_card else None),
        rdma_read=facts.get("rdma_read"),
        rdma_write=facts.get("rdma_write"),
        gpudirect_rdma=facts.get("gpudirect_rdma"),
        generation=facts.get("efa_generation"),
        recommended_cards=tuple(facts.get("recommended_cards", capable)),
        recommended_layout_basis=layout_bases[layout],
    )


# Find an instance type by name.

# One file per origin: AWS pages for types that the recording lacks, and recorded API output, which wins.
_EC2_FILES = (
    ("documented_instance_types.json", "documentation"),
    ("ec2_instance_types.json", "api"),
)

UNKNOWN_TYPE = define_rule(
    "GPU-INST-001",
    "the instance type is in the catalogue",
    source="the catalogue's data files: recorded DescribeInstanceTypes output and AWS specification pages",
)
NAME_ONLY_TYPE = define_rule(
    "GPU-INST-002",
    "the instance type has published numbers",
    source="the catalogue's list of names that AWS pages mention without specifications",
)


def instance_type(name: str) -> InstanceType:
    """The record of one instance type.

    Args:
        name: Such as `p5.48xlarge`, in EC2's own spelling.

    Raises:
        ConfigError: GPU-INST-001 if the type is unknown, with the nearest names; GPU-INST-002 if only its
            name is known, with what is missing.

    Example:
        >>> instance_type("p5.48xlarge").network.efa.max_interfaces
        32
    """
    if name in name_only_types():
        raise ConfigError([_name_only(name)])
    if name not in _rows():
        raise ConfigError([_unknown(name)])
    return _record(name)


def instance_types() -> Mapping[str, InstanceType]:
    """Every instance type of the catalogue by name, accelerated and plain, in name order."""
    return _all_records()


def instance_type_names() -> frozenset[str]:
    """The names of every instance type of the catalogue, without their records."""
    return _names()


def name_only_types() -> Mapping[str, str]:
    """Types that sources name without giving numbers, each with the reason why it cannot be used yet."""
    names: dict[str, str] = read_json("instance_facts.json")["name_only_types"]
    return MappingProxyType(names)


@cache
def _names() -> frozenset[str]:
    return frozenset(_rows())


@cache
def _all_records() -> Mapping[str, InstanceType]:
    return MappingProxyType({name: _record(name) for name in sorted(_rows())})


@cache
def _record(name: str) -> InstanceType:
    file, record_status = _rows()[name]
    ec2, facts = read_json(file), read_json("instance_facts.json")
    family = name.partition(".")[0]
    own = {**facts["families"].get(family, {}), **facts["types"].get(name, {})}
    zones = _zones(name)
    origin = [ec2["source"], *([read_json("ec2_offerings.json")["source"]] if zones else [])]
    tables = {**facts, "origin": origin, "record_status": record_status}
    return build_instance_type(name, ec2["types"][name], own, tables, zones)


@cache
def _rows() -> Mapping[str, tuple[str, str]]:
    return {name: (file, status) for file, status in _EC2_FILES for name in read_json(file)["types"]}


def _zones(name: str) -> dict[str, tuple[str, ...]]:
    """Zone ids that offer the type; the file keeps numbers only, as `"us-east-1": "1 2 6"`."""
    offerings: dict[str, Any] = read_json("ec2_offerings.json")
    prefixes = offerings["zone_id_prefixes"]
    return {
        region: tuple(f"{prefixes[region]}-az{number}" for number in numbers.split())
        for region, numbers in offerings["types"].get(name, {}).items()
    }


def _unknown(name: str) -> Finding:
    from difflib import get_close_matches  # only a wrong name pays for it

    wanted, known = name.strip().lower(), list(_rows())
    similar = get_close_matches(wanted, known, n=4)
    family = [other for other in known if other.partition(".")[0] == wanted.partition(".")[0]]
    nearest = dict.fromkeys((*similar, *family))
    return UNKNOWN_TYPE.finding(
        cause="the instance type is not in the catalogue",
        got=repr(name),
        allowed=f"nearest: {', '.join(nearest)}" if nearest else "a type of `instance_types()`",
        fix="correct the name; for a type newer than this release, update the library",
    )


def _name_only(name: str) -> Finding:
    return NAME_ONLY_TYPE.finding(
        cause=f"only the name of this instance type is known: {name_only_types()[name]}",
        got=repr(name),
        fix="use a type with published specifications, or update the library once AWS publishes them",
    )
