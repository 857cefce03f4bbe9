"""The file systems of a node: FSx for Lustre and NFS mounts, and scratch on its local disks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import PurePosixPath

from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule

_PATH = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+")
_WORD = re.compile(r"[!-~]+")
#: Directories of the system with everything below them, and directories that are only reserved themselves.
_SYSTEM_TREES = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys",
    "/tmp", "/usr", "/var", "/opt/amazon", "/opt/aws", "/opt/dlami", "/opt/nvidia",  # noqa: S108 - refused, not used
)  # fmt: skip
_SYSTEM_DIRECTORIES = ("/home", "/opt")
#: Only NFS is mounted there: its unit keeps the home directories of the image, and lets nobody log in before.
HOME_MOUNT_POINT = "/home"

#: Where the local disks of a node are mounted.
SCRATCH_MOUNT_POINT = "/scratch"

MOUNT_POINT = define_rule(
    "GPU-MNT-001",
    "A mount point is an absolute path outside the system's directories",
    source="Filesystem Hierarchy Standard 3.0, chapters 3 to 6; a mount hides what lies below it",
)
OVERLAP = define_rule(
    "GPU-MNT-002",
    "Mount points are different, and none lies inside another",
    source="mount(8): the later mount hides the earlier; a directory inside a shared file system is made on all nodes",
)
MOUNT_TEXT = define_rule(
    "GPU-MNT-003",
    "DNS name, mount name and options of a mount are single words",
    source="the node reads them as fields of one line; mount(8) separates options by commas",
)
ACCESS_TIME = define_rule(
    "GPU-MNT-004",
    "Lustre is mounted with relatime",
    source='FSx for Lustre user guide, "Mounting": noatime makes the release of cold files inaccurate',
)
CHECKPOINTS = define_rule(
    "GPU-MNT-005",
    "Checkpoints are written to shared storage",
    source="the root volume and the local disks are lost with their node",
)
READ_ONLY = define_rule(
    "GPU-MNT-006",
    "What is mounted read-only is one of the mounts",
    source="mount(8): ro is an option of a mount",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreMount:
    """An FSx for Lustre file system and where a node mounts it.

    Attributes:
        mount_point: Absolute path on the node, known at synthesis.
        dns_name: DNS name of the file system; may be a CDK token, which is copied verbatim.
        mount_name: Its mount name; may be a CDK token.
        options: Options of mount(8), separated by commas. `relatime,flock` is what the FSx for Lustre user guide
            mounts with ("Mounting from an Amazon EC2 instance", stored copy of 2026).
        efa: Whether data use EFA, which requires the settings of `LustreEfa`.
        read_only: Whether the nodes only read: the option `ro` of mount(8). It holds for every program of a node but
            those of root, who can mount again.

    Example:
        >>> LustreMount(mount_point="/fsx", dns_name="fs-0.fsx.us-east-1.amazonaws.com", mount_name="abcd").options
        'relatime,flock'
    """

    mount_point: str
    dns_name: str
    mount_name: str
    options: str = "relatime,flock"
    efa: bool = False
    read_only: bool = False

    def line(self) -> str:
        """The mount as a line of `/etc/gpu-cluster/mounts`."""
        options = f"ro,{self.options}" if self.read_only else self.options
        words = (self.mount_point, self.dns_name, self.mount_name, options)
        return " ".join([*words, *(["efa"] if self.efa else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsMount:
    """An NFS file system, such as home directories, and where a node mounts it.

    Attributes:
        mount_point: Absolute path on the node, known at synthesis. At `/home` the home directories of local users, such
            as `ubuntu`, move to `/local/home` first, so that the mount hides none of them.
        dns_name: DNS name of the servers; may be a CDK token, which is copied verbatim.
        export_path: Directory of the file system that is mounted.
        options: Options of mount(8), separated by commas.
        read_only: Whether the nodes only read: the option `ro` of mount(8).

    Example:
        >>> NfsMount(mount_point="/home", dns_name="fs-0.fsx.us-east-1.amazonaws.com", export_path="/fsx").line()
        '/home fs-0.fsx.us-east-1.amazonaws.com:/fsx nfsvers=4.2,hard'
    """

    mount_point: str
    dns_name: str
    export_path: str
    options: str = "nfsvers=4.2,hard"
    read_only: bool = False

    def line(self) -> str:
        """The mount as a line of `/etc/gpu-cluster/nfs-mounts`."""
        options = f"ro,{self.options}" if self.read_only else self.options
        return f"{self.mount_point} {self.dns_name}:{self.export_path} {options}"


#: What a node mounts over the network.
Mount = LustreMount | NfsMount


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreEfa:
    """How nodes mount Lustre over EFA.

    Attributes:
        interface_count: EFA interfaces that Lustre uses.
        driver_version: Oldest EFA driver.
        lnd_version: Oldest EFA module of the Lustre client; empty if any version works.
    """

    interface_count: int
    driver_version: str
    lnd_version: str = ""

    def environment(self) -> dict[str, str]:
        """The node settings for it.

        Example:
            >>> LustreEfa(interface_count=8, driver_version="2.12.1").environment()
            {'GPU_LUSTRE_EFA': '8', 'GPU_LUSTRE_EFA_DRIVER': '2.12.1'}
        """
        values = {
            "GPU_LUSTRE_EFA": str(self.interface_count),
            "GPU_LUSTRE_EFA_DRIVER": self.driver_version,
            "GPU_LUSTRE_EFA_LND": self.lnd_version,
        }
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchSettings:
    """The local NVMe disks of a node as one file system, which is empty after every stop of the instance.

    Attributes:
        mount_point: Absolute path on the node.
        disk_count: Required number of local disks.
    """

    disk_count: int
    mount_point: str = SCRATCH_MOUNT_POINT


def checkpoint_environment(
    directory: str | None = None,
    *,
    local_directory: str | None = None,
    s3_uri: str | None = None,
    express_s3_uri: str | None = None,
) -> dict[str, str]:
    """The variables with the locations of checkpoints. They are for your scripts; nothing else reads them.

    Args:
        directory: `CHECKPOINT_DIR`, on a shared file system, such as `/fsx/checkpoints`.
        local_directory: `CHECKPOINT_LOCAL_DIR`, on the node itself, such as `/scratch/checkpoints`.
        s3_uri: `CHECKPOINT_S3_URI`; may hold a CDK token.
        express_s3_uri: `CHECKPOINT_EXPRESS_S3_URI`, of a bucket in the nodes' zone; may hold a CDK token.

    Example:
        >>> checkpoint_environment("/fsx/checkpoints")
        {'CHECKPOINT_DIR': '/fsx/checkpoints'}
    """
    given = {
        "CHECKPOINT_DIR": directory,
        "CHECKPOINT_LOCAL_DIR": local_directory,
        "CHECKPOINT_S3_URI": s3_uri,
        "CHECKPOINT_EXPRESS_S3_URI": express_s3_uri,
    }
    return {name: value for name, value in given.items() if value is not None}


def check_storage(
    mounts: Sequence[Mount],
    scratch: ScratchSettings | None = None,
    *,
    checkpoint_directory: str | None = None,
) -> list[Finding]:
    """Find errors in the mounts of a node.

    Args:
        mounts: File systems.
        scratch: Local disks, None for none.
        checkpoint_directory: Where jobs write checkpoints, if known.

    Example:
        >>> bad = LustreMount(mount_point="/usr/fsx", dns_name="fs-0.fsx.us-east-1.amazonaws.com", mount_name="abcd")
        >>> [finding.id for finding in check_storage([bad])]
        ['GPU-MNT-001']
    """
    points = {
        f"mounts[{mount.mount_point}]": mount.mount_point
        for mount in mounts
        if not (isinstance(mount, NfsMount) and mount.mount_point == HOME_MOUNT_POINT)
    }
    shared = [mount.mount_point for mount in mounts]
    writable = [mount.mount_point for mount in mounts if not mount.read_only]
    findings = [finding for path, point in points.items() for finding in _check_point(point, path)]
    if scratch is not None:
        findings += _check_point(scratch.mount_point, "scratch")
    findings += _check_overlap([*shared, *([] if scratch is None else [scratch.mount_point])])
    for mount in mounts:
        findings += _check_text(mount)
    if checkpoint_directory is not None and not any(_is_inside(checkpoint_directory, one) for one in writable):
        findings.append(
            CHECKPOINTS.finding(
                cause="checkpoints would be lost with their node, or not be written at all",
                got=checkpoint_directory,
                allowed=", ".join(f"below {point}" for point in writable) or "a directory of a mounted file system",
                fix="write them to a mount, and fast copies to CHECKPOINT_LOCAL_DIR",
                path="checkpoint_environment.CHECKPOINT_DIR",
                severity=Severity.WARNING,
            )
        )
    return findings


@check
def check_read_only(points: Iterable[str], mount_points: Iterable[str]) -> Iterator[Finding]:
    """Find mount points that are to be read-only and are not there.

    Example:
        >>> [finding.id for finding in check_read_only(["/data"], ["/fsx"])]
        ['GPU-MNT-006']
    """
    known = list(mount_points)
    for point in points:
        if point not in known:
            yield READ_ONLY.finding(
                cause="nothing is mounted there",
                got=point,
                allowed=", ".join(known) or "none: the nodes mount nothing",
                fix="name a mount point of mounts",
                path="read_only_mounts",
            )


@cache
def _is_inside(path: str, directory: str) -> bool:
    return PurePosixPath(path).is_relative_to(directory)


def _check_point(point: str, path: str) -> list[Finding]:
    if not _PATH.fullmatch(point):
        cause = "a mount point is an absolute path of letters, digits, dots, dashes and underscores"
    elif point in _SYSTEM_DIRECTORIES or any(_is_inside(point, tree) for tree in _SYSTEM_TREES):
        cause = "this directory belongs to the system"
    else:
        return []
    return [
        MOUNT_POINT.finding(
            cause=cause,
            got=point or "nothing",
            allowed="such as /fsx, /scratch or /mnt/data, and /home for a store of home directories",
            path=path,
        )
    ]


def _check_overlap(points: Iterable[str]) -> list[Finding]:
    return [
        OVERLAP.finding(
            cause="two mounts have one mount point" if one == two else "one mount point lies inside another",
            got=one if one == two else f"{one} and {two}",
            fix="mount them side by side, such as /fsx and /scratch",
            path="mounts",
        )
        for one, two in combinations(points, 2)
        if _is_inside(one, two) or _is_inside(two, one)
    ]


def _check_text(mount: Mount) -> list[Finding]:
    path = f"mounts[{mount.mount_point}]"
    texts = {"dns_name": mount.dns_name, "options": mount.options}
    texts |= {"mount_name": mount.mount_name} if isinstance(mount, LustreMount) else {"export_path": mount.export_path}
    findings = [
        MOUNT_TEXT.finding(cause="this is not one word", got=repr(text), path=f"{path}.{name}")
        for name, text in texts.items()
        if not _WORD.fullmatch(text)
    ]
    if isinstance(mount, LustreMount) and "noatime" in mount.options.split(","):
        findings.append(
            ACCESS_TIME.finding(
                cause="with noatime, files in use look cold and are released",
                got=mount.options,
                fix="use relatime",
                path=f"{path}.options",
                severity=Severity.WARNING,
            )
        )
    return findings
