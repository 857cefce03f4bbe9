"""Every block of every page is run by a test, or states why not; commands name what their programs have."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from page_commands import commands_of, fault_of, script_of
from pages import EVERY_PAGE, REPOSITORY, RUN_BY, Block, blocks_of, name_of, run_by

BLOCKS = [one for page in EVERY_PAGE for one in blocks_of(page)]
OF_THE_SHELL = [one for one in BLOCKS if one.language in {"sh", "console"}]


def test_no_page_is_missed() -> None:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    found = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
    assert sorted(found) == sorted(name_of(page) for page in EVERY_PAGE)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_is_run_or_states_why_not(block: Block) -> None:
    tests = [test for test, runs in RUN_BY.items() if runs(block)]
    if block.comment is not None and not block.is_run:
        assert block.language in {"sh", "console"}, "code and files can always be read by a test"
        return
    assert tests, f"{block}: name a test in RUN_BY, or write `<!-- not run: REASON -->` above the block"
    for test in tests:
        file = REPOSITORY / "tests" / test
        assert "run_by(__file__)" in file.read_text(encoding="utf-8"), f"{test} does not take its blocks from run_by"


def test_no_fence_is_missed() -> None:
    fences = sum(len(re.findall(r"^ *(?:```|~~~)", page.read_text("utf-8"), re.MULTILINE)) for page in EVERY_PAGE)
    assert fences == 2 * len(BLOCKS)
    assert len(BLOCKS) > 100


@pytest.mark.parametrize("block", OF_THE_SHELL, ids=str)
def test_commands_have_what_their_programs_have(block: Block) -> None:
    commands = commands_of(script_of(block))
    assert [fault for command in commands if (fault := fault_of(command))] == []
    unused = [one for one in block.left_out if not any(" ".join(command.words).startswith(one) for command in commands)]
    assert unused == []


@pytest.mark.parametrize(
    "command",
    [
        "gpu-clusters chekc cluster.yaml",
        "gpu-clusters plan --agianst a.yaml b.yaml",
        "gpunode verify --yaml",
        "gpu-peers --format slrum",
        "cdk deploy --al",
        "cdk deploy -c clutser=cluster.yaml",
        "make tset",
        "make test TEST=tests/unit",
        "python tools/dmeo.py",
        "python tools/demo.py --edti a b",
        'pip install "gpu-clusters[lvie]"',
        "npm install --global aws-cdk@1.0.0",
        "git clone https://example.com/cdk-gpu-clusters",
        "uvx gpu-clutsers --help",
        "cfn-lint --append-rulse a -- template.yaml",
        "aws autoscaling resume-process --auto-scaling-group-name GROUP",
        "aws autoscaling resume-processes --scaling-processes Launch",
        "aws autoscaling resume-processes --auto-scaling-group-name GROUP --processes Launch",
        "aws autoscaling create-or-update-tags --tags ResourceID=GROUP,Name=a",
        "aws ec2 create-application-status-check --protocol tpc --port 80",
        "gpuclusters check",
    ],
)
def test_a_wrong_command_is_found(command: str) -> None:
    (parsed,) = commands_of(command)
    assert fault_of(parsed)


def test_a_script_is_parsed_like_a_shell_does() -> None:
    commands = commands_of('A=1 x "b $C" \'d\' >e && eval "$(f g)"  # h\n')
    assert [(one.words, one.output) for one in commands] == [
        (("x", "b $C", "d"), "e"),
        (("eval", "$(f g)"), None),
        (("f", "g"), None),
    ]
    assert commands[0].source == "A=1 x \"b $C\" 'd' >e"
    with pytest.raises(AssertionError, match="reached EOF"):
        commands_of('x "')


def test_a_new_block_is_not_accepted_unseen() -> None:
    block = Block("docs/new.md", 1, "json", "{}\n", None)
    with pytest.raises(AssertionError, match="name a test in RUN_BY"):
        test_a_block_is_run_or_states_why_not(block)


def test_the_layers_of_the_contributing_page_are_those_that_are_checked() -> None:
    (drawn,) = run_by(__file__)
    *layers, app = drawn.text.strip().split(" -> ")
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (checked,) = (one["layers"] for one in contracts if one.get("containers") == ["cdk_gpu_clusters"])
    places = {name.strip(" ()"): -at for at, names in enumerate(checked) for name in names.split(":")}
    inner = [name for name in layers if name in places]
    assert inner == sorted(inner, key=places.__getitem__) == ["catalogue", "rules", "kubernetes", "node", "fleet"]
    assert layers[len(inner) :] == ["constructs", "stacks"]
    assert app == "app.py"
