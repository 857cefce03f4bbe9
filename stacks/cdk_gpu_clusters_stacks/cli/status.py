"""`gpu-clusters status`: a live cluster in the terminal, and as a page."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdk_gpu_clusters_stacks import terminal

from . import files, output
from .account import Profile, account_of
from .group import examples, new_app

if TYPE_CHECKING:
    from rich.text import Text

    from cdk_gpu_clusters_stacks.spec import ClusterSpec
    from cdk_gpu_clusters_stacks.status import Queue, Status

app = new_app()
#: Narrower than other text: a view that stays open often has half a screen.
_LEAST_WIDTH, _MOST_WIDTH = 40, 200
_LEAST_SECONDS = 5
_STYLES = (
    (r"^[^ ].*$", "bold cyan"),
    (r"^  (failing|problem) ", "bold red"),
    (r"\d+ (failing|missing)\b", "bold red"),
    (r"^  cannot tell:", "yellow"),
    (r"drain (began|s in [0-9]+ min)\b", "yellow"),
)


@app.command(
    epilog=examples(
        "gpu-clusters status cluster.yaml",
        "gpu-clusters status cluster.yaml --watch 30",
        "gpu-clusters status cluster.yaml --html status.html",
        "gpu-clusters status cluster.yaml --queues queues.json",
        then="Exit status: 0 nothing is wrong, 1 something is, 2 unusable file or credentials, no fleet found.",
    )
)
def status(
    file: output.ClusterFile,
    watch: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", min=_LEAST_SECONDS, help="Read and draw again, until Ctrl-C; on a terminal."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page instead; - for standard output.")
    ] = None,
    queues: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Queues of Kueue, from kubectl get clusterqueues.kueue.x-k8s.io -o json: shows who uses what; - reads "
            "standard input.",
        ),
    ] = None,
    force: files.Force = False,
    profile: Profile = None,
    print_policy: Annotated[
        bool, typer.Option("--print-policy", help="Print the IAM policy that the reading needs, and ask nothing.")
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Show a live cluster: nodes by state, jobs, the end of its capacity, raised alarms, and what it costs a day.

    The account is only read.
    """
    if sum((watch is not None, html is not None, print_policy, as_json)) > 1:
        output.refuse("status: give only one of --watch, --html, --print-policy and --json")
    if force and html is None:
        output.refuse("status: --force needs --html")
    if queues is not None and (watch is not None or print_policy):
        output.refuse("status: --queues is one reading; give it without --watch and --print-policy")
    given = _queues(queues, file)
    spec = output.read(file, as_json=as_json)
    if print_policy:
        from cdk_gpu_clusters_stacks.status import policy_for_status

        output.write_json(policy_for_status(spec))
        return
    if html is not None and html.exists() and file.exists() and html.samefile(file):
        output.refuse(f"{html} is the cluster file; give another --html")
    if watch is not None and terminal.can_be_redrawn(stdout=True):
        _watch(spec, profile, watch)
        return
    found = _ask(spec, profile)
    found.queues = given
    if as_json:
        output.write_document(output.as_json(found))
    elif html is not None:
        _write_page(found, html, force=force)
    else:
        _print(found)
    if not found.fleets:
        why = "could be read, see above" if found.unread else f"is deployed; deploy it: {_deployment(spec)}"
        output.refuse(f"status: no fleet of {found.cluster} in {found.region} {why}")
    output.leave(0 if found.is_well else 1)


def _deployment(spec: ClusterSpec) -> str:
    """The commands that make the nodes."""
    deploy = "cdk deploy --all"
    if spec.slurm_section is not spec.parallelcluster:
        return deploy
    return f"{deploy}, gpu-clusters export, and pcluster create-cluster --cluster-name {spec.name}"


def _queues(file: Path | None, cluster: Path) -> list[Queue] | None:
    if file is None:
        return None
    if str(file) == str(cluster) == output.STREAM:
        output.refuse("status: only one of the cluster file and --queues can be standard input")
    from cdk_gpu_clusters_stacks.cost import NoAccounting
    from cdk_gpu_clusters_stacks.status import read_queues

    try:
        return read_queues(output.read_text(file))
    except NoAccounting as wrong:
        output.refuse_all(str(file), wrong.faults)


def _ask(spec: ClusterSpec, profile: str | None, *, shows_steps: bool = True) -> Status:
    """The state now; a new account each time, which has no earlier answers."""
    from cdk_gpu_clusters_stacks.status import read_status

    with account_of(spec, profile, command="status") as account:
        if not shows_steps:
            return read_status(spec, account, now=datetime.now(UTC))
        with terminal.steps(f"asking {spec.region}"):
            return read_status(spec, account, now=datetime.now(UTC))


def _text(found: Status) -> str:
    from cdk_gpu_clusters._untrusted import printable
    from cdk_gpu_clusters_stacks.status import status_text

    return printable(status_text(found, width=terminal.text_width(_LEAST_WIDTH, _MOST_WIDTH)))


def _print(found: Status) -> None:
    text = _text(found)
    printer = terminal.console()
    if printer.is_terminal:
        printer.print(_styled(text), soft_wrap=True, end="")
    else:
        output.write(text)


def _styled(text: str) -> Text:
    from rich.text import Text

    whole = Text()
    for line in text.splitlines():
        shown = Text(line)
        for pattern, style in _STYLES:
            shown.highlight_regex(pattern, style)
        whole.append_text(shown).append("\n")
    return whole


def _watch(spec: ClusterSpec, profile: str | None, seconds: int) -> None:
    """Draw the state again and again until Ctrl-C; what is longer than the terminal is cut at its end."""
    from rich.live import Live

    stops = _Interrupts()
    before = signal.signal(signal.SIGINT, stops.take)
    try:
        with Live(console=terminal.console(), auto_refresh=False, vertical_overflow="ellipsis") as live:
            while True:
                with stops.deferred():
                    found = _ask(spec, profile, shows_steps=False)
                live.update(_styled(_text(found)), refresh=True)
                time.sleep(seconds)
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGINT, before)


class _Interrupts:
    """Ctrl-C, which waits for the answers of AWS: an interrupt may leave a lock of their threads held without end.

    The second Ctrl-C does not wait. Source: python/cpython#74174 and #148874, an interrupt between taking a lock and
    the block that releases it.
    """

    def __init__(self) -> None:
        self._is_deferred = self._has_come = False

    def take(self, *_: object) -> None:
        """Handle a signal."""
        if self._has_come or not self._is_deferred:
            raise KeyboardInterrupt
        self._has_come = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Let the first one wait for the end of a block."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        if self._has_come:
            raise KeyboardInterrupt


def _write_page(found: Status, page: Path, *, force: bool) -> None:
    from cdk_gpu_clusters_stacks.report_page import status_html

    text = status_html(found)
    if str(page) == output.STREAM:
        output.write(text)
        return
    files.write_page(page, text, force=force)
    output.write(f"wrote {page} ({len(text.encode()) / 1000:.0f} kB)\n")
