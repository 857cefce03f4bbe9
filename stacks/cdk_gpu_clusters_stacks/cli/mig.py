"""`gpu-clusters mig`: the MIG profiles of a GPU, and the fewest GPUs that hold requested instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cdk_gpu_clusters.catalogue.instances import instance_type, instance_type_names
from cdk_gpu_clusters.catalogue.mig import MigEvidence, MigGpu, mig_gpu_of, mig_gpus
from cdk_gpu_clusters.rules.mig import MigPlan
from cdk_gpu_clusters.rules.mig_packing import MigPacking, pack_mig
from cdk_gpu_clusters_stacks.counting import count

from . import complete, output
from .group import examples, new_app

app = new_app(
    help="MIG profiles of a GPU, and layouts with the fewest GPUs.\n\n"
    + examples(
        "gpu-clusters mig profiles p4d.24xlarge",
        'gpu-clusters mig pack "12x>=20GB, 3x>=40GB" --type p4d.24xlarge',
    ),
)
_PROFILES = ("profile", "id", "memory GB", "compute slices", "memory slices", "most", "starts", "Kubernetes resource")
#: What Slurm makes of 7g.40gb where the driver reports less than 39.5 GiB.
_LESS = "7g.39gb and not 7g.40gb"
_NUMBERS = _PROFILES[1:6]


@app.command(epilog=examples("gpu-clusters mig profiles A100-40GB"))
def profiles(
    gpu: Annotated[str, typer.Argument(help="Model such as A100-40GB, or an instance type with it.")],
    as_json: output.Json = False,
) -> None:
    """List the profiles of a GPU, with the places that they can have."""
    found = _gpu(gpu)
    if as_json:
        output.write_document(output.as_json(found))
        return
    output.write(
        f"{found.key} ({found.model}): {found.compute_slices} compute slices, {found.memory_slices} memory slices, "
        f"driver {found.minimum_driver} or newer\n"
    )
    output.write_table(
        _PROFILES,
        (
            (
                one.name,
                str(one.id),
                str(one.memory_gb),
                str(one.compute_slices),
                str(one.memory_slices),
                str(one.max_instances),
                ", ".join(map(str, one.starts)),
                one.resource_name,
            )
            for one in found.profiles.values()
        ),
        right=_NUMBERS,
    )
    output.write("".join(f"{line}\n" for line in _doubts(found)))


@app.command(
    epilog=examples(
        'gpu-clusters mig pack "12x>=20GB, 3x>=40GB" --type p4d.24xlarge',
        then="Slurm names a slice by its profile, with AutoDetect=nvml in gres.conf; `slurmd -G` shows how.",
    )
)
def pack(
    requests: Annotated[
        str,
        typer.Argument(help='Such as "12x>=20GB, 3x3g.40gb": a number, and a least memory or a profile.'),
    ],
    type_name: Annotated[
        str, typer.Option("--type", help="Instance type of the nodes.", autocompletion=complete.instance_types)
    ],
    as_json: output.Json = False,
) -> None:
    """Put requested MIG instances on the fewest GPUs, at places that the rules have proven."""
    packing = pack_mig(type_name, requests)
    if as_json:
        output.write_document(_packing_json(packing))
        return
    output.write("\n".join(_packing_text(packing)) + "\n")


def _gpu(name: str) -> MigGpu:
    if name in mig_gpus():
        return mig_gpus()[name]
    if name not in instance_type_names():
        output.refuse(f"mig: {name!r} is neither a GPU with MIG ({', '.join(mig_gpus())}) nor an instance type")
    found = mig_gpu_of(instance_type(name))
    if found is None:
        output.refuse(f"mig: the accelerators of {name} cannot be split with MIG")
    return found


def _doubts(gpu: MigGpu) -> Iterator[str]:
    for what, evidence in (("names", gpu.names), ("ids", gpu.ids), ("placements", gpu.placements)):
        if evidence is not MigEvidence.VERIFIED:
            yield f"{what}: {evidence.value}"
    yield from gpu.notes
    yield f"sources: {'; '.join(gpu.sources)}"


def _gres(plan: MigPlan, model: str) -> str:
    """The Gres of a node in slurm.conf; with AutoDetect=nvml a type is a part of the device's name.

    Source: Slurm, src/plugins/gpu/nvml/gpu_nvml.c: a slice is named by its slices and memory, without attributes such
    as `+me`; src/interfaces/gres.c: either all GPUs of a node have a type or none. A full GPU has the model's name in
    lower case, with `_` for spaces.
    """
    names = Counter(profile.name.partition("+")[0] for gpu in plan.gpus for profile in gpu.profiles)
    typed = [f"gpu:{name}:{count}" for name, count in sorted(names.items())]
    whole = plan.whole_gpus_per_node
    return ",".join([*typed, *([f"gpu:{model.lower().replace(' ', '_')}:{whole}"] if whole else [])])


def _packing_text(packing: MigPacking) -> Iterator[str]:
    gpus, nodes = len(packing.layouts), len(packing.nodes)
    yield f"{count(gpus, 'GPU')} on {count(nodes, packing.instance_type + ' node')}; no packing needs fewer GPUs"
    for choice in packing.choices:
        profile = choice.profile
        size = f"{profile.memory_gb} GB, {count(profile.compute_slices, 'compute slice')}"
        more = ", more than needed, since there is room" if choice.has_more_compute else ""
        yield f"  {choice.request.text}: {profile.name} ({size}{more})"
    for number, plan in enumerate(packing.nodes, start=1):
        yield ""
        yield f"node {number}"
        yield from _gpu_lines(plan)
        yield f"  MIG_PARTITION={plan.partition}"
        yield f"  Slurm: Gres={_gres(plan, packing.gpu.model)}"
        yield f"  Kubernetes: {', '.join(f'{name}: {count}' for name, count in plan.resources.items())}"
        yield f"  driver: {plan.minimum_driver} or newer"
    yield ""
    yield f"Slurm rounds the memory that the driver reports, so that a slice can be {_LESS}: compare with `slurmd -G`."
    if packing.nodes[0].findings:
        yield ""
        yield from (f"{one.severity.value} {one.id}: {one.cause}" for one in packing.nodes[0].findings)


def _gpu_lines(plan: MigPlan) -> Iterator[str]:
    """One line for each run of GPUs that are split in the same way."""
    begin = 0
    for index, gpu in enumerate(plan.gpus):
        after = plan.gpus[index + 1] if index + 1 < len(plan.gpus) else None
        if after is not None and after.partition == gpu.partition:
            continue
        which = f"GPU {begin}" if begin == index else f"GPUs {begin}-{index}"
        places = ", ".join(f"{one.profile.name} at {one.start}-{one.start + one.size - 1}" for one in gpu.placements)
        yield f"  {which}: {places or 'whole'}"
        begin = index + 1


def _packing_json(packing: MigPacking) -> dict[str, Any]:
    return {
        "instance_type": packing.instance_type,
        "gpu": packing.gpu.key,
        "gpus": len(packing.layouts),
        "chosen": [
            {
                "request": choice.request.text,
                "profile": choice.profile.name,
                "more_compute_than_needed": choice.has_more_compute,
            }
            for choice in packing.choices
        ],
        "nodes": [
            {
                "mig_partition": plan.partition,
                "slurm_gres": _gres(plan, packing.gpu.model),
                "kubernetes_resources": dict(plan.resources),
                "minimum_driver": plan.minimum_driver,
                "gpus": [
                    [{"profile": one.profile.name, "start": one.start, "size": one.size} for one in gpu.placements]
                    for gpu in plan.gpus
                ],
            }
            for plan in packing.nodes
        ],
        "findings": [output.as_json(finding) for finding in packing.nodes[0].findings],
    }
