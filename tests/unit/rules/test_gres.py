"""The generic resources that Slurm knows of a node: types, records, device files, and settings written by hand."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType, instance_type, instance_types
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.gres import (
    GresEntry,
    GresMode,
    check_gres,
    check_gres_form,
    gpu_type,
    gres_counts,
    gres_entries,
    mig_capability,
    plan_gres,
)
from cdk_gpu_clusters.rules.mig import MigLayout, MigPlan, plan_mig

P4D = instance_type("p4d.24xlarge")
G7E = instance_type("g7e.48xlarge")
WITH_GPUS = [
    kind for kind in instance_types().values() if kind.accelerator and kind.accelerator.kind is AcceleratorKind.GPU
]
SEVEN = MigLayout(["1g.5gb"] * 7)
MIXED = [MigLayout("3g.20gb,2g.10gb,1g.5gb,1g.5gb")] * 4 + [MigLayout.whole_gpu()] * 4
#: Ids of the instances of MIXED, as `nvidia-smi mig -lgi` may show them.
MIXED_IDS = [[2, 3, 9, 10]] * 4 + [[]] * 4
OUTPUTS = Path(__file__).resolve().parents[2] / "fixtures" / "tool_output" / "nvidia_smi"


def ids_of(error: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return [finding.id for finding in error.value.findings]


def test_seven_slices_of_eight_gpus_are_56() -> None:
    plan = plan_gres(P4D, plan_mig(P4D, SEVEN))
    assert plan.node_gres == "gpu:1g.5gb:56"
    assert plan.custom_settings == [{"AutoDetect": "nvml"}]
    assert plan.conf_text("gpu-[1-16]") == "NodeName=gpu-[1-16] AutoDetect=nvml\n"


def test_the_example_of_the_user_guide_of_pcs() -> None:
    """AWS PCS user guide, "Configuring Multi-Instance GPU (MIG) in AWS PCS", Declare the MIG profiles to Slurm."""
    plan = plan_gres(P4D, plan_mig(P4D, MigLayout("3g.20gb,2g.10gb,1g.5gb,1g.5gb")))
    assert plan.node_gres == "gpu:3g.20gb:8,gpu:2g.10gb:8,gpu:1g.5gb:16"
    assert plan.custom_settings == [{"AutoDetect": "nvml"}]


def test_whole_gpus_stand_behind_the_slices_of_the_others() -> None:
    plan = plan_gres(P4D, plan_mig(P4D, MIXED))
    assert plan.node_gres == "gpu:3g.20gb:4,gpu:2g.10gb:4,gpu:1g.5gb:8,gpu:a100:4"


def test_explicit_records_name_every_device_file() -> None:
    plan = plan_gres(P4D, plan_mig(P4D, MIXED), mode=GresMode.EXPLICIT, gpu_instance_ids=MIXED_IDS)
    assert len(plan.records) == 4 * 4 + 1
    assert dict(plan.records[0]) == {
        "Name": "gpu",
        "Type": "3g.20gb",
        "MultipleFiles": "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22",
    }
    assert dict(plan.records[-1]) == {"Name": "gpu", "Type": "a100", "File": "/dev/nvidia[4-7]"}
    files = [record["MultipleFiles"] for record in plan.records[:-1]]
    assert len(set(files)) == len(files), "no two slices share all their files"
    assert plan.conf_text(["gpu-1", "gpu-2"]).count("NodeName=gpu-1,gpu-2 Name=gpu ") == len(plan.records)


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("g6.xlarge", "/dev/nvidia0"),
        ("p5.48xlarge", "/dev/nvidia[0-7]"),
        ("p6e-gb200.36xlarge", "/dev/nvidia[0-3]"),
    ],
)
def test_whole_gpus_are_one_record(kind: str, file: str) -> None:
    (record,) = plan_gres(instance_type(kind), mode=GresMode.EXPLICIT).records
    assert record["File"] == file


def test_gpus_between_split_ones_are_listed() -> None:
    layouts = [MigLayout.whole_gpu(), SEVEN] * 4
    ids = [[] if layout.is_whole_gpu else [*range(7, 14)] for layout in layouts]
    plan = plan_gres(P4D, plan_mig(P4D, layouts), mode=GresMode.EXPLICIT, gpu_instance_ids=ids)
    assert plan.records[-1]["File"] == "/dev/nvidia[0,2,4,6]"


@pytest.mark.parametrize(
    "ids",
    [
        None,
        [],
        [[2, 3, 9]] * 4 + [[]] * 4,  # one too few
        [[2, 3, 9, 9]] * 4 + [[]] * 4,  # twice the same
        [[2, 3, 9, 15]] * 4 + [[]] * 4,  # the driver has 15 of them, from 0
        [[2, 3, 9, 10]] * 8,  # whole GPUs have none
    ],
)
def test_explicit_records_need_the_ids_of_the_instances(ids: list[list[int]] | None) -> None:
    with pytest.raises(ConfigError) as error:
        plan_gres(P4D, plan_mig(P4D, MIXED), mode=GresMode.EXPLICIT, gpu_instance_ids=ids)
    assert ids_of(error) == ["GPU-GRES-002"]


def test_a_long_type_of_whole_gpus_would_take_the_slices() -> None:
    slices = MigLayout("2g.48gb,1g.24gb,1g.24gb")
    with pytest.raises(ConfigError) as error:
        plan_gres(G7E, plan_mig(G7E, [slices] * 4 + [MigLayout.whole_gpu()] * 4))
    assert ids_of(error) == ["GPU-GRES-001"]
    assert plan_gres(G7E, plan_mig(G7E, slices)).node_gres == "gpu:2g.48gb:8,gpu:1g.24gb:16"
    assert plan_gres(G7E).node_gres == "gpu:rtx_pro_6000:8"


@pytest.mark.parametrize("mode", GresMode)
@pytest.mark.parametrize("kind", ["trn2.48xlarge", "m7i.large"])
def test_nodes_without_nvidia_gpus_have_no_gres(kind: str, mode: GresMode) -> None:
    with pytest.raises(ConfigError) as error:
        plan_gres(instance_type(kind), mode=mode)
    assert ids_of(error) == ["GPU-GRES-004"]


# ----- types


def detected_name(product: str) -> str:
    """As src/plugins/gpu/common/gpu_common.c of Slurm writes a name."""
    return product.lower().replace(" ", "_")


@pytest.mark.parametrize("kind", [kind for kind in WITH_GPUS if mig_gpu_of(kind)], ids=lambda kind: kind.name)
def test_the_type_is_a_part_of_the_name_that_nvml_gives(kind: InstanceType) -> None:
    gpu = mig_gpu_of(kind)
    assert gpu is not None
    assert gpu_type(kind) in detected_name(gpu.model)


# `nvidia-smi -L` of GPUs without MIG: NVIDIA's product names, as recorded outputs and driver listings have them.
PRODUCTS = {
    "t4": "Tesla T4",
    "t4g": "NVIDIA T4G",
    "a10g": "NVIDIA A10G",
    "l4": "NVIDIA L4",
    "l40s": "NVIDIA L40S",
    "v100": "Tesla V100-SXM2-32GB",
}


def test_types_without_mig_are_parts_of_the_product_names() -> None:
    types = {gpu_type(kind) for kind in WITH_GPUS if not mig_gpu_of(kind)}
    assert types == set(PRODUCTS)
    for kind, product in PRODUCTS.items():
        assert kind in detected_name(product)


def test_recorded_names_of_gpus_contain_the_type() -> None:
    names = {
        name
        for file in OUTPUTS.glob("*.xml")
        for name in re.findall(r"<product_name>(.*?)</product_name>", file.read_text())
    }
    assert names
    types = {gpu_type(kind) for kind in WITH_GPUS}
    known = [name for name in names if any(one in detected_name(name) for one in types)]
    assert known


@pytest.mark.parametrize("kind", WITH_GPUS, ids=lambda kind: kind.name)
def test_every_gpu_of_a_node_is_declared(kind: InstanceType) -> None:
    accelerator = kind.accelerator
    assert accelerator is not None
    total = accelerator.count or accelerator.logical_count
    assert sum(gres_counts(kind, None).values()) == total > 0
    (entry,) = gres_entries(plan_gres(kind).node_gres)
    assert entry == GresEntry(name="gpu", type=gpu_type(kind), count=total)


# ----- minor numbers


def mig_minors() -> dict[str, int]:
    """`/proc/driver/nvidia-caps/mig-minors` by the tables of kernel-open/nvidia/nv-caps.c, entry by entry.

    One capability of NVLink stands before those of MIG.
    """
    minors = count(1)
    table = {"config": next(minors), "monitor": next(minors)}
    for gpu in range(32):
        for instance in range(15):
            table[f"gpu{gpu}/gi{instance}/access"] = next(minors)
            for compute in range(8):
                table[f"gpu{gpu}/gi{instance}/ci{compute}/access"] = next(minors)
    return table


def test_minor_numbers_are_those_of_the_tables_of_the_driver() -> None:
    table = mig_minors()
    assert table["gpu0/gi0/access"] == 3
    for gpu in range(32):
        for instance in range(15):
            assert mig_capability(gpu, instance) == table[f"gpu{gpu}/gi{instance}/access"]
            assert [mig_capability(gpu, instance, one) for one in range(8)] == [
                table[f"gpu{gpu}/gi{instance}/ci{one}/access"] for one in range(8)
            ]


def test_minor_numbers_of_a_site_that_published_its_file() -> None:
    """A cluster's notes list seven slices of an A100: caps 66 and 67, 75 and 76, 84 and 85, 93 …, instances 7 to 10."""
    assert [mig_capability(0, instance) for instance in (7, 8, 9, 10)] == [66, 75, 84, 93]
    assert [mig_capability(0, instance, 0) for instance in (7, 8, 9)] == [67, 76, 85]


