"""The files of a new project: a CDK app, its settings, its first test and what to do with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files

from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters_stacks.starter import Starter, StarterCapacity, StarterOrchestrator

from .cdk_flags import feature_flags


class AppKind(StrEnum):
    """What describes the cluster of a project."""

    CLUSTER_FILE = "cluster-file"
    PYTHON = "python"
    PYTHON_PCS = "python-pcs"

    @property
    def folder(self) -> str:
        """Its folder of `templates`."""
        return self.value.replace("-", "_")


def project_files(cluster: Mapping[str, str] | Starter) -> dict[str, str]:
    """The files of a project by path.

    Args:
        cluster: A cluster file and what it names, by path; or a starter, for an app that is written in Python, on plain
            EC2 or AWS PCS.

    Example:
        >>> sorted(project_files({"cluster.yaml": "version: 1"}))[:4]
        ['.gitignore', 'README.md', 'app.py', 'cdk.json']
    """
    kind = _kind_of(cluster)
    common = {
        ".gitignore": _template("gitignore"),
        "cdk.json": cdk_json(),
        "requirements.txt": f"cdk-gpu-clusters{_compatible(__version__)}\n",
        "requirements-dev.txt": "-r requirements.txt\npytest>=8\n",
    }
    if isinstance(cluster, Starter):
        return {**common, **_of_kind(kind), "app.py": python_app(cluster)}
    schema = files("cdk_gpu_clusters_stacks.spec").joinpath("cluster.schema.json").read_text("utf-8")
    return {**common, **_of_kind(kind), **cluster, "cluster.schema.json": schema}


def cdk_json() -> str:
    """The settings of the CDK CLI: the app, and the feature flags that a new app should have."""
    python = "python" if sys.platform == "win32" else "python3"
    watch = {"include": ["**"], "exclude": ["README.md", "cdk*.json", "requirements*.txt", "**/__pycache__", "tests"]}
    return json.dumps({"app": f"{python} app.py", "watch": watch, "context": feature_flags()}, indent=2) + "\n"


def python_app(starter: Starter) -> str:
    """An app in Python with one fleet of training nodes, on plain EC2 or in a Slurm cluster."""
    text = _template(f"{_kind_of(starter).folder}/app.py")
    for name, value in {
        "STACK": starter.name,
        "REGION": starter.region,
        "ZONE": starter.zone,
        "INSTANCE_TYPE": starter.instance_type,
    }.items():
        text = text.replace(f'"{name}"', json.dumps(value))
    text = text.replace("  # ZONE_MARK", "  # CHANGE: zone of the reservation" if starter.zone_is_guessed else "")
    text = text.replace("CLUSTER_SIZE", starter.cluster_size)
    return text.replace("NODE_COUNT", str(starter.nodes)).replace("CAPACITY", _capacity(starter))


_BLOCK_TIMES = """\
                starts_at="2030-01-01T11:30Z",  # CHANGE
                ends_at="2030-01-15T11:30Z",  # CHANGE
            )"""


def _capacity(starter: Starter) -> str:
    if starter.is_ultraserver:
        group = f"arn:aws:resource-groups:{starter.region}:111122223333:group/my-block"
        return f'Capacity.ultraserver_block(\n                "{group}",  # CHANGE\n{_BLOCK_TIMES}'
    return {
        StarterCapacity.ON_DEMAND: "Capacity.on_demand()",
        StarterCapacity.SPOT: "Capacity.spot()",
        StarterCapacity.RESERVATION: 'Capacity.from_reservation_id(\n                "cr-0123456789abcdef0"  # CHANGE\n'
        "            )",
        StarterCapacity.CAPACITY_BLOCK: 'Capacity.capacity_block(\n                "cr-0123456789abcdef0",  # CHANGE\n'
        f"{_BLOCK_TIMES}",
    }[starter.capacity]


def _kind_of(cluster: Mapping[str, str] | Starter) -> AppKind:
    if not isinstance(cluster, Starter):
        return AppKind.CLUSTER_FILE
    return AppKind.PYTHON_PCS if cluster.orchestrator is StarterOrchestrator.PCS else AppKind.PYTHON


def _of_kind(kind: AppKind) -> dict[str, str]:
    readme = AppKind.CLUSTER_FILE if kind is AppKind.CLUSTER_FILE else AppKind.PYTHON
    names = {"README.md": f"{readme.folder}/README.md", "tests/test_cluster.py": f"{kind.folder}/test_cluster.py"}
    if kind is AppKind.CLUSTER_FILE:
        names["app.py"] = f"{kind.folder}/app.py"
    return {path: _template(name) for path, name in names.items()}


def _template(name: str) -> str:
    """A file of `templates`; their names end in `.txt`, so that no tool takes them for modules of ours."""
    return files("cdk_gpu_clusters_stacks.project").joinpath("templates", f"{name}.txt").read_text("utf-8")


def _compatible(version: str) -> str:
    """The versions that keep what this one promises: a minor version of 0.x may change it."""
    major, minor, *_ = version.split(".")
    following = f"0.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    return f">={version},<{following}"
