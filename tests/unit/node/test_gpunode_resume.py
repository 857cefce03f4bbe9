"""The newest complete checkpoint, in the layouts that frameworks leave, and `gpunode resume`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import checkpoints
from cdk_gpu_clusters.node.gpunode.checkpoints import newest_checkpoint

PACKAGES = Path(checkpoints.__file__).parents[1]


def written(path: Path, text: str = "x", *, age_seconds: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    when = 1_700_000_000 - age_seconds
    os.utime(path, (when, when))
    return path


def test_nothing_and_no_folder_have_no_checkpoint(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / "none") is None


@pytest.mark.parametrize("mark", [".metadata", "trainer_state.json", ".complete"])
def test_a_folder_without_its_mark_is_not_taken(tmp_path: Path, mark: str) -> None:
    written(tmp_path / "step-900" / mark, age_seconds=60)
    written(tmp_path / "step-1000" / "__0_0.distcp")
    assert newest_checkpoint(tmp_path) == tmp_path / "step-900"


def test_the_one_that_was_completed_last_is_taken(tmp_path: Path) -> None:
    written(tmp_path / "step-900" / ".metadata", age_seconds=0)
    written(tmp_path / "step-1000" / ".metadata", age_seconds=60)
    assert newest_checkpoint(tmp_path) == tmp_path / "step-900"


def test_deepspeed_names_its_folder_in_a_file(tmp_path: Path) -> None:
    written(tmp_path / "global_step100" / "mp_rank_00_model_states.pt")
    written(tmp_path / "global_step200" / "mp_rank_00_model_states.pt")
    written(tmp_path / "latest", "global_step100\n")
    assert newest_checkpoint(tmp_path) == tmp_path / "global_step100"


def test_megatron_names_its_iteration(tmp_path: Path) -> None:
    written(tmp_path / "iter_0000500" / "mp_rank_00" / "model_optim_rng.pt")
    written(tmp_path / "iter_0001000" / "mp_rank_00" / "model_optim_rng.pt")
    written(tmp_path / "latest_checkpointed_iteration.txt", "500")
    assert newest_checkpoint(tmp_path) == tmp_path / "iter_0000500"


def test_a_link_names_a_file(tmp_path: Path) -> None:
    written(tmp_path / "epoch1.ckpt")
    (tmp_path / "latest").symlink_to("epoch1.ckpt")
    assert newest_checkpoint(tmp_path) == tmp_path / "epoch1.ckpt"


def resume(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpunode", "resume", *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGES), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_job_gets_the_path_and_its_status_counts(tmp_path: Path) -> None:
    written(tmp_path / "step-900" / ".metadata")
    done = resume("--", "sh", "-c", 'echo "$RESUME_FROM_CHECKPOINT"; exit 3', CHECKPOINT_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, f"{tmp_path}/step-900\n")


def test_the_first_start_has_no_path_even_if_an_old_one_is_set(tmp_path: Path) -> None:
    done = resume(
        "--directory", str(tmp_path), "--", "sh", "-c", 'echo "${RESUME_FROM_CHECKPOINT-unset} $CHECKPOINT_DIR"',
        RESUME_FROM_CHECKPOINT="/old",
    )  # fmt: skip
    assert done.stdout == f"unset {tmp_path}\n"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [((), 64), (("--", "true"), 64), (("--directory", "/", "--", "/no/such/program"), 127)],
)
def test_what_cannot_start_says_why(arguments: tuple[str, ...], status: int) -> None:
    done = resume(*arguments)
    assert done.returncode == status
    assert done.stderr.startswith("gpunode resume: ")
    assert "Traceback" not in done.stderr
