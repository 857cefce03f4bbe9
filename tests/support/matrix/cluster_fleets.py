"""The fleets of the cluster files that Hypothesis writes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of
from cdk_gpu_clusters.rules.mig import fits
from matrix.axes import PLACEMENT_GROUP, RESERVATION, RESERVATION_GROUP
from matrix.hardware import CARDS_FOR_IP_BANDWIDTH, ULTRASERVERS, Hardware, hardware_types
from matrix.published import images_that_list

Data = dict[str, Any]
Optional = dict[str, st.SearchStrategy[Any]]

SCRIPT = "boot.sh"
#: Plain types beside all those with accelerators: one without EFA, one with it, and a burstable one.
_PLAIN_TYPES = ("m8g.4xlarge", "c7i.48xlarge", "t3.large")
_SYSTEMS = ("al2023", "ubuntu-24.04", "ubuntu-22.04")
#: A letter first: ruamel.yaml cannot read a colon that it writes there.
_VALUES = st.text("abcXYZ012_./:,+-", max_size=40).map("v{}".format)
_VARIABLES = st.dictionaries(
    st.sampled_from(["NCCL_DEBUG", "FI_LOG_LEVEL", "DATASET", "OMP_NUM_THREADS"]), _VALUES, max_size=3
)
_TAGS = st.dictionaries(st.sampled_from(["team", "purpose"]), st.text("abc019-_./ ", max_size=8), max_size=2)
_FIXED = st.fixed_dictionaries({"nodes": st.integers(1, 40)})
_RANGE = st.tuples(st.integers(0, 12), st.integers(1, 60)).map(
    lambda both: {"min_nodes": min(both), "max_nodes": max(both)}
)
_GROUP: Optional = {"placement_group": st.sampled_from(["none", PLACEMENT_GROUP])}
_ENDS: Optional = {"ends_at": st.just("2026-12-15T11:30Z")}
_STARTS: Optional = {"starts_at": st.sampled_from(["2026-12-01T11:30Z", "2026-12-14T11:30Z"])}


@st.composite
def training_fleets(draw: st.DrawFn, region: str, zone: str, stores: list[str]) -> Data:
    """Training fleets of any type that can be had in a zone."""
    hardware = draw(st.sampled_from(_types(zone)))
    fleet = draw(_bought(hardware, region))
    strategies = ["none", *_strategies(fleet.get("capacity", "on_demand"))]
    policies = ["minimum-ip", "efa-per-card"]
    policies += ["maximum-ena-bandwidth"] if hardware.name in CARDS_FOR_IP_BANDWIDTH else []
    optional: Optional = {
        **_of_every_fleet(hardware, stores),
        "efa": st.booleans() if hardware.most_efa else st.just(False),
        "interface_policy": st.sampled_from(policies),
        "fabric": st.sampled_from(["default", "other"]),
        "placement": st.sampled_from(strategies),
        "environment": _VARIABLES,
        "scratch": st.booleans(),
        "user_data": st.just(SCRIPT),
        **({"checkpoints": st.just("kept")} if "kept" in stores else {}),
    }
    fleet |= draw(_of_keys(hardware, optional))
    if "mig" in fleet and hardware.most_efa:  # the two exclude each other, which is known: seldom together
        fleet["efa"] = draw(st.integers(0, 5).map(lambda number: number == 5))
    return fleet


def _strategies(capacity: str | Data) -> list[str]:
    """Strategies that a purchase leaves open."""
    if isinstance(capacity, str) or "spot" in capacity:
        return ["cluster", "partition", "spread"]
    has_group = "new_reservation" in capacity or capacity.get("placement_group", "none") != "none"
    return ["cluster"] if has_group else []


@st.composite
def inference_fleets(draw: st.DrawFn, region: str, zone: str, stores: list[str]) -> Data:
    """Inference fleets of any type with accelerators."""
    hardware = draw(st.sampled_from([each for each in _types(zone) if each.accelerator]))
    fleet = draw(_bought(hardware, region))
    fleet |= draw(_of_keys(hardware, _of_every_fleet(hardware, stores)))
    return {
        **fleet,
        "server": {"image": "vllm/vllm-openai:v0.11.0", "command": ["--model", "tiny"]},
        "load_balancer": {"plain_http": True, "clients": ["10.0.0.0/16"]},
    }


def _of_every_fleet(hardware: Hardware, stores: list[str]) -> Optional:
    """Keys that every fleet may have."""
    file_systems = [store for store in stores if store != "kept"]
    points = st.sampled_from(["/fsx", "/data/in"])
    mounts = st.dictionaries(points, st.sampled_from(file_systems or [""]), min_size=1)
    volume = st.fixed_dictionaries(
        {"size_gib": st.integers(1, 2000)},
        optional={"iops": st.integers(3000, 16_000), "throughput_mib_per_s": st.integers(125, 1000)},
    )
    watch = st.fixed_dictionaries(
        {"mode": st.sampled_from(["on", "dry-run", "off"])},
        optional={
            "actions_per_hour": st.integers(1, 1000),
            "repair_wait_seconds": st.integers(0, 604_800),
            "maintenance": st.sampled_from(["", "driver change"]),
            "dcgm_level": st.integers(0, 2),
        },
    )
    layouts = _layouts(hardware)
    return {
        "root_volume": volume,
        "update": st.sampled_from(["never", "rolling"]),
        "tags": _TAGS,
        "watch": watch,
        "evidence_bucket": st.just("my-records"),
        **({"mounts": mounts} if file_systems else {}),
        **({"mig": layouts} if layouts is not None else {}),
    }


def _of_keys(hardware: Hardware, optional: Optional) -> st.SearchStrategy[Data]:
    """The optional keys, and an image where AWS has none for the type."""
    images = _images(hardware)
    if images_that_list(hardware, None):
        return st.fixed_dictionaries({}, optional={**optional, "image": images})
    return st.fixed_dictionaries({"image": images}, optional=optional)


def _types(zone: str) -> list[Hardware]:
    is_local = zone.count("-") > 2
    return [
        hardware
        for hardware in hardware_types().values()
        if (hardware.family == "p6e-gb200") is is_local and (hardware.accelerator or hardware.name in _PLAIN_TYPES)
    ]


def _images(hardware: Hardware) -> st.SearchStrategy[Data]:
    systems = st.sampled_from(_SYSTEMS)
    by_id = st.fixed_dictionaries({"id": st.just("ami-0123456789abcdef0")}, optional={"os": systems})
    by_parameter = st.fixed_dictionaries({"parameter": st.just("/images/nodes"), "os": systems})
    listed = [system for system in _SYSTEMS if images_that_list(hardware, system)]
    of_aws = [st.fixed_dictionaries({"os": st.sampled_from(listed)})] if listed else []
    return st.one_of(by_id, by_parameter, *of_aws)


def _layouts(hardware: Hardware) -> st.SearchStrategy[Any] | None:
    """MIG layouts of a type's GPUs, which may not fit; None where there are none."""
    gpu = mig_gpu_of(instance_type(hardware.name))
    if gpu is None or not gpu.profiles:
        return None
    drawn = st.lists(st.sampled_from(list(gpu.profiles.values())), min_size=1, max_size=4)
    fitting = drawn.map(lambda layout: next(layout[:n] for n in range(len(layout), 0, -1) if fits(gpu, layout[:n])))
    one = st.one_of(fitting, fitting, drawn).map(lambda layout: ",".join(profile.name for profile in layout))
    each = st.lists(one | st.just("off"), min_size=hardware.accelerator_count, max_size=hardware.accelerator_count)
    return one | each


