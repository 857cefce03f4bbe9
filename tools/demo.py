"""Deploy clusters with the real CDK CLI to an AWS emulator on loopback, and show what exists then.

    python tools/demo.py                                      every example is synthesized; three clusters that train
                                                              and serve live their lives, with an edit and a destroy
    python tools/demo.py examples/p4d-new-reservation.yaml    that cluster is deployed
    python tools/demo.py cluster.yaml --edit 'nodes: 4' 'nodes: 8' --destroy
    python tools/demo.py --app "python my_app.py"             any CDK app

No AWS account, no credentials, no Docker. A Capacity Block that starts later is lived through: the emulator's clock is
moved to its delivery and past its warning.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from _demo_cli import APP, REPOSITORY, StepFailed, synthesize
from _demo_story import Story
from cdk_gpu_clusters_stacks.terminal import progress

EXAMPLES = REPOSITORY / "examples"
SEVENTHS = "1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb"
STORIES = (
    Story(
        cluster=EXAMPLES / "p5-lustre.yaml",
        edits=(
            ("nodes: 4", "nodes: 6"),
            (
                "checkpoints: checkpoints\n",
                "checkpoints: checkpoints\n      root_volume: { size_gib: 500 }\n",
            ),
            ("storage_capacity_gib: 38400", "storage_capacity_gib: 57600"),
        ),
        destroys=True,
    ),
    Story(
        cluster=EXAMPLES / "train-and-serve.yaml",
        edits=(("nodes: 2", "nodes: 3"), ("/fsx/assistant/v1", "/fsx/assistant/v2")),
        destroys=True,
    ),
    Story(
        cluster=EXAMPLES / "p4d-mig-56-slices.yaml",
        edits=((SEVENTHS, "3g.20gb,4g.20gb"), ("super-resolution:1.4.0", "super-resolution:1.5.0")),
        destroys=True,
    ),
)


def main() -> int:
    """Run the demonstration; the exit status is 1 if any step failed."""
    options = _options()
    started = time.monotonic()
    try:
        if options.cluster is None and options.app is None:
            _synthesize_examples()
        for story in _stories(options):
            print(f"\n==== {story.cluster.name if story.cluster else options.app}")
            story.tell()
    except StepFailed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    print(f"\ndone in {time.monotonic() - started:.0f} s")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cluster", nargs="?", type=Path, help="a cluster file; three examples by default")
    parser.add_argument("--app", help="command of a CDK app, in place of a cluster file")
    parser.add_argument(
        "--edit",
        nargs=2,
        action="append",
        default=[],
        metavar=("OLD", "NEW"),
        help="replace a text of the cluster file, diff and deploy again; may be given several times",
    )
    parser.add_argument("--destroy", action="store_true", help="destroy at the end what is not protected")
    parser.add_argument("--keep", action="store_true", help="leave the emulator running until Enter is pressed")
    return parser.parse_args()


def _stories(options: argparse.Namespace) -> tuple[Story, ...]:
    if options.cluster is None and options.app is None:
        return STORIES
    return (
        Story(
            cluster=options.cluster,
            app=shlex.split(options.app) if options.app else APP,
            edits=[(before, after) for before, after in options.edit],
            destroys=options.destroy,
            keeps_running=options.keep,
        ),
    )


def _synthesize_examples() -> None:
    """Synthesize every example, as many at a time as there are processors: each is a process of its own."""
    examples = sorted(EXAMPLES.glob("*.yaml"))
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(os.cpu_count()) as pool,
        progress("synthesizing the examples") as on_done,
    ):
        all_seconds = pool.map(partial(_synthesize, folder), examples)
        for number, (example, seconds) in enumerate(zip(examples, all_seconds, strict=True), start=1):
            on_done(number, len(examples))
            print(f"-- synthesize {example.relative_to(REPOSITORY)} ... {seconds:.1f} s", flush=True)


def _synthesize(folder: str, example: Path) -> float:
    started = time.monotonic()
    environment = {"CDK_VALIDATION": "false", **os.environ}
    synthesize(list(APP), Path(folder, example.stem), example, environment)
    return time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
