"""The public name space is lazy: the pure layers must not start Node or load CDK."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cdk_gpu_clusters

# Prints what a fresh process loaded, and every child process that it started.
PROBE = """
import importlib, json, sys
started = []
sys.addaudithook(lambda event, arguments: started.append(str(arguments[0])) if event == "subprocess.Popen" else None)
importlib.import_module({module!r})
heavy = {{"aws_cdk", "boto3", "botocore", "constructs", "jsii", "moto"}}
print(json.dumps({{"heavy": sorted(heavy & set(sys.modules)), "processes": started}}))
"""


def probe(module: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(module=module)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "module",
    [
        "cdk_gpu_clusters",
        "cdk_gpu_clusters.catalogue",
        "cdk_gpu_clusters_stacks.cli.lint",
        "cdk_gpu_clusters.errors",
        "cdk_gpu_clusters.node.user_data",
        "cdk_gpu_clusters.rules",
        "cdk_gpu_clusters_stacks.spec",
    ],
)
def test_pure_modules_start_no_node_and_load_no_cdk(module: str) -> None:
    assert probe(module) == '{"heavy": [], "processes": []}'


def test_the_probe_sees_node() -> None:
    """The test above can fail: importing CDK itself starts Node."""
    seen = probe("aws_cdk")
    assert '"aws_cdk"' in seen
    assert "node" in seen


# Modules of CDK that take long to load, and that a fleet needs for some of its properties only.
RARELY_NEEDED = ("aws_events", "aws_kms", "aws_lambda", "aws_s3", "aws_stepfunctions", "custom_resources")


def loaded(program: str) -> set[str]:
    """The modules of CDK that a program loads."""
    show = f"import sys; {program}; print(*(name for name in sys.modules if name.startswith('aws_cdk.')))"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_fleet_loads_no_module_that_few_fleets_need() -> None:
    modules = loaded("from cdk_gpu_clusters import Capacity, EfaSecurityGroup, GpuFleet")
    assert "aws_cdk.aws_ec2" in modules
    assert modules.isdisjoint(f"aws_cdk.{name}" for name in RARELY_NEEDED)


def exports() -> dict[str, str]:
    """Public name -> module, as the running program resolves it (type checkers do not see the table)."""
    table: dict[str, str] = vars(cdk_gpu_clusters)["_EXPORTS"]
    return table


def test_every_public_name_is_exported_and_documented() -> None:
    assert sorted([*exports(), "__version__"]) == sorted(cdk_gpu_clusters.__all__)
    for name in exports():
        assert getattr(cdk_gpu_clusters, name).__doc__, name


def test_type_checkers_see_the_same_names() -> None:
    """Type checkers read the imports under TYPE_CHECKING, the running program reads the table."""
    tree = ast.parse(Path(str(cdk_gpu_clusters.__file__)).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: str(statement.module).removeprefix("cdk_gpu_clusters.")
        for statement in guarded.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == exports()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="GpuFleett"):
        _ = cdk_gpu_clusters.GpuFleett  # type: ignore[attr-defined]
