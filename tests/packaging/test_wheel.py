"""What a user gets: the wheel alone must hold the library, its data and its app."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pages import README, blocks

if TYPE_CHECKING:
    from tests.packaging.conftest import CleanEnvironment


REPOSITORY = Path(__file__).resolve().parents[2]
ROOTS = {
    "constructs": "cdk_gpu_clusters",
    "emulator": "gpu_clusters_emulator",
    "stacks": "cdk_gpu_clusters_stacks",
}


def example(language: str) -> str:
    """The first block of that language in the README."""
    return blocks(README, language)[0]


def types_in(assembly: Path) -> set[str]:
    templates = [json.loads(path.read_text(encoding="utf-8")) for path in assembly.glob("*.template.json")]
    return {resource["Type"] for template in templates for resource in template["Resources"].values()}


def test_wheel_holds_three_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(ROOTS.values())
    assert len(tops) == len(ROOTS) + 1
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    for package in ROOTS.values():
        assert f"{package}/py.typed" in names


def test_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Data, scripts and schemas too; no bytecode."""
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(REPOSITORY / root).as_posix()
        for root, package in ROOTS.items()
        for path in (REPOSITORY / root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == wanted
    assert {".json", ".sh"} <= {Path(name).suffix for name in held}


def test_clean_environment_lacks_the_repository(clean_environment: CleanEnvironment, tmp_path: Path) -> None:
    """Otherwise the two tests below would prove nothing."""
    probe = "import cdk_gpu_clusters, importlib.util as u; print(cdk_gpu_clusters.__file__, u.find_spec('moto'))"
    done = clean_environment.run(clean_environment.python, "-c", probe, cwd=tmp_path)
    file, moto = done.stdout.split()
    assert Path(file).is_relative_to(clean_environment.folder)
    assert moto == "None"


@pytest.mark.validation
def test_readme_python_example_synthesizes(clean_environment: CleanEnvironment, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(example("python"), encoding="utf-8")
    cdk = REPOSITORY / ".tools" / "bin" / "cdk"
    done = clean_environment.run(cdk, "synth", "--quiet", "--app", "python app.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "AWS::AutoScaling::AutoScalingGroup" in types_in(tmp_path / "cdk.out")


@pytest.mark.validation
def test_readme_cluster_file_synthesizes(clean_environment: CleanEnvironment, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(example("yaml"), encoding="utf-8")
    cdk = REPOSITORY / ".tools" / "bin" / "cdk"
    app = "python -m cdk_gpu_clusters_stacks"
    done = clean_environment.run(cdk, "synth", "--quiet", "--app", app, "-c", "cluster=cluster.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "AWS::AutoScaling::AutoScalingGroup" in types_in(tmp_path / "cdk.out")


def test_the_command_runs_from_the_wheel_with_its_extra(
    command_environment: CleanEnvironment, clean_environment: CleanEnvironment, tmp_path: Path
) -> None:
    nodes = {
        "Type": "AWS::EC2::LaunchTemplate",
        "Properties": {"LaunchTemplateData": {"InstanceType": "p5.49xlarge"}},
    }
    (tmp_path / "nodes.json").write_text(json.dumps({"Resources": {"Nodes": nodes}}), encoding="utf-8")
    (tmp_path / "clean.yaml").write_text("Resources: {}\n", encoding="utf-8")
    (tmp_path / "cluster.yaml").write_text(example("yaml"), encoding="utf-8")
    command = command_environment.folder / "bin" / "gpu-clusters"

    found = command_environment.run(command, "lint", "nodes.json", "clean.yaml", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (1, "")
    assert "nodes.json:1:" in found.stdout
    assert "GPU-INST-001" in found.stdout
    planned = command_environment.run(command, "plan", "cluster.yaml", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    drawn = command_environment.run(command, "report", "cluster.yaml", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "report.html").stat().st_size > 10_000
    live = command_environment.run(command, "preflight", "cluster.yaml", cwd=tmp_path)
    assert live.returncode == 2
    assert "[cli,live]" in live.stderr

    bare = clean_environment.folder / "bin" / "gpu-clusters"
    without = clean_environment.run(bare, "lint", "nodes.json", cwd=tmp_path)
    assert without.returncode == 2
    assert without.stderr == "gpu-clusters needs typer: pip install 'cdk-gpu-clusters[cli]'\n"
