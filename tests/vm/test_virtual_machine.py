"""What a container cannot show of a node: EC2 found by its firmware, NVMe disks in a RAID, a kernel and a log of its own.

The tests share one machine, since its boots take most of their time, and run in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters import FabricManagerOrder, MigLayout, UserDataPart
from nodebox.lab import Lab, fleet
from nodebox.outside import OutsidePrograms
from nodebox.repaired import WATCH, outcomes, steps
from nodebox.virtual import VirtualNode
from services.programs import install_aws_cli

INSTANCE_TYPE = "g7e.24xlarge"
# One GPU of four: each call of nvidia-smi takes a second here.
MIG = [MigLayout(["1g.24gb"] * 4), *[MigLayout.whole_gpu()] * 3]
# A fleet leaves huge pages to the EFA installer of its image. This is what `NodeSettings(huge_pages=64)` writes.
HUGE_PAGES = """#cloud-config
write_files:
- path: /etc/gpu-cluster/node.env
  append: true
  content: |
    GPU_HUGE_PAGES=64
- path: /etc/sysctl.d/99-gpu-cluster.conf
  content: |
    vm.nr_hugepages = 64
"""
FILE_SYSTEM = "findmnt --noheadings --output FSTYPE,UUID /scratch"
ARRAY = "mdadm --detail --export $(findmnt --noheadings --output SOURCE /scratch)"
MEMBERS = "cat /sys/block/md*/slaves/*/device/serial"
# Where the node finds the AWS CLI of this machine: its own takes longer, with an emulated processor, than the watchdog
# waits. That one is left to calls with files of the node, and to the boot.
AWS_ADDRESS = "10.77.0.7"
AWS_OF_IMAGE = Path(__file__).parents[1] / "support/nodebox" / "image/usr/local/bin/aws"
AWS = """#!/bin/sh
case "$1 $2" in
"autoscaling describe-"* | "autoscaling set-"* | "logs describe-"* | "logs create-log-stream")
  exec /usr/local/libexec/outside-aws "$@" ;;
esac
exec /usr/local/libexec/own-aws "$@"
"""
# The same disks as another array, with a file that somebody needs.
SOMEBODYS = """
set -e
disks=$(printf '/dev/%s ' $(ls /sys/block/md*/slaves))
array=$(findmnt --noheadings --output SOURCE /scratch)
umount /scratch
mdadm --quiet --stop $array
mdadm --quiet --zero-superblock $disks
mdadm --quiet --create /dev/md/own --run --level=0 --raid-devices=2 --name=own --homehost=any $disks
mkfs.xfs -q -f -L own /dev/md/own
mount /dev/md/own /mnt
echo needed >/mnt/file
umount /mnt
"""


@pytest.fixture(scope="module")
def lab(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Where the machine is booted."""
    with Lab(app_factory, tmp_path_factory.mktemp("lab"), kind=VirtualNode) as made:
        yield made