@pytest.mark.parametrize("place", [(32, 0), (-1, 0), (0, 15), (0, -1), (0, 0, 8)])
def test_places_that_the_driver_does_not_have(place: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="the driver has no"):
        mig_capability(*place)


# ----- Gres by hand


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("gpu", GresEntry(name="gpu", type="", count=1)),
        ("gpu:8", GresEntry(name="gpu", type="", count=8)),
        ("gpu:a100:8", GresEntry(name="gpu", type="a100", count=8)),
        ("gpu:1g.5gb+me:8", GresEntry(name="gpu", type="1g.5gb+me", count=8)),
        ("shard:5K", GresEntry(name="shard", type="", count=5120)),
        ("bandwidth:lustre:no_consume:4G", GresEntry(name="bandwidth", type="lustre", count=4 * 2**30)),
    ],
)
def test_entries_of_gres(text: str, entry: GresEntry) -> None:
    assert gres_entries(text) == (entry,)


@pytest.mark.parametrize("text", ["", " ", "gpu::8", "gpu:a:b:8", ":8", "gpu:x y:1", "gpu=8"])
def test_entries_that_slurm_cannot_read(text: str) -> None:
    assert [finding.id for finding in check_gres_form(text)] == ["GPU-GRES-005"]


def test_all_faults_of_gres_are_found_at_once() -> None:
    assert len(check_gres_form("gpu::8,nic:1,:3,shard:a:b:1")) == 3


