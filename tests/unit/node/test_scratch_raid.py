"""scratch-raid, run for real: disks, arrays and file systems are faked, what was done to them is read back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.storage import ScratchSettings

SCRIPT = "usr/local/libexec/gpu-cluster/scratch-raid"
LABEL = "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS"

# A device is a file: its first line is what wipefs finds, and `label` its label.
WIPEFS = """#!/bin/bash
[[ $1 == -n ]] || { echo wiped >>ROOT/wiped; exit 1; }
cat "${@: -1}"
"""
BLKID = """#!/bin/bash
found=$(grep -lx xfs.gpu-scratch ROOT/dev/md/* ROOT/dev/nvme* 2>/dev/null | head -n 1)
[[ -n $found ]] && echo "$found" || exit 2
"""
MKFS = """#!/bin/bash
echo "$@" >>ROOT/mkfs-calls
printf 'xfs.gpu-scratch\\n' >"${@: -1}"
"""
MDADM = """#!/bin/bash
echo "$@" >>ROOT/mdadm-calls
case $1 in
--create)
  shift
  : >"$1"
  for disk; do if [[ $disk == ROOT/dev/nvme* ]]; then echo linux_raid_member >"$disk"; fi; done
  ;;
--assemble) if [[ -e ROOT/assembled ]]; then mkdir -p ROOT/dev/md; cp ROOT/assembled ROOT/dev/md/any_0; fi ;;
--detail) if [[ -e $3 ]]; then echo "MD_NAME=any:gpu-scratch"; else exit 1; fi ;;
esac
"""


class Scratch:
    """A node with local disks."""

    def __init__(self, node: Any) -> None:
        self.node, self.root = node, node.root
        node.write("proc/mounts", "/dev/nvme0n1p1 / xfs rw 0 0\n")
        node.write("etc/os-release", 'ID="amzn"\nVERSION_ID="2023"\n')
        (self.root / "dev/md").mkdir(parents=True)
        (self.root / "dev/disk/by-id").mkdir(parents=True)
        for name, script in {
            "wipefs": WIPEFS, "blkid": BLKID, "mkfs.xfs": MKFS, "mdadm": MDADM,
            "udevadm": "#!/bin/sh\n", "lsblk": "#!/bin/sh\n", "dnf": "#!/bin/sh\necho dnf ran; exit 99\n",
            "mount": '#!/bin/bash\necho "$@" >>ROOT/mount-calls\necho "${@: -2:1} ${@: -1} xfs rw 0 0" >>ROOT/proc/mounts\n',
        }.items():  # fmt: skip
            node.tool(name, script.replace("ROOT", str(self.root)))

    def disks(self, *contents: str) -> list[Path]:
        """Local disks with what each holds, under the names that udev gives them."""
        devices = []
        for number, content in enumerate(contents, start=1):
            device = self.node.write(f"dev/nvme{number}n1", content and f"{content}\n")
            for suffix in ("", "_1", "-ns-1"):
                (self.root / f"dev/disk/by-id/{LABEL}{number}{suffix}").symlink_to(device)
            devices.append(device)
        self.node.write("dev/nvme0n1", "gpt\n")
        (self.root / "dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol1").symlink_to(self.root / "dev/nvme0n1")
        return devices

    def runs(self, count: int = 2, **settings: Any) -> tuple[int, dict[str, Any]]:
        """Run the unit's script: exit status and result file."""
        self.node.install(scratch=ScratchSettings(disk_count=count), **settings)
        done = self.node.run(SCRIPT)
        assert not done.stderr, done.stderr
        assert not (self.root / "wiped").exists()
        return done.returncode, json.loads((self.root / "var/lib/gpu-cluster/scratch.json").read_text())

    def reboots(self) -> None:
        self.node.write("proc/mounts", "")
        self.node.write("proc/sys/kernel/random/boot_id", "boot-2\n")

    def calls(self, name: str) -> list[str]:
        file = self.root / f"{name}-calls"
        return file.read_text().splitlines() if file.exists() else []

    def created(self) -> list[str]:
        return [call for call in self.calls("mdadm") if call.startswith("--create")]


def without(node: Any, name: str) -> None:
    """Take a command of this machine out of the node's PATH."""
    folder = node.tools.parent / "commands"
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for command in Path(place).glob("*"):
            (folder / command.name).unlink(missing_ok=True)
            (folder / command.name).symlink_to(command)
    (folder / name).unlink(missing_ok=True)
    node.environment["PATH"] = f"{node.tools}:{folder}"


@pytest.fixture
def scratch(node: Any) -> Scratch:
    return Scratch(node)


def test_disks_become_one_xfs_that_everyone_may_write_to(scratch: Scratch) -> None:
    one, two = scratch.disks("", "")
    status, result = scratch.runs()
    assert (status, result["state"], result["reason"]) == (0, "ok", "/scratch: new, disks: 2")
    array = scratch.root / "dev/md/gpu-scratch"
    [created] = scratch.created()
    assert created == (
        f"--create {array} --run --level=0 --raid-devices=2 --name=gpu-scratch --homehost=any {one} {two}"
    )
    assert scratch.calls("mkfs") == [f"-q -K -L gpu-scratch {array}"]
    assert scratch.calls("mount") == [f"-o noatime {array} {scratch.root}/scratch"]
    assert (scratch.root / "scratch").stat().st_mode & 0o7777 == 0o1777


def test_single_disk_needs_no_array(scratch: Scratch) -> None:
    [disk] = scratch.disks("")
    scratch.node.tool("mdadm", "#!/bin/sh\nexit 1\n")
    assert scratch.runs(1)[0] == 0
    assert scratch.calls("mkfs") == [f"-q -K -L gpu-scratch {disk}"]


@pytest.mark.parametrize("there", [0, 1])
def test_missing_disks_fail(scratch: Scratch, there: int) -> None:
    scratch.disks(*[""] * there)
    status, result = scratch.runs(2)
    assert (status, result["reason"]) == (1, f"{there} of 2 local disks are there")
    assert scratch.calls("mkfs") == []


def test_partitions_are_no_disks(scratch: Scratch) -> None:
    [disk] = scratch.disks("")
    (scratch.root / f"dev/disk/by-id/{LABEL}1-part1").symlink_to(scratch.root / "dev/nvme1n1p1")
    assert scratch.runs(1)[1]["reason"] == "/scratch: new, disks: 1"
    assert scratch.calls("mkfs") == [f"-q -K -L gpu-scratch {disk}"]


@pytest.mark.parametrize("content", ["xfs", "LVM2_member", "dos", "linux_raid_member"])
@pytest.mark.parametrize("count", [1, 2])
def test_disk_that_holds_anything_is_not_wiped(scratch: Scratch, content: str, count: int) -> None:
    disks = scratch.disks(*[""] * (count - 1), content)
    status, result = scratch.runs(count)
    assert (status, result["reason"]) == (
        1,
        f"/dev/nvme{count}n1 holds {content} and is not wiped: turn scratch off, or clear the disk with wipefs -a",
    )
    assert (scratch.created(), scratch.calls("mkfs"), disks[-1].read_text()) == ([], [], f"{content}\n")


def test_reboot_finds_the_array_under_another_name_and_keeps_its_files(scratch: Scratch) -> None:
    scratch.disks("", "")
    scratch.runs()
    scratch.reboots()
    (scratch.root / "dev/md/gpu-scratch").rename(scratch.root / "assembled")
    status, result = scratch.runs()
    assert (status, result["reason"]) == (0, "/scratch: as before, disks: 2")
    assert (len(scratch.created()), len(scratch.calls("mkfs"))) == (1, 1)
    assert scratch.calls("mount")[-1] == f"-o noatime {scratch.root}/dev/md/any_0 {scratch.root}/scratch"


def test_restart_changes_nothing(scratch: Scratch) -> None:
    scratch.disks("", "")
    scratch.runs()
    assert scratch.runs()[1]["reason"] == "/scratch is mounted already"
    assert (len(scratch.created()), len(scratch.calls("mkfs")), len(scratch.calls("mount"))) == (1, 1, 1)


def test_array_without_a_file_system_gets_one(scratch: Scratch) -> None:
    """A first boot that was cut short between the array and the file system."""
    scratch.disks("linux_raid_member", "linux_raid_member")
    scratch.node.write("assembled", "")
    assert scratch.runs()[1]["reason"] == "/scratch: new, disks: 2"
    assert (scratch.created(), scratch.calls("mkfs")) == (
        [],
        [f"-q -K -L gpu-scratch {scratch.root}/dev/md/any_0"],
    )


def test_own_array_with_other_data_is_not_wiped(scratch: Scratch) -> None:
    scratch.disks("linux_raid_member", "linux_raid_member")
    scratch.node.write("assembled", "ext4\n")
    assert "/dev/md/any_0 holds ext4 and is not wiped" in scratch.runs()[1]["reason"]
    assert scratch.calls("mkfs") == []


def test_mount_of_the_image_over_all_disks_is_used(scratch: Scratch) -> None:
    scratch.disks("LVM2_member", "LVM2_member")
    scratch.node.tool("lsblk", "#!/bin/sh\nprintf '\\n/opt/dlami/nvme\\n'\n")
    status, result = scratch.runs()
    assert (status, result["reason"]) == (0, "/scratch: the image's own /opt/dlami/nvme")
    assert scratch.calls("mount") == [f"--bind /opt/dlami/nvme {scratch.root}/scratch"]
    assert (scratch.created(), scratch.calls("mkfs")) == ([], [])


def test_mounts_that_do_not_span_all_disks_are_not_used(scratch: Scratch) -> None:
    scratch.disks("ext4", "")
    scratch.node.tool("lsblk", "#!/bin/bash\nif [[ ${@: -1} == *nvme1n1 ]]; then echo /var/lib/docker; fi\n")
    assert "/dev/nvme1n1 holds ext4 and is not wiped" in scratch.runs()[1]["reason"]


@pytest.mark.parametrize(
    ("tool", "words", "reason"),
    [
        ("mkfs.xfs", "mkfs.xfs: cannot open: Device or resource busy", "mkfs.xfs /dev/md/gpu-scratch: mkfs.xfs: cannot open"),
        ("mount", "mount: wrong fs type", "at /scratch: mount: wrong fs type"),
    ],
)  # fmt: skip
def test_tool_that_fails_is_told_with_its_words(scratch: Scratch, tool: str, words: str, reason: str) -> None:
    scratch.disks("", "")
    scratch.node.tool(tool, f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    status, result = scratch.runs()
    assert (status, result["state"]) == (1, "failed")
    assert reason in result["reason"]


def test_missing_tool_is_installed_or_named(scratch: Scratch) -> None:
    scratch.disks("")
    (scratch.node.tools / "mkfs.xfs").unlink()
    without(scratch.node, "mkfs.xfs")
    assert "no mkfs.xfs, and xfsprogs could not be installed: dnf ran: bake xfsprogs" in scratch.runs(1)[1]["reason"]
    made = MKFS.replace("ROOT", str(scratch.root))
    tool = scratch.node.tools / "mkfs.xfs"
    scratch.node.tool("dnf", f"#!/bin/bash\ncat >{tool} <<'END'\n{made}END\nchmod +x {tool}\n")
    assert scratch.runs(1)[0] == 0


def test_pattern_of_the_disks_can_be_changed(scratch: Scratch) -> None:
    device = scratch.node.write("dev/nvme5n1", "")
    (scratch.root / "dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_1").symlink_to(device)
    scratch.node.environment["GPU_SCRATCH_PATTERN"] = "nvme-QEMU_NVMe_Ctrl_*"
    assert scratch.runs(1)[0] == 0


def test_node_without_its_scratch_is_not_ready(node: Any) -> None:
    scratch = Scratch(node)
    scratch.disks("xfs")
    scratch.runs(1, launch_hook_name="ready")
    status, result = node.boot()
    assert (status, result["reason"].startswith("disks: /dev/nvme1n1 holds xfs")) == (1, True)
    [action] = node.account.made("complete-lifecycle-action")
    assert action["--lifecycle-action-result"] == ["ABANDON"]
