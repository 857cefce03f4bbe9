"""MIG layouts: what is refused and why, and what a plan says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.catalogue.mig import MigEvidence, mig_gpu_of, mig_gpus
from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.rules.mig import MigLayout, check_mig, check_mig_with_efa, plan_mig

P4D = "p4d.24xlarge"


@pytest.mark.parametrize(
    ("kind", "layouts", "message"),
    [
        (
            P4D,
            MigLayout(["3g.20gb", "3g.20gb", "1g.5gb"]),
            (
                "GPU-MIG-003: mig: 3g.20gb + 3g.20gb + 1g.5gb does not fit an A100-40GB: it needs 9 memory slices of 8; "
                "fix: use 3g.20gb + 2g.10gb + 1g.5gb + 1g.5gb, or drop one 3g.20gb"
            ),
        ),
        (
            P4D,
            MigLayout(["4g.20gb", "4g.20gb"]),
            (
                "GPU-MIG-003: mig: 4g.20gb + 4g.20gb does not fit an A100-40GB: it needs 8 compute slices of 7; "
                "fix: use 4g.20gb + 3g.20gb, or drop one 4g.20gb"
            ),
        ),
        (
            P4D,
            MigLayout(["1g.5gb"] * 20),
            (
                "GPU-MIG-003: mig: 20 x 1g.5gb does not fit an A100-40GB: it needs 20 memory slices of 8; "
                "fix: use 7 x 1g.5gb, or drop 13 of the 1g.5gb"
            ),
        ),
        (
            "p6-b200.48xlarge",
            MigLayout(["3g.90gb"] * 3),
            (
                "GPU-MIG-003: mig: 3g.90gb + 3g.90gb + 3g.90gb does not fit a B200: it needs 12 memory slices of 8; "
                "fix: use 3g.90gb + 3g.90gb, or drop one 3g.90gb"
            ),
        ),
        (
            P4D,
            MigLayout(["1g.6gb"]),
            (
                "GPU-MIG-002: mig: an A100-40GB has no such profile, got '1g.6gb'; allowed: 1g.5gb (19), 1g.5gb+me (20), "
                "1g.10gb (15), 2g.10gb (14), 3g.20gb (9), 4g.20gb (5), 7g.40gb (0); fix: use 1g.5gb or 1g.10gb or 1g.5gb+me"
            ),
        ),
        (
            "p4de.24xlarge",
            [MigLayout(["1g.10gb"])] * 7 + [MigLayout([47])],
            (
                "GPU-MIG-002: mig[7]: an A100-80GB has no such profile, got '47'; allowed: 1g.10gb (19), 1g.10gb+me (20), "
                "1g.20gb (15), 2g.20gb (14), 3g.40gb (9), 4g.40gb (5), 7g.80gb (0); "
                "fix: use a name or an id of this GPU; they differ between GPUs"
            ),
        ),
        (
            P4D,
            [MigLayout(["1g.5gb"])] * 9,
            (
                "GPU-MIG-004: mig: too many layouts for the 8 GPUs of a p4d.24xlarge, got 9 layouts; "
                "allowed: 1 for all GPUs, or 8; "
                "fix: give one MigLayout, or exactly one per GPU; MigLayout.whole_gpu() leaves a GPU unsplit"
            ),
        ),
        (
            P4D,
            MigLayout(["1g.5gb+me", "1g.5gb+me"]),
            (
                "GPU-MIG-005: mig: only one instance of a GPU can have the media extensions, not 2, "
                "got 1g.5gb+me + 1g.5gb+me; allowed: one +me instance per GPU; beside +me.all only instances with -me; "
                "fix: use 4g.20gb + 2g.10gb + 1g.5gb+me"
            ),
        ),
        (
            "g7e.2xlarge",
            MigLayout(["2g.48gb+me.all", "1g.24gb"]),
            (
                "GPU-MIG-005: mig: 2g.48gb+me.all takes every media engine, so that 1g.24gb beside it gets none, "
                "got 2g.48gb+me.all + 1g.24gb; allowed: one +me instance per GPU; beside +me.all only instances with -me; "
                "fix: use 2g.48gb + 1g.24gb + 1g.24gb"
            ),
        ),
        (
            "g5.12xlarge",
            MigLayout(["1g.5gb"]),
            (
                "GPU-MIG-001: mig: NVIDIA A10G cannot be split with MIG, got g5.12xlarge; "
                "allowed: types of g7e, p4d, p4de, p5, p5e, p5en, p6-b200, p6-b300, p6e-gb200; "
                "fix: choose such a type, or leave mig out"
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value[:6] else "",
)
def test_messages(kind: str, layouts: MigLayout | Sequence[MigLayout], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_mig(kind, layouts)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("kind", "layouts", "ids"),
    [
        ("m8g.xlarge", MigLayout(["1g.5gb"]), ["GPU-MIG-001"]),
        ("trn1.32xlarge", MigLayout(["1g.5gb"]), ["GPU-MIG-001"]),
        ("g7.24xlarge", MigLayout(["1g.5gb"]), ["GPU-MIG-001"]),
        (P4D, [], ["GPU-MIG-004"]),
        (P4D, [MigLayout("19")] * 2, ["GPU-MIG-004"]),
        (P4D, [MigLayout("1g.6gb"), MigLayout("9,9,9")], ["GPU-MIG-004", "GPU-MIG-002", "GPU-MIG-003"]),
        (P4D, MigLayout(["1g.6gb", "1g.6gb", "8g"]), ["GPU-MIG-002", "GPU-MIG-002"]),
        (P4D, MigLayout([]), ["GPU-MIG-008"]),
        (P4D, MigLayout("1g.5gb,off"), ["GPU-MIG-008"]),
        (P4D, MigLayout.whole_gpu(), ["GPU-MIG-008"]),
        (P4D, [MigLayout.whole_gpu()] * 8, ["GPU-MIG-008"]),
        (P4D, MigLayout(["1g.10gb"] * 5), ["GPU-MIG-003"]),
        ("g7e.2xlarge", [MigLayout("14"), MigLayout("14")], ["GPU-MIG-004"]),
        ("g7e.2xlarge", MigLayout(["1g.24gb+gfx"] * 4), []),
        ("g7e.2xlarge", MigLayout(["2g.48gb+me.all", "1g.24gb-me", "1g.24gb-me"]), []),
        ("g7e.2xlarge", MigLayout(["1g.24gb+me.all", "1g.24gb+me.all"]), ["GPU-MIG-005"]),
        ("g7e.2xlarge", MigLayout(["4g.96gb+gfx", "1g.24gb-me"]), ["GPU-MIG-003"]),
    ],
)
def test_all_faults_are_found_at_once(kind: str, layouts: Any, ids: list[str]) -> None:
    assert [finding.id for finding in check_mig(kind, layouts)] == ids


@pytest.mark.parametrize("spelling", [["1g.5gb"], [19], ["19"], ["MIG 1g.5gb"], [" 1G.5GB "]])
def test_names_and_ids_mean_the_same(spelling: list[str | int]) -> None:
    assert plan_mig(P4D, MigLayout(spelling)).partition == "1g.5gb"


def test_a_mixed_node() -> None:
    halves = MigLayout(["1g.10gb", "2g.20gb", "1g.10gb", "3g.40gb"])
    plan = plan_mig("p5.48xlarge", [MigLayout("19,19,19,19,19,19,19"), *[halves] * 5, *[MigLayout.whole_gpu()] * 2])
    [first, second, *_] = plan.partition.split(";")
    assert first == ",".join(["1g.10gb"] * 7)
    assert second == "3g.40gb,2g.20gb,1g.10gb,1g.10gb"
    assert plan.partition.endswith(";off;off")
    assert (plan.slices_per_node, plan.whole_gpus_per_node) == (27, 2)
    assert dict(plan.resources) == {
        "nvidia.com/gpu": 2,
        "nvidia.com/mig-1g.10gb": 17,
        "nvidia.com/mig-2g.20gb": 5,
        "nvidia.com/mig-3g.40gb": 5,
    }
    assert [gpu.index for gpu in plan.gpus] == list(range(8))
    assert {(place.profile.name, place.start) for place in plan.gpus[1].placements} == {
        ("3g.40gb", 4), ("2g.20gb", 0), ("1g.10gb", 2), ("1g.10gb", 3)
    }  # fmt: skip


def test_eight_equal_layouts_are_one() -> None:
    assert plan_mig(P4D, [MigLayout("9,9")] * 8) == plan_mig(P4D, MigLayout("9,9"))


@pytest.mark.parametrize(
    ("kind", "inferred", "severity"),
    [
        (P4D, False, None),
        ("p5.48xlarge", False, None),
        ("g7e.2xlarge", False, None),
        ("p5en.48xlarge", True, Severity.INFO),
        ("p6-b200.48xlarge", True, Severity.INFO),
        ("p6-b300.48xlarge", True, Severity.INFO),
        ("p6e-gb200.36xlarge", True, Severity.WARNING),
    ],
)
def test_inferred_facts_are_marked(kind: str, inferred: bool, severity: Severity | None) -> None:
    plan = plan_mig(kind, MigLayout([0]))
    assert plan.placements_inferred is inferred
    assert [finding.severity for finding in plan.findings] == ([severity] if severity else [])


def test_a_node_with_disputed_names_is_told_ids() -> None:
    plan = plan_mig("p6e-gb200.36xlarge", MigLayout(["1g.23gb", "3g.93gb"]))
    assert plan.gpu.names is MigEvidence.DISPUTED
    assert plan.partition == "9,19"


def test_media_extensions_have_a_resource_name_without_a_plus() -> None:
    assert dict(plan_mig("p4d.24xlarge", MigLayout("20")).resources) == {"nvidia.com/mig-1g.5gb.me": 8}


def test_mig_and_efa_exclude_each_other_with_the_reason() -> None:
    layout = MigLayout("9,9")
    [finding] = check_mig_with_efa(P4D, layout, efa=True)
    assert finding.id == "GPU-MIG-006"
    assert "NVLink peer-to-peer" in finding.cause
    assert "efa=False" in finding.fix
    assert check_mig_with_efa(P4D, layout, efa=False) == []
    assert check_mig_with_efa(P4D, None, efa=True) == []
    # That it has no MIG is another fault, and the only one.
    assert check_mig_with_efa("trn1.32xlarge", layout, efa=True) == []


def test_every_capable_type_has_its_gpu_and_no_other_has_one() -> None:
    keys = {gpu.key for record in instance_types().values() if (gpu := mig_gpu_of(record))}
    assert keys == set(mig_gpus()) - {"GB300"}, "no GB300 type has published numbers yet"
    for name in (
        "g4dn.xlarge",
        "g5.xlarge",
        "g6.xlarge",
        "g6e.xlarge",
        "p3dn.24xlarge",
        "m8g.xlarge",
        "inf2.xlarge",
    ):
        assert mig_gpu_of(instance_type(name)) is None


def test_every_gpu_has_sources_and_unique_names_and_ids() -> None:
    for gpu in mig_gpus().values():
        assert gpu.sources
        assert all(source.endswith(")") for source in gpu.sources)
        assert len({profile.id for profile in gpu.profiles.values()}) == len(gpu.profiles)
        for profile in gpu.profiles.values():
            assert gpu.profile(profile.name) is gpu.profile(profile.id) is profile
            assert max(profile.starts) + profile.memory_slices <= gpu.memory_slices
            assert profile.name.startswith(f"{profile.compute_slices}g.{profile.memory_gb}gb")
    assert [key for key, gpu in mig_gpus().items() if not gpu.profiles] == ["RTX-PRO-4500-BSE"]
