"""`gpu-clusters`: the command, with one module for each of its sub-commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from cdk_gpu_clusters._version import __version__

#: Sub-commands: the module of `cdk_gpu_clusters.cli` that has `add_arguments` and `run`, and what it does.
COMMANDS = {
    "lint": ("lint", "look at CloudFormation templates with the GPU rules"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Arguments; those of the process by default.

    Returns:
        The exit status: 0 if all is well, 1 for findings, 2 for input that cannot be used.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="gpu-clusters", description="GPU clusters on AWS")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name in given[:1]:  # only the sub-command that runs is imported
            loaded = import_module(f"cdk_gpu_clusters.cli.{module}")
            loaded.add_arguments(command)
            command.set_defaults(run=loaded.run)
    parsed = parser.parse_args(given)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:  # such as `gpu-clusters lint … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
