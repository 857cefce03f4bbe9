"""What the commands answer for a cluster file of SageMaker HyperPod: a script of Slurm, or what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cdk_gpu_clusters_stacks.cli.main import main

EXAMPLES = Path(__file__).parents[3] / "examples"
SLURM, PODS = str(EXAMPLES / "hyperpod-slurm-p5.yaml"), str(EXAMPLES / "hyperpod-eks-p5.yaml")
JOB = ("--nodes", "2", "--dry-run", "--", "true")


@pytest.mark.parametrize(
    ("groups", "name", "partition"),
    [
        ("", "trainers", "trainers"),
        ("partition: train, ", "trainers", "train"),
        ("partition: train, ", "train", "train"),
    ],
)
def test_jobs_of_slurm_go_to_the_partition_of_the_fleet(
    groups: str, name: str, partition: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    text = Path(SLURM).read_text("utf-8").replace("trainers: { deep", f"trainers: {{ {groups}deep")
    file.write_text(text, encoding="utf-8")
    assert main(["run", name, "--cluster-file", str(file), *JOB]) == 0
    assert f"#SBATCH --partition={partition}" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("run", "others", "--cluster-file", SLURM, *JOB), "no fleet or partition others; partitions: trainers"),
        (("run", "trainers", "--cluster-file", PODS, *JOB), "hyp create"),
        (("manifests", SLURM), "only eks and hyperpod-eks have manifests"),
        (("dashboard", SLURM), "use the observability of SageMaker HyperPod"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(
    command: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_pods_get_the_file_systems_as_volumes(tmp_path: Path) -> None:
    """HyperPod's own chart brings all else."""
    assert main(["manifests", PODS, "-o", str(tmp_path)]) == 0
    written = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file())
    assert [one for one in written if not one.startswith(".")] == ["cluster/volume-corpus.yaml", "install.sh"]
    volume, claim = yaml.safe_load_all((tmp_path / "cluster/volume-corpus.yaml").read_text("utf-8"))
    assert (volume["kind"], volume["spec"]["csi"]["driver"]) == ("PersistentVolume", "fsx.csi.aws.com")
    assert (claim["kind"], claim["metadata"]["name"]) == ("PersistentVolumeClaim", "corpus")
    assert "helm" not in (tmp_path / "install.sh").read_text("utf-8")


def test_no_configuration_of_parallelcluster_is_exported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", SLURM, "--to", "pcluster"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "GPU-SPEC-092" in said
    assert "SageMaker launches the nodes of this cluster" in said


def test_no_price_of_ec2_is_said_of_nodes_of_sagemaker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", SLURM]) == 0
    assert "the catalogue has no prices of SageMaker HyperPod" in " ".join(capsys.readouterr().out.split())
