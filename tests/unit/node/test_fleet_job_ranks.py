"""How the ranks of a job are started: as whom, with what, and what a request cannot reach."""

from __future__ import annotations

import fnmatch
import os
import pwd
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.fleet_jobs import ranks as module
from cdk_gpu_clusters.node.gpunode.fleet_jobs.board import Member
from cdk_gpu_clusters.node.gpunode.fleet_jobs.ranks import Place, Ranks, StartError
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings

JOB = "20261123-120000-a1b2"
PLACE = Place([Member("i-a", "10.0.0.1"), Member("i-b", "10.0.0.2")], Member("i-b", "10.0.0.2"), 2)


class Started:
    """What would have been started."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options = command, options
        self.stdout = open(os.devnull, "rb")  # noqa: SIM115, PTH123 - closed with the test
        self.pid = -1


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    user = pwd.struct_passwd(("gpu-job", "x", os.getuid(), os.getgid(), "", "/var/lib/gpu-jobs", "/bin/bash"))
    monkeypatch.setattr(module, "_user", lambda: user)
    for name, text in {
        "etc/profile.d/gpu-cluster.sh": "export FI_PROVIDER=efa\nexport CHECKPOINT_DIR='/fsx/check points'\n",
        "etc/gpu-cluster/mounts": "/fsx fs-1.fsx.us-east-1.amazonaws.com abcd rw\n",
        "etc/nccl.conf": "NCCL_DEBUG=WARN\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for folder in ("fsx", "scratch", "usr/local/bin"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def before() -> list[str]:
    """The programs that ran before the ranks."""
    return []


@pytest.fixture
def start(root: Path, before: list[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Started]:
    def popen(command: list[str], **options: Any) -> Started:
        return Started(command, **options)

    monkeypatch.setattr("subprocess.Popen", popen)
    monkeypatch.setattr(module, "run", lambda *words, **_: before.append(" ".join(words)))

    def started(**options: Any) -> Started:
        made = ranks(**options)
        made.folder.mkdir(parents=True)
        made.start(PLACE).close()
        process = made._process
        assert isinstance(process, Started)
        return process

    return started


def ranks(**options: Any) -> Ranks:
    settings = {"slots": "8", "accelerator": "gpu", "scratch": "/scratch"}
    node = Node(settings=Settings(settings), metadata=Metadata(), instance_id="i-b", aws=Aws("us-east-1"))
    return Ranks(node, JOB, JobRequest(job_id=JOB, command=("torchrun", "train.py"), nodes=2, **options))


def test_torchrun_needs_no_argument(start: Callable[..., Started]) -> None:
    """PyTorch documentation, torchrun: each option has a variable of its name after PET_."""
    environment = start().options["env"]
    assert {name: environment[f"PET_{name}"] for name in ("NNODES", "NODE_RANK", "NPROC_PER_NODE")} == {
        "NNODES": "2",
        "NODE_RANK": "1",
        "NPROC_PER_NODE": "8",
    }
    assert (environment["PET_MASTER_ADDR"], environment["MASTER_PORT"]) == ("10.0.0.1", "29502")
    assert environment["FI_PROVIDER"] == "efa"
    assert environment["CHECKPOINT_DIR"] == "/fsx/check points"
    assert "RESUME_FROM_CHECKPOINT" not in environment


def test_a_program_never_runs_as_root_and_no_root_program_sees_its_variables(start: Callable[..., Started]) -> None:
    made = start(environment={"LD_PRELOAD": "/evil/evil.so", "PATH": "/evil"})
    assert made.options["user"] == os.getuid()
    assert made.options["group"] == os.getgid()
    assert made.options["extra_groups"] == []
    assert made.command[:2] == ["setpriv", "--no-new-privs"]
    assert made.command[-2:] == ["torchrun", "train.py"]


def test_docker_does_not_see_the_variables_of_a_container(start: Callable[..., Started], root: Path) -> None:
    variables = {"LD_PRELOAD": "/evil.so", "DOCKER_HOST": "tcp://evil", "PATH": "/evil", "WANDB_MODE": "offline"}
    made = start(image="nvcr.io/nvidia/pytorch:26.10-py3", environment=variables)
    assert set(made.options["env"]) == {"PATH", "HOME"}
    assert "/evil" not in made.options["env"]["PATH"]
    file = Path(made.command[made.command.index("--env-file") + 1])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "WANDB_MODE=offline\n" in file.read_text()
    assert not any("evil" in word for word in made.command)


def test_a_container_gets_the_devices_of_efa_and_of_imex(
    start: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--gpus all` adds no IMEX channel: without it, NCCL would not use NVLink between the nodes of an UltraServer."""
    there = ["/dev/gdrdrv", "/dev/infiniband/uverbs0", "/dev/nvidia-caps-imex-channels/channel0"]
    monkeypatch.setattr("glob.glob", lambda pattern: fnmatch.filter(there, pattern))
    made = start(image="nvcr.io/nvidia/pytorch:26.10-py3")
    assert sorted(word for word in made.command if word.startswith("--device=")) == [f"--device={one}" for one in there]