@given(st.text(alphabet="gpu:ax1.+-_, =Kk9", max_size=24))
def test_no_text_of_gres_raises(text: str) -> None:
    faults = check_gres_form(text)
    if not faults:
        assert gres_entries(text)
    assert {finding.id for finding in check_gres(text, P4D, None)} <= {"GPU-GRES-003", "GPU-GRES-005"}


SPLIT = plan_mig(P4D, SEVEN)


@pytest.mark.parametrize(
    ("text", "mig", "right"),
    [
        ("gpu:1g.5gb:56", SPLIT, True),
        ("gpu:a100_1g.5gb:56", SPLIT, True),  # a part of the name of NVML's plugin, too
        ("gpu:56", SPLIT, True),
        ("gpu:1g.5gb:55", SPLIT, True),  # fewer than there are is allowed
        ("gpu:1g.5gb:57", SPLIT, False),
        ("gpu:57", SPLIT, False),
        ("gpu:a100:8", SPLIT, False),
        ("gpu:2g.10gb:8", SPLIT, False),
        ("gpu:11g.5gb:8", SPLIT, False),
        ("gpu:a100:8", None, True),
        ("gpu:nvidia_a100-sxm4-40gb:8", None, True),
        ("gpu:a100:9", None, False),
        ("gpu:h100:8", None, False),
        ("gpu:1g.5gb:56", None, False),
        ("nic:100", None, True),
    ],
)
def test_gres_against_the_layout(text: str, mig: MigPlan | None, *, right: bool) -> None:
    assert [finding.id for finding in check_gres(text, P4D, mig)] == ([] if right else ["GPU-GRES-003"])


@pytest.mark.parametrize("layouts", [SEVEN, MigLayout("3g.20gb,2g.10gb,1g.5gb,1g.5gb"), MIXED])
def test_a_plan_agrees_with_itself(layouts: MigLayout | list[MigLayout]) -> None:
    mig = plan_mig(P4D, layouts)
    assert check_gres(plan_gres(P4D, mig).node_gres, P4D, mig) == []


def test_unsplit_gpus_are_detected_without_nvml_and_slices_are_not() -> None:
    plan = plan_gres(instance_type("p5.48xlarge"), mode=GresMode.NVIDIA)
    assert (plan.node_gres, plan.custom_settings) == ("gpu:h100:8", [{"AutoDetect": "nvidia"}])
    node = instance_type("p4d.24xlarge")
    with pytest.raises(ConfigError) as caught:
        plan_gres(node, plan_mig(node, MigLayout(["1g.5gb"] * 7)), mode=GresMode.NVIDIA)
    assert [one.id for one in caught.value.findings] == ["GPU-GRES-006"]
