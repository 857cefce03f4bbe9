"""Prolog, epilog, IMEX and the attempts of a job, with programs that answer as Slurm and the driver do."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.node import Settings
from cdk_gpu_clusters.node.gpunode.slurm_jobs import epilog, imex
from cdk_gpu_clusters.node.gpunode.slurm_jobs.attempts import Attempts, exclude, failed_nodes
from cdk_gpu_clusters.node.gpunode.slurm_jobs.commands import SlurmCommands, fields_of
from cdk_gpu_clusters.node.gpunode.slurm_jobs.prolog import job_folder, make_folder, prolog, remove_folder, why_not
from cdk_gpu_clusters.node.gpunode.slurm_jobs.resume import is_batch_script, with_auto_resume
from watched_node import WatchedNode


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    watched = WatchedNode(tmp_path)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(watched.root))
    monkeypatch.setenv("PATH", f"{watched.tools}:/usr/bin:/bin")
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    return watched


def remembers(watched: WatchedNode, name: str, **known: object) -> None:
    watched.write(f"run/gpu-cluster/{name}.json", json.dumps({"boot_id": "boot-1", **known}))


def finds(watched: WatchedNode, severity: int, **known: object) -> None:
    remembers(watched, "watch", at=1e12, severity=severity, open=[{"symptom": {"reason": "Xid 79"}}], **known)


def test_a_node_without_findings_may_begin_jobs(watched: WatchedNode) -> None:
    assert why_not(Settings()) == ""
    finds(watched, 0)
    assert why_not(Settings()) == ""
    remembers(watched, "watch", at=0, severity=0)
    assert why_not(Settings()) == "", "a watchdog that is late says nothing about the GPUs"


@pytest.mark.parametrize(
    ("severity", "settings", "may"),
    [
        (2, {}, True),
        (3, {}, False),
        (5, {}, False),
        (3, {"watch_acts_from": "reboot"}, True),
        (4, {"watch_acts_from": "reboot"}, False),
        (5, {"watch": "dry-run"}, True),
        (5, {"watch": "off"}, True),
    ],
)
def test_a_finding_counts_from_the_severity_of_an_action(
    watched: WatchedNode, severity: int, settings: dict[str, str], may: bool
) -> None:
    finds(watched, severity)
    assert (why_not(Settings(settings)) == "") is may


def test_a_repair_the_end_and_a_failed_boot_keep_jobs_away(watched: WatchedNode) -> None:
    finds(watched, 0, repair="reboot, wait: Xid 79")
    assert why_not(Settings()) == "repairing: reboot, wait: Xid 79; Xid 79"
    finds(watched, 0)
    remembers(watched, "boot", state="failed", reason="driver: 7 of 8 GPUs answer")
    assert why_not(Settings()) == "the boot checks failed: driver: 7 of 8 GPUs answer"
    watched.write("run/gpu-cluster/ending", "spot-interruption\n")
    assert why_not(Settings({"watch": "off"})) == "the node is about to end: spot-interruption"


def test_the_prolog_records_why_it_failed(
    watched: WatchedNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert prolog(argparse.Namespace()) == 0
    finds(watched, 5)
    remembers(watched, "boot", state="ready", instance_id="i-1")
    assert prolog(argparse.Namespace()) == 1
    event = json.loads(capsys.readouterr().out)
    assert (event["stage"], event["state"], event["job"]) == ("prolog", "failed", "17")
    assert (event["reason"], event["instance_id"]) == ("unhealthy: Xid 79", "i-1")


def test_the_folder_of_a_job_is_private_and_goes_with_it(watched: WatchedNode) -> None:
    settings = Settings({"scratch": "/scratch"})
    assert job_folder(Settings(), "17") is None
    assert job_folder(settings, "../17") is None
    folder = job_folder(settings, "17")
    assert folder == watched.root / "scratch/job-17"
    make_folder(folder, user=os.getuid())
    assert not folder.exists(), "without its disks there is none, and that is no fault of the job"
    folder.parent.mkdir()
    make_folder(folder, user=os.getuid())
    assert folder.stat().st_mode & 0o777 == 0o700
    outside = watched.write("keep/file", "x")
    (folder / "link").symlink_to(outside.parent)
    remove_folder(folder)
    assert not folder.exists()
    assert outside.exists()


def test_processes_of_the_job_are_ended_and_no_others() -> None:
    def sleeper(job: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], env={**os.environ, "SLURM_JOB_ID": job})

    mine, other = sleeper("424217"), sleeper("42421")
    try:
        assert set(epilog.processes_of_job("424217")) == {mine.pid}
        assert epilog.end_processes(lambda: epilog.processes_of_job("424217")) == []
        assert mine.wait() == -signal.SIGKILL
        assert other.poll() is None
        assert epilog.processes_of_job("") == {}
    finally:
        for one in (mine, other):
            one.kill()
            one.wait()


def test_the_epilog_does_not_end_itself() -> None:
    program = "import os; from gpunode.slurm_jobs.epilog import processes_of_job as find; print(find('99999'))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SLURM_JOB_ID": "99999", "PYTHONPATH": str(Path(epilog.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "{}\n"


def test_a_process_that_cannot_be_ended_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epilog, "_END_SECONDS", 0.2)
    stubborn = {2**22 + 1: "process 4194305 holds 40536 MiB of GPU 3"}
    assert epilog.end_processes(lambda: stubborn) == ["process 4194305 holds 40536 MiB of GPU 3"]


SMI = """\
#!/bin/sh
case "$*" in
*compute-apps*) echo "GPU-b, {pid}, 40536"; echo "GPU-c, {pid}, 5" ;;
*) echo "0, GPU-a"; echo "3, GPU-b"; echo "4, GPU-c" ;;
esac
"""


def test_processes_on_the_jobs_own_gpus_are_found(watched: WatchedNode) -> None:
    watched.tool("nvidia-smi", SMI.format(pid=os.getpid()))
    gpu, me = Settings({"accelerator": "gpu"}), os.getuid()
    assert epilog.processes_on_gpus(gpu, "0,3", me) == {os.getpid(): f"process {os.getpid()} holds 40536 MiB of GPU 3"}
    assert epilog.processes_on_gpus(gpu, "0", me) == {}
    assert epilog.processes_on_gpus(gpu, "3", me + 1) == {}, "a daemon of another user"
    assert epilog.processes_on_gpus(gpu, "", me) == {}
    assert epilog.processes_on_gpus(Settings({"accelerator": "gpu", "mig_count": "56"}), "3", me) == {}


def test_shared_memory_of_system_users_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "left").write_text("x")
    monkeypatch.setattr(epilog, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(epilog, "_FIRST_USER", os.getuid() + 1)
    epilog.remove_shared_memory(os.getuid())
    assert (tmp_path / "left").exists()
    monkeypatch.setattr(epilog, "_FIRST_USER", os.getuid())
    epilog.remove_shared_memory(os.getuid())
    assert (tmp_path / "left").exists(), "this process is of that user, and may use it"
    monkeypatch.setattr(epilog, "_PROC", tmp_path / "proc")
    (tmp_path / "proc").mkdir()
    epilog.remove_shared_memory(os.getuid())
    assert not (tmp_path / "left").exists()


NODES = """\
#!/bin/sh
echo "NodeName=gpu-1 Arch=x86_64 NodeAddr=10.0.0.1 State=IDLE BootTime=2026-01-01T00:00:00"
echo "NodeName=gpu-2 NodeAddr=10.0.0.2 State={state} BootTime={boot} Reason={reason} [root@2026-11-27T01:00:00]"
"""


@pytest.fixture
def no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Slurm runs on this machine."""
    monkeypatch.setattr(imex, "other_jobs", lambda _: [])


