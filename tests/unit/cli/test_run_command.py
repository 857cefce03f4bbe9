"""`gpu-clusters run` before it reaches an account: what it refuses, and what it hands to EKS and Slurm."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import typer
import yaml

from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.cli.run import _image
from cdk_gpu_clusters_stacks.jobs.fleet import JobFleet

EXAMPLES = Path(__file__).parents[3] / "examples"
SLURM = ("run", "gpu", "--on", "slurm", "--nodes", "2", "--dry-run")
EKS = ("run", "trainers", "--cluster-file", str(EXAMPLES / "eks-p5-capacity-block.yaml"), "--nodes", "2", "--dry-run")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--image", "a", "--no-container", "--", "true"), "exclude each other"),
        (("--image", "--privileged", "--", "true"), "no name of an image"),
        (("--env", "A", "--", "true"), "--env takes NAME=VALUE"),
        (("--env", "1A=b", "--", "true"), "--env takes NAME=VALUE"),
        (("--env", "A=b\nc", "--", "true"), "one line"),
        (("--files", ".", "--", "true"), "--files needs a plain EC2 fleet"),
        (("--env", "HF_TOKEN=hf_" + "a" * 34, "--", "true"), "GPU-UD-002"),
        (("--", "serve", "--api-key", "sesame"), "GPU-UD-002"),
    ],
)
def test_what_cannot_run_is_refused(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SLURM, *arguments]) == 2
    errors = capsys.readouterr().err
    assert words in errors
    assert "sesame" not in errors
    assert "a" * 34 not in errors


def test_what_only_looks_like_a_secret_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SLURM, "--not-secret", "api-key", "--", "serve", "--api-key", "sesame"]) == 0
    assert "--api-key sesame" in capsys.readouterr().out


def test_the_script_of_slurm_is_a_script_and_keeps_each_word(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["torchrun", "train.py", "--name", 'it\'s "two words" $HOME']
    image = "nvcr.io/nvidia/pytorch:26.10-py3"
    assert main([*SLURM, "--image", image, "--checkpoints", "/fsx/run 1", "--", *words]) == 0
    script = capsys.readouterr().out
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    pyxis, apptainer, job = (
        shlex.split(line.partition("(")[2].rpartition(")")[0])
        for line in map(str.strip, script.splitlines())
        if line.startswith(("step+=(", "inside=(", "job=("))
    )
    assert job[-len(words) :] == words
    assert pyxis == [
        "--container-image=nvcr.io#nvidia/pytorch:26.10-py3",
        "--container-mounts=$PWD:$PWD,/fsx/run 1:/fsx/run 1",
        "--container-workdir=$PWD",
    ]
    assert apptainer == ["apptainer", "exec", "--nv", "--bind", "/fsx/run 1", f"docker://{image}"]


@pytest.mark.parametrize(
    ("variables", "gpus"),
    [({"SLURM_GPUS_ON_NODE": "8"}, ["--gres=gpu:8"]), ({"SLURM_GPUS_ON_NODE": ""}, []), ({}, [])],
)
def test_a_step_of_slurm_asks_for_all_gpus_that_a_node_of_its_job_has(
    variables: dict[str, str], gpus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SLURM, "--", "true"]) == 0
    script = capsys.readouterr().out
    said = tmp_path / "srun.arguments"
    for name, text in {"srun": f'printf "%s\\n" "$@" >{said}', "ip": "", "scontrol": "echo gpu-1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "gpu-[1-2]"}
    subprocess.run(["bash"], input=script, text=True, check=True, env={**environment, **variables})
    options = said.read_text().splitlines()
    assert options[: options.index("bash")] == ["--kill-on-bad-exit=1", "--label", *gpus]


@pytest.mark.parametrize(
    ("queues", "fleet", "partition"),
    [
        ("", "dev", "dev"),
        ("pcs: { queues: { work: { fleets: [dev] } } }\n", "dev", "work"),
        ("pcs: { queues: { work: { fleets: [dev] } } }\n", "work", "work"),
    ],
)
def test_a_cluster_file_of_aws_pcs_means_slurm(
    queues: str, fleet: str, partition: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text((EXAMPLES / "pcs-g6-dev.yaml").read_text("utf-8") + queues, encoding="utf-8")
    assert main(["run", fleet, "--cluster-file", str(file), "--nodes", "1", "--dry-run", "--", "true"]) == 0
    assert f"#SBATCH --partition={partition}" in capsys.readouterr().out.splitlines()


def test_a_partition_that_the_cluster_file_does_not_make_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "pcs-g6-dev.yaml")
    assert main(["run", "trainers", "--cluster-file", file, "--nodes", "1", "--dry-run", "--", "true"]) == 2
    assert "no fleet or queue trainers; partitions: dev" in " ".join(capsys.readouterr().err.split())


def test_the_script_of_slurm_resumes_where_the_nodes_have_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SLURM, "--checkpoints", "/fsx/run", "--", "train"]) == 0
    script = capsys.readouterr().out
    assert "#SBATCH --signal=B:USR1@300\n" in script
    for name in ("scontrol", "srun", "gpunode"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$1"\n')
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_NODELIST": "gpu-1", "SLURM_JOB_NUM_NODES": "1"}
    for expected in ("gpunode resume\n", "srun --kill-on-bad-exit=1\n"):
        done = subprocess.run(["bash", "-c", script], env=environment, text=True, capture_output=True, check=True)
        assert done.stdout == expected
        (tmp_path / "gpunode").unlink(missing_ok=True)


def test_eks_gets_a_job_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EKS, "--env", "A=b", "--", "torchrun", "train.py"]) == 0
    (job,) = yaml.safe_load_all(capsys.readouterr().out)
    assert job["kind"] == "JobSet"
    pod = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == ["torchrun", "train.py"]
    assert {"name": "A", "value": "b"} in container["env"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody", "--", "torchrun", "train.py"), "has no fleet nobody; it has trainers"),
        (("trainers", "--", "python", "train.py"), "a job starts by torchrun"),
        (("trainers", "--no-container", "--", "torchrun", "train.py"), "runs in a container"),
    ],
)
def test_eks_refuses_what_it_cannot_run(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *EKS[2:], *arguments]) == 2
    assert words in capsys.readouterr().err


def test_eks_gets_the_image_of_aws_on_x86_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    text = (EXAMPLES / "eks-g5-dev.yaml").read_text("utf-8")
    file.write_text(text.replace("g5.2xlarge", "g5g.2xlarge"), "utf-8")
    fleet = next(iter(yaml.safe_load(text)["training"]["fleets"]))
    command = ["run", fleet, "--cluster-file", str(file), "--nodes", "1", "--dry-run"]
    assert main([*command, "--", "torchrun", "train.py"]) == 2
    assert "g5g.2xlarge is of arm64, and AWS's image of x86_64: give --image" in capsys.readouterr().err
    assert main([*command, "--image", "nvcr.io/nvidia/pytorch:26.10-py3", "--", "torchrun", "train.py"]) == 0


def test_without_the_program_of_the_orchestrator_the_text_is_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert main([*SLURM[:-1], "--", "true"]) == 2
    assert "sbatch is not installed here: use --dry-run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({"p5.48xlarge", "trn1.32xlarge"}, "trn1.32xlarge has no NVIDIA GPU"),
        ({"p6e-gb200.36xlarge"}, "p6e-gb200.36xlarge is of arm64, and AWS's image of x86_64"),
    ],
)
def test_the_image_of_aws_is_for_nvidia_gpus_of_x86(
    types: set[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = JobFleet(
        group="g",
        path="g",
        size=2,
        nodes={},
        instance_types=frozenset(types),
        document="d",
        parameter="p",
        log_group="l",
    )
    with pytest.raises(typer.Exit):
        _image(fleet)
    assert words in capsys.readouterr().err
    assert "pytorch" in _image(replace(fleet, instance_types=frozenset({"p5.48xlarge"})))
