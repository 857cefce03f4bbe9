"""mount-nfs, run for real: mount, usermod and package managers are faked, what they did is read back."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from cdk_gpu_clusters.node.storage import LustreMount, NfsMount

SCRIPT = "usr/local/libexec/gpu-cluster/mount-nfs"
SERVER = "fs-0a.fsx.us-east-2.amazonaws.com"
HOME = NfsMount(mount_point="/home", dns_name=SERVER, export_path="/fsx", options="nfsvers=4.2,hard")
TOOLS = NfsMount(
    mount_point="/opt/shared", dns_name="fs-0b.efs.us-east-2.amazonaws.com", export_path="/", read_only=True
)
AMAZON = 'ID="amzn"\nVERSION_ID="2023"\n'
NOBLE = 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n'
MV = shutil.which("mv")
PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\nada:x:2001:2001::/home/ada:/bin/sh\n"
)


class Nfs:
    """A node that mounts NFS, and the world around it."""

    def __init__(self, node: Any) -> None:
        self.node, self.root, self.output = node, node.root, ""
        node.environment["GPU_PATIENCE"] = "0"
        node.write("proc/mounts", "/dev/nvme0n1p1 / xfs rw 0 0\n")
        node.write("etc/passwd", PASSWD)
        node.write("home/ubuntu/.ssh/authorized_keys", "ssh-ed25519 AAAA ubuntu\n")
        node.tool("mount.nfs", "#!/bin/sh\n")
        for manager in ("dnf", "apt-get"):
            node.tool(manager, f"#!/bin/sh\necho {manager} ran; exit 99\n")
        # As shadow's does it: the field of the home directory, and nothing else.
        node.tool(
            "usermod",
            f'#!/bin/bash\necho "$@" >>{self.root}/usermod-calls\n'
            f'awk -F: -v OFS=: -v name="$3" -v home="$2" \'$1 == name {{ $6 = home }} 1\' {self.root}/etc/passwd '
            f">{self.root}/etc/passwd.new && mv {self.root}/etc/passwd.new {self.root}/etc/passwd\n",
        )
        self.mounts_after(0)

    def mounts_after(self, failures: int, words: str = "mount.nfs: Connection timed out") -> None:
        """`mount` fails so many times with these words, then does what the kernel does."""
        calls = self.root / "mount-calls"
        self.node.tool(
            "mount",
            f'#!/bin/bash\necho "$@" >>{calls}\n'
            f"if (($(wc -l <{calls}) <= {failures})); then printf '%s\\n' '{words}' >&2; exit 32; fi\n"
            f'echo "${{*: -2:1}} ${{*: -1}} nfs4 rw 0 0" >>{self.root}/proc/mounts\n',
        )

    def runs(
        self, *mounts: NfsMount | LustreMount, system: str = AMAZON, **settings: Any
    ) -> tuple[int, dict[str, Any]]:
        """Run the unit's script: exit status and result file."""
        self.node.install(mounts=mounts or (HOME,), **settings)
        self.node.write("etc/os-release", system)
        done = self.node.run(SCRIPT)
        assert not done.stderr, done.stderr
        self.output = done.stdout
        return done.returncode, json.loads((self.root / "var/lib/gpu-cluster/nfs.json").read_text())

    def calls(self, name: str) -> list[str]:
        file = self.root / f"{name}-calls"
        return file.read_text().splitlines() if file.exists() else []

    def homes(self) -> dict[str, str]:
        rows = [line.split(":") for line in (self.root / "etc/passwd").read_text().splitlines()]
        return {row[0]: row[5] for row in rows}


@pytest.fixture
def nfs(node: Any) -> Nfs:
    return Nfs(node)


def test_mounts_are_mounted_in_their_order_and_read_only_ones_are_only_listed(nfs: Nfs) -> None:
    status, result = nfs.runs(HOME, TOOLS)
    assert (status, result["state"], result["reason"]) == (0, "ok", "mounted: /home /opt/shared")
    assert nfs.calls("mount") == [
        f"-t nfs -o nfsvers=4.2,hard {SERVER}:/fsx {nfs.root}/home",
        f"-t nfs -o ro,nfsvers=4.2,hard {TOOLS.dns_name}:/ {nfs.root}/opt/shared",
    ]
    assert not list(nfs.root.glob("home/.gpu-cluster*"))


