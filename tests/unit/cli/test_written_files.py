"""No command destroys a file: not one of a person, and not what a person changed in ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.three_way import merge

REPOSITORY = Path(__file__).resolve().parents[3]
EKS = REPOSITORY / "examples" / "eks-g5-dev.yaml"
PLAIN = REPOSITORY / "examples" / "g6-dev-node.yaml"
JOB = Path("jobs", "dev", "torchrun.yaml")
LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n", "e\n"]), max_size=8).map("".join)


# The merge.


@given(base=LINES, changed=LINES)
def test_a_change_of_one_side_is_taken_as_it_is(base: str, changed: str) -> None:
    assert merge(base, changed, base) == changed
    assert merge(base, base, changed) == changed
    assert merge(base, changed, changed) == changed


@settings(max_examples=40, deadline=None)
@given(base=LINES, edited=LINES, ours=LINES)
def test_git_merges_in_the_same_way(
    base: str, edited: str, ours: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where both have no conflict. They may take different lines for the same ones, so distinct lines decide."""
    head = [f"{number}\n" for number in range(12)]
    texts = {
        "base": "".join([*head[:4], base, *head[4:]]),
        "edited": "".join([edited, *head[:4], base, *head[4:]]),
        "ours": "".join([*head[:4], base, *head[4:], ours]),
    }
    folder = tmp_path_factory.mktemp("merge")
    for name, text in texts.items():
        (folder / name).write_text(text)
    command = ["git", "merge-file", "-p", "edited", "base", "ours"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert merge(texts["base"], texts["edited"], texts["ours"]) == done.stdout


@pytest.mark.parametrize(
    ("edited", "ours"),
    [
        ("a\nX\nc\n", "a\nY\nc\n"),  # the same line
        ("X\nb\nc\n", "a\nY\nc\n"),  # neighbouring lines
        ("a\nb\nX\nc\n", "a\nb\nY\nc\n"),  # two insertions at one place
        ("a\nc\n", "a\nY\nc\n"),  # deleted here, changed there
    ],
)
def test_what_git_calls_a_conflict_is_one(edited: str, ours: str, tmp_path: Path) -> None:
    base = "a\nb\nc\n"
    assert merge(base, edited, ours) is None
    for name, text in (("base", base), ("edited", edited), ("ours", ours)):
        (tmp_path / name).write_text(text)
    command = ["git", "merge-file", "-p", "edited", "base", "ours"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1


# Manifests.


def manifests(folder: Path, *options: str, file: Path = EKS) -> int:
    return main(["manifests", str(file), "-o", str(folder), *options])


def changed_cluster(folder: Path, old: str, new: str) -> Path:
    text = EKS.read_text()
    assert old in text
    file = folder / "changed.yaml"
    file.write_text(text.replace(old, new))
    return file


def test_an_edited_job_stays_when_the_manifests_are_written_again(tmp_path: Path) -> None:
    assert manifests(tmp_path) == 0
    job = tmp_path / JOB
    mine = job.read_text() + "# mine\n"
    job.write_text(mine)
    assert manifests(tmp_path) == 0
    assert job.read_text() == mine


def test_a_changed_cluster_reaches_an_edited_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert manifests(tmp_path) == 0
    job = tmp_path / JOB
    job.write_text(job.read_text().replace("CHANGE", "changed", 1))
    mine = next(line for line in job.read_text().splitlines() if "changed" in line)
    changed = changed_cluster(tmp_path, "g5.2xlarge, min", "g5.12xlarge, min")
    expected = tmp_path / "expected"
    assert manifests(expected, file=changed) == 0
    capsys.readouterr()
    assert manifests(tmp_path, file=changed) == 0
    assert mine in job.read_text()
    assert job.read_text().replace("changed", "CHANGE", 1) == (expected / JOB).read_text()
    assert f"{job}: has your changes and the new ones" in capsys.readouterr().out


def test_line_ends_of_windows_are_no_change(tmp_path: Path) -> None:
    """Git with core.autocrlf, and editors, write CRLF (gitattributes(5), `text`)."""
    assert manifests(tmp_path) == 0
    job, page = tmp_path / JOB, tmp_path / "report.html"
    assert main(["report", str(PLAIN), "-o", str(page)]) == 0
    mine = job.read_text().replace("CHANGE", "changed", 1)
    for file, text in ((job, mine), (page, page.read_text())):
        file.write_bytes(text.replace("\n", "\r\n").encode())
    changed = changed_cluster(tmp_path, "g5.2xlarge, min", "g5.12xlarge, min")
    expected = tmp_path / "expected"
    assert manifests(expected, file=changed) == 0
    assert manifests(tmp_path, file=changed) == 0
    assert job.read_text() == (expected / JOB).read_text().replace("CHANGE", "changed", 1) != mine
    assert not job.with_name(f"{job.name}.new").exists()
    assert main(["report", str(EKS), "-o", str(page)]) == 0


def test_a_conflict_keeps_the_edited_file_and_writes_ours_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manifests(tmp_path) == 0
    job = tmp_path / JOB
    mine = "".join(f"{line} # mine\n" for line in job.read_text().splitlines())
    job.write_text(mine)
    changed = changed_cluster(tmp_path, "g5.2xlarge, min", "g5.12xlarge, min")
    for _again in range(2):
        capsys.readouterr()
        assert manifests(tmp_path, file=changed) == 1
        assert job.read_text() == mine
        assert f"{job}.new" in capsys.readouterr().err
    Path(f"{job}.new").unlink()
    assert manifests(tmp_path, file=changed) == 0


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_file_of_someone_else_is_replaced_only_by_force(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "install.sh").write_text("mine\n")
    assert manifests(tmp_path, *options) == (0 if options else 2)
    assert ((tmp_path / "install.sh").read_text() == "mine\n") is not bool(options)
    if not options:
        assert "--force" in capsys.readouterr().err
        assert not (tmp_path / JOB).exists()


def test_a_file_that_the_cluster_no_longer_has_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert manifests(tmp_path) == 0
    changed = changed_cluster(tmp_path, "    dev: {", "    other: {")
    capsys.readouterr()
    assert manifests(tmp_path, file=changed) == 0
    assert f"{tmp_path / JOB}: belongs to nothing" in capsys.readouterr().out
    assert (tmp_path / JOB).exists()


def test_the_install_script_can_be_run(tmp_path: Path) -> None:
    assert manifests(tmp_path) == 0
    assert (tmp_path / "install.sh").stat().st_mode & 0o111 == 0o111
    assert (tmp_path / JOB).stat().st_mode & 0o111 == 0


# Reports.


def test_a_report_is_drawn_again_over_itself(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(PLAIN), "-o", str(page)]) == 0
    first = page.read_text()
    assert main(["report", str(EKS), "-o", str(page)]) == 0
    assert page.read_text() != first


def test_a_report_that_was_edited_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(PLAIN), "-o", str(page)]) == 0
    edited = page.read_text().replace("<body", "<body data-mine", 1)
    assert edited != page.read_text()
    page.write_text(edited)
    assert main(["report", str(PLAIN), "-o", str(page)]) == 2
    assert page.read_text() == edited
    assert "--force" in capsys.readouterr().err
    assert main(["report", str(PLAIN), "-o", str(page), "--force"]) == 0
    assert page.read_text() != edited


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_report_never_replaces_its_cluster_file(options: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    text = (REPOSITORY / "examples" / "g5-single-gpu.yaml").read_text()
    file.write_text(text)
    assert main(["report", str(file), "-o", str(file), *options]) == 2
    assert file.read_text() == text


def test_a_report_can_go_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(PLAIN), "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!")
    assert list(tmp_path.iterdir()) == []


# Images.


@pytest.mark.parametrize("text", ["not JSON", "[]"])
def test_a_context_file_that_cannot_be_read_is_not_replaced(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cdk.context.json").write_text(text)
    assert main(["pin-image", "--region", "us-east-1", "/images/training/latest"]) == 2
    assert Path("cdk.context.json").read_text() == text
    assert "cdk.context.json" in capsys.readouterr().err
