"""The sub-commands, each imported when it runs: `--help` reads only the lines below."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from cdk_gpu_clusters._version import __version__

if TYPE_CHECKING:
    from typer._click import Command, Context

#: Sub-commands and what each does. Its module has the same name, with `_` for `-` and after a keyword, and an `app`.
COMMANDS = {
    "advise": "Say how much memory a model takes, and which nodes hold it.",
    "capacity": "Search, wait for and buy Capacity Blocks.",
    "catalogue": "List, filter and compare instance types.",
    "check": "Check cluster files and templates: one gate for all rules.",
    "cost": "Show what a cluster and its jobs cost.",
    "dashboard": "Write the dashboard of a cluster for Grafana.",
    "doctor": "Compare a live cluster with its plan.",
    "explain": "Explain a rule by its id, or why nodes are missing.",
    "export": "Write a cluster file as files of another tool.",
    "import": "Make a cluster file of one of another tool.",
    "init": "Write a first cluster file or a CDK project.",
    "jobs": "List, follow and stop the jobs of a fleet.",
    "lint": "Look at CloudFormation templates with the GPU rules.",
    "manifests": "Write what a cluster on EKS needs inside Kubernetes.",
    "mig": "List MIG profiles; pack MIG instances onto the fewest GPUs.",
    "pin-image": "Pin the image behind an SSM parameter.",
    "plan": "Show what a cluster file makes and costs, before it is made.",
    "preflight": "Check that an account can take a cluster.",
    "report": "Draw a cluster file on one page.",
    "run": "Run a job on all nodes of a fleet, and follow it.",
    "schema": "Print the JSON Schema of the cluster file.",
    "status": "Show a live cluster: nodes, jobs, capacity, alarms, cost.",
}


class LazyGroup(TyperGroup):
    """A group that knows its sub-commands by name and line, and loads the one that runs."""

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - as in the base class
        """The names of all sub-commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002
        """A sub-command with its line of help, but without what it does."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The sub-command that the arguments name, loaded; a wrong name proposes the nearest."""
        near = get_close_matches(args[0], COMMANDS, n=1) if args and args[0] not in COMMANDS else ()
        if near:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _load(command.name or ""), rest


def module_of(name: str) -> ModuleType:
    """The module of a sub-command."""
    return import_module(f"{__package__}.{name.replace('-', '_')}{'_' if iskeyword(name) else ''}")


def _load(name: str) -> Any:
    module = module_of(name)
    command = typer.main.get_command(module.app)
    command.name, command.short_help = name, COMMANDS[name]
    _know_short_help(command)
    return command


def _know_short_help(command: Any) -> None:
    """Let a command and its own sub-commands take `-h` as `--help`."""
    command.context_settings["help_option_names"] = ["-h", "--help"]
    for one in getattr(command, "commands", {}).values():
        _know_short_help(one)


def new_app(**options: Any) -> typer.Typer:
    """A sub-command's `app`: plain help, plain errors; `typer.Typer`'s own options."""
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, **options)


def examples(*commands: str, then: str = "") -> str:
    """The end of a command's help: examples, each in a line of its own that can be copied, and a paragraph."""
    heading = "Example:" if len(commands) == 1 else "Examples:"
    # A backspace keeps the line breaks of a paragraph.
    lines = "\n".join(["\b", heading, *(f"  {command}" for command in commands)])
    return f"{lines}\n\n{then}" if then else lines


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpu-clusters {__version__}")
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
]


def build_group() -> Command:
    """The command with all its sub-commands and shell completion."""
    app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True)

    @app.callback(help="GPU clusters on AWS: see them before you pay for them.")
    def _root(version: _Version = False) -> None:
        del version

    group = typer.main.get_command(app)
    _know_short_help(group)
    return group