@st.composite
def _bought(draw: st.DrawFn, hardware: Hardware, region: str) -> Data:
    """The type with a number of nodes, and the capacity that they come from."""
    fleet: Data = {"instance_type": hardware.name}
    capacity = draw(_capacities(hardware, region))
    if isinstance(capacity, dict) and "ends_at" in capacity:
        fleet["nodes"] = draw(st.sampled_from(ULTRASERVERS.get(hardware.name, (1, 4, 64))))
    else:
        fleet |= draw(_FIXED | _RANGE)
    return fleet if capacity == "on_demand" else {**fleet, "capacity": capacity}


def _capacities(hardware: Hardware, region: str) -> st.SearchStrategy[Any]:
    arn = st.just(RESERVATION_GROUP.replace("us-east-1", region))
    if hardware.name in ULTRASERVERS:
        return st.fixed_dictionaries(
            {"ultraserver_block": arn, **_ENDS}, optional={**_STARTS, "reservation": st.just(RESERVATION)}
        )
    new = st.sampled_from([{"unlimited": True}, {"end_date": "2027-01-31T00:00Z", "match": "open"}])
    price = st.integers(1, 20_000).map(lambda cents: cents / 100)
    choices: list[st.SearchStrategy[Any]] = [
        st.sampled_from(["on_demand", "spot"]),
        st.fixed_dictionaries({"reservation": st.just(RESERVATION)}, optional=_GROUP),
        st.fixed_dictionaries({"reservation_group": arn}, optional=_GROUP),
        st.fixed_dictionaries({"new_reservation": new}),
        st.fixed_dictionaries({"spot": st.fixed_dictionaries({"max_price_usd_per_hour": price})}),
    ]
    block = st.fixed_dictionaries({"capacity_block": st.just(RESERVATION), **_ENDS}, optional=_STARTS)
    return st.one_of(*choices, *([block] if "capacity-block" in hardware.usage_classes else []))
