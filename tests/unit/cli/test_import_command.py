"""`gpu-clusters import`: what it writes and prints, and that it writes over nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.spec import load_cluster
from foreign_files import FOLDER
from pages import run_by

BLOCKS = run_by(__file__)
EKSCTL = FOLDER / "eksctl" / "p5.yaml"
PARALLELCLUSTER = FOLDER / "parallelcluster" / "vanilla.yaml"
FILL = ["--set", "${INSTANCE}=p5.48xlarge", "--set", "${NUM_INSTANCES}=4", "--set", "${AWS_REGION}=us-east-1"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def _run(*arguments: str) -> int:
    return int(main(["import", *arguments]) or 0)


def test_it_writes_a_cluster_file_and_prints_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(EKSCTL)) == 0
    out = capsys.readouterr().out
    assert load_cluster("cluster.yaml").name == "do-eks-yaml-p5"
    for heading in ("To fill in", "What becomes better", "What is replaced", "What is lost", "Rules that it breaks"):
        assert f"\n{heading}" in out
    assert "takes 32 addresses of the subnet" in out
    assert "GPU-EKS-052" in out
    assert out.endswith("wrote cluster.yaml; change the 2 lines marked CHANGE; then: gpu-clusters plan cluster.yaml\n")


def test_options_say_what_the_file_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--name", "llama", "--zone", "us-east-1a", "--vpc", "vpc-0a1b2c3d", "-o", "mine.yaml"]
    assert _run(str(PARALLELCLUSTER), *FILL, *options) == 0
    made = load_cluster("mine.yaml")
    assert (made.name, made.network.availability_zone) == ("llama", "us-east-1a")
    assert made.training.fleets["compute-gpu"].nodes == 4
    assert "GPU-IMP-006" in capsys.readouterr().out


@pytest.mark.parametrize(("given", "word"), [([], "hyperpod-eks"), (["--to", "eks"], "eks")])
def test_what_a_cluster_becomes(given: list[str], word: str) -> None:
    assert _run(str(FOLDER / "hyperpod" / "eks-g5.json"), *given) == 0
    assert load_cluster("cluster.yaml").orchestrator == word


def test_what_a_cluster_does_not_become(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(EKSCTL), "--to", "pcs") == 2
    told = capsys.readouterr().err
    assert "GPU-IMP-009" in told
    assert "allowed: eks\n" in told
    assert not Path("cluster.yaml").exists()
    assert _run("--auto-scaling-group", "trainers", "--region", "us-east-1", "--to", "ec2") == 2
    assert "--to is for a FILE" in capsys.readouterr().err


def test_a_placeholder_that_nothing_stands_for_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(PARALLELCLUSTER)) == 2
    told = capsys.readouterr()
    assert "--set '${INSTANCE}=VALUE'" in told.err
    assert not told.out
    assert not Path("cluster.yaml").exists()


def test_nothing_is_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    Path("cluster.yaml").write_text("mine")
    assert _run(str(EKSCTL)) == 2
    assert "cluster.yaml exists; --force writes over it" in capsys.readouterr().err
    assert Path("cluster.yaml").read_text() == "mine"
    assert _run(str(EKSCTL), "--force") == 0
    assert load_cluster("cluster.yaml").orchestrator == "eks"


def test_a_dangling_link_is_not_written_through() -> None:
    Path("cluster.yaml").symlink_to("elsewhere")
    assert _run(str(EKSCTL)) == 2
    assert not Path("elsewhere").exists()


def test_standard_input_and_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(EKSCTL.read_bytes())))
    assert _run("-", "-o", "-") == 0
    told = capsys.readouterr()
    assert "orchestrator: eks" in told.out
    assert "What is lost" not in told.out
    assert told.err.startswith("<stdin> (eksctl) -> -\n")


def test_json_has_the_notes_and_the_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(EKSCTL), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tool"] == "eksctl"
    assert found["cluster_file"] == Path("cluster.yaml").read_text()
    assert {note["change"] for note in found["notes"]} == {"better", "replaced", "lost", "to fill in"}
    assert {one["id"] for one in found["broken"]} == {"GPU-EKS-052", "GPU-LT-012"}
    assert all(one["line"] > 1 for one in found["broken"])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("missing.yaml", None, "there is no such file"),
        ("folder", "", "this is a folder"),
        ("bad.yaml", "Scheduling: [", "GPU-SPEC-002"),
        ("other.yaml", "kind: Deployment\n", "GPU-IMP-001"),
        ("steers.yaml", 'Scheduling: {}\nImage: {Os: "\\e[2J"}\n', "GPU-IMP-004"),
    ],
)
def test_what_cannot_be_imported(name: str, text: str | None, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "folder":
        Path(name).mkdir()
    elif text is not None:
        Path(name).write_text(text)
    assert _run(name) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert "Traceback" not in told.err
    assert "\x1b" not in told.err
    assert not Path("cluster.yaml").exists()


def test_a_placeholder_without_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(EKSCTL), "--set", "NAME") == 2
    assert "is not PLACEHOLDER=VALUE" in capsys.readouterr().err


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    theirs, ours = (one.text for one in BLOCKS if one.language == "yml")
    (shown,) = (one.text for one in BLOCKS if one.language == "text")
    Path("eks-p5.yaml").write_text(theirs)
    assert _run("eks-p5.yaml") == 0
    printed = capsys.readouterr().out.rpartition("\nwrote ")[0]
    assert printed.strip() == shown.strip()
    made = Path("cluster.yaml").read_text()
    assert "".join(line for line in made.splitlines(keepends=True) if not line.startswith("#")) == ours
