"""One scenario in an account: its cluster file, the real CDK CLI, and waiting for what should happen."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from cdk_gpu_clusters_stacks.preflight import Account as PreflightAccount
from cdk_gpu_clusters_stacks.preflight import Outcome, run_preflight
from cdk_gpu_clusters_stacks.spec.load import load_cluster

from .account import CLUSTER_PREFIX, Account
from .cleanup import TAG
from .plan import Scenario

CLUSTERS = Path(__file__).parent / "clusters"
REPOSITORY = Path(__file__).resolve().parents[3]
_T = TypeVar("_T")


class Failed(AssertionError):
    """What should happen did not happen."""


class Run:
    """A scenario under way.

    Attributes:
        account: The account.
        name: Name of the cluster.
        folder: A folder of its own.
    """

    def __init__(self, account: Account, scenario: Scenario, folder: Path, *, zones: tuple[str, str]) -> None:
        self.account = account
        self.name = f"{CLUSTER_PREFIX}{scenario.name}"
        self.folder = folder
        self._scenario = scenario
        self._zones = zones
        self._deadline = 0.0

    def begin(self, minutes: int) -> None:
        """Start the time of a check."""
        self._deadline = self.account.seconds() + minutes * 60

    def client(self, service: str) -> Any:
        """A boto3 client of the account."""
        return self.account.client(service)

    def write(self, name: str = "", **changes: str) -> Path:
        """Write the cluster file of the scenario.

        Args:
            name: Another file of `clusters`.
            changes: Values for the words in braces of the file that differ from the first deployment.
        """
        text = (CLUSTERS / f"{name or self._scenario.name}.yaml").read_text(encoding="utf-8")
        defaults = {"size_gib": "100", "step": "1", "end": f"{datetime.now(UTC) + timedelta(hours=6):%Y-%m-%dT%H:%MZ}"}
        zone, other = self._zones
        values = {**defaults, "region": self.account.region, "zone": zone, "other_zone": other, **changes}
        for word, value in values.items():
            text = text.replace(f"<{word}>", value)
        tags = f"{{ {TAG}: {self._scenario.name}, step: '{values['step']}' }}"
        head = f"version: 1\nname: {self.name}\nregion: {self.account.region}\ntags: {tags}\n"
        file = self.folder / "cluster.yaml"
        file.write_text(head + text, encoding="utf-8")
        return file

    def obstacles(self) -> list[str]:
        """What preflight finds that the account lacks for the cluster file: it would fail for another reason."""
        spec = load_cluster(self.write())
        with PreflightAccount(lambda service, _: self.client(service), region=self.account.region) as account:
            results = run_preflight(spec, account, now=datetime.now(UTC)).results
        return [
            f"{result.id}: {verdict.cause}"
            for result in results
            for verdict in result.verdicts
            if verdict.outcome is Outcome.FAIL and result.id not in self.account.gaps
        ]

    def deploy(self, *stacks: str, **changes: str) -> None:
        """Synthesize the cluster file, and deploy its stacks with the CDK CLI; all of them by default."""
        self._synthesize(self.write(**changes))
        self.cdk("deploy", *(stacks or ("--all",)), "--require-approval", "never")

    def template(self, name: str, stack: str, **changes: str) -> dict[str, Any]:
        """The template of a stack of another cluster file, which is not deployed."""
        self._synthesize(self.write(name, **changes))
        text = (self._assembly / f"{self.stack(stack)}.template.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    def _synthesize(self, file: Path) -> None:
        import aws_cdk as cdk  # it starts Node, which the watcher does not need

        from cdk_gpu_clusters_stacks.app import build_cluster

        app = cdk.App(outdir=str(self._assembly))
        build_cluster(app, load_cluster(file))
        app.synth()

    def cdk(self, *arguments: str, meanwhile: Callable[[], object] = lambda: None) -> str:
        """Run the CDK CLI on the assembly, and give what it prints.

        Args:
            arguments: Its command and options.
            meanwhile: Is called again and again until it ends.
        """
        program = os.environ.get("CDK_CLI", str(REPOSITORY / ".tools" / "node_modules" / ".bin" / "cdk"))
        command = [program, *arguments, "--app", str(self._assembly), "--no-notices"]
        return self._program(command, {"CI": "true"}, meanwhile)

    @property
    def _assembly(self) -> Path:
        return self.folder / "cdk.out"

    def _program(
        self, command: list[str], more: Mapping[str, str], meanwhile: Callable[[], object] = lambda: None
    ) -> str:
        path = os.pathsep.join([str(REPOSITORY / ".tools" / "bin"), os.environ.get("PATH", "")])
        environment = {**self.account.environment, "PATH": path, **more}
        end = time.monotonic() + max(1, self._deadline - self.account.seconds())
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as program:
            while True:
                try:
                    output, _ = program.communicate(timeout=self.account.pause_seconds)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        program.kill()
                        raise Failed(f"{' '.join(command[:3])} did not end in time") from None
                    meanwhile()
        if program.returncode:
            raise Failed(f"{' '.join(command[:3])} ended with {program.returncode}\n{output[-3000:]}")
        return output

    def until(self, what: str, look: Callable[[], _T | None]) -> _T:
        """Look until there is an answer, and give it.

        Raises:
            Failed: If there is none within the time of the check.
        """
        while True:
            found = look()
            if found:
                return found
            if self.account.seconds() > self._deadline:
                raise Failed(f"not seen in time: {what}")
            self.account.pause()

    # What stacks hold.

    def stack(self, *parts: str) -> str:
        """Name of a stack of the cluster."""
        return "-".join([self.name, *parts])

    def resources(self, stack: str, kind: str) -> list[str]:
        """Physical ids of the resources of a type in a stack."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
        found = [one for page in pages for one in page["StackResourceSummaries"]]
        return [one["PhysicalResourceId"] for one in found if one["ResourceType"] == kind]

    def group(self, stack: str) -> dict[str, Any]:
        """The Auto Scaling group of a fleet's stack."""
        (name,) = self.resources(stack, "AWS::AutoScaling::AutoScalingGroup")
        answer = self.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])
        (found,) = answer["AutoScalingGroups"]
        return dict(found)

    def in_service(self, stack: str) -> list[str]:
        """Ids of the nodes of a fleet that are in service."""
        return [one["InstanceId"] for one in self.group(stack)["Instances"] if one["LifecycleState"] == "InService"]

    def resize(self, stack: str, nodes: int) -> None:
        """Set the size of a fleet, as an operator would."""
        group = self.group(stack)
        self.client("autoscaling").update_auto_scaling_group(
            AutoScalingGroupName=group["AutoScalingGroupName"],
            MinSize=min(nodes, group["MinSize"]),
            DesiredCapacity=nodes,
        )
