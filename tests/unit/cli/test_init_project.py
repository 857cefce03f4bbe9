"""`gpu-clusters init`: projects, examples, and questions that lose no answer."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from cdk_gpu_clusters.catalogue.instances import instance_types
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.project import examples, feature_flags
from cdk_gpu_clusters_stacks.project.cdk_flags import flags_of_library, recorded_flags
from cdk_gpu_clusters_stacks.spec import read_cluster

REPOSITORY = Path(__file__).resolve().parents[3]
PROJECT = {
    ".gitignore",
    "README.md",
    "app.py",
    "cdk.json",
    "requirements-dev.txt",
    "requirements.txt",
    "tests/test_cluster.py",
}


def files_of(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


def test_a_project_is_complete(tmp_path: Path) -> None:
    assert main(["init", "--app", str(tmp_path / "new")]) == 0
    assert files_of(tmp_path / "new") == {*PROJECT, "cluster.yaml", "cluster.schema.json"}
    spec = read_cluster(tmp_path / "new" / "cluster.yaml").spec
    assert spec is not None
    assert spec.training.fleets["workers"].instance_type == "g6.xlarge"


@pytest.mark.parametrize("capacity", ["on-demand", "spot", "reservation", "capacity-block"])
@pytest.mark.parametrize("type_name", ["p5.48xlarge", "p6e-gb200.36xlarge"])
def test_an_app_in_python_has_what_the_flags_say(capacity: str, type_name: str, tmp_path: Path) -> None:
    flags = ["--type", type_name, "--capacity", capacity, "--nodes", "9"]
    status = main(["init", "--app", str(tmp_path / "new"), "--python", *flags])
    if type_name.startswith("p6e") and capacity != "capacity-block":
        assert status == 2
        assert not (tmp_path / "new").exists()
        return
    assert status == 0
    assert files_of(tmp_path / "new") == PROJECT
    text = (tmp_path / "new" / "app.py").read_text()
    ast.parse(text)
    assert f'instance_type="{type_name}"' in text
    assert "node_count=9" in text
    assert ("CHANGE" in text) is (capacity in ("reservation", "capacity-block"))
    assert ("ultraserver_block(" in text) is (type_name.startswith("p6e") and capacity == "capacity-block")


@pytest.mark.parametrize(("nodes", "size"), [("4", "SMALL"), ("31", "SMALL"), ("32", "MEDIUM"), ("600", "LARGE")])
def test_an_app_in_python_for_pcs_has_a_cluster_that_holds_its_nodes(nodes: str, size: str, tmp_path: Path) -> None:
    flags = ["--orchestrator", "pcs", "--nodes", nodes, "--capacity", "reservation"]
    assert main(["init", "--app", str(tmp_path / "new"), "--python", *flags]) == 0
    assert files_of(tmp_path / "new") == PROJECT
    text = (tmp_path / "new" / "app.py").read_text()
    ast.parse(text)
    assert f"size=ClusterSize.{size})" in text
    assert f"node_count={nodes}," in text
    assert "GpuFleet" not in text


@pytest.mark.parametrize(
    "flags",
    [
        ["--orchestrator", "eks"],
        ["--orchestrator", "pcs", "--type", "p6e-gb200.36xlarge", "--capacity", "capacity-block", "--nodes", "9"],
    ],
)
def test_what_no_python_app_has_is_refused_before_a_file_is_written(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--app", str(tmp_path / "new"), "--python", *flags]) == 2
    assert "take a cluster file" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_without_a_flag_it_writes_a_cluster_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert files_of(tmp_path) == {"cluster.yaml"}
    assert read_cluster(tmp_path / "cluster.yaml").findings == ()


def test_a_project_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text("mine\n")
    (tmp_path / "README.md").write_text("mine\n")
    assert main(["init", "--app", str(tmp_path)]) == 2
    assert files_of(tmp_path) == {"app.py", "README.md"}
    error = capsys.readouterr().err
    assert "app.py" in error
    assert "README.md" in error


def test_without_a_folder_it_is_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--app", "--type", "g6.2xlarge"]) == 0
    assert "g6.2xlarge" in Path("cluster.yaml").read_text()
    assert Path("app.py").is_file()


# Feature flags.


def test_the_flags_are_those_of_the_library() -> None:
    library = flags_of_library()
    assert library
    assert feature_flags() == library
    assert json.loads((REPOSITORY / "cdk.json").read_text())["context"] == library


def test_without_the_library_the_recorded_flags_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdk_gpu_clusters_stacks.project.cdk_flags.find_spec", lambda _name: None)
    assert flags_of_library() is None
    assert feature_flags() == recorded_flags()
    assert recorded_flags()


# Examples.


def test_the_examples_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--example"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:] if line]
    assert listed[:-1] == sorted(file.stem for file in (REPOSITORY / "examples").glob("*.yaml"))


@pytest.mark.parametrize("name", sorted(examples()))
def test_an_example_is_valid_where_it_is_written(name: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    assert main(["init", "--example", name, "-o", str(file)]) == 0
    assert read_cluster(file).spec is not None
    schema, rest = file.read_text().split("\n", 1)
    assert schema == "# yaml-language-server: $schema=cluster.schema.json"
    assert rest == (REPOSITORY / "examples" / f"{name}.yaml").read_text().split("\n", 1)[1]


def test_a_wrong_example_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--example", "p5-lustr"]) == 2
    assert "did you mean p5-lustre" in capsys.readouterr().err


def test_an_example_becomes_a_project(tmp_path: Path) -> None:
    assert main(["init", "--app", str(tmp_path), "--example", "g6-dev-node"]) == 0
    assert files_of(tmp_path) == {*PROJECT, "cluster.yaml", "cluster.schema.json", "dev-tools.sh"}


# Questions.


def answer_with(monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[str]]) -> list[str]:
    """Answer questions by their first word; with the default where nothing is left. Gives what was asked."""
    asked: list[str] = []

    def answer(question: str, default: str, **_: object) -> str:
        asked.append(question)
        given = answers.get(question.partition(" ")[0])
        return given.pop(0) if given else default

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.prompt", answer)
    return asked


def test_a_wrong_region_or_type_is_asked_for_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answer_with(
        monkeypatch,
        {"Region": ["mars", "us-esat-1", "us-east-2"], "Instance": ["p5.49xlarge", "g6.4xlarge"], "Nodes": ["0", "3"]},
    )
    file = tmp_path / "cluster.yaml"
    assert main(["init", "-o", str(file)]) == 0
    assert [asked.count(one) for one in ("Region", "Instance type", "Nodes", "Name of the cluster")] == [3, 2, 2, 1]
    error = capsys.readouterr().err
    assert "GPU-RGN-001" in error
    assert "GPU-INST-001" in error
    spec = read_cluster(file).spec
    assert spec is not None
    assert (spec.region, spec.training.fleets["workers"].nodes) == ("us-east-2", 3)


def test_answers_that_do_not_go_together_are_kept_and_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer_with(
        monkeypatch,
        {"Name": ["mine"], "Nodes": ["2"], "Instance": ["g6.xlarge"], "Capacity": ["capacity-block", "spot"]},
    )
    file = tmp_path / "cluster.yaml"
    assert main(["init", "-o", str(file)]) == 0
    assert "GPU-CAP-003" in capsys.readouterr().err
    spec = read_cluster(file).spec
    assert spec is not None
    assert (spec.name, spec.training.fleets["workers"].nodes) == ("mine", 2)
    assert "spot: {}" in file.read_text()


def test_flags_that_do_not_go_together_end_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, {})
    flags = ["--name", "a", "--region", "us-east-1", "--type", "g6.xlarge", "--nodes", "1", "--purpose", "train"]
    flags += ["--orchestrator", "ec2"]
    assert main(["init", *flags, "--capacity", "capacity-block", "-o", str(tmp_path / "cluster.yaml")]) == 2


def test_the_default_is_one_cheap_node_with_its_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer_with(monkeypatch, {})
    assert main(["init", "-o", str(tmp_path / "cluster.yaml")]) == 0
    assert "g6.xlarge: 1 x L4, 0.80 USD an hour each on demand (2026-" in capsys.readouterr().err


@pytest.mark.parametrize("name", [one.name for one in instance_types().values() if one.ultraservers])
def test_ultraservers_come_as_a_block_of_their_own(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, {"Instance": [name]})
    file = tmp_path / "cluster.yaml"
    region = "us-east-2" if name.startswith("trn2") else "us-east-1"
    assert main(["init", "--region", region, "-o", str(file)]) == 0
    fleet = read_cluster(file).spec.training.fleets["workers"]  # type: ignore[union-attr]
    assert fleet.nodes == instance_types()[name].ultraservers[0].instance_count
    assert "ultraserver_block:" in file.read_text()


@pytest.mark.parametrize("capacity", ["reservation", "capacity-block"])
def test_a_guessed_zone_of_a_reservation_is_marked(capacity: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    flags = ["--type", "p5.48xlarge", "--capacity", capacity, "-o", str(file)]
    assert main(["init", *flags]) == 0
    (network,) = (line for line in file.read_text().splitlines() if line.startswith("network:"))
    assert "# CHANGE" in network
    assert main(["init", *flags, "--zone", "use1-az2", "--force"]) == 0
    (network,) = (line for line in file.read_text().splitlines() if line.startswith("network:"))
    assert "# CHANGE" not in network


def test_a_project_names_the_cdk_cli_that_reads_it(tmp_path: Path) -> None:
    """The tag `latest` of the CLI on npm is another major version."""
    pinned = json.loads((Path(__file__).parents[3] / "tools" / "cli" / "package.json").read_text())
    for kind in ((), ("--python",)):
        folder = tmp_path / f"project{len(kind)}"
        assert main(["init", "--app", str(folder), *kind, "--name", "mine"]) == 0
        assert f"aws-cdk@{pinned['dependencies']['aws-cdk']} " in (folder / "README.md").read_text()
