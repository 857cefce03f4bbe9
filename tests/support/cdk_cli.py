"""The CDK CLI of the repository, against an emulator."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk

from cdk_gpu_clusters.template_rules.template import read_text
from cdk_gpu_clusters.testing import Emulator
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec import ClusterSpec

REPOSITORY = Path(__file__).resolve().parents[2]


class CdkCli:
    """`cdk`, called in a folder with the credentials of an emulated account and no others.

    The program is the one of the repository, or the one that CDK_CLI names; without one this fails.
    """

    def __init__(self, account: Emulator, folder: Path) -> None:
        self._program = Path(os.environ.get("CDK_CLI", REPOSITORY / ".tools" / "node_modules" / ".bin" / "cdk"))
        assert self._program.exists(), f"there is no CDK CLI at {self._program}; run `make env`, or set CDK_CLI"
        self._folder = folder
        node = Path(os.environ["JSII_NODE"]).parent
        self._environment = account.environment | {
            "PATH": os.pathsep.join([str(node), os.environ["PATH"]]),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CI": "true",
        }

    def __call__(self, assembly: str | Path, *arguments: str) -> str:
        """Run a command on a cloud assembly, and give what it prints."""
        done = subprocess.run(
            [str(self._program), *arguments, "--app", str(assembly), "--no-notices"],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def bootstrap(account: Emulator, region: str = "us-east-1") -> None:
    """Make the stack of `cdk bootstrap` from the CLI's own template, without the seconds that the program takes.

    The program itself bootstraps in `tests/deploy/test_emulator_cli.py`.
    """
    cli = REPOSITORY / ".tools" / "node_modules" / "aws-cdk"
    text = (cli / "lib" / "api" / "bootstrap" / "bootstrap-template.yaml").read_text(encoding="utf-8")
    # As the CLI does without options: no key of its own for the bucket.
    given = {"FileAssetsBucketKmsKeyId": "AWS_MANAGED_KEY"}
    _in_region(account, region).deploy(read_text(text).data, stack_name="CDKToolkit", parameters=given)


def deploy_cluster(account: Emulator, spec: ClusterSpec, new_app: Callable[[], cdk.App]) -> None:
    """Deploy all stacks of a cluster file in their order, without the seconds that the CLI takes."""
    app = new_app()
    build_cluster(app, spec)
    there = _in_region(account, spec.region)
    for stack in app.synth().stacks:
        there.deploy(
            json.loads(Path(stack.template_full_path).read_text(encoding="utf-8")),
            stack_name=stack.stack_name,
            termination_protection=bool(stack.termination_protection),
        )


def _in_region(account: Emulator, region: str) -> Emulator:
    """The same account in another Region."""
    there = Emulator(account=account.account, region=region)
    there.endpoint_url = account.endpoint_url
    return there
