"""Hand-sourced facts against tables written here from AWS's pages, not from the data files."""

from typing import Any

import botocore.session
import pytest

from cdk_gpu_clusters.catalogue import AcceleratorKind, Architecture, instance_type, instance_types
from cdk_gpu_clusters.catalogue.hyperpod import hyperpod_type_names

ALL = tuple(range(32))
# Type: EFA ceiling in Gbps, cards that carry an EFA, and where the layout comes from.
# AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards"; the page
# names p5, p5e, p6-b200, p6-b300 and p6e-gb200, and its general rule covers the rest.
EFA = {
    "p5.48xlarge": (3200, ALL, "explicit"),
    "p5e.48xlarge": (3200, ALL, "explicit"),
    "p5en.48xlarge": (3200, ALL[:16], "general rule"),
    "p6-b200.48xlarge": (3200, ALL[:8], "explicit"),
    "p6-b300.48xlarge": (6400, ALL[1:17], "explicit"),
    "p6e-gb200.36xlarge": (1600, (1, 5, 9, 13), "explicit"),
    "p4d.24xlarge": (400, ALL[:4], "general rule"),
    "p4de.24xlarge": (400, ALL[:4], "general rule"),
    "trn1.32xlarge": (800, ALL[:8], "general rule"),
    "trn1n.32xlarge": (1600, ALL[:16], "general rule"),
    "trn2.48xlarge": (3200, ALL[:16], "general rule"),
    "trn2u.48xlarge": (3200, ALL[:16], "general rule"),
    "g6e.24xlarge": (200, ALL[:2], "general rule"),
    "g6e.48xlarge": (400, ALL[:4], "general rule"),
    "g7.48xlarge": (700, ALL[:2], "general rule"),
    "g7e.24xlarge": (800, ALL[:2], "general rule"),
    "g7e.48xlarge": (1600, ALL[:4], "general rule"),
    "p5.4xlarge": (100, (0,), "one network card"),
    "p3dn.24xlarge": (100, (0,), "one network card"),
    "g5.8xlarge": (25, (0,), "one network card"),
    "g7e.8xlarge": (100, (0,), "one network card"),
    "inf1.24xlarge": (100, (0,), "one network card"),
}
# Type: cards with an ENA at device 1, ENA Gbps with them, ENA Gbps of the primary alone. Same page.
MAXIMUM_ENA = {
    "p5.48xlarge": ((4, 8, 12, 16, 20, 24, 28), 800, 100),
    "p5e.48xlarge": ((4, 8, 12, 16, 20, 24, 28), 800, 100),
    "p6-b200.48xlarge": (tuple(range(1, 8)), 1600, 200),
    "p6-b300.48xlarge": (tuple(range(1, 17)), 3870, 350),
}
# NVIDIA MIG User Guide and AWS specification page.
MIG = {
    "p4d.24xlarge": "A100-40GB",
    "p4de.24xlarge": "A100-80GB",
    "p5.48xlarge": "H100-80GB",
    "p5.4xlarge": "H100-80GB",
    "p5e.48xlarge": "H200-141GB",
    "p5en.48xlarge": "H200-141GB",
    "p6-b200.48xlarge": "B200",
    "p6-b300.48xlarge": "B300",
    "p6e-gb200.36xlarge": "GB200",
    "g7.2xlarge": "RTX-PRO-4500-BSE",
    "g7e.48xlarge": "RTX-PRO-6000-BSE",
    "g5.48xlarge": None,
    "g6e.48xlarge": None,
    "p3dn.24xlarge": None,
    "trn2.48xlarge": None,
}
# NVIDIA GPUs of EC2 that the MIG User Guide does not list as supported, by EC2's name of the GPU.
WITHOUT_MIG = {"A10G", "L4", "L40S", "T4", "T4g", "V100"}


@pytest.mark.parametrize(("name", "expected"), EFA.items(), ids=EFA)
def test_efa_ceiling_and_layout(name: str, expected: tuple[float, tuple[int, ...], str]) -> None:
    efa = instance_type(name).network.efa
    assert efa is not None
    ceiling, cards, basis = expected
    assert efa.ceiling_gbps == ceiling
    assert efa.recommended_cards == cards
    assert basis in efa.recommended_layout_basis


@pytest.mark.parametrize(("name", "expected"), MAXIMUM_ENA.items(), ids=MAXIMUM_ENA)
def test_maximum_ena_bandwidth(name: str, expected: tuple[tuple[int, ...], float, float]) -> None:
    network = instance_type(name).network
    extra, maximum, primary = expected
    assert (network.extra_ena_cards, network.maximum_ena_gbps, network.primary_ena_gbps) == expected
    by_card = {card.index: card.ena_gbps or 0 for card in network.cards}
    assert primary + sum(by_card[card] for card in extra) == maximum


def test_no_source_means_no_number() -> None:
    for name in ("p5en.48xlarge", "trn1.32xlarge", "g6e.48xlarge", "p6e-gb200.36xlarge"):
        assert instance_type(name).network.extra_ena_cards is None
        assert instance_type(name).network.maximum_ena_gbps is None
    disputed = instance_type("trn2.3xlarge")  # the instance says 200 Gbps, its one card 50
    assert disputed.network.efa is not None
    assert disputed.network.efa.ceiling_gbps is None
    assert any("50 Gbps" in text for text in disputed.disagreements)


