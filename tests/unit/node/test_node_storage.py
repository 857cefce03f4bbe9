"""Mounts and scratch in the settings and the user data of a node."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.settings import NodeSettings, check_settings
from cdk_gpu_clusters.node.storage import (
    LustreMount,
    NfsMount,
    ScratchSettings,
    check_read_only,
    check_storage,
    checkpoint_environment,
)
from cdk_gpu_clusters.node.user_data import USER_DATA_LIMIT_BYTES, user_data_size_bytes
from rendered import rendered

# Names as long as AWS gives them.
DNS = "fs-0123456789abcdef0.fsx.ap-southeast-2.amazonaws.com"


def mount(point: str = "/fsx", **changes: Any) -> LustreMount:
    return LustreMount(**{"mount_point": point, "dns_name": DNS, "mount_name": "abcdbev", **changes})


def text_of(**settings: Any) -> str:
    return rendered(NodeSettings(fleet_name="trainers", **settings))


def test_a_read_only_mount_takes_no_checkpoints() -> None:
    data = mount("/data", read_only=True)
    assert data.line().split()[3] == "ro,relatime,flock"
    assert mount("/fsx").line().split()[3] == "relatime,flock"
    assert check_storage([mount("/fsx"), data], checkpoint_directory="/fsx/llama") == []
    (finding,) = check_storage([mount("/fsx"), data], checkpoint_directory="/data/llama")
    assert (finding.id, finding.allowed) == ("GPU-MNT-005", "below /fsx")


def test_only_nfs_is_mounted_at_home() -> None:
    homes = NfsMount(mount_point="/home", dns_name=DNS, export_path="/fsx")
    assert check_storage([homes]) == []
    assert [one.id for one in check_storage([mount("/home")])] == ["GPU-MNT-001"]
    assert [one.id for one in check_storage([replace(homes, mount_point="/usr/home")])] == ["GPU-MNT-001"]
    assert [one.id for one in check_storage([homes, mount("/home/data")])] == ["GPU-MNT-002"]
    (finding,) = check_storage([replace(homes, export_path="/fsx home")])
    assert (finding.id, finding.path) == ("GPU-MNT-003", "mounts[/home].export_path")


def test_tokens_of_a_mount_stay_verbatim_in_plain_text() -> None:
    tokens = mount(dns_name="${Token[Corpus.DNSName.7]}", mount_name="${Token[Corpus.MountName.8]}")
    document = text_of(mounts=(tokens,))
    assert "    /fsx ${Token[Corpus.DNSName.7]} ${Token[Corpus.MountName.8]} relatime,flock\n" in document
    assert check_storage([tokens]) == []


def test_node_without_mounts_gets_nothing_of_them() -> None:
    plain = text_of()
    for word in (
        "gpu-lustre",
        "gpu-scratch",
        "GPU_MOUNTS",
        "GPU_SCRATCH",
        "SCRATCH_DIR",
        "/etc/gpu-cluster/mounts",
    ):
        assert word not in plain


def started(tmp_path: Path, **settings: Any) -> list[str]:
    """What the script of the user data runs, on a node where everything but a start that waits succeeds."""
    script = text_of(**settings).split("Content-Type: text/x-shellscript\n\n")[1].split("--gpu-cluster-node")[0]
    for tool in ("systemctl", "timeout"):
        (tmp_path / tool).write_text(f'#!/bin/sh\necho {tool} "$@"\n[ {tool} != timeout ] && [ "$1" != is-failed ]\n')
        (tmp_path / tool).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": str(tmp_path)}, check=True, capture_output=True, text=True
    )
    *fetch, enabled, rest = done.stdout.split("\n", 3)
    assert fetch == ["systemctl is-failed --quiet gpu-software", "systemctl start gpu-software"]
    return [enabled, *rest.splitlines()]


BOOT = "gpu-node-boot gpu-node-drain gpu-node-watch gpu-node-ship.timer"
START = f"systemctl start --no-block {BOOT}"


@pytest.mark.parametrize(
    ("settings", "units"),
    [
        ({}, ""),
        ({"mounts": (mount(),)}, "gpu-lustre "),
        ({"scratch": ScratchSettings(disk_count=8)}, "gpu-scratch "),
    ],
    ids=["none", "lustre", "scratch"],
)
def test_only_what_is_used_is_enabled_and_started(tmp_path: Path, settings: dict[str, Any], units: str) -> None:
    storage = [f"timeout 900 systemctl start {units.strip()}"] if units else []
    assert started(tmp_path, **settings) == [f"systemctl enable {units}{BOOT}", *storage, START]


def test_users_scripts_find_the_mounts_and_a_failed_mount_does_not_stop_them(tmp_path: Path) -> None:
    assert started(tmp_path, mounts=(mount(),), scratch=ScratchSettings(disk_count=8), boot_deadline_seconds=600) == [
        f"systemctl enable gpu-scratch gpu-lustre {BOOT}",
        "timeout 600 systemctl start gpu-scratch gpu-lustre",
        START,
    ]


def test_units_come_back_after_a_reboot_and_before_jobs() -> None:
    folder = Path(__file__).parents[3] / "constructs/cdk_gpu_clusters/node/files"
    for unit in ("gpu-lustre", "gpu-scratch"):
        text = (folder / f"{unit}.service").read_text()
        assert "WantedBy=multi-user.target" in text
        assert "Before=docker.service containerd.service kubelet.service slurmd.service" in text


def test_directories_reach_login_sessions() -> None:
    places = checkpoint_environment("/fsx/checkpoints", local_directory="/scratch/c", s3_uri="s3://${Token[B.1]}")
    document = text_of(mounts=(mount(),), scratch=ScratchSettings(disk_count=8), checkpoint_environment=places)
    for line in (
        "export SCRATCH_DIR=/scratch",
        "export CHECKPOINT_DIR=/fsx/checkpoints",
        "export CHECKPOINT_LOCAL_DIR=/scratch/c",
        "export CHECKPOINT_S3_URI='s3://${Token[B.1]}'",
    ):
        assert f"    {line}\n" in document
    assert checkpoint_environment() == {}
    assert checkpoint_environment(express_s3_uri="s3://e") == {"CHECKPOINT_EXPRESS_S3_URI": "s3://e"}


def test_everything_at_once_fits_with_room_for_a_users_script() -> None:
    document = rendered(
        NodeSettings(
            fleet_name="f" * 60, region="ap-southeast-2", launch_hook_name="h" * 80, terminate_hook_name="t" * 80,
            log_group_name="/gpu-clusters/" + "l" * 80, accelerator_kind="gpu", accelerator_count=8,
            efa_interface_count=32, processes_per_node=8, huge_pages=5128,
            nccl_environment={"NCCL_DEBUG": "WARN"}, extra_environment={"HF_HOME": "/fsx/huggingface"},
            mounts=tuple(mount(f"/mnt/store-{number}") for number in range(4)),
            scratch=ScratchSettings(disk_count=8),
            checkpoint_environment=checkpoint_environment(
                "/mnt/store-0/c", local_directory="/scratch/c", s3_uri="s3://" + "b" * 63, express_s3_uri="s3://" + "e" * 63
            ),
        )
    )  # fmt: skip
    assert USER_DATA_LIMIT_BYTES - user_data_size_bytes(document) > 1536, user_data_size_bytes(document)


@pytest.mark.parametrize("point", ["/fsx", "/scratch", "/mnt/data", "/home/shared", "/opt/models", "/data.v2/a_b-c"])
def test_places_for_mounts(point: str) -> None:
    assert check_storage([mount(point)]) == []


@pytest.mark.parametrize(
    "point",
    ["", "/", "fsx", "/fsx/", "//fsx", "/a b", "/a;b", "/../etc", "/mnt/../etc", "/mnt/.", "/caf\u00e9", "${Token[A.1]}",
     "/usr", "/usr/local/data", "/etc/x", "/var/lib/data", "/home", "/opt", "/opt/amazon/efa", "/opt/dlami/nvme",
     "/root", "/boot", "/dev/x", "/proc/x", "/sys", "/run/fsx", "/lib64"],
)  # fmt: skip
def test_places_that_are_none(point: str) -> None:
    assert [finding.id for finding in check_storage([mount(point)])] == ["GPU-MNT-001"]
    scratch = ScratchSettings(mount_point=point, disk_count=1)
    assert [finding.path for finding in check_storage([], scratch)] == ["scratch"]


@pytest.mark.parametrize(
    ("points", "faults"),
    [
        (("/fsx", "/fsx2"), 0),
        (("/fsx", "/fsx"), 1),
        (("/fsx", "/fsx/data"), 1),
        (("/fsx/data", "/fsx"), 1),
        (("/a", "/a/b", "/a/b/c"), 3),
        (("/fsx", "/scratch"), 1),
    ],
)
def test_overlaps_among_mounts_and_with_scratch(points: tuple[str, ...], faults: int) -> None:
    findings = check_storage([mount(point) for point in points], ScratchSettings(disk_count=1))
    assert [finding.id for finding in findings] == ["GPU-MNT-002"] * faults


@pytest.mark.parametrize(
    ("field", "value"),
    [*itertools.product(("dns_name", "mount_name", "options"), ("", "two words", "line\nbreak", "\u00e9"))],
)
def test_fields_are_single_words(field: str, value: str) -> None:
    [finding] = check_storage([mount(**{field: value})])
    assert (finding.id, finding.path) == ("GPU-MNT-003", f"mounts[/fsx].{field}")


def test_noatime_is_warned_of() -> None:
    [finding] = check_storage([mount(options="noatime,flock")])
    assert (finding.id, finding.severity.value) == ("GPU-MNT-004", "warning")


def test_only_a_mount_is_read_only() -> None:
    assert check_read_only(["/fsx"], ["/fsx", "/data"]) == []
    [finding] = check_read_only(["/fsx", "/home"], ["/fsx", "/data"])
    assert (finding.id, finding.got, finding.severity.value) == ("GPU-MNT-006", "/home", "error")


@pytest.mark.parametrize(
    ("directory", "ids"),
    [("/fsx/checkpoints", []), ("/fsx", []), ("/scratch/c", ["GPU-MNT-005"]), ("/fsx2/c", ["GPU-MNT-005"])],
)
def test_checkpoints_belong_on_shared_storage(directory: str, ids: list[str]) -> None:
    settings = NodeSettings(
        fleet_name="trainers",
        mounts=(mount(),),
        scratch=ScratchSettings(disk_count=1),
        checkpoint_environment=checkpoint_environment(directory),
    )
    assert [finding.id for finding in check_settings(settings)] == ids
