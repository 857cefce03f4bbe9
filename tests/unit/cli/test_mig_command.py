"""`gpu-clusters mig`: profiles and packings as people and programs read them."""

from __future__ import annotations

import json

import pytest

from cdk_gpu_clusters_stacks.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["mig", *arguments]) == 0
    return capsys.readouterr().out


def test_a_packing_says_where_every_slice_lies(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "pack", "9x>=5GB, 1x>=20GB", "--type", "p4d.24xlarge").splitlines()[:9] == [
        "2 GPUs on 1 p4d.24xlarge node; no packing needs fewer GPUs",
        "  9x>=5GB: 1g.5gb (5 GB, 1 compute slice)",
        "  1x>=20GB: 4g.20gb (20 GB, 4 compute slices, more than needed, since there is room)",
        "",
        "node 1",
        "  GPU 0: 4g.20gb at 0-3, 1g.5gb at 4-4, 1g.5gb at 5-5, 1g.5gb at 6-6",
        "  GPU 1: 1g.5gb at 0-0, 1g.5gb at 1-1, 1g.5gb at 2-2, 1g.5gb at 3-3, 1g.5gb at 4-4, 1g.5gb at 5-5",
        "  GPUs 2-7: whole",
        (
            "  MIG_PARTITION=4g.20gb,1g.5gb,1g.5gb,1g.5gb;1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb;"
            "off;off;off;off;off;off"
        ),
    ]


def test_slurm_and_kubernetes_see_the_same_slices(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "pack", "56x1g.5gb", "--type", "p4d.24xlarge")
    assert "Slurm: Gres=gpu:1g.5gb:56\n" in text
    assert "Kubernetes: nvidia.com/mig-1g.5gb: 56\n" in text


def test_json_has_the_same_packing(capsys: pytest.CaptureFixture[str]) -> None:
    packing = json.loads(printed(capsys, "pack", "2x>=20GB", "--type", "p4d.24xlarge", "--json"))
    assert packing["gpus"] == 1
    assert packing["chosen"] == [{"request": "2x>=20GB", "profile": "3g.20gb", "more_compute_than_needed": False}]
    node = packing["nodes"][0]
    assert node["slurm_gres"] == "gpu:3g.20gb:2,gpu:nvidia_a100-sxm4-40gb:7"
    assert node["gpus"][0] == [
        {"profile": "3g.20gb", "start": 0, "size": 4},
        {"profile": "3g.20gb", "start": 4, "size": 4},
    ]
    assert node["gpus"][1] == []


def test_doubtful_placements_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert "GPU-MIG-007" in printed(capsys, "pack", "2x>=20GB", "--type", "p6-b300.48xlarge")


@pytest.mark.parametrize("name", ["A100-40GB", "p4d.24xlarge"])
def test_profiles_of_a_model_or_of_a_type(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "profiles", name)
    assert text.startswith("A100-40GB (NVIDIA A100-SXM4-40GB): 7 compute slices, 8 memory slices")
    assert "3g.20gb" in text
    assert "sources:" in text


@pytest.mark.parametrize("name", ["A100", "g5.xlarge", "m8g.large"])
def test_what_cannot_be_split_is_refused_in_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mig", "profiles", name]) == 2
    error = capsys.readouterr().err
    assert name in error
    assert len(error.splitlines()) == 1


def test_a_wrong_wish_is_refused_with_its_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mig", "pack", "2x>=41GB", "--type", "p4d.24xlarge"]) == 2
    error = capsys.readouterr().err
    assert "GPU-MIG-012" in error
    assert "fix:" in error


def test_slurm_knows_no_attributes_and_gives_every_gpu_a_type(capsys: pytest.CaptureFixture[str]) -> None:
    """slurmd names a slice by slices and memory only, and ends where some GPUs have a type and others have none."""
    text = printed(capsys, "pack", "1x1g.5gb+me, 2x1g.5gb", "--type", "p4d.24xlarge")
    assert "Slurm: Gres=gpu:1g.5gb:3,gpu:nvidia_a100-sxm4-40gb:7\n" in text


def test_a_number_without_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mig", "pack", f"{'9' * 5000}x>=20GB", "--type", "p4d.24xlarge"]) == 2
    assert main(["mig", "pack", f"2x>={'9' * 5000}GB", "--type", "p4d.24xlarge"]) == 2
    assert "GPU-MIG-012" in capsys.readouterr().err
