"""Nodes that mount home directories when they boot: the order, the users of the image, and a server that is late.

The kernel of a container has no NFS, so that its `mount.nfs` mounts a tmpfs. What Debian's own `mount.nfs` makes of the
options of both services is tried beside it, up to the system call.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cdk_gpu_clusters.catalogue.homes import HomeService, nfs_export, nfs_options
from nodebox.debian import download
from nodebox.lab import Lab, fleet

L4 = {"gpu": "L4", "gpu_count": 1}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q ada"
# The users of an image are there before its user data run. Those of cloud-init are made before them, too.
USER = f"""[Service]
ExecStartPre=/bin/sh -c 'id ada || useradd --create-home ada'
ExecStartPre=/bin/sh -c 'test ! -d /home/ada || install -d -o ada -m 700 /home/ada/.ssh'
ExecStartPre=/bin/sh -c 'test ! -d /home/ada || echo "{KEY}" >/home/ada/.ssh/authorized_keys'
"""


class Homes:
    """Home directories that are there already."""

    dns_name, export_path = "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", nfs_export(HomeService.OPENZFS)
    nfs_options = nfs_options(HomeService.OPENZFS)


MOUNTED = fleet("g6.xlarge", mounts={"/home": Homes()})


def test_homes_are_mounted_before_jobs_and_hide_no_user_of_the_image(lab: Lab) -> None:
    with lab.node(MOUNTED, **L4) as node:
        node.write("/etc/systemd/system/cloud-final.service.d/users.conf", USER)
        node.power_on()
        node.ready()
        assert node.unit_result("nfs")["reason"] == "mounted: /home"
        source = node.run("findmnt --noheadings --output SOURCE /home").stdout.strip()
        assert source == f"{Homes.dns_name}:/fsx"
        assert node.run("getent passwd ada | cut -d: -f6").stdout.strip() == "/local/home/ada"
        assert node.run("cat ~ada/.ssh/authorized_keys").stdout.strip().endswith(KEY.split()[1] + " ada")
        assert node.run("stat -c %U:%a /local/home/ada/.ssh").stdout.strip() == "ada:700"
        node.reboot()
        node.ready()
        for daemon in ("docker", "slurmd"):
            assert node.sightings(boot=2)[daemon].endswith("mounts: /home")
        assert node.run("getent passwd ada | cut -d: -f6").stdout.strip() == "/local/home/ada"
        # Users are let in after the mount.
        order = "systemctl show -p After --value systemd-user-sessions.service"
        assert "gpu-nfs.service" in node.run(order).stdout.split()


def test_a_user_who_logs_in_early_holds_no_boot_and_finds_the_keys_again(lab: Lab) -> None:
    with lab.node(MOUNTED, **L4) as node:
        # A process of the user is all that usermod sees of a login.
        session = (
            "ExecStartPre=/bin/sh -c 'cd ~ada && systemd-run --uid=ada --unit=session --same-dir sleep infinity'\n"
        )
        node.write("/etc/systemd/system/cloud-final.service.d/users.conf", USER + session)
        node.power_on()
        node.ready()
        assert node.unit_result("nfs")["reason"] == "mounted: /home"
        assert node.run("getent passwd ada | cut -d: -f6").stdout.strip() == "/local/home/ada"
        assert node.run("cat ~ada/.ssh/authorized_keys").stdout.strip().endswith(KEY.split()[1] + " ada")
        pid = node.run("systemctl show -p MainPID --value session").stdout.strip()
        assert node.run(f"readlink /proc/{pid}/cwd").stdout.strip() == "/local/home/ada"
        # usermod is what refuses, and nothing else of the account has changed.
        refused = node.run("usermod -d /nowhere ada; echo $?").stdout.strip()
        assert refused == "8"
        assert node.run("pwck -r >/dev/null; echo $?").stdout.strip() in ("0", "2")
        assert node.run("stat -c '%U:%G:%a' /etc/passwd").stdout.strip() == "root:root:644"


def test_a_server_that_never_answers_ends_the_launch_and_lets_people_in(lab: Lab) -> None:
    with lab.node(MOUNTED, variables={"GPU_PATIENCE": "5"}, **L4) as node:
        node.write("/var/lib/fakes/nfs-failures", "-1")
        node.power_on(uptime_seconds=1430)
        reason = node.failure()
        assert reason.startswith(f"nfs: {Homes.dns_name}:/fsx at /home")
        assert "let NFS (TCP 2049) through" in reason
        assert node.abandoned() == reason


@pytest.mark.parametrize("service", HomeService)
def test_the_nfs_client_of_debian_takes_the_options(service: HomeService, tmp_path: Path) -> None:
    packages = ("nfs-common", "libtirpc3", "libevent-core-2.1-7", "libnfsidmap1", "libgssapi-krb5-2")
    for package in download(tmp_path, *packages):
        subprocess.run(["dpkg-deb", "-x", str(package), str(tmp_path / "root")], check=True)
    libraries = ":".join(str(one) for one in (tmp_path / "root").glob("**/x86_64-linux-gnu"))
    (client,) = (tmp_path / "root").glob("**/sbin/mount.nfs")
    # All but the system call, for which this kernel has no file system.
    call = [str(client), f"127.0.0.1:{nfs_export(service)}", "/mnt", "-f", "-v", "-o"]

    def mount(options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*call, options], env={"LD_LIBRARY_PATH": libraries}, capture_output=True, text=True, check=False
        )

    done = mount(nfs_options(service))
    assert done.returncode == 0, done.stderr
    words = done.stdout + done.stderr
    assert nfs_options(service).split(",")[0] in words
    assert mount("nfsvers=9").returncode != 0
