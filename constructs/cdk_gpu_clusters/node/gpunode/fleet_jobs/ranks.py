"""The ranks of a job on this node: their variables, and the process that starts them, in a container or without."""

from __future__ import annotations

import errno
import glob
import io
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .. import paths
from ..checkpoints import DIRECTORY, RESUME_FROM, newest_checkpoint
from ..command import run
from ..node import Node
from ..quoting import one_line
from ..topology.run_command import OTHER_LAUNCHERS
from .board import Member
from .request import JobRequest

#: User of all jobs, on every node with the same number, so that files of shared file systems stay theirs
#: (`files/gpu-job-user.conf`). It is neither root nor a user with sudo.
USER = "gpu-job"
#: Home of a job in a container: the folder of its files.
WORK_FOLDER = "/job"
#: Where the files of jobs are.
JOBS = "/var/lib/gpu-jobs"
_SESSION = "/etc/profile.d/gpu-cluster.sh"
_NCCL = "/etc/nccl.conf"
#: Virtual environment with PyTorch in AWS's Deep Learning AMIs that have one (AWS Deep Learning AMI release notes, "GPU
#: PyTorch 2.13 (Amazon Linux 2023)", 2026-10-05: python_location /opt/pytorch/bin/python; the same on arm64, 2.12).
_PYTORCH = "/opt/pytorch/bin"
_SEARCH = f"{_PYTORCH}:/usr/local/bin:/usr/bin:/bin:/opt/amazon/openmpi/bin:/opt/amazon/efa/bin"
_PORT = 29500
# Each attempt has a port of its own, so that no late rank of an earlier one meets the next.
_PORTS = 100
_PULL_SECONDS = 3600
_ECR = re.compile(r"(?P<registry>[0-9]{12}\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?)/")
_HALF = 2
_KILL_PAUSE_SECONDS = 0.1
# Users below are those of the system (login.defs(5), UID_MIN).
_LEAST_USER = 1000


class StartError(Exception):
    """The ranks cannot be started here; the text is the reason."""


@dataclass(frozen=True)
class Place:
    """The place of this node in an attempt.

    Attributes:
        members: The nodes of the attempt, the first of them rank 0.
        own: This node.
        attempt: Number of the attempt, from 1.
    """

    members: Sequence[Member]
    own: Member
    attempt: int

    @property
    def rank(self) -> int:
        """Rank of this node."""
        return list(self.members).index(self.own)


