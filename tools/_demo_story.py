"""The life of one cluster in an emulated account: deployed, lived through, edited, destroyed."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from _demo_cli import APP, Cli, StepFailed, step, synthesize
from _demo_destroy import destroy
from _demo_diff import changes
from _demo_seed import block_times, seeds_of
from _demo_view import brief_lines, lines
from cdk_gpu_clusters.testing import Emulator
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from gpu_clusters_emulator.clock import parse_time

DRAIN = timedelta(minutes=34)  # EC2 warns 40 minutes before a block ends; nodes have five minutes to drain
Edit = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happens to one cluster.

    Attributes:
        cluster: Its file; None for another app.
        app: Command of the app.
        edits: Texts of the cluster file and what takes their place, for a second deploy.
        destroys: Whether it is destroyed at the end.
        keeps_running: Whether to wait for Enter before the end.
    """

    cluster: Path | None
    app: Sequence[str] = APP
    edits: Sequence[Edit] = ()
    destroys: bool = False
    keeps_running: bool = False

    def tell(self) -> None:
        """Let it happen.

        Raises:
            StepFailed: If a step does not end as it should.
        """
        spec = None if self.cluster is None else load_cluster(self.cluster)
        edited = "" if self.cluster is None else self._edited(self.cluster)
        with tempfile.TemporaryDirectory() as folder, _emulator(spec) as account:
            cdk = Cli(account, Path(folder, "cdk.out"))
            self._deploy(cdk, self.cluster, "cdk deploy --all", bootstrap=True)
            _show("after the deploy", account, lines)
            with _block(spec, account):
                if self.edits and self.cluster is not None:
                    self._edit(cdk, Path(folder, self.cluster.name), edited)
            if self.keeps_running:
                _wait(account)
            if self.destroys:
                destroy(account, cdk)

    def _deploy(self, cdk: Cli, cluster: Path | None, title: str, *, bootstrap: bool) -> None:
        environment = cdk.account.environment
        step("synthesize", lambda: synthesize(list(self.app), cdk.assembly, cluster, environment))
        if bootstrap:
            step("cdk bootstrap", lambda: cdk("bootstrap"))
        else:
            for line in changes(step("cdk diff", lambda: cdk("diff"))):
                print(f"   {line}")
        step(title, lambda: cdk("deploy", "--all", "--require-approval", "never"))
        _make_ready(cdk.account)

    def _edited(self, cluster: Path) -> str:
        text = cluster.read_text(encoding="utf-8")
        for before, after in self.edits:
            if before not in text:
                raise StepFailed(f"{cluster.name} does not hold {before!r}")
            text = text.replace(before, after)
        return text

    def _edit(self, cdk: Cli, cluster: Path, text: str) -> None:
        for before, after in self.edits:
            print(f"edit: {_one_line(before)}  ->  {_one_line(after)}")
        cluster.write_text(text, encoding="utf-8")
        self._deploy(cdk, cluster, "cdk deploy --all, again", bootstrap=False)
        _show("after the second deploy", cdk.account, brief_lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def _emulator(spec: ClusterSpec | None) -> Iterator[Emulator]:
    if spec is None:
        made = Emulator()
    elif spec.account is None:
        made = Emulator(region=spec.region, seed=seeds_of(spec))
    else:
        made = Emulator(account=spec.account, region=spec.region, seed=seeds_of(spec))
    with made as account:
        yield account


@contextmanager
def _block(spec: ClusterSpec | None, account: Emulator) -> Iterator[None]:
    """Deliver a Capacity Block that starts later before what is inside, and let it end after that."""
    times = block_times(spec) if spec else None
    if times is None:
        yield
        return
    starts_at, ends_at = map(parse_time, times)
    _move(account, "when the block is delivered", starts_at.isoformat())
    yield
    _move(account, "after the block's warning, and the time to drain", (ends_at - DRAIN).isoformat())


def _move(account: Emulator, title: str, moment: str) -> None:
    for happened in account.move_clock(moment):
        print(f"{happened['time']} {happened['kind']}: {happened['subject']}")
    _make_ready(account)
    _show(f"{title}, {account.now}", account, brief_lines)
    history = account.history()
    faults = [one["error"] for one in history["deliveries"] if "error" in one]
    faults += [one["cause"] for one in history["executions"] if one["status"] != "SUCCEEDED"]
    if faults:
        raise StepFailed("; ".join(faults))


def _make_ready(account: Emulator) -> None:
    """Nothing boots here: say what the nodes' own programs would say."""
    ready = len(account.make_nodes_ready())
    if ready:
        print(f"{ready} node{'s' if ready > 1 else ''} made ready: a lifecycle hook held what does not boot here")


def _show(title: str, account: Emulator, view: Callable[[Emulator], Iterator[str]]) -> None:
    print(f"\n== {title}")
    for line in view(account):
        print(line)
    print(flush=True)


def _wait(account: Emulator) -> None:
    for key, value in account.settings.items():
        print(f"export {key}={shlex.quote(value)}")
    input("The emulator runs; press Enter to end it. ")
