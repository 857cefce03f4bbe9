"""`gpu-clusters advise` and `init`: arithmetic that is shown, and cluster files that are sound as they are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from cdk_gpu_clusters.catalogue.instances import instance_types
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.spec import read_cluster
from cdk_gpu_clusters_stacks.starter import Purpose, Starter, StarterCapacity, StarterOrchestrator, starter_text

#: What EKS and AWS PCS do not take of a valid file for plain EC2: model servers, Neuron, nodes that roll.
_NOT_THERE = {"GPU-AMI-001", "GPU-EKS-048", "GPU-SPEC-046"}
#: What only an account or its buyer knows, or what the type does not come as: all that a first file may have against it.
_ALLOWED = {"GPU-AMI-003", "GPU-CAP-003", "GPU-CAP-005", "GPU-CAP-010", "GPU-NET-106", "GPU-NET-143"}


def test_the_arithmetic_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--model-parameters", "70B", "--mode", "pretrain"]) == 0
    printed = capsys.readouterr().out
    assert "weights    70B x 2 bytes = 140.0 GB" in printed
    assert "gradients  70B x 4 bytes = 280.0 GB" in printed
    assert "optimizer  70B x 12 bytes = 840.0 GB" in printed
    assert "arXiv 1910.02054" in printed
    assert "p5.48xlarge" in printed or "p5en.48xlarge" in printed


def test_rows_are_sorted_by_price_and_unknown_ones_come_last(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "advise",
        "--model-parameters",
        "7B",
        "--mode",
        "inference",
        "--region",
        "eu-west-1",
        "--json",
    ]
    assert main(arguments) == 0
    prices = [row["usd_per_day"] for row in json.loads(capsys.readouterr().out)["rows"]]
    known = [float(price) for price in prices if price is not None]
    assert known == sorted(known)
    assert prices[len(known) :] == [None] * (len(prices) - len(known))


@pytest.mark.parametrize(
    "mode",
    [
        ["--mode", "pretrain"],
        ["--mode", "finetune", "--lora-rank", "8"],
        ["--mode", "inference", "--replicas", "3"],
        ["--mode", "inference", "--type", "p5.48xlarge", "--precision", "int4"],
    ],
)
@pytest.mark.parametrize("size", ["1B", "13B", "70B"])
def test_the_cluster_file_of_an_advice_is_sound(
    mode: list[str], size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    assert main(["advise", "--model-parameters", size, *mode, "-o", str(file)]) == 0
    reading = read_cluster(file)
    assert reading.spec is not None
    assert str(file) in capsys.readouterr().out


def test_what_nothing_holds_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--model-parameters", "405B", "--type", "g5.xlarge"]) == 1
    assert "nothing of the catalogue holds it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--model-parameters", "many"], "no number of parameters"),
        (["--model-parameters", "0B"], "no number of parameters"),
        (["--model-parameters", "7B", "--type", "p5.49xlarge"], "GPU-INST-001"),
        (["--model-parameters", "7B", "--model", "Eliza"], "GPU-MODEL-001"),
        (["--model-parameters", "7B", "--mode", "inference", "--lora-rank", "4"], "--mode finetune"),
    ],
)
def test_wrong_wishes_are_refused(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize("capacity", list(StarterCapacity))
@pytest.mark.parametrize("orchestrator", list(StarterOrchestrator))
def test_a_first_cluster_file_is_sound_but_for_what_its_type_does_not_come_as(
    purpose: Purpose, capacity: StarterCapacity, orchestrator: StarterOrchestrator, tmp_path: Path
) -> None:
    allowed = _ALLOWED if orchestrator is StarterOrchestrator.EC2 else _ALLOWED | _NOT_THERE
    file = tmp_path / "cluster.yaml"
    for one in instance_types().values():
        if one.accelerator is None:
            continue
        starter = Starter(
            name="first",
            region=one.regions[0] if one.regions else "us-east-1",
            instance_type=one.name,
            nodes=one.ultraservers[0].instance_count if one.ultraservers else 1,
            purpose=purpose,
            capacity=capacity,
            orchestrator=orchestrator,
            # FSx has no file systems in the Local Zones of UltraServers.
            lustre_gib=1200 if one.supports_efa and not one.ultraservers else None,
        )
        file.write_text(starter_text(starter))
        faults = {found.id for found in read_cluster(file).findings if found.severity.value == "error"}
        assert faults <= allowed, one.name


def test_init_writes_what_its_flags_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    flags = ["--name", "llama", "--region", "us-east-1", "--type", "p5.48xlarge", "--nodes", "16"]
    assert main(["init", *flags, "--capacity", "capacity-block", "-o", str(file)]) == 0
    spec = read_cluster(file).spec
    assert spec is not None
    assert spec.name == "llama"
    assert spec.training.fleets["workers"].nodes == 16
    assert "change the 4 lines marked CHANGE" in capsys.readouterr().out


def test_init_for_slurm_has_homes_on_all_nodes_and_a_size_that_holds_them(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    flags = ["--orchestrator", "pcs", "--nodes", "40", "--lustre-gib", "1200"]
    assert main(["init", *flags, "-o", str(file)]) == 0
    spec = read_cluster(file).spec
    assert spec is not None
    assert (spec.orchestrator, spec.pcs.size) == ("pcs", "medium")
    mounts = {"/home": "home", "/scratch-shared": "scratch"}
    assert spec.training.fleets["workers"].mounts == mounts
    assert spec.pcs.login.mounts == mounts


@pytest.mark.parametrize("orchestrator", list(StarterOrchestrator))
@pytest.mark.parametrize(
    ("type_name", "layout"), [("p4d.24xlarge", "3g.20gb,3g.20gb"), ("g7e.2xlarge", "2g.48gb,2g.48gb")]
)
def test_init_splits_gpus_of_types_with_efa_and_without(
    orchestrator: str, type_name: str, layout: str, tmp_path: Path
) -> None:
    flags = ["--orchestrator", orchestrator, "--type", type_name, "--mig", layout]
    assert main(["init", *flags, "-o", str(tmp_path / "cluster.yaml")]) == 0


def test_init_overwrites_nothing_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("mine")
    assert main(["init", "--type", "g6.xlarge", "-o", str(file)]) == 2
    assert file.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert main(["init", "--type", "g6.xlarge", "-o", str(file), "--force"]) == 0
    assert read_cluster(file).spec is not None


def test_init_writes_nothing_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    arguments = ["init", "--type", "g6.xlarge", "--capacity", "capacity-block", "-o", str(file)]
    assert main(arguments) == 2
    assert not file.exists()
    error = capsys.readouterr().err
    assert "GPU-CAP-003" in error
    assert f"{file}:" in error


def test_init_asks_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(question: str, default: str, **_: object) -> str:
        asked.append(question)
        return {"Nodes": "3", "Name of the cluster": "asked"}.get(question, default)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.prompt", answer)
    file = tmp_path / "cluster.yaml"
    assert main(["init", "--type", "g6.xlarge", "-o", str(file)]) == 0
    spec = read_cluster(file).spec
    assert spec is not None
    assert (spec.name, spec.training.fleets["workers"].nodes) == ("asked", 3)
    assert "Instance type" not in asked


@pytest.mark.parametrize("size", ["0", "0.5", "1e99", "9" * 400, "9" * 400 + "T", "nan", "٣B", "1,5B"])
def test_what_is_no_number_of_parameters_is_refused(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--model-parameters", size]) == 2
    assert "is no number of parameters" in " ".join(capsys.readouterr().err.split())


def test_a_number_without_its_letter_is_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--model-parameters", "70"]) == 2
    assert "write 70B for billions" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("size", ["1e12", "1T", "1000B", "1E+12"])
def test_one_number_of_parameters_is_written_in_many_ways(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["advise", "--model-parameters", size, "--json"])
    assert json.loads(capsys.readouterr().out)["parameters"] == 10**12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--region", "us-esat-1"], "GPU-RGN-001"),
        (["--mode", "inference", "--nodes", "3"], "--nodes is for training"),
        (["--mode", "finetune", "--lora-rank", "100000"], "GPU-MODEL-002"),
    ],
)
def test_what_makes_no_sense_is_refused(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--model-parameters", "8B", *options]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["on # x", "a: {b", "1", "x\nregion: eu-west-1", "", "'"])
def test_a_name_is_never_read_as_yaml(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused as a name, and never shortened or taken for other lines of the file."""
    file = tmp_path / "cluster.yaml"
    starter = Starter(name=name, region="us-east-1", instance_type="g6.xlarge")
    file.write_text(starter_text(starter), encoding="utf-8")
    reading = read_cluster(file)
    assert reading.spec is None
    assert {one.id for one in reading.findings} == {"GPU-SPEC-011"}


