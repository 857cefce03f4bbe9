"""Whether EC2 has the instance types, where and as the fleets want them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters_stacks.spec.views import PlannedFleet

from ..answer import NoAnswer
from ..call import OFFERINGS, TYPES, Call
from ..check import Check, Inquiry, Verdict, cannot_tell, failed, passed, warned
from ..cluster import Cluster, every_fleet, kind_of, words

OFFERED = define_rule(
    "GPU-PRE-021",
    "EC2 offers the instance type in the zones of the fleet",
    source="EC2 API reference, DescribeInstanceTypeOfferings",
)
AS_IN_CATALOGUE = define_rule(
    "GPU-PRE-022",
    "the instance type matches the catalogue: processors, accelerators, network cards, EFA",
    source="EC2 API reference, DescribeInstanceTypes; the catalogue's record of the type",
)
SOLD_THIS_WAY = define_rule(
    "GPU-PRE-023",
    "EC2 sells the instance type the way the fleet buys it",
    source="EC2 API reference, DescribeInstanceTypes, SupportedUsageClasses",
)

_BLOCKS = "EC2 lists only what it sells on demand, and this type may come in blocks alone"


def _types(cluster: Cluster) -> list[str]:
    return sorted({fleet.type.name for fleet in cluster.fleets.values()})


def _offered(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    names = {"Name": "instance-type", "Values": _types(inquiry.cluster)}
    kinds = ("availability-zone", "availability-zone-id")
    for kind in kinds:
        inquiry.start(OFFERINGS, LocationType=kind, Filters=[names])
    offers = [
        one["Location"]
        for kind in kinds
        for one in inquiry.ask(OFFERINGS, LocationType=kind, Filters=[names])["InstanceTypeOfferings"]
        if one["InstanceType"] == fleet.type.name
    ]
    missing = [zone for zone in fleet.zones if zone not in offers]
    name, zones = fleet.type.name, words(fleet.zones)
    if not missing and offers:
        yield passed(f"{name} in {zones if fleet.zones else words(offers)}")
    elif kind_of(fleet).is_block:
        yield warned(f"{name} is not offered in {zones}", fix=f"check the block's zone: {_BLOCKS}")
    elif not offers:
        yield failed(
            f"{name} is offered nowhere in {inquiry.cluster.region}", fix="choose another type or Region"
        )
    else:
        yield failed(
            f"{name} is not offered in {words(missing)}", fix=f"choose a zone of {words(sorted(offers))}"
        )


def _by_type(cluster: Cluster) -> Mapping[str, InstanceType]:
    return {f"{where}.instance_type": fleet.type for where, fleet in cluster.fleets.items()}


def _described(name: str, inquiry: Inquiry) -> Mapping[str, object]:
    wanted = [{"Name": "instance-type", "Values": _types(inquiry.cluster)}]
    found = inquiry.ask(TYPES, Filters=wanted)["InstanceTypes"]
    for one in found:
        if one["InstanceType"] == name:
            return dict(one)
    raise NoAnswer(f"EC2 does not describe {name} in {inquiry.cluster.region}", fix="see GPU-PRE-021")


def _known(record: InstanceType, inquiry: Inquiry) -> Iterator[Verdict]:
    said = _described(record.name, inquiry)
    differing = [
        f"{what}: {given} in the catalogue, {found} in EC2"
        for what, given, found in _compared(record, said)
        if found is not None and given != found
    ]
    if differing:
        yield warned(
            f"{record.name} differs: {'; '.join(differing)}",
            fix="update the library; if it is the newest, report it, and check the interfaces of a node",
        )
    else:
        yield passed(f"{record.name} is as in the catalogue")


def _compared(record: InstanceType, said: Mapping[str, object]) -> Iterator[tuple[str, object, object]]:
    """What is compared: its name, the catalogue's value, and EC2's or None."""
    processors, network = _part(said, "VCpuInfo"), _part(said, "NetworkInfo")
    yield "vCPUs", record.vcpus, processors.get("DefaultVCpus")
    yield "memory in MiB", record.memory_mib, _part(said, "MemoryInfo").get("SizeInMiB")
    yield "network cards", len(record.network.cards), network.get("MaximumNetworkCards")
    yield "network interfaces", record.network.max_interfaces, network.get("MaximumNetworkInterfaces")
    yield "EFA", record.supports_efa, network.get("EfaSupported")
    efa = record.network.efa
    if efa is not None:
        yield "EFA interfaces", efa.max_interfaces, _part(network, "EfaInfo").get("MaximumEfaInterfaces")
    gpus = _part(said, "GpuInfo").get("Gpus")
    if record.accelerator is not None and isinstance(gpus, list):
        count = sum(gpu.get("LogicalGpuCount", gpu.get("Count", 0)) for gpu in gpus)
        yield "GPUs", record.accelerator.logical_count, count


def _part(said: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = said.get(key)
    return found if isinstance(found, Mapping) else {}


def _sold(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    classes = _described(fleet.type.name, inquiry).get("SupportedUsageClasses")
    if not isinstance(classes, list):
        yield cannot_tell(f"EC2 does not say how {fleet.type.name} is sold")
        return
    kind = kind_of(fleet)
    needed = "capacity-block" if kind.is_block else "spot" if kind.value == "spot" else "on-demand"
    if needed in classes:
        yield passed(f"{fleet.type.name}: {words(classes)}")
    else:
        yield failed(
            f"{fleet.type.name} is not sold as {needed}, only as {words(classes)}", fix="change capacity"
        )


_DESCRIBE: tuple[Call, ...] = (TYPES,)

CHECKS = (
    Check(rule=OFFERED, calls=(OFFERINGS,), subjects=every_fleet, judge=_offered),
    Check(rule=AS_IN_CATALOGUE, calls=_DESCRIBE, subjects=_by_type, judge=_known),
    Check(rule=SOLD_THIS_WAY, calls=_DESCRIBE, subjects=every_fleet, judge=_sold),
)
