"""Deploy a cluster file with the real CDK CLI to an AWS emulator on loopback, and show what exists then.

    python tools/demo.py                                      every example is synthesized, one is deployed
    python tools/demo.py examples/p4d-new-reservation.yaml    that cluster
    python tools/demo.py --app "python my_app.py"             any CDK app

No AWS account, no credentials, no Docker. A Capacity Block that starts later is lived through: the emulator's clock is
moved to its delivery and to its warning.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from _demo_seed import block_times, seeds_of
from _demo_view import brief_lines, lines
from cdk_gpu_clusters.testing import Emulator
from cdk_gpu_clusters.testing.emulator.clock import parse_time
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec

REPOSITORY = Path(__file__).resolve().parent.parent
EXAMPLES = REPOSITORY / "examples"
DEFAULT = EXAMPLES / "p5-capacity-block.yaml"
DRAIN = timedelta(minutes=39)  # one minute after EC2's warning, which comes 40 minutes before a block ends


class StepFailed(Exception):
    """A step whose program did not succeed."""


def main() -> int:
    """Run the demonstration; the exit status is 1 if any step failed."""
    options = _options()
    try:
        if options.cluster is None and options.app is None:
            for example in sorted(EXAMPLES.glob("*.yaml")):
                _synthesize(example)
        _deploy(options)
    except StepFailed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cluster", nargs="?", type=Path, help=f"a cluster file; {DEFAULT.name} by default")
    parser.add_argument("--app", help="command of a CDK app, in place of a cluster file")
    parser.add_argument("--update", action="store_true", help="deploy a second time, and diff before it")
    parser.add_argument("--destroy", action="store_true", help="destroy every stack at the end")
    parser.add_argument(
        "--keep", action="store_true", help="leave the emulator running until Enter is pressed"
    )
    return parser.parse_args()


def _deploy(options: argparse.Namespace) -> None:
    spec = None if options.app else load_cluster(options.cluster or DEFAULT)
    with tempfile.TemporaryDirectory() as folder, _emulator(spec) as account:
        assembly = Path(folder, "cdk.out")
        cdk = _cli(account, assembly)
        command = shlex.split(options.app) if options.app else _app_command()
        _step(
            "synthesize", lambda: _run_app(command, assembly, options.cluster or DEFAULT, account.environment)
        )
        _step("cdk bootstrap", lambda: cdk("bootstrap"))
        _step("cdk deploy --all", lambda: cdk("deploy", "--all", "--require-approval", "never"))
        _show("after the deploy", account)
        times = block_times(spec) if spec else None
        if times:
            _live_through(account, *times)
        if options.update:
            _step("cdk diff --all", lambda: cdk("diff", "--all"))
            _step("cdk deploy --all, again", lambda: cdk("deploy", "--all", "--require-approval", "never"))
            _show("after the second deploy", account)
        if options.keep:
            print(
                "\n"
                + "\n".join(f"export {key}={shlex.quote(value)}" for key, value in account.settings.items())
            )
            input("The emulator runs; press Enter to end it. ")
        if options.destroy:
            _step("cdk destroy --all", lambda: cdk("destroy", "--all", "--force"))
            _check_left(account, _retained(assembly))


def _retained(assembly: Path) -> set[tuple[str, str]]:
    """Stack and logical id of what the templates keep on purpose."""
    return {
        (path.name.removesuffix(".template.json"), logical_id)
        for path in assembly.glob("*.template.json")
        for logical_id, resource in json.loads(path.read_text())["Resources"].items()
        if str(resource.get("DeletionPolicy", "")).startswith("Retain")
    }


def _check_left(account: Emulator, retained: set[tuple[str, str]]) -> None:
    """Say what a destroy kept.

    Raises:
        StepFailed: If anything is left that no template keeps on purpose.
    """
    for one in account.resources():
        if one["stack"] == "CDKToolkit":
            continue
        if (one["stack"], one["logical_id"]) not in retained:
            raise StepFailed(f"left over after destroy: {one['physical_id']}")
        print(f"kept on purpose (DeletionPolicy): {one['type']} {one['physical_id']}")


def _emulator(spec: ClusterSpec | None) -> Emulator:
    if spec is None:
        return Emulator()
    if spec.account is None:
        return Emulator(region=spec.region, seed=seeds_of(spec))
    return Emulator(account=spec.account, region=spec.region, seed=seeds_of(spec))


def _live_through(account: Emulator, starts_at: str, ends_at: str) -> None:
    """Move the clock to a block's delivery, and past its warning."""
    for title, moment in (
        ("when the block is delivered", parse_time(starts_at)),
        ("after the block's warning", parse_time(ends_at) - DRAIN),
    ):
        for happened in account.move_clock(moment):
            print(f"{happened['time']} {happened['kind']}: {happened['subject']}")
        _show(f"{title}, {account.now}", account, brief_lines)
        history = account.history()
        faults = [one["error"] for one in history["deliveries"] if "error" in one]
        faults += [one["cause"] for one in history["executions"] if one["status"] != "SUCCEEDED"]
        if faults:
            raise StepFailed("; ".join(faults))


def _show(title: str, account: Emulator, view: Callable[[Emulator], Iterator[str]] = lines) -> None:
    print(f"\n== {title}")
    for line in view(account):
        print(line)
    print(flush=True)


def _step(title: str, action: Callable[[], None]) -> None:
    print(f"-- {title} ...", end=" ", flush=True)
    started = time.monotonic()
    try:
        action()
    except StepFailed:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - started:.1f} s", flush=True)


def _app_command() -> list[str]:
    return [sys.executable, "-m", "cdk_gpu_clusters_stacks"]


def _run_app(command: list[str], outdir: Path, cluster: Path, environment: dict[str, str]) -> None:
    """Synthesize with no CLI in between: an app writes where CDK_OUTDIR says."""
    context = f'{{"cluster": "{cluster}"}}'
    _run(command, environment | {"CDK_OUTDIR": str(outdir), "CDK_CONTEXT_JSON": context})


def _synthesize(example: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"CDK_VALIDATION": "false", **os.environ}
        title = f"synthesize {example.relative_to(REPOSITORY)}"
        _step(title, lambda: _run_app(_app_command(), Path(folder), example, settings))


def _cli(account: Emulator, assembly: Path) -> Callable[..., None]:
    program = os.environ.get("CDK_CLI", str(REPOSITORY / ".tools" / "node_modules" / ".bin" / "cdk"))
    if not Path(program).exists():
        raise StepFailed(f"there is no CDK CLI at {program}; run `make env`, or set CDK_CLI")
    environment = account.environment | {"CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true"}
    if "JSII_NODE" in environment:
        node = str(Path(environment["JSII_NODE"]).parent)
        environment["PATH"] = os.pathsep.join([node, environment["PATH"]])

    def cdk(*arguments: str) -> None:
        _run([program, *arguments, "--app", str(assembly), "--no-notices"], environment)

    return cdk


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise StepFailed(f"{shlex.join(command)} ended with status {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
