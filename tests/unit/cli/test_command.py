"""The command as a whole: help, version, completion, sub-commands that load when they run, a missing extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from cdk_gpu_clusters_stacks.cli.group import COMMANDS, module_of
from cdk_gpu_clusters_stacks.cli.main import main

HEAVY = ("aws_cdk", "boto3", "botocore", "jsii", "pydantic", "rich")


def loaded_after(*lines: str) -> dict[str, set[str]]:
    """The heavy modules that are loaded after each of these runs of the command, one after the other."""
    program = (
        "import sys\n"
        "from cdk_gpu_clusters_stacks.cli.main import main\n"
        "for line in sys.argv[1:]:\n"
        "    main(line.split())\n"
        f"    print('loaded:', line, '|', *({set(HEAVY)!r} & sys.modules.keys()), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *lines], capture_output=True, text=True, check=True)
    told = [line.removeprefix("loaded: ") for line in done.stderr.splitlines() if line.startswith("loaded: ")]
    return {line.strip(): set(modules.split()) for line, _, modules in (one.partition("|") for one in told)}


#: Takes away what Python has on Unix only (Python documentation: "Unix Specific Services", `os.EX_OK`, `signal`), then
#: runs the command. The libraries come first: they look for it themselves.
WITHOUT_UNIX = """
import sys, os, signal, pydantic, rich.console, rich.progress, ruamel.yaml, subprocess, tempfile, typer
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "grp", "pwd", "resource", "syslog", "termios"}:
            raise ModuleNotFoundError(name)
for name in {"fcntl", "grp", "pwd", "resource", "syslog", "termios"}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
for module, names in {
    os: {"chown", "geteuid", "getuid", "killpg", "statvfs", "sysconf", "uname"} | {n for n in dir(os) if n[:3] == "EX_"},
    signal: {"SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1"},
}.items():
    for name in names:
        delattr(module, name)
from cdk_gpu_clusters_stacks.cli.main import main
for line in sys.argv[1:]:
    print("status", main(line.split()), line, file=sys.stderr)
"""


def test_they_need_nothing_that_only_unix_has() -> None:
    lines = [
        "plan p5-lustre.yaml",
        "plan p4d-mig-56-slices.yaml",
        "report eks-g5-dev.yaml -o -",
        "check train-and-serve.yaml",
        "manifests eks-g5-dev.yaml --json",
        "run gpu --on slurm --nodes 2 --dry-run -- true",
        "preflight --help",
        "init -o -",
    ]
    examples = Path(__file__).parents[3] / "examples"
    command = [sys.executable, "-c", WITHOUT_UNIX, *lines]
    done = subprocess.run(command, cwd=examples, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    statuses = [line for line in done.stderr.splitlines() if line.startswith("status ")]
    assert statuses == [f"status 0 {line}" for line in lines], done.stderr


def test_help_lists_every_sub_command_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    for name, line in COMMANDS.items():
        assert f"{name} " in printed
        assert line in " ".join(printed.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_sub_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"Usage: gpu-clusters {name}" in printed
    assert f"gpu-clusters {name} " in printed.partition("Usage:")[2].partition("Usage:")[0]


def test_help_loads_neither_cdk_nor_boto3_nor_what_draws_tables() -> None:
    assert loaded_after("--help") == {"--help": set()}


def test_the_help_of_a_sub_command_loads_neither_cdk_nor_boto3() -> None:
    loaded = loaded_after(*(f"{name} --help" for name in COMMANDS))
    assert {line: modules for line, modules in loaded.items() if not modules <= {"pydantic", "rich"}} == {}
    assert len(loaded) == len(COMMANDS)


def test_the_probe_sees_what_is_loaded() -> None:
    """The tests above can fail."""
    line = "pin-image --region us-east-1 /no/such/parameter"
    assert "boto3" in loaded_after(line)[line]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_sub_command_stands_in_the_module_of_its_name(name: str) -> None:
    """With `_` for `-`, and after a keyword of Python."""
    module = module_of(name)
    assert module.__name__.rpartition(".")[2].rstrip("_") == name.replace("-", "_")
    assert module.app


def test_a_wrong_name_is_one_line_and_proposes_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lnt"]) == 2
    error = capsys.readouterr().err
    assert "No such command 'lnt'" in error
    assert "Traceback" not in error


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("gpu-clusters ")


@pytest.fixture(scope="module")
def bash() -> str:
    """A program for bash that loads the completion that the command prints, and completes its arguments.

    bash's manual, "Programmable Completion": the function gets the command, the word and the one before it, finds all
    words in COMP_WORDS, and leaves its proposals in COMPREPLY.
    """
    script = subprocess.run(
        [sys.executable, "-m", "cdk_gpu_clusters_stacks.cli.main", "--show-completion", "bash"],
        # Tests may run below no shell that could be detected.
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return f"""PATH={Path(sys.executable).parent}:$PATH
{script}
read -r _ _ _ _ function _ < <(complete -p gpu-clusters)
COMP_WORDS=(gpu-clusters "$@"); COMP_CWORD=$#
"$function" gpu-clusters "${{COMP_WORDS[-1]}}" "${{COMP_WORDS[-2]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("line", "proposals"),
    [
        ("pl", {"plan"}),
        ("jobs l", {"list", "logs"}),
        ("init --type p5e", {"p5e.48xlarge", "p5en.48xlarge"}),
        ("catalogue list --family p4", {"p4d", "p4de"}),
        ("catalogue list --region eu-west-1", {"eu-west-1"}),
        ("mig profiles H200", {"H200-141GB"}),
        ("preflight --region us-east-", {"us-east-1", "us-east-2"}),
        ("run trainers --region eu-south-2", {"eu-south-2"}),
        ("jobs stop trainers --region eu-south-2", {"eu-south-2"}),
        ("explain GPU-EFA-030", {"GPU-EFA-030"}),
        ("lint --ignore GPU-EFA-030", {"GPU-EFA-030"}),
        ("init --example g5-s", {"g5-single-gpu"}),
        ("check --fail-on w", {"warning"}),
        ("run trainers --imag", {"--image"}),
        ("cost cluster.yaml --usd", {"--usd-per-node-hour"}),
    ],
)
def test_bash_completes_names_and_values(line: str, proposals: set[str], bash: str) -> None:
    done = subprocess.run(
        ["bash", "-c", bash, "bash", *line.split()], capture_output=True, text=True, check=False, timeout=60
    )
    assert set(done.stdout.split()) == proposals, done.stderr


def test_the_schema_is_a_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(schema)
    assert "region" in schema["properties"]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_in_lines_that_can_be_copied(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrapped text breaks at hyphens, also at those of options."""
    assert main([name, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    _, *commands = lines[next(n for n, line in enumerate(lines) if line.strip() in ("Example:", "Examples:")) :]
    shown = [line.strip() for line in commands[: commands.index("")] if line] if "" in commands else commands
    assert shown
    assert all(line.strip().startswith(f"gpu-clusters {name}") for line in shown)