def test_home_directories_of_the_image_keep_their_keys_outside_the_mount(nfs: Nfs) -> None:
    assert nfs.runs()[0] == 0
    # ada has no directory on this node: it is in the shared file system.
    assert nfs.homes() == {"root": "/root", "ubuntu": "/local/home/ubuntu", "ada": "/home/ada"}
    assert (nfs.root / "local/home/ubuntu/.ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA ubuntu\n"
    assert not (nfs.root / "home/ubuntu").exists()
    assert (nfs.root / "local").stat().st_mode & 0o777 == 0o755


def test_a_second_boot_moves_nothing(nfs: Nfs) -> None:
    nfs.runs()
    nfs.node.write("proc/mounts", "/dev/nvme0n1p1 / xfs rw 0 0\n")
    assert nfs.runs()[0] == 0
    assert nfs.calls("usermod") == ["-d /local/home/ubuntu ubuntu"]


def test_a_move_that_was_interrupted_is_completed(nfs: Nfs) -> None:
    nfs.node.write("etc/passwd", PASSWD.replace("/home/ubuntu", "/local/home/ubuntu"))
    assert nfs.runs()[0] == 0
    assert (nfs.root / "local/home/ubuntu/.ssh/authorized_keys").exists()


BUSY = "#!/bin/sh\necho 'usermod: user ubuntu is currently used by process 7' >&2; exit 8\n"


def test_a_user_who_is_logged_in_holds_no_boot(nfs: Nfs) -> None:
    nfs.node.tool("usermod", BUSY)
    # As shadow's does it: the editor gets a copy, which replaces the file.
    passwd = nfs.root / "etc/passwd"
    nfs.node.tool(
        "vipw", f'#!/bin/sh\ncp {passwd} {passwd}.edit && "$VISUAL" {passwd}.edit && mv {passwd}.edit {passwd}\n'
    )
    assert nfs.runs()[0] == 0
    assert nfs.homes() == {"root": "/root", "ubuntu": "/local/home/ubuntu", "ada": "/home/ada"}
    assert (nfs.root / "local/home/ubuntu/.ssh/authorized_keys").exists()
    assert len(nfs.calls("mount")) == 1


@pytest.mark.parametrize("vipw", ["echo 'vipw: Couldn\\'t lock file' >&2; exit 1", "exit 0"])
def test_a_home_that_cannot_be_moved_stays_whole_and_holds_no_boot(nfs: Nfs, vipw: str) -> None:
    nfs.node.tool("usermod", BUSY)
    nfs.node.tool("vipw", f"#!/bin/sh\n{vipw}\n")
    nfs.node.tool("sleep", "#!/bin/sh\n")
    assert nfs.runs()[0] == 0
    assert nfs.homes()["ubuntu"] == "/home/ubuntu"
    assert (nfs.root / "home/ubuntu/.ssh/authorized_keys").exists()
    assert not (nfs.root / "local/home/ubuntu").exists()
    assert "/home/ubuntu of ubuntu stays, hidden by the mount" in nfs.output
    assert len(nfs.calls("mount")) == 1


def test_a_home_whose_files_cannot_be_moved_stays_that_of_its_user(nfs: Nfs) -> None:
    nfs.node.tool("mv", f'#!/bin/sh\n[ "$1" != -T ] || {{ echo \'mv: no space left\' >&2; exit 1; }}\nexec {MV} "$@"\n')
    assert nfs.runs()[0] == 0
    assert nfs.homes()["ubuntu"] == "/home/ubuntu"
    assert "stays, hidden by the mount: mv: no space left" in nfs.output


def test_other_mounts_leave_home_directories_alone(nfs: Nfs) -> None:
    assert nfs.runs(TOOLS)[0] == 0
    assert nfs.homes()["ubuntu"] == "/home/ubuntu"


@pytest.mark.parametrize(
    ("system", "manager", "calls"),
    [
        (AMAZON, "dnf", ["-qy --setopt=timeout=20 --setopt=retries=2 install nfs-utils"]),
        (NOBLE, "apt-get", ["update", "install nfs-common"]),
    ],
)
def test_the_client_is_installed_where_the_image_has_none(
    nfs: Nfs, system: str, manager: str, calls: list[str]
) -> None:
    tools = nfs.node.tools
    (tools / "mount.nfs").unlink()
    client = tools / "mount.nfs"
    nfs.node.tool(
        manager,
        f'#!/bin/bash\necho "$@" >>{nfs.root}/{manager}-calls\n[[ " $* " != *" install "* ]] || '
        f"{{ printf '#!/bin/sh\\n' >{client}; chmod +x {client}; }}\n",
    )
    assert nfs.runs(system=system)[0] == 0
    assert [call.endswith(end) for call, end in zip(nfs.calls(manager), calls, strict=True)] == [True] * len(calls)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("mount.nfs: Failed to resolve server fs-0a: Name or service not known", "an EFS mount target in this zone"),
        ("mount.nfs: access denied by server while mounting", "add its CIDR block to export_to"),
        (
            "mount.nfs: mounting fs-0a:/fsx failed, reason given by server: No such file or directory",
            "no such directory",
        ),
        ("mount.nfs: Connection timed out", "let NFS (TCP 2049) through"),
    ],
)
def test_a_file_system_that_never_comes_fails_with_a_hint(nfs: Nfs, words: str, hint: str) -> None:
    nfs.mounts_after(99, words)
    status, result = nfs.runs(boot_deadline_seconds=60)
    assert (status, result["state"]) == (1, "failed")
    assert words in result["reason"]
    assert hint in result["reason"]


def test_another_file_system_at_the_mount_point_is_not_covered(nfs: Nfs) -> None:
    nfs.node.write("proc/mounts", f"fs-other:/fsx {nfs.root}/home nfs4 rw 0 0\n")
    status, result = nfs.runs()
    assert (status, result["reason"]) == (1, "/home is taken by fs-other:/fsx nfs4")


def test_the_node_is_ready_only_with_its_mounts(node: Any) -> None:
    node.install(mounts=(HOME,), boot_deadline_seconds=100)
    assert node.boot()[1]["reason"] == "nfs: gpu-nfs has not finished: not started"


def test_both_kinds_have_lists_of_their_own(nfs: Nfs) -> None:
    lustre = LustreMount(mount_point="/fsx", dns_name="fs-0c.fsx.us-east-2.amazonaws.com", mount_name="abcd")
    nfs.runs(HOME, lustre)
    folder = nfs.root / "etc/gpu-cluster"
    assert (folder / "nfs-mounts").read_text() == f"/home {SERVER}:/fsx nfsvers=4.2,hard\n"
    assert (folder / "mounts").read_text().startswith("/fsx fs-0c")
    settings = (folder / "node.env").read_text()
    assert "GPU_MOUNTS=1" in settings
    assert "GPU_NFS_MOUNTS=1" in settings
