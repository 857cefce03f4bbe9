"""Run the app and the real CDK CLI against an emulated account, one timed step at a time."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cdk_gpu_clusters.testing import Emulator
from cdk_gpu_clusters_stacks.terminal import can_be_redrawn, steps

REPOSITORY = Path(__file__).resolve().parent.parent
APP = (sys.executable, "-m", "cdk_gpu_clusters_stacks")
_Result = TypeVar("_Result")


class StepFailed(Exception):
    """A step whose program did not succeed, or that left behind what it should not."""


def step(title: str, action: Callable[[], _Result]) -> _Result:
    """Do one step and print how long it took; on a terminal also how long it takes."""
    head = f"-- {title} ... "
    if can_be_redrawn():
        end = head
    else:
        print(head, end="", flush=True)
        end = ""
    started = time.monotonic()
    try:
        with steps(title):
            result = action()
    except StepFailed:
        print(f"{end}failed", flush=True)
        raise
    print(f"{end}{time.monotonic() - started:.1f} s", flush=True)
    return result


def synthesize(command: list[str], assembly: Path, cluster: Path | None, environment: dict[str, str]) -> None:
    """Synthesize with no CLI in between: an app writes where CDK_OUTDIR says.

    Raises:
        StepFailed: If the app does not succeed.
    """
    shutil.rmtree(assembly, ignore_errors=True)
    context = json.dumps({} if cluster is None else {"cluster": str(cluster)})
    _checked(command, environment | {"CDK_OUTDIR": str(assembly), "CDK_CONTEXT_JSON": context})


@dataclass(frozen=True, slots=True)
class Cli:
    """The CDK CLI, on one assembly and one account."""

    account: Emulator
    assembly: Path

    def __call__(self, *arguments: str) -> str:
        """Run a command and give its output.

        Raises:
            StepFailed: If it does not succeed.
        """
        return _checked(self._command(*arguments), self._environment)

    def refused(self, *arguments: str) -> str:
        """Run a command that must not succeed, and give its output.

        Raises:
            StepFailed: If it succeeds.
        """
        done = _run(self._command(*arguments), self._environment)
        if done.returncode == 0:
            raise StepFailed(f"cdk {shlex.join(arguments)} was not refused")
        return done.stdout + done.stderr

    def _command(self, *arguments: str) -> list[str]:
        program = os.environ.get("CDK_CLI", str(REPOSITORY / ".tools" / "node_modules" / ".bin" / "cdk"))
        if not Path(program).exists():
            raise StepFailed(f"there is no CDK CLI at {program}; run `make env`, or set CDK_CLI")
        return [program, *arguments, "--app", str(self.assembly), "--no-notices"]

    @property
    def _environment(self) -> dict[str, str]:
        environment = self.account.environment | {"CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true"}
        if "JSII_NODE" in environment:
            node = str(Path(environment["JSII_NODE"]).parent)
            environment["PATH"] = os.pathsep.join([node, environment["PATH"]])
        return environment


def _checked(command: list[str], environment: dict[str, str]) -> str:
    done = _run(command, environment)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise StepFailed(f"{shlex.join(command)} ended with status {done.returncode}")
    return done.stdout + done.stderr


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