@pytest.fixture(scope="module")
def aws_cli(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> OutsidePrograms:
    """The AWS CLI of this machine, in front of the account."""
    program = install_aws_cli(tmp_path_factory.mktemp("aws-cli"))
    return OutsidePrograms({"aws": program}, lab.cloud.account.settings)


@pytest.fixture(scope="module")
def node(lab: Lab, aws_cli: OutsidePrograms) -> Iterator[VirtualNode]:
    """The machine, ready after its first boot."""
    build = fleet(
        INSTANCE_TYPE,
        efa=False,
        mig=MIG,
        fabric_manager_order=FabricManagerOrder.BEFORE,
        scratch=True,
        user_data_parts=[UserDataPart(content_type="text/cloud-config", body=HUGE_PAGES)],
    )
    machine: dict[str, Any] = {"instance_type": INSTANCE_TYPE, "disk_count": 2}
    # Where cloud-init's last stage waits for no other unit, as on Amazon Linux, more is done at the same time.
    with lab.node(build, gpu="RTX-PRO-6000-BSE", gpu_count=4, debian_order=False, **machine) as node:
        assert isinstance(node, VirtualNode)
        own = AWS_OF_IMAGE.read_text()
        for place, text in {
            "/usr/local/bin/aws": AWS,
            "/usr/local/libexec/own-aws": own,
            "/usr/local/libexec/outside-aws": aws_cli.client("aws", AWS_ADDRESS),
        }.items():
            node.write(place, text, 0o755)
        server = aws_cli.serve(node.network.listen(AWS_ADDRESS, 80))
        try:
            node.power_on()
            node.ready()
            yield node
        finally:
            server.close()


def properties(text: str) -> dict[str, str]:
    """Lines such as `MD_LEVEL=raid0`."""
    return dict(line.split("=", 1) for line in text.splitlines())


def slices_seen(node: VirtualNode, *, boot: int) -> dict[str, str]:
    """How many MIG devices each daemon found."""
    return {daemon: finding.split()[0] for daemon, finding in node.sightings(boot=boot).items()}


# A real fault of the kernel's own: no process can write one to its log. The array lives until the next boot.
LOST_DISK = """
mkdir -p /run/lost && truncate -s 64M /run/lost/a /run/lost/b
first=$(losetup --find --show /run/lost/a) second=$(losetup --find --show /run/lost/b)
mdadm --quiet --create /dev/md42 --run --level=0 --raid-devices=2 $first $second
echo faulty >/sys/block/md42/md/dev-${first#/dev/}/state || true
"""


def lose_a_disk(node: VirtualNode) -> None:
    """Have the kernel lose a disk of an array."""
    node.run(LOST_DISK)


def faults_seen(node: VirtualNode) -> list[str]:
    """What the watchdog said of disks of arrays."""
    return [reason for _, state, reason in node.events(WATCH) if state == "seen" and "lost its disk" in reason]


def test_ec2_is_found_by_the_firmware_and_asked_with_tokens_only(node: VirtualNode) -> None:
    firmware = node.run("cd /sys/class/dmi/id && cat sys_vendor product_name && head -c 3 product_uuid").stdout
    assert firmware == f"Amazon EC2\n{INSTANCE_TYPE}\nec2"
    somebody_says = "grep -r '^ *datasource[a-z_]*:' /etc/cloud; grep -o 'ds=.*' /proc/cmdline"
    told = node.run(somebody_says, check=False).stdout
    assert told == "", "nothing but the firmware says whose metadata these are"
    assert "datasource_list: [ Ec2," in node.run("cat /run/cloud-init/cloud.cfg").stdout
    assert '"DataSourceEc2Local"' in node.run("cat /run/cloud-init/result.json").stdout
    assert node.metadata.refused == []
    without_token = "curl -s -o /dev/null -w '%{http_code}' http://169.254.169.254/latest/meta-data/instance-id"
    assert node.run(without_token).stdout == "401"


def test_local_disks_become_one_raid0_with_xfs(node: VirtualNode) -> None:
    assert node.unit_result("scratch")["reason"] == "/scratch: new, disks: 2"
    array = properties(node.run(ARRAY).stdout)
    assert (array["MD_LEVEL"], array["MD_DEVICES"]) == ("raid0", "2")
    assert sorted(node.run(MEMBERS).stdout.split()) == ["AWS0", "AWS1"], "not the root volume, of NVMe too"
    assert node.run(FILE_SYSTEM).stdout.startswith("xfs ")


def test_memory_is_locked_without_limit_and_huge_pages_are_reserved(node: VirtualNode) -> None:
    found = {stage: reason for stage, state, reason in node.events("gpu-node-boot", boot=1) if state == "ok"}
    assert found["limits"] == "memlock unlimited, 64 huge pages of 64"
    assert "HugePages_Total:      64" in node.run("cat /proc/meminfo").stdout


def test_a_gpu_is_split_before_anything_uses_it(node: VirtualNode) -> None:
    assert node.gpus.layouts() == [["1g.24gb"] * 4, [], [], []]
    seen = slices_seen(node, boot=1)
    assert seen.pop("nvidia-persistenced") == "0", "which keeps the driver loaded"
    assert seen == dict.fromkeys(["nvidia-fabricmanager", "nvidia-dcgm", "docker", "slurmd"], "4")


def test_the_node_goes_into_service_and_its_records_arrive(node: VirtualNode) -> None:
    node.in_service()
    logged = node.eventually(lambda: node.fleet.logged(node.instance_id))
    assert [one["state"] for one in logged if one["stage"] == "node"] == ["started", "ready"]
    assert node.run("systemctl --failed --plain --no-legend").stdout == ""


def test_after_a_reboot_for_a_fault_disks_are_found_and_the_gpu_is_split_and_the_node_is_back_in_service(
    node: VirtualNode,
) -> None:
    node.run("echo kept >/scratch/file")
    array, file_system = properties(node.run(ARRAY).stdout), node.run(FILE_SYSTEM).stdout
    node.eventually(lambda: node.unit(WATCH, "ActiveState") == "active")
    assert faults_seen(node) == []
    lose_a_disk(node)
    node.eventually(lambda: node.boots == 2)
    assert node.ready()["first_boot"] is False
    assert node.unit_result("scratch")["reason"] == "/scratch: as before, disks: 2"
    assert node.run("cat /scratch/file").stdout == "kept\n"
    assert properties(node.run(ARRAY).stdout)["MD_UUID"] == array["MD_UUID"]
    assert node.run(FILE_SYSTEM).stdout == file_system
    assert slices_seen(node, boot=2) == slices_seen(node, boot=1)
    assert [stage for stage, _, _ in node.events("gpu-node-boot", boot=2) if stage == "hook"] == []
    assert node.fleet.states() == {node.instance_id: "InService"}
    node.eventually(lambda: outcomes(node)[-1:] == ["repaired"])
    assert steps(node) == ["begin", "hold", "wait", "reboot", "check", "release", "ok"]
    assert node.boots == 2


def test_disks_of_somebodys_array_are_not_wiped(node: VirtualNode) -> None:
    node.run(SOMEBODYS)
    assert node.run("systemctl restart gpu-scratch", check=False).returncode != 0
    reason = node.unit_result("scratch")["reason"]
    assert "holds linux_raid_member and is not wiped" in reason
    assert node.run("mount /dev/md/own /mnt && cat /mnt/file").stdout == "needed\n"


def test_a_node_that_needs_a_second_reboot_is_marked_as_unhealthy(node: VirtualNode) -> None:
    node.fleet.keep_unhealthy()
    lose_a_disk(node)
    node.eventually(lambda: node.fleet.health() == {node.instance_id: "Unhealthy"})
    assert faults_seen(node)[-1].startswith("md42 lost its disk loop")