def test_efa_cards_add_up_to_the_ceiling() -> None:
    for record in instance_types().values():
        efa = record.network.efa
        cards = {card.index: card for card in record.network.cards}
        if efa is None:
            continue
        assert all(cards[index].supports_efa for index in efa.recommended_cards), record.name
        rates = [cards[index].efa_gbps for index in efa.recommended_cards]
        if None not in rates and efa.ceiling_gbps is not None:
            assert sum(rate or 0 for rate in rates) == efa.ceiling_gbps, record.name


def test_p6_b300_card_0_has_no_efa() -> None:
    cards = instance_type("p6-b300.48xlarge").network.cards
    assert not cards[0].supports_efa
    assert cards[0].efa_gbps is None
    assert all(card.supports_efa for card in cards[1:])


def test_p6e_gb200_cards_follow_the_documented_map() -> None:
    record = instance_type("p6e-gb200.36xlarge")
    cards = record.network.cards
    assert [card.index for card in cards] == list(range(17))
    assert cards[0].interface_types == {"interface"}
    assert all(card.efa_gbps == 400 and "interface" not in card.interface_types for card in cards[1::2])
    assert all(card.efa_gbps == 200 == card.ena_gbps for card in cards[2::2])
    assert record.record_status == "documentation"
    assert any(field.startswith("network.cards") for field in record.unverified_fields)


def test_ultraservers() -> None:
    gb200 = instance_type("p6e-gb200.36xlarge")
    assert gb200.architecture is Architecture.ARM64
    assert gb200.ultraserver_only
    assert [(u.name, u.instance_count, u.accelerator_count) for u in gb200.ultraservers] == [
        ("u-p6e-gb200x36", 9, 36),
        ("u-p6e-gb200x72", 18, 72),
    ]
    assert gb200.capacity_block_local_zones == ("us-east-1-dfw-2a",)
    trn2u = instance_type("trn2u.48xlarge")
    assert [(u.instance_count, u.accelerator_count) for u in trn2u.ultraservers] == [(4, 64)]
    for record in (gb200, trn2u):
        assert record.accelerator is not None
        for ultraserver in record.ultraservers:
            assert ultraserver.accelerator_count == ultraserver.instance_count * record.accelerator.count


@pytest.mark.parametrize(("name", "key"), MIG.items(), ids=MIG)
def test_mig_profile_keys(name: str, key: str | None) -> None:
    accelerator = instance_type(name).accelerator
    assert accelerator is not None
    assert accelerator.mig_profile_key == key
    assert accelerator.mig_capable is (key is not None)


def test_every_type_with_a_mig_gpu_has_a_profile_key() -> None:
    gpus = {name: record.accelerator for name, record in instance_types().items()}
    without = {
        name: gpu.name
        for name, gpu in gpus.items()
        if gpu is not None and gpu.kind is AcceleratorKind.GPU and gpu.mig_profile_key is None
    }
    assert set(without.values()) == WITHOUT_MIG, "these types would silently have no MIG"


def test_disputed_trainium2_memory_is_sized_with_96_gib() -> None:
    for name in ("trn2.48xlarge", "trn2u.48xlarge", "trn2.3xlarge"):
        accelerator = instance_type(name).accelerator
        assert accelerator is not None
        assert accelerator.memory_mib_for_sizing == 96 * 1024 < accelerator.memory_mib_each


def test_capacity_block_places() -> None:
    p5 = instance_type("p5.48xlarge")
    assert p5.supports_capacity_block
    assert {"us-east-1", "us-west-2", "eu-north-1"} <= set(p5.capacity_block_regions)
    assert p5.capacity_block_local_zones == ("us-east-1-atl-2a",)
    for record in instance_types().values():
        if record.capacity_block_regions or record.capacity_block_local_zones:
            assert record.supports_capacity_block, record.name


def test_every_gpu_row_has_its_facts() -> None:
    for record in instance_types().values():
        accelerator = record.accelerator
        if accelerator is None:
            continue
        is_gpu = accelerator.kind is AcceleratorKind.GPU
        assert (accelerator.nvidia_architecture is not None) is is_gpu, record.name
        assert (accelerator.nvlink_gbytes_per_s_per_gpu is not None) is is_gpu, record.name
        assert len(record.sources) >= 3, record.name


def test_every_row_names_a_dated_source() -> None:
    for record in instance_types().values():
        assert record.sources, record.name
        assert all("20" in source or "undated" in source for source in record.sources), record.name


def test_unverified_fields_are_fields_of_the_record() -> None:
    seen = set()
    for record in instance_types().values():
        for text in record.unverified_fields:
            path = text.partition(" ")[0]
            seen.add(path)
            value: object = record
            for part in path.split("."):
                value = value[0] if isinstance(value, tuple) else value
                assert hasattr(value, part), (record.name, text)
                value = getattr(value, part)
    assert {"accelerator.cuda_compute_capability", "network.efa.recommended_cards"} <= seen


def test_the_types_of_hyperpod_contain_those_of_the_installed_service_model() -> None:
    shape: Any = botocore.session.get_session().get_service_model("sagemaker").shape_for("ClusterInstanceType")
    assert set(shape.enum) <= hyperpod_type_names()