def imex_of(watched: WatchedNode, *, restart: str = "exit 0", ctl: str = "echo READY") -> Path:
    watched.tool("scontrol", NODES.format(state="IDLE", boot="2026-01-01T00:00:00", reason=""))
    watched.tool("systemctl", f'#!/bin/sh\necho "$*" >>{watched.root}/systemctl\n{restart}\n')
    watched.tool("nvidia-imex-ctl", f"#!/bin/sh\n{ctl}\n")
    file = watched.root / "etc/nvidia-imex/nodes_config.cfg"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@pytest.mark.usefixtures("no_steps")
def test_imex_gets_the_addresses_of_the_jobs_nodes(watched: WatchedNode) -> None:
    file = imex_of(watched)
    assert imex.configure_imex(SlurmCommands(Settings()), "gpu-[1-2]", "17") == ""
    assert file.read_text() == "10.0.0.1\n10.0.0.2\n"
    assert (watched.root / "systemctl").read_text() == "restart nvidia-imex.service\n"


@pytest.mark.usefixtures("no_steps")
def test_imex_that_cannot_be_made_fails_the_prolog_with_its_reason(watched: WatchedNode) -> None:
    file = imex_of(watched, restart="echo masked >&2; exit 1")
    assert imex.configure_imex(SlurmCommands(Settings()), "gpu-[1-2]", "17") == (
        "systemctl restart nvidia-imex.service: masked"
    )
    assert "no addresses" in imex.configure_imex(SlurmCommands(Settings()), "", "17")
    file.unlink()
    file.parent.rmdir()
    assert "is IMEX installed?" in imex.configure_imex(SlurmCommands(Settings()), "gpu-[1-2]", "17")


