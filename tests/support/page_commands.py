"""The commands in shell blocks of pages: parsed by shfmt, and compared with the interfaces that they call.

The interfaces are those of the programs: the parsers of `gpu-clusters` and `gpunode`, `cdk COMMAND --help`, the
targets of the Makefile, the service models of botocore, Slurm's manual pages, and the extras of pyproject.toml.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import botocore.session
from botocore import xform_name
from typer.core import TyperCommand

from cdk_gpu_clusters._version import REPOSITORY_URL
from cdk_gpu_clusters.node.gpunode import cli as gpunode
from cdk_gpu_clusters_stacks.cli.main import main
from pages import REPOSITORY, Block
from parallelcluster.installed import run_in_parallelcluster

CDK = REPOSITORY / ".tools" / "bin" / "cdk"
#: Programs of every Linux, whose options nobody here decides.
_PLAIN = {"[", "cat", "cd", "eval", "journalctl", "mkdir", "sleep", "timeout", "torchrun", "touch"}
#: What `python -m cdk_gpu_clusters_stacks` reads of the context.
_CONTEXT = {"cluster", "deployed", "report"}
_GLOBAL_OF_AWS = {"--output", "--profile", "--query", "--region"}


@dataclass(frozen=True, slots=True)
class Command:
    """One call of a program.

    Attributes:
        words: The program and its arguments, unquoted; an expansion stays as it is written.
        source: The statement as it is written, with its redirections.
        output: The file that standard output goes to.
    """

    words: tuple[str, ...]
    source: str
    output: str | None = None


def script_of(block: Block) -> str:
    """The commands of a block: of a console those behind `$ `."""
    if block.language == "console":
        return "".join(line[2:] for line in block.text.splitlines(keepends=True) if line.startswith("$ "))
    return block.text


def commands_of(script: str) -> list[Command]:
    """Every call in a script, also inside `$(...)`, in order.

    Raises:
        AssertionError: If the script is not valid Bash.
    """
    shfmt = [str(Path(sys.executable).with_name("shfmt")), "--to-json"]
    done = subprocess.run(shfmt, input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(_calls(json.loads(done.stdout), script.encode()))


def _calls(node: Any, script: bytes) -> Iterator[Command]:
    if isinstance(node, list):
        for one in node:
            yield from _calls(one, script)
    elif isinstance(node, dict):
        call = node.get("Cmd") or {}
        if call.get("Type") == "CallExpr" and call.get("Args"):
            words = tuple(_text(word, script) for word in call["Args"])
            files = [_text(one["Word"], script) for one in node.get("Redirs", ())]
            yield Command(words, _source(node, script), files[0] if files else None)
        for value in node.values():
            yield from _calls(value, script)


def _source(node: dict[str, Any], script: bytes) -> str:
    return script[node["Pos"]["Offset"] : node["End"]["Offset"]].decode()


def _text(word: dict[str, Any], script: bytes) -> str:
    """A word or a part of one, without its quotes."""
    if "Parts" in word:
        return "".join(_text(part, script) for part in word["Parts"])
    return str(word["Value"]) if word["Type"] in {"Lit", "SglQuoted"} else _source(word, script)


def fault_of(command: Command) -> str | None:
    """What the program would not accept, or None."""
    program, *arguments = command.words
    if program in _PLAIN:
        return None
    check = _CHECKS.get(program)
    return check(arguments) if check else f"no check for the program {program!r}"


def _quietly(run: Callable[[], object]) -> str | None:
    """What a program prints if it refuses its arguments."""
    errors = StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(errors):
        try:
            status = run()
        except SystemExit as end:
            status = end.code
    return errors.getvalue() or f"exit status {status}" if status else None


def _gpu_clusters(arguments: list[str]) -> str | None:
    with patch.object(TyperCommand, "invoke", lambda _, __: None):
        return _quietly(lambda: main(arguments))


def _gpunode(arguments: list[str]) -> str | None:
    parse = ArgumentParser.parse_args

    def parse_only(parser: ArgumentParser, given: Any = None) -> Any:
        namespace = parse(parser, given)
        namespace.run = lambda _: 0
        return namespace

    with patch.object(ArgumentParser, "parse_args", parse_only):
        return _quietly(lambda: gpunode.main(arguments))


@functools.cache
def _options_of_cdk(command: str) -> frozenset[str]:
    environment = {**os.environ, "CDK_DISABLE_CLI_TELEMETRY": "true"}
    done = subprocess.run([CDK, command, "--help"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"cdk {command}"), f"cdk has no command {command}"
    return frozenset(re.findall(r"(?<!\S)--?[a-z][a-z-]*", done.stdout))


def _cdk(arguments: list[str]) -> str | None:
    command, *rest = arguments
    options = {one.partition("=")[0] for one in rest if one.startswith("-")}
    contexts = [after for option, after in pairwise(rest) if option == "-c"]
    unknown = sorted(options - _options_of_cdk(command))
    unknown += [one for one in contexts if one.partition("=")[0] not in _CONTEXT]
    return f"cdk {command} does not have {unknown}" if unknown else None


def _make(arguments: list[str]) -> str | None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = {one for one in arguments if "=" not in one}
    variables = {one.partition("=")[0] for one in arguments if "=" in one}
    unknown = targets - set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    unknown |= variables - set(re.findall(r"\$\(([A-Z]+)\)", makefile))
    return f"the Makefile does not have {sorted(unknown)}" if unknown else None


def _python(arguments: list[str]) -> str | None:
    first, *rest = arguments
    if not (REPOSITORY / first).is_file():
        return f"there is no {first}"
    source = (REPOSITORY / first).read_text(encoding="utf-8")
    unknown = [one for one in rest if one.startswith("--") and f'"{one}"' not in source]
    return f"{first} does not have {unknown}" if unknown else None


def _pip(arguments: list[str]) -> str | None:
    extras: set[str] = set()
    for project in ("pyproject.toml", "distributions/cdk-gpu-clusters/pyproject.toml"):
        table = tomllib.loads((REPOSITORY / project).read_text(encoding="utf-8"))["project"]
        extras |= {table["name"], *(f"{table['name']}[{one}]" for one in table.get("optional-dependencies", ()))}
    unknown = [one for one in arguments[1:] if not one.startswith("-") and one not in extras]
    return f"nothing here is distributed as {unknown}" if unknown or arguments[0] != "install" else None


def _npm(arguments: list[str]) -> str | None:
    pinned = json.loads((REPOSITORY / "tools/cli/package.json").read_text(encoding="utf-8"))["dependencies"]
    known = {f"{name}@{version}" for name, version in pinned.items()}
    return None if arguments[:2] == ["install", "--global"] and set(arguments[2:]) <= known else f"pinned: {known}"


def _git(arguments: list[str]) -> str | None:
    return None if arguments[0] == "show" or arguments == ["clone", REPOSITORY_URL] else "neither show nor clone"


def _uvx(arguments: list[str]) -> str | None:
    return _gpu_clusters(arguments[1:]) if arguments[0] == "gpu-clusters" else f"not ours: {arguments[0]}"


def _cfn_lint(arguments: list[str]) -> str | None:
    import cfnlint.config

    def parse() -> None:
        cfnlint.config.CliArgs(arguments)

    return _quietly(parse)


def _pcluster(arguments: list[str]) -> str | None:
    """Compare with the help of AWS ParallelCluster."""
    done = run_in_parallelcluster("-m", "pcluster.cli.entrypoint", arguments[0], "--help")
    unknown = [one for one in arguments[1:] if one.startswith("--") and f"{one} " not in done.stdout]
    return done.stderr or (f"pcluster {arguments[0]} has no {', '.join(unknown)}" if unknown else None)


def _aws(arguments: list[str]) -> str | None:
    """Compare with the service model: the operation, its options, those that are required, and shorthand values."""
    service, operation, *rest = arguments
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    if operation not in names:
        return f"{service} has no {operation}"
    shape: Any = model.operation_model(names[operation]).input_shape
    members = {f"--{xform_name(name, '-')}": (name, member) for name, member in shape.members.items()}
    given: dict[str, list[str]] = {}
    for word in rest:
        if word.startswith("--"):
            option = word.replace("--no-", "--", 1)
            given[option] = []
        else:
            given[option].append(word)
    unknown = [option for option in given if option not in members and option not in _GLOBAL_OF_AWS]
    lacking = [
        name for name in shape.required_members if name not in {members[one][0] for one in given if one in members}
    ]
    wrong = [
        f"{option} {value}"
        for option, values in given.items()
        if option in members
        for value in values
        if not _is_shorthand(value, members[option][1])
    ]
    return f"unknown {unknown}, not given {lacking}, not of the model {wrong}" if unknown or lacking or wrong else None


def _is_shorthand(value: str, shape: Any) -> bool:
    """Whether `Key=value,Key=value` names members of a structure; a value of another type is not looked at."""
    shape = shape.member if shape.type_name == "list" else shape
    if shape.type_name != "structure":
        return not shape.metadata.get("enum") or value in shape.metadata["enum"]
    members = {name.lower() for name in shape.members}
    return {pair.partition("=")[0].lower() for pair in value.split(",")} <= members


def _sacct(arguments: list[str]) -> str | None:
    """Compare with the manual page of Slurm's sacct."""
    known = json.loads((REPOSITORY / "tests/fixtures/accounting/sacct.json").read_text(encoding="utf-8"))
    options = dict(one.partition("=")[::2] for one in arguments)
    unknown = options.keys() - set(known["options"].split())
    unknown |= set(options.get("--format", "").split(",")) - {"", *known["fields"].split()}
    return f"sacct does not have {sorted(unknown)}" if unknown else None


def _kubectl(arguments: list[str]) -> str | None:
    """Objects of a published kind are listed as JSON."""
    match arguments:
        case ["get", kind, "--all-namespaces", "-o", "json"] | ["get", kind, "-o", "json"]:
            plural, _, group = kind.partition(".")
            known = (REPOSITORY / "tests" / "crds" / f"{group}_{plural.removesuffix('s')}.yaml").exists()
            return None if known else f"no kind {kind}"
    return f"kubectl {' '.join(arguments)} is not known here"


_CHECKS: dict[str, Callable[[list[str]], str | None]] = {
    ".venv/bin/python": _python,
    "aws": _aws,
    "cdk": _cdk,
    "cfn-lint": _cfn_lint,
    "git": _git,
    "gpu-clusters": _gpu_clusters,
    "gpu-peers": lambda arguments: _gpunode(["peers", *arguments]),
    "gpunode": _gpunode,
    "kubectl": _kubectl,
    "make": _make,
    "npm": _npm,
    "pcluster": _pcluster,
    "pip": _pip,
    "python": _python,
    "sacct": _sacct,
    "uvx": _uvx,
}
