"""Nodes that mount file systems and local disks when they boot.

A container shows one disk with xfs, and what happens to disks that hold data. Its kernel has no md driver: a RAID0 of
several disks, made and found again, is shown in a virtual machine, in tests/vm.
"""

from __future__ import annotations

import subprocess

from nodebox.disks import block_devices, local_disks
from nodebox.lab import Lab, fleet

L4 = {"gpu": "L4", "gpu_count": 1}


class Lustre:
    """A file system that is there already."""

    dns_name, mount_name = "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "abcdbev"


MOUNTED = fleet("g6.xlarge", mounts={"/fsx": Lustre()})


def test_a_file_system_is_mounted_before_the_users_scripts_and_at_every_boot_before_jobs(lab: Lab) -> None:
    with lab.node(MOUNTED, **L4) as node:
        node.power_on()
        node.ready()
        node.in_service()
        assert node.unit_result("lustre")["reason"] == "mounted: /fsx"
        source = node.run("findmnt --noheadings --output SOURCE /fsx").stdout.strip()
        assert source == "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abcdbev"
        node.reboot()
        node.ready()
        for daemon in ("docker", "slurmd"):
            assert node.sightings(boot=2)[daemon].endswith("mounts: /fsx")


def test_a_file_system_that_is_late_is_waited_for(lab: Lab) -> None:
    with lab.node(MOUNTED, **L4) as node:
        node.write("/var/lib/fakes/lustre-failures", "2")
        node.power_on()
        node.ready()
        states = [state for _, state, _ in node.events("gpu-lustre")]
        assert states == ["started", "mounting", "waiting", "ok"]


def test_a_file_system_that_never_comes_ends_the_launch(lab: Lab) -> None:
    with lab.node(MOUNTED, variables={"GPU_PATIENCE": "5"}, **L4) as node:
        node.write("/var/lib/fakes/lustre-failures", "-1")
        node.power_on(uptime_seconds=1430)
        reason = node.failure()
        assert reason.startswith("lustre: fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abcdbev at /fsx")
        assert "Connection timed out" in reason
        assert "do the security groups" in reason
        assert node.abandoned() == reason
        assert "lustre: gpu-lustre" not in reason


def test_a_local_disk_is_formatted_once_and_found_again_after_a_reboot(lab: Lab) -> None:
    disk = local_disks(lab.directory())
    with disk as binds, lab.node(fleet("g6.xlarge", scratch=True), binds=binds, **L4) as node:
        node.power_on()
        node.ready()
        assert node.unit_result("scratch")["reason"] == "/scratch: new, disks: 1"
        node.run("echo kept >/scratch/file")
        node.reboot()
        node.ready()
        assert node.unit_result("scratch")["reason"] == "/scratch: as before, disks: 1"
        assert node.run("cat /scratch/file; findmnt --noheadings --output FSTYPE /scratch").stdout == "kept\nxfs\n"
        assert node.sightings(boot=2)["docker"].endswith("mounts: /scratch")


def test_a_local_disk_that_holds_data_is_not_wiped(lab: Lab) -> None:
    with local_disks(lab.directory()) as binds:
        (device,) = block_devices(binds)
        subprocess.run(["mkfs.ext4", "-q", "-L", "users-own", device], check=True)
        with lab.node(fleet("g6.xlarge", scratch=True), binds=binds, **L4) as node:
            node.power_on()
            reason = node.failure()
            assert reason.startswith(f"disks: {device} holds ext4 and is not wiped")
            assert node.abandoned() == reason
        assert "users-own" in subprocess.run(["blkid", device], check=True, capture_output=True, text=True).stdout


def test_of_two_local_disks_one_with_data_keeps_both_from_being_wiped(lab: Lab) -> None:
    with local_disks(lab.directory(), 2) as binds:
        blank, used = block_devices(binds)
        subprocess.run(["mkfs.ext4", "-q", used], check=True)
        with lab.node(fleet("g5.48xlarge", efa=False, scratch=True), binds=binds, gpu="A10G") as node:
            node.power_on()
            assert node.failure().startswith(f"disks: {used} holds ext4 and is not wiped")
        assert subprocess.run(["blkid", blank], check=False, capture_output=True).returncode == 2
        assert subprocess.run(["blkid", used], check=False, capture_output=True).returncode == 0