@pytest.mark.usefixtures("no_steps")
def test_an_imex_domain_that_is_not_ready_is_reported_only(
    watched: WatchedNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(imex, "_READY_SECONDS", 0.1)
    imex_of(watched, ctl="echo NOT_READY")
    assert imex.configure_imex(SlurmCommands(Settings()), "gpu-[1-2]", "17") == ""
    assert "IMEX is not ready" in capsys.readouterr().out


def test_imex_of_another_job_is_not_restarted(
    watched: WatchedNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = imex_of(watched)
    monkeypatch.setattr(imex, "other_jobs", lambda _: ["16"])
    assert imex.configure_imex(SlurmCommands(Settings()), "gpu-[1-2]", "17") == ""
    assert not file.exists()
    assert "submit with --exclusive" in capsys.readouterr().out


def test_other_jobs_are_known_by_the_names_of_their_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid, name in (("1", "slurmstepd: [17.batch]\0"), ("2", "slurmstepd: [16.0]\0"), ("3", "sleep\x0060\0")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_text(name)
    monkeypatch.setattr(imex, "_PROC", tmp_path)
    assert imex.other_jobs("17") == ["16"]
    assert imex.other_jobs("16") == ["17"]


NOW, LATER = 1_780_000_000.0, "2035-01-01T00:00:00"


@pytest.mark.parametrize(
    ("state", "boot", "reason", "has_failed"),
    [
        ("IDLE", "2020-01-01T00:00:00", "", False),
        ("ALLOCATED", LATER, "", True),
        ("DOWN", "2020-01-01T00:00:00", "Not responding", True),
        ("IDLE*", "2020-01-01T00:00:00", "", True),
        ("DOWN*+DRAIN", "2020-01-01T00:00:00", "", True),
        ("MIXED+DRAIN", "2020-01-01T00:00:00", "gpunode: reset: Xid 79", True),
        ("IDLE+DRAIN", "2020-01-01T00:00:00", "Prolog error", True),
        ("IDLE+DRAIN", "2020-01-01T00:00:00", "disk swap, ask Kim", False),
        ("IDLE+NOT_RESPONDING", "None", "", True),
        ("IDLE", "None", "", False),
    ],
)
def test_a_node_has_failed_by_its_state_its_reason_or_its_boot(
    watched: WatchedNode, state: str, boot: str, reason: str, has_failed: bool
) -> None:
    watched.tool("scontrol", NODES.format(state=state, boot=boot, reason=reason))
    attempt = {"nodes": ["gpu-1", "gpu-2"], "at": NOW}
    assert failed_nodes(SlurmCommands(Settings()), attempt, {}) == ({"gpu-2"} if has_failed else set())


def test_the_node_that_slurm_names_has_failed(watched: WatchedNode) -> None:
    watched.tool("scontrol", "#!/bin/sh\nexit 1\n")
    slurm, attempt = SlurmCommands(Settings()), {"nodes": ["gpu-1", "gpu-2"], "at": NOW}
    assert failed_nodes(slurm, attempt, {"FailedNode": "gpu-1"}) == {"gpu-1"}
    assert failed_nodes(slurm, attempt, {"FailedNode": "gpu-9"}) == set(), "of an earlier attempt"


def test_attempts_outlive_their_process_and_count_failures(tmp_path: Path) -> None:
    first = Attempts(tmp_path, "17")
    first.begin(["gpu-1", "gpu-2"])
    again = Attempts(tmp_path, "17")
    assert again.is_open
    again.end("cut short", {"gpu-2"})
    again.end("twice", {"gpu-1"})
    assert not again.is_open
    assert again.failed_often() == []
    again.begin(["gpu-2", "gpu-3"])
    again.end("node failed", {"gpu-2"})
    assert Attempts(tmp_path, "17").failed_often() == ["gpu-2"]
    assert Attempts(tmp_path, "18").rows == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"attempts": 3}', '{"attempts": [{"nodes": 3}]}'])
def test_a_damaged_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ".gpunode-attempts-17.json").write_text(text)
    assert Attempts(tmp_path, "17").rows == []


def test_a_full_disk_does_not_keep_the_job_from_running(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path / "missing", "17")
    attempts.begin(["gpu-1"])
    assert len(attempts.rows) == 1


def test_nodes_that_the_user_excluded_stay_excluded(watched: WatchedNode) -> None:
    script = f"""#!/bin/sh
case "$*" in
*"show job"*) echo "JobId=17 ExcNodeList=gpu-[7-8] NodeList=gpu-1" ;;
*hostnames*) printf 'gpu-7\\ngpu-8\\n' ;;
*) echo "$*" >{watched.root}/update ;;
esac
"""
    watched.tool("scontrol", script)
    assert exclude(SlurmCommands(Settings()), "17", ["gpu-2"])
    assert (watched.root / "update").read_text() == "update JobId=17 ExcNodeList=gpu-2,gpu-7,gpu-8\n"


def test_fields_of_scontrol_may_have_blanks() -> None:
    line = "NodeName=gpu-1 State=IDLE+DRAIN CPUTot=96 Reason=disk swap [root@2026-11-27T01:00:00] Comment=a=b"
    fields = fields_of(line)
    assert fields["Reason"] == "disk swap [root@2026-11-27T01:00:00]"
    assert fields["NodeName"] == "gpu-1"
    assert fields_of("") == {}


BATCH = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "gpu-1", "SLURM_TASK_PID": "39"}