def test_a_container_that_a_crash_has_left_is_removed_first(start: Callable[..., Started], before: list[str]) -> None:
    start(image="nvcr.io/nvidia/pytorch:26.10-py3")
    assert before == [f"docker rm --force gpu-job-{JOB}"]


@pytest.mark.parametrize(
    ("is_there", "said"), [(False, ["pulling app:1", "app:1 is pulled"]), (True, [])], ids=["pulled", "there already"]
)
def test_a_pull_is_said_because_it_takes_minutes(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool, said: list[str]
) -> None:
    def run(*words: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(ok=is_there or "pull" in words, words="")

    monkeypatch.setattr(module, "run", run)
    lines: list[str] = []
    ranks(image="app:1").prepare(lines.append)
    assert lines == said


def test_a_container_has_the_gpus_the_network_and_the_file_systems_of_the_node_and_no_rights(
    start: Callable[..., Started],
) -> None:
    words = start(image="nvcr.io/nvidia/pytorch:26.10-py3").command
    text = " ".join(words)
    for wanted in (
        "--gpus all",
        "--network host",
        f"--user {os.getuid()}:{os.getgid()}",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--ulimit memlock=-1:-1",
        "--volume=/fsx:/fsx",
        "--volume=/scratch:/scratch",
        "--volume=/etc/nccl.conf:/etc/nccl.conf:ro",
        "--workdir /job",
    ):
        assert wanted in text, wanted
    assert "--privileged" not in text
    assert words[-3:] == ["nvcr.io/nvidia/pytorch:26.10-py3", "torchrun", "train.py"]
    assert words.index("docker") < words.index("--gpus")


@pytest.mark.parametrize("folder", ["/etc/systemd/system/ssh.service.d", "/fsx/../etc/cron.d/x", "relative"])
def test_root_makes_no_folder_for_checkpoints_outside_of_the_file_systems(root: Path, folder: str) -> None:
    with suppress(StartError):
        ranks(checkpoint_directory=folder).prepare(print)
    assert not (root / "etc/systemd").exists()
    assert not (root / "etc/cron.d").exists()


def test_root_follows_no_link_of_a_job_to_a_folder_of_its_own(root: Path) -> None:
    """A job could link to a folder of root, and get one inside it from the next job."""
    (root / "usr/local/lib/gpu-cluster").mkdir(parents=True)
    (root / "scratch/d").mkdir()
    (root / "scratch/d/x").symlink_to(root / "usr/local/lib/gpu-cluster")
    with pytest.raises(StartError, match="Not a directory"):
        ranks(checkpoint_directory="/scratch/d/x/json").prepare(print)
    assert list((root / "usr/local/lib/gpu-cluster").iterdir()) == []
    (root / "scratch/file").touch()
    with pytest.raises(StartError, match="Not a directory"):
        ranks(checkpoint_directory="/scratch/file/x").prepare(print)


def test_processes_of_the_system_are_never_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.kill", lambda *_: pytest.fail("killed"))
    for user in (0, 999):
        module.kill_all_of(user)


def test_launchers_that_start_ranks_themselves_are_not_pinned(start: Callable[..., Started]) -> None:
    assert "--pin" in start().command
    request = JobRequest(job_id=JOB, command=("/opt/amazon/openmpi/bin/mpirun", "-n", "2", "a"), nodes=2)
    made = ranks()
    made._request = request
    made.start(PLACE).close()
    process: Any = made._process
    assert "--pin" not in process.command


def test_a_folder_of_checkpoints_is_made_for_the_user_of_jobs(root: Path) -> None:
    ranks(checkpoint_directory="/fsx/llama/run-1").prepare(print)
    assert (root / "fsx/llama/run-1").is_dir()


def test_the_newest_checkpoint_is_where_a_job_goes_on(start: Callable[..., Started], root: Path) -> None:
    (root / "fsx/llama/step-100").mkdir(parents=True)
    (root / "fsx/llama/step-100/.metadata").touch()
    assert start(checkpoint_directory="/fsx/llama").options["env"]["RESUME_FROM_CHECKPOINT"] == str(
        paths.below("/fsx/llama/step-100")
    )


def test_files_are_unpacked_once_so_that_root_never_writes_where_the_job_may(root: Path) -> None:
    made = ranks()
    made.unpack(b"")
    (made.folder / "train.py").symlink_to("/etc/shadow")
    made.unpack(b"not even an archive")
    assert (made.folder / "train.py").is_symlink()


def test_without_the_user_of_jobs_nothing_starts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(root))
    monkeypatch.setattr(module, "USER", "nobody-has-this-name")
    with pytest.raises(StartError, match="no user nobody-has-this-name"):
        ranks().unpack(b"")
