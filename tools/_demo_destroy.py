"""Destroy a cluster as far as it lets itself be destroyed, and say what stays and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from _demo_cli import Cli, StepFailed, step
from cdk_gpu_clusters.testing import EmulatedAccount

Json = dict[str, Any]
_STACK = "aws:cloudformation:stack"
#: What holds data: of these the ids are shown, the rest is counted.
_DATA = (
    "AWS::FSx::FileSystem",
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::S3::Bucket",
    "AWS::S3Express::DirectoryBucket",
    "AWS::KMS::Key",
)
_REFUSAL = re.compile(r"Stack \[\S*stack/([^/]+)/\S+ cannot be deleted while TerminationProtection is enabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What a cloud assembly says about the life of its stacks.

    Attributes:
        stacks: Names of all stacks.
        protected: Those with termination protection that hold data.
        paid: Those with termination protection that hold none: reservations, and fleets on reserved capacity.
        needed: Those that a protected one stands in, such as the network of a file system.
        retained: Stack and logical id of what stays when its stack is deleted.
    """

    stacks: tuple[str, ...]
    protected: frozenset[str]
    paid: frozenset[str]
    needed: frozenset[str]
    retained: frozenset[tuple[str, str]]

    @property
    def others(self) -> list[str]:
        """The stacks that can be destroyed."""
        return [name for name in self.stacks if name not in self.protected | self.needed]


def read_assembly(folder: Path) -> Assembly:
    """Read the manifest and the templates of a cloud assembly."""
    artifacts: Mapping[str, Json] = json.loads((folder / "manifest.json").read_text())["artifacts"]
    stacks = {name: one for name, one in artifacts.items() if one["type"] == _STACK}
    refusing = {name for name, one in stacks.items() if one["properties"].get("terminationProtection")}
    protected = {name for name in refusing if _holds_data(folder / stacks[name]["properties"]["templateFile"])}
    return Assembly(
        stacks=tuple(stacks),
        protected=frozenset(protected),
        paid=frozenset(refusing - protected),
        needed=frozenset(_needs(stacks, protected) - protected),
        retained=frozenset(
            (name, logical_id)
            for name, one in stacks.items()
            for logical_id, resource in _resources(folder / one["properties"]["templateFile"])
            if str(resource.get("DeletionPolicy", "")).startswith("Retain")
        ),
    )


def _holds_data(template: Path) -> bool:
    return any(resource.get("Type") in _DATA for _, resource in _resources(template))


def _needs(stacks: Mapping[str, Json], names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    queue = list(names)
    while queue:
        below = {name for name in stacks[queue.pop()].get("dependencies", ()) if name in stacks} - found
        found |= below
        queue += below
    return found


def _resources(template: Path) -> Iterable[tuple[str, Json]]:
    resources: dict[str, Json] = json.loads(template.read_text())["Resources"]
    return resources.items()


def destroy(account: EmulatedAccount, cdk: Cli) -> None:
    """Destroy what may be destroyed, and print what stays.

    Raises:
        StepFailed: If a protected stack is destroyed, if data are lost, or if anything else stays.
    """
    assembly = read_assembly(cdk.assembly)
    before = set(_held(account))
    for name in sorted(assembly.paid):
        step(f"aws cloudformation update-termination-protection {name}", partial(_let_go, account, name))
    if assembly.protected:
        output = step("cdk destroy --all", lambda: cdk.refused("destroy", "--all", "--force"))
        refusal = _REFUSAL.search(output)
        if refusal is None:
            raise StepFailed(f"cdk destroy --all failed, and not at a protected stack:\n{output}")
        print(f"   refused: {refusal[1]} has termination protection")
        names = assembly.others
        step("cdk destroy, all but data", lambda: cdk("destroy", *names, "--exclusively", "--force"))
    else:
        step("cdk destroy --all", lambda: cdk("destroy", "--all", "--force"))
    lost = before - set(_held(account)) - {one for one in before if _may_go(assembly, one)}
    if lost:
        raise StepFailed(f"lost with its stack: {lost}")
    print("\n== kept on purpose; what held data before holds it still")
    for line in _kept(account, assembly):
        print(line)


def _let_go(account: EmulatedAccount, name: str) -> None:
    cloudformation = account.client("cloudformation")
    cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)


def _held(account: EmulatedAccount) -> Iterator[tuple[str, str, str]]:
    """Stack, logical and physical id of everything that holds data."""
    for one in account.resources():
        if one["type"] in _DATA and one["stack"] != "CDKToolkit":
            yield one["stack"], one["logical_id"], one["physical_id"]


def _may_go(assembly: Assembly, held: tuple[str, str, str]) -> bool:
    stack, logical_id, _ = held
    return stack in assembly.others and (stack, logical_id) not in assembly.retained


def _kept(account: EmulatedAccount, assembly: Assembly) -> Iterator[str]:
    left = [one for one in account.resources() if one["stack"] != "CDKToolkit" and one["answered_by"] != "seed"]
    for stack, members in groupby(sorted(left, key=lambda one: one["stack"]), key=lambda one: one["stack"]):
        found = list(members)
        if stack in assembly.protected | assembly.needed:
            why = "termination protection" if stack in assembly.protected else "the data stand in it"
            yield f"stack {stack}: {len(found)} resources, {why}"
            found = [one for one in found if one["type"] in _DATA]
        else:
            for one in found:
                if (stack, one["logical_id"]) not in assembly.retained:
                    raise StepFailed(f"left over after destroy: {one['type']} {one['physical_id']}")
            yield f"of the deleted stack {stack}: DeletionPolicy Retain"
        yield from (f"  {one['type']} {one['physical_id']}" for one in found)