def test_only_the_batch_script_stays_with_the_job() -> None:
    assert is_batch_script(BATCH)
    assert is_batch_script({**BATCH, "SLURM_STEP_ID": "-5"})
    assert not is_batch_script({**BATCH, "SLURM_STEP_ID": "-6"}), "an interactive step of salloc"
    assert not is_batch_script({**BATCH, "SLURM_STEP_ID": "0"})
    assert not is_batch_script({name: value for name, value in BATCH.items() if name != "SLURM_TASK_PID"})
    assert not is_batch_script({})


def test_auto_resume_is_for_srun_on_hyperpod_only() -> None:
    assert with_auto_resume(["/opt/slurm/bin/srun", "-N2", "x"], is_hyperpod=True)[1] == "--auto-resume=1"
    assert with_auto_resume(["srun", "--auto-resume=1", "x"], is_hyperpod=True) == ["srun", "--auto-resume=1", "x"]
    assert with_auto_resume(["torchrun", "x"], is_hyperpod=True) == ["torchrun", "x"]
    assert with_auto_resume(["srun", "x"], is_hyperpod=False) == ["srun", "x"]


SCONTROL = """\
#!/bin/sh
case "$*" in
*"show hostnames"*) printf 'gpu-1\\ngpu-2\\n' ;;
*"show node"*) cat {root}/nodes ;;
*"show job"*) echo "JobId=17 ExcNodeList=(null)" ;;
*) echo "$*" >>{root}/calls ;;
esac
"""


