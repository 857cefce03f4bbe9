"""The Python on the documentation's pages runs as it stands there, block after block.

What a page takes for granted is made here; a name that nobody has made fails the test.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager

import cdk_gpu_clusters
from cdk_gpu_clusters import Capacity, EfaSecurityGroup, GpuFleet
from cdk_gpu_clusters.testing import Emulator, InProcessEmulator
from pages import REPOSITORY, run_by
from stack_fixtures import Site

BLOCKS = run_by(__file__)
WITH_CODE = list(dict.fromkeys(block.page for block in BLOCKS))
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/01234567-89ab-cdef-0123-456789abcdef"
#: Name on a page -> what it stands for.
GIVEN: dict[str, Callable[[Site], Any]] = {
    "Duration": lambda _: cdk.Duration,
    "Emulator": lambda _: Emulator,
    "InProcessEmulator": lambda _: InProcessEmulator,
    "app": lambda site: site.app,
    "application": lambda site: ec2.SecurityGroup.from_security_group_id(
        site.stack, "Application", "sg-0123456789abcdef0"
    ),
    "bucket": lambda site: s3.Bucket(site.stack, "Bucket"),
    "cdk": lambda _: cdk,
    "certificate": lambda site: acm.Certificate.from_certificate_arn(site.stack, "Certificate", CERTIFICATE),
    "ec2": lambda _: ec2,
    "fabric": lambda site: EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc),
    "gpu_subnet": lambda site: site.vpc.private_subnets[0],
    "gpu_subnets": lambda site: site.one_subnet,
    "hub": lambda site: secretsmanager.Secret(site.stack, "Hub"),
    "iam": lambda _: iam,
    "self": lambda site: site.stack,
    "stack": lambda site: site.stack,
    "subprocess": lambda _: subprocess,
    "trainers": lambda site: GpuFleet(
        site.stack,
        "Trainers",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="p5.48xlarge",
        node_count=16,
        capacity=Capacity.spot(),
    ),
    "vpc": lambda site: site.vpc,
    "weights": lambda site: s3.Bucket(site.stack, "Weights"),
}


def surroundings(code: str, site: Site) -> dict[str, Any]:
    """What the code takes for granted, and no more: another construct might be the one that is found fault with."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    public = {name: getattr(cdk_gpu_clusters, name) for name in cdk_gpu_clusters.__all__ if name in used}
    return public | {name: make(site) for name, make in GIVEN.items() if name in used}


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_on_a_page_runs(page: str, app_factory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(block.text for block in BLOCKS if block.page == page)
    site = Site(app_factory(outdir=str(tmp_path / "cdk.out")), None)
    names = surroundings(code, site)
    # A page that calls `cdk` means its reader's, in a folder with an app.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{REPOSITORY / '.tools' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    Path("cdk.json").write_text(json.dumps({"app": "cdk.out", "notices": False}), encoding="utf-8")
    if "Emulator" in names:  # what it deploys must be there before
        GIVEN["fabric"](site)
        site.app.synth()
    exec(compile(code, page, "exec"), names)  # noqa: S102
    site.app.synth()


def test_there_are_such_pages() -> None:
    assert {Path(page).stem for page in WITH_CODE} >= {"emulator", "inference", "mig", "security", "storage"}
