"""What a user gets: the wheel alone must hold the library, its data and its app."""

from __future__ import annotations

import json
import re
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdk_gpu_clusters._version import REPOSITORY_URL, __version__
from distributions import distributions_of
from pages import run_by

if TYPE_CHECKING:
    from tests.packaging.conftest import CleanEnvironment


REPOSITORY = Path(__file__).resolve().parents[2]
ROOTS = {
    "constructs": "cdk_gpu_clusters",
    "emulator": "gpu_clusters_emulator",
    "stacks": "cdk_gpu_clusters_stacks",
}


def examples(language: str) -> list[str]:
    """The blocks of that language in the README."""
    return [block.text for block in run_by(__file__) if block.language == language]


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
    """Data, scripts and schemas, and the examples; no bytecode."""
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(REPOSITORY / root).as_posix()
        for root, package in ROOTS.items()
        for path in (REPOSITORY / root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted |= {
        f"cdk_gpu_clusters_stacks/{path.relative_to(REPOSITORY).as_posix()}"
        for path in (REPOSITORY / "examples").rglob("*")
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
@pytest.mark.parametrize(
    ("number", "kind"),
    [(0, "AWS::AutoScaling::AutoScalingGroup"), (1, "AWS::ElasticLoadBalancingV2::LoadBalancer")],
)
def test_readme_python_example_synthesizes(
    clean_environment: CleanEnvironment, tmp_path: Path, number: int, kind: str
) -> None:
    assert len(examples("python")) == 2
    (tmp_path / "app.py").write_text(examples("python")[number], encoding="utf-8")
    cdk = REPOSITORY / ".tools" / "bin" / "cdk"
    done = clean_environment.run(cdk, "synth", "--quiet", "--app", "python app.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert kind in types_in(tmp_path / "cdk.out")


@pytest.mark.validation
def test_readme_cluster_file_synthesizes(clean_environment: CleanEnvironment, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(examples("yaml")[0], encoding="utf-8")
    cdk = REPOSITORY / ".tools" / "bin" / "cdk"
    app = "python -m cdk_gpu_clusters_stacks"
    done = clean_environment.run(cdk, "synth", "--quiet", "--app", app, "-c", "cluster=cluster.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "AWS::AutoScaling::AutoScalingGroup" in types_in(tmp_path / "cdk.out")


@pytest.mark.parametrize("name", ["wheel", "cdk_wheel"])
def test_what_pypi_shows_has_no_relative_link(name: str, request: pytest.FixtureRequest) -> None:
    metadata = metadata_of(request.getfixturevalue(name))
    text = metadata.get_payload()
    assert isinstance(text, str)
    targets = re.findall(r"\]\(([^)\s]+)", text) + re.findall(r"(?:src|href|srcset)=\"([^\"]+)", text)
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    # Every link to a file of the repository leads to one, of the released version.
    prefix = re.compile(rf"{re.escape(REPOSITORY_URL)}/blob/v{re.escape(__version__)}/([^#]+)")
    files = [found[1] for target in targets if (found := prefix.match(target))]
    assert files
    assert [file for file in files if not (REPOSITORY / file).exists()] == []


@pytest.mark.parametrize("name", ["wheel", "cdk_wheel"])
def test_the_links_beside_the_package_are_those_of_the_repository(name: str, request: pytest.FixtureRequest) -> None:
    urls = dict(line.split(", ", 1) for line in metadata_of(request.getfixturevalue(name)).get_all("Project-URL", []))
    assert set(urls) == {"Repository", "Documentation", "Changelog", "Issues"}
    assert urls["Repository"] == REPOSITORY_URL


def test_the_distribution_with_cdk_has_no_modules_and_the_same_version(cdk_wheel: Path, wheel: Path) -> None:
    names = zipfile.ZipFile(cdk_wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {f"cdk_gpu_clusters-{__version__}.dist-info"}
    needs = metadata_of(cdk_wheel).get_all("Requires-Dist", [])
    assert needs[0] == f"gpu-clusters[cdk]=={__version__}"
    extras = set(metadata_of(wheel).get_all("Provides-Extra", [])) - {"cdk"}
    assert set(metadata_of(cdk_wheel).get_all("Provides-Extra", [])) == extras
    assert needs[1:] == [f"gpu-clusters[{extra}]=={__version__}; extra == '{extra}'" for extra in sorted(extras)]


def test_the_command_alone_brings_neither_cdk_nor_boto3() -> None:
    brought = distributions_of("gpu-clusters")
    assert {"typer", "rich", "pyyaml", "pydantic"} <= brought
    assert brought.isdisjoint({"aws-cdk-lib", "constructs", "jsii", "boto3", "botocore", "cfn-lint"})


def metadata_of(built: Path) -> Message:
    archive = zipfile.ZipFile(built)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_string(archive.read(name).decode("utf-8"))


def test_the_command_runs_from_the_wheel_without_cdk(command_environment: CleanEnvironment, tmp_path: Path) -> None:
    nodes = {
        "Type": "AWS::EC2::LaunchTemplate",
        "Properties": {"LaunchTemplateData": {"InstanceType": "p5.49xlarge"}},
    }
    (tmp_path / "nodes.json").write_text(json.dumps({"Resources": {"Nodes": nodes}}), encoding="utf-8")
    (tmp_path / "clean.yaml").write_text("Resources: {}\n", encoding="utf-8")
    (tmp_path / "cluster.yaml").write_text(examples("yaml")[0], encoding="utf-8")
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
    assert "pip install 'gpu-clusters[live]'" in live.stderr
    example_listed = command_environment.run(command, "init", "--example", cwd=tmp_path)
    assert "p5-lustre" in example_listed.stdout
    project = command_environment.run(command, "init", "--app", "new", "--example", "p5-lustre", cwd=tmp_path)
    assert project.returncode == 0, project.stderr
    assert json.loads((tmp_path / "new" / "cdk.json").read_text())["context"]

    construct = command_environment.run(
        command_environment.python, "-c", "from cdk_gpu_clusters import GpuFleet", cwd=tmp_path
    )
    assert construct.stderr.splitlines()[-1].endswith("constructs need CDK: pip install cdk-gpu-clusters")