@pytest.mark.parametrize("place", ["missing/cluster.yaml", "."])
def test_init_says_in_one_line_what_cannot_be_written(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--type", "g6.xlarge", "--force", "-o", str(tmp_path / place)]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_init_asks_again_until_an_answer_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"Nodes": ["abc", "2"], "Purpose": ["fly", "serve"], "Capacity": ["", "spot"]}

    def answer(question: str, default: str, **_: object) -> str:
        given = answers.get(question.partition(" ")[0])
        return given.pop(0) if given else default

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.prompt", answer)
    file = tmp_path / "cluster.yaml"
    assert main(["init", "--type", "g6.xlarge", "-o", str(file)]) == 0
    assert "'fly' is no answer here" in capsys.readouterr().err
    assert "spot: {}" in file.read_text()


@pytest.mark.parametrize("is_asked", [True, False])
def test_init_alone_writes_a_cluster_file(is_asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: is_asked)
    monkeypatch.setattr("typer.prompt", lambda _question, default, **_: default)
    assert main(["init"]) == 0
    assert main(["check", "cluster.yaml"]) == 0


def test_init_and_advise_write_to_standard_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments in (
        ["init", "--type", "g6.xlarge"],
        ["advise", "--model-parameters", "7B", "--mode", "inference"],
        ["init", "--example", "g5-single-gpu"],
    ):
        assert main([*arguments, "-o", "-"]) == 0
        file = tmp_path / "cluster.yaml"
        file.write_text(capsys.readouterr().out)
        assert main(["check", str(file)]) == 0
        capsys.readouterr()
    assert not Path("-").exists()


def test_an_example_of_several_files_needs_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--example", "g6-dev-node", "-o", "-"]) == 2
    assert "it comes with dev-tools.sh" in capsys.readouterr().err


def test_ctrl_c_at_a_question_is_130_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> str:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise typer.Abort from None

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.prompt", interrupt)
    file = tmp_path / "cluster.yaml"
    assert main(["init", "-o", str(file)]) == 130
    assert not file.exists()