class Batch:
    """`gpunode resume` as the batch script of job 17 on gpu-1 and gpu-2."""

    def __init__(self, watched: WatchedNode, folder: Path) -> None:
        self.root, self.folder = watched.root, folder
        watched.tool("scontrol", SCONTROL.format(root=watched.root))
        self.nodes("IDLE")

    def nodes(self, state: str, reason: str = "") -> None:
        row = f"NodeName=gpu-2 State={state} Reason={reason} [root@now]"
        (self.root / "nodes").write_text(f"NodeName=gpu-1 State=IDLE BootTime=None\n{row}\n")

    def start(self, *command: str, attempts: int = 20) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "gpunode", "resume", "--directory", str(self.folder), "--attempts", str(attempts),
             "--", *command],
            env={**os.environ, **BATCH, "PYTHONPATH": str(Path(epilog.__file__).parents[2])},
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *command: str, attempts: int = 20) -> int:
        job = self.start(*command, attempts=attempts)
        self.said = job.communicate()[1]
        return job.returncode

    def calls(self) -> list[str]:
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def ends(self) -> list[str]:
        return [row["end"] for row in Attempts(self.folder, "17").rows]


@pytest.fixture
def batch(watched: WatchedNode, tmp_path: Path) -> Batch:
    (tmp_path / "checkpoints").mkdir()
    return Batch(watched, tmp_path / "checkpoints")


def test_a_job_that_ends_well_or_fails_on_sound_nodes_is_not_requeued(batch: Batch) -> None:
    assert batch.run("true") == 0
    assert batch.run("sh", "-c", "exit 3") == 3
    assert batch.run("no-such-program") == 127
    assert batch.calls() == []
    assert batch.ends() == ["ok", "status 3", "status 127"]


def test_a_job_that_fails_with_its_node_is_requeued_up_to_its_attempts(batch: Batch) -> None:
    batch.nodes("MIXED+DRAIN", "gpunode: reset: Xid 79")
    assert batch.run("false", attempts=2) == 0
    assert batch.calls() == ["requeue 17"]
    assert batch.run("false", attempts=2) == 1
    assert batch.calls() == ["requeue 17"]
    assert batch.run("true", attempts=2) == 1
    assert "2 attempts were made" in batch.said


def test_a_node_that_failed_twice_is_avoided_before_the_job_begins(batch: Batch) -> None:
    for _ in range(2):
        attempts = Attempts(batch.folder, "17")
        attempts.begin(["gpu-1", "gpu-2"])
        attempts.end("node failed", ["gpu-2"])
    assert batch.run("touch", str(batch.root / "ran")) == 0
    assert batch.calls() == ["requeue 17", "update JobId=17 ExcNodeList=gpu-2"]
    assert not (batch.root / "ran").exists()


def test_the_notice_of_the_time_limit_ends_the_job_in_order_and_requeues_it(batch: Batch) -> None:
    started, saved = batch.root / "started", batch.root / "saved"
    script = f"trap 'touch {saved}; exit 0' TERM; touch {started}; while :; do sleep 0.1; done"
    job = batch.start("sh", "-c", script)
    until = time.monotonic() + 30
    while not started.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    job.send_signal(signal.SIGUSR1)
    job.communicate()
    assert job.returncode == 0
    assert saved.exists()
    assert batch.ends() == ["time limit"]
    assert batch.calls() == ["requeue 17"]
