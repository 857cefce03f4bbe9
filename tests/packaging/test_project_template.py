"""Projects, examples and the schema, from the installed wheels alone, outside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from cdk_gpu_clusters_stacks.project.cdk_flags import flags_of_library
from distributions import distributions_of, link_distribution

if TYPE_CHECKING:
    from tests.packaging.conftest import CleanEnvironment

REPOSITORY = Path(__file__).resolve().parents[2]
CDK = REPOSITORY / ".tools" / "bin" / "cdk"


@pytest.fixture(scope="module")
def pytest_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `requirements-dev.txt` of a project adds: pytest."""
    folder = tmp_path_factory.mktemp("pytest")
    for name in {"pytest", *distributions_of("pytest")}:
        link_distribution(name, folder)
    return folder


@pytest.mark.parametrize(
    ("options", "stacks"),
    [
        pytest.param(["--example", "g6-dev-node"], {"dev-network", "dev-fleet-dev"}, id="cluster file"),
        pytest.param(["--python", "--name", "mine"], {"mine"}, id="Python"),
        pytest.param(["--python", "--orchestrator", "pcs", "--name", "mine"], {"mine"}, id="Python, Slurm"),
    ],
)
def test_the_cdk_cli_makes_a_project_of_the_template(
    options: list[str],
    stacks: set[str],
    clean_environment: CleanEnvironment,
    pytest_folder: Path,
    tmp_path: Path,
) -> None:
    """`cdk init --from-path` copies it, `cdk synth` synthesizes it, and its own test passes."""
    command = clean_environment.folder / "bin" / "gpu-clusters"
    written = clean_environment.run(command, "init", "--app", "template/python", *options, cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    project = tmp_path / "project"
    project.mkdir()
    init: list[str | Path] = [CDK, "init", "--unstable=init", "--generate-only", "--from-path", tmp_path / "template"]
    made = clean_environment.run(*init, cwd=project)
    assert made.returncode == 0, made.stderr
    template = tmp_path / "template" / "python"
    copied = {file.relative_to(template) for file in template.rglob("*") if file.is_file()}
    assert {file.relative_to(project) for file in project.rglob("*") if file.is_file()} == copied

    synthesized = clean_environment.run(CDK, "synth", "--quiet", cwd=project)
    assert synthesized.returncode == 0, synthesized.stderr
    manifest = json.loads((project / "cdk.out" / "manifest.json").read_text(encoding="utf-8"))
    found = {name for name, one in manifest["artifacts"].items() if one["type"] == "aws:cloudformation:stack"}
    assert found == stacks
    # The CLI advises flags that a project leaves open; this one leaves none.
    assert "feature flags are not configured" not in synthesized.stdout + synthesized.stderr
    assert json.loads((project / "cdk.json").read_text(encoding="utf-8"))["context"] == flags_of_library()

    program = f"import sys; sys.path.append({str(pytest_folder)!r}); import pytest; sys.exit(pytest.main(['-q']))"
    tested = clean_environment.run(clean_environment.python, "-c", program, cwd=project)
    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout


def test_examples_and_schema_of_the_wheel_agree(command_environment: CleanEnvironment, tmp_path: Path) -> None:
    command = command_environment.folder / "bin" / "gpu-clusters"
    schema = command_environment.run(command, "schema", cwd=tmp_path)
    Draft202012Validator.check_schema(json.loads(schema.stdout))
    listed = command_environment.run(command, "init", "--example", cwd=tmp_path).stdout.splitlines()
    names = [line.split()[0] for line in listed[1:] if line and not line.startswith("gpu-clusters")]
    assert names == sorted(file.stem for file in (REPOSITORY / "examples").glob("*.yaml"))
    shipped = next(command_environment.folder.glob("lib/*/site-packages/cdk_gpu_clusters_stacks/examples"))
    checked = command_environment.run(command, "check", "--json", *sorted(shipped.glob("*.yaml")), cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert len(json.loads(checked.stdout)["clusters"]) == len(names)
