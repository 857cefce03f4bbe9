"""The CDK CLI of the repository, against an emulator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk

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


def deploy_cluster(account: Emulator, spec: ClusterSpec, folder: Path, new_app: Callable[[], cdk.App]) -> None:
    """Bootstrap the Region of a cluster file, and deploy all of its stacks."""
    call = CdkCli(account, folder)
    app = new_app()
    cdk.Stack(app, "bootstrap", env=cdk.Environment(region=spec.region))
    call(app.synth().directory, "bootstrap")
    app = new_app()
    build_cluster(app, spec)
    call(app.synth().directory, "deploy", "--all", "--require-approval", "never")