class Ranks:
    """Starts and ends the ranks of a job on this node.

    Args:
        node: This node.
        job_id: The job.
        request: What is to run.
    """

    def __init__(self, node: Node, job_id: str, request: JobRequest) -> None:
        self._node, self._job_id, self._request = node, job_id, request
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """Folder of the job's files, which it starts in."""
        return paths.below(f"{JOBS}/{self._job_id}")

    def unpack(self, files: bytes) -> None:
        """Make the folder of the job, with its files, for the user of jobs. One that is there stays as it is.

        Raises:
            StartError: If the files are not those of one folder.
            OSError: If they cannot be written.
        """
        if self.folder.exists():
            return
        self.folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Only root may touch it before it is complete: root would follow links.
        fresh = self.folder.with_name(f"{self._job_id}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        unpack(files, fresh)
        user = _user()
        for path in [*fresh.rglob("*"), fresh]:
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
        fresh.rename(self.folder)

    def prepare(self) -> None:
        """Make the folder of checkpoints, and pull the image if this node does not have it.

        Raises:
            StartError: If that fails.
        """
        checkpoints = self._checkpoints()
        mount = next((one for one in self._file_systems() if checkpoints and Path(one) in checkpoints.parents), None)
        try:
            # Root makes no folder elsewhere for a job.
            if checkpoints is not None and mount is not None:
                give(paths.below(mount), checkpoints.relative_to(mount), _user())
        except OSError as fault:
            raise StartError(f"{checkpoints}: {fault.strerror}") from fault
        if self._request.image:
            _pull(self._request.image)

    def start(self, place: Place) -> IO[bytes]:
        """Start the ranks.

        Returns:
            What they print, standard output and errors in one.

        Raises:
            StartError: If the program cannot be started.
        """
        variables = {**session_variables(), **self.variables(place), **self._request.environment}
        try:
            start = self._start_container if self._request.image else self._start_program
            self._process = start(variables)
        except OSError as fault:
            raise StartError(str(fault)) from fault
        assert self._process.stdout is not None  # noqa: S101 - a pipe was requested
        return self._process.stdout

    def status(self) -> int | None:
        """Exit status of the ranks, as a shell has it; None while they run."""
        status = None if self._process is None else self._process.poll()
        return status if status is None or status >= 0 else 128 - status

    def end(self, wait_seconds: float) -> None:
        """Send the ranks SIGTERM and, if they still run after a while, SIGKILL; then end what they left behind.

        torchrun gives each rank a session of its own (torch/distributed/elastic/multiprocessing/subprocess_handler), so
        that no signal to its group reaches them, and a rank that hangs would outlive it.
        """
        if self._process is None:
            return
        for number, seconds in ((signal.SIGTERM, wait_seconds), (signal.SIGKILL, 10.0)):
            with suppress(OSError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                break
        if self._request.image:
            run("docker", "rm", "--force", self._container, timeout_seconds=60)
        with suppress(KeyError):
            kill_all_of(pwd.getpwnam(USER).pw_uid)

    def variables(self, place: Place) -> dict[str, str]:
        """What a launcher or a rank needs to know.

        Every option of torchrun has a variable (PyTorch documentation, torchrun: `PET_` and the option's name), so
        that `torchrun train.py` is the same on one node and on sixteen.
        """
        processes = self._request.processes_per_node or self._node.settings.number("slots", 1)
        where = {
            "MASTER_ADDR": place.members[0].address,
            "MASTER_PORT": str(_PORT + place.attempt % _PORTS),
            "NNODES": str(len(place.members)),
            "NODE_RANK": str(place.rank),
            "NPROC_PER_NODE": str(processes),
        }
        made = {
            **where,
            **{f"PET_{name}": value for name, value in where.items()},
            # Each line that torchrun passes on has the rank that printed it.
            "PET_TEE": "3",
            "GPU_JOB_ID": self._job_id,
            "GPU_JOB_ATTEMPT": str(place.attempt),
            "PYTHONUNBUFFERED": "1",
        }
        checkpoints = self._checkpoints()
        if checkpoints is not None:
            made[DIRECTORY] = str(checkpoints)
            newest = newest_checkpoint(paths.below(str(checkpoints)))
            if newest is not None:
                made[RESUME_FROM] = str(newest)
        return made

    def _checkpoints(self) -> Path | None:
        given = self._request.checkpoint_directory or session_variables().get(DIRECTORY, "")
        return Path(given) if given.startswith("/") else None

    def _start_program(self, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        user = _user()
        # mpirun and the like start ranks by themselves, on this node and on others.
        pin = [] if Path(self._request.command[0]).name in OTHER_LAUNCHERS else ["--pin"]
        login = {"HOME": str(self.folder), "USER": USER, "LOGNAME": USER, "SHELL": "/bin/bash", "PATH": _SEARCH}
        # The variables come from a user: nothing that is root's may see them, such as LD_PRELOAD.
        return _popen(
            ["setpriv", "--no-new-privs", _gpunode(), "run", *pin, "--", *self._request.command],
            cwd=self.folder,
            environment={**login, **variables},
            user=user,
        )

    def _start_container(self, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        given = {"HOME": WORK_FOLDER, "USER": USER, "LOGNAME": USER, **variables}
        file = paths.run_folder() / f"{self._job_id}.env"
        # In a file of root: the command line is for everyone to see, and docker itself must not take them for its own.
        paths.write_atomically(file, "".join(f"{name}={value}\n" for name, value in given.items()), paths.PRIVATE)
        # One that was left by a crash of this program would have the name.
        run("docker", "rm", "--force", self._container, timeout_seconds=60)
        # `docker run` forwards signals to the container, and `gpunode run` registers it for the node's drain.
        command = [_gpunode(), "run", "--", *self._docker(file)]
        return _popen(command, cwd=self.folder, environment={"PATH": _SEARCH, "HOME": "/root"})

    @property
    def _container(self) -> str:
        return f"gpu-job-{self._job_id}"

    def _docker(self, variables: Path) -> list[str]:
        user = _user()
        return [
            "docker", "run", "--rm", "--init", "--name", self._container,
            # The ranks of all nodes reach each other, and EFA's devices have their names, only in the node's network.
            "--network", "host",
            "--user", f"{user.pw_uid}:{user.pw_gid}", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
            "--ulimit", "memlock=-1:-1", "--ulimit", "nofile=1048576:1048576",
            "--shm-size", str(_half_of_memory()),
            *_accelerators(self._node.settings.text("accelerator")),
            *(f"--device={device}" for pattern in _DEVICES for device in sorted(glob.glob(pattern))),  # noqa: PTH207
            "--volume", f"{self.folder}:{WORK_FOLDER}", "--workdir", WORK_FOLDER,
            *(f"--volume={path}:{path}{':ro' if path == _NCCL else ''}" for path in self._shared()),
            "--env-file", str(variables),
            self._request.image, *self._request.command,
        ]  # fmt: skip

    def _shared(self) -> list[str]:
        """What a container gets of this node: file systems, local disks, and NCCL's settings."""
        return [path for path in (*self._file_systems(), _NCCL) if paths.below(path).exists()]

    def _file_systems(self) -> list[str]:
        lists = (paths.read_text(paths.below(f"/etc/gpu-cluster/{name}")) for name in ("mounts", "nfs-mounts"))
        mounts = [line.split()[0] for text in lists for line in text.splitlines()]
        scratch = self._node.settings.text("scratch")
        return [*mounts, *([scratch] if scratch else [])]


# The devices of EFA and of GPUDirect RDMA copies. The runtime of NVIDIA adds its own.
_DEVICES = ("/dev/infiniband/uverbs*", "/dev/gdrdrv")


def _accelerators(kind: str) -> list[str]:
    if kind == "neuron":
        return [f"--device={device}" for device in sorted(glob.glob("/dev/neuron*"))]  # noqa: PTH207 - a pattern
    return ["--gpus", "all"] if kind == "gpu" else []


def _half_of_memory() -> int:
    """The size of /dev/shm on a machine of this memory, which ranks of one container exchange data in."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return pages * size // _HALF


def session_variables() -> dict[str, str]:
    """The variables that every login on this node has: NCCL's, those of the file systems, and those of the fleet."""
    found = {}
    for line in paths.read_text(paths.below(_SESSION)).splitlines():
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        if len(words) > 1 and words[0] == "export":
            name, _, value = words[1].partition("=")
            found[name] = value
    return found


def unpack(files: bytes, folder: Path) -> None:
    """Unpack the files of a job: regular files and folders below its folder, and nothing else.

    Args:
        files: A tar.gz; nothing if empty.
        folder: An empty folder, where only root may write.

    Raises:
        StartError: If they are something else.
    """
    if not files:
        return
    try:
        with tarfile.open(fileobj=io.BytesIO(files), mode="r:gz") as archive:
            for member in archive:
                _unpack(archive, member, folder)
    except (tarfile.TarError, EOFError, zlib.error) as fault:
        raise StartError(f"the files of the job are damaged: {fault}") from fault


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    name = Path(member.name)
    if not (member.isfile() or member.isdir()) or ".." in name.parts or name.is_absolute():
        raise StartError(f"the files of the job have {one_line(member.name)}, which is no file below its folder")
    target = folder / name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None  # noqa: S101 - a regular file has one
    with target.open("wb") as stream:
        shutil.copyfileobj(content, stream)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


def give(top: Path, below: Path, user: pwd.struct_passwd) -> None:
    """Make the folders of a path that are not there, for the user of jobs. Those that are there stay as they are.

    Users may write on these file systems: each step is taken from the folder before it, and follows no link, so that
    nothing is made outside of them.

    Raises:
        OSError: If a folder cannot be made, or a part of the path is a link or no folder.
    """
    at = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in below.parts:
            if part == "..":
                raise NotADirectoryError(errno.ENOTDIR, "a path with ..")
            is_new = _make_folder(part, at)
            after = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = after
            if is_new:
                os.fchown(at, user.pw_uid, user.pw_gid)
    finally:
        os.close(at)


def _make_folder(name: str, at: int) -> bool:
    """Make a folder; whether it was not there."""
    try:
        os.mkdir(name, 0o755, dir_fd=at)
    except FileExistsError:
        return False
    return True


def kill_all_of(user_id: int, *, seconds: float = 10) -> None:
    """Kill all processes of the user of jobs; a process that the kernel holds is left after a while."""
    if user_id < _LEAST_USER:
        return
    until = time.monotonic() + seconds
    while (found := _processes_of(user_id)) and time.monotonic() < until:
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_KILL_PAUSE_SECONDS)


def _processes_of(user_id: int) -> list[int]:
    """The processes of a user that are not ended already."""
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _is_of(one, user_id)]


def _is_of(process: Path, user_id: int) -> bool:
    try:
        state = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        return process.stat().st_uid == user_id and state not in ("Z", "X")
    except (OSError, IndexError):
        return False


def _user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(USER)
    except KeyError as fault:
        raise StartError(f"there is no user {USER} on this node") from fault


def _gpunode() -> str:
    return str(paths.below("/usr/local/bin/gpunode"))


def _popen(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], user: pwd.struct_passwd | None = None
) -> subprocess.Popen[bytes]:
    become: dict[str, Any] = {}
    if user is not None:
        become = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    made: subprocess.Popen[bytes] = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=dict(environment),
        start_new_session=True,
        **become,
    )
    return made


def _pull(image: str) -> None:
    if run("docker", "image", "inspect", image, timeout_seconds=60).ok:
        return
    registry = _ECR.match(image)
    if registry:
        _log_in(registry["registry"], registry["region"])
    pulled = run("docker", "pull", "--quiet", image, timeout_seconds=_PULL_SECONDS)
    if not pulled.ok:
        raise StartError(f"docker pull {image}: {pulled.words}")


def _log_in(registry: str, region: str) -> None:
    """Log in to a registry of Amazon ECR by the role of the node, as the AWS CLI's help describes it."""
    words = f"aws ecr get-login-password --region {region} | docker login --username AWS --password-stdin {registry}"
    done = run("sh", "-c", words, timeout_seconds=120)
    if not done.ok:
        raise StartError(f"docker login {registry}: {done.words}; may the role of the node pull from it?")
