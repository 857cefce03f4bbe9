"""What a container cannot show of a node: EC2 found by its firmware, NVMe disks in a RAID, a kernel and a log of its own.

The tests share one machine, since its boots take most of their time, and run in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cdk_gpu_clusters import FabricManagerOrder, MigLayout, UserDataPart
from nodebox.lab import Lab, fleet
from nodebox.virtual import VirtualNode

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
    made = Lab(app_factory, tmp_path_factory.mktemp("lab"), kind=VirtualNode)
    made.cloud.start()
    yield made
    made.cloud.stop()


@pytest.fixture(scope="module")
def node(lab: Lab) -> Iterator[VirtualNode]:
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
        node.power_on()
        node.ready()
        yield node


def properties(text: str) -> dict[str, str]:
    """Lines such as `MD_LEVEL=raid0`."""
    return dict(line.split("=", 1) for line in text.splitlines())


def slices_seen(node: VirtualNode, *, boot: int) -> dict[str, str]:
    """How many MIG devices each daemon found."""
    return {daemon: finding.split()[0] for daemon, finding in node.sightings(boot=boot).items()}


def kills_seen(node: VirtualNode) -> list[str]:
    """What the watchdog said of processes that the kernel ended."""
    events = node.events("gpu-node-watch")
    return [reason for _, state, reason in events if state == "seen" and reason.startswith("out of memory")]


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


def test_after_a_reboot_disks_are_found_again_and_the_gpu_is_split_again(node: VirtualNode) -> None:
    node.run("echo kept >/scratch/file")
    array, file_system = properties(node.run(ARRAY).stdout), node.run(FILE_SYSTEM).stdout
    node.reboot()
    assert node.ready()["first_boot"] is False
    assert node.unit_result("scratch")["reason"] == "/scratch: as before, disks: 2"
    assert node.run("cat /scratch/file").stdout == "kept\n"
    assert properties(node.run(ARRAY).stdout)["MD_UUID"] == array["MD_UUID"]
    assert node.run(FILE_SYSTEM).stdout == file_system
    assert slices_seen(node, boot=2) == slices_seen(node, boot=1)
    assert [stage for stage, _, _ in node.events("gpu-node-boot", boot=2) if stage == "hook"] == []
    assert node.fleet.states() == {node.instance_id: "InService"}
    assert node.boots == 2


def test_disks_of_somebodys_array_are_not_wiped(node: VirtualNode) -> None:
    node.run(SOMEBODYS)
    assert node.run("systemctl restart gpu-scratch", check=False).returncode != 0
    reason = node.unit_result("scratch")["reason"]
    assert "holds linux_raid_member and is not wiped" in reason
    assert node.run("mount /dev/md/own /mnt && cat /mnt/file").stdout == "needed\n"


def test_the_watchdog_sees_what_the_kernel_says(node: VirtualNode) -> None:
    """What it does then takes the AWS CLI longer here than it may; tests/node has that."""
    node.eventually(lambda: node.unit("gpu-node-watch", "ActiveState") == "active")
    assert kills_seen(node) == []
    node.run("choom -n 1000 -- sleep 600 >/dev/null 2>&1 & echo f >/proc/sysrq-trigger")
    reasons = node.eventually(lambda: kills_seen(node))
    assert any(reason.startswith("out of memory: the kernel ended process") for reason in reasons), reasons
