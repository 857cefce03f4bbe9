"""Requests of CreateCluster of SageMaker HyperPod, as files to import."""

from __future__ import annotations

import json
from typing import Any

import yaml

from cdk_gpu_clusters_stacks.importing import Imported
from cdk_gpu_clusters_stacks.importing.draft import Change
from foreign_files import FOLDER, import_text

Values = dict[str, Any]
CLUSTER_ARN = "arn:aws:eks:us-west-2:111122223333:cluster/research"
PLAN_ARN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/spring"
LUSTRE = {"FsxLustreConfig": {"DnsName": "fs-0a1b2c3d4e5f60715.fsx.us-west-2.amazonaws.com", "MountName": "abcdefgh"}}
OPENZFS = {"FsxOpenZfsConfig": {"DnsName": "fs-0a1b2c3d4e5f60716.fsx.us-west-2.amazonaws.com"}}


def group(name: str = "trainers", **changes: object) -> Values:
    """An instance group."""
    return {
        "InstanceGroupName": name,
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 4,
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-mine/src", "OnCreate": "on_create.sh"},
        "ExecutionRole": "arn:aws:iam::111122223333:role/nodes",
        **changes,
    }


def request(*groups: Values, eks: bool = True, **changes: object) -> Values:
    """A cluster, with one group unless some are given."""
    return {
        "ClusterName": "mine",
        **({"Orchestrator": {"Eks": {"ClusterArn": CLUSTER_ARN}}} if eks else {}),
        "InstanceGroups": list(groups) or [group()],
        "VpcConfig": {"SecurityGroupIds": ["sg-0a1b2c3d4e5f60714"], "Subnets": ["subnet-0a1b2c3d4e5f60711"]},
        "NodeRecovery": "Automatic",
        **changes,
    }


def tried(values: Values, orchestrator: str | None = None, **place: str) -> Imported:
    """What becomes of a request, with a cluster file or without."""
    return import_text(json.dumps(values, indent=2), orchestrator=orchestrator, **place)


def taken(values: Values, orchestrator: str | None = None, **place: str) -> Imported:
    """What becomes of a request that can be imported."""
    made = tried(values, orchestrator, **place)
    assert made.text is not None, made.findings
    return made


def cluster(values: Values, orchestrator: str | None = None, **place: str) -> Any:
    """The cluster file of a request."""
    return yaml.safe_load(taken(values, orchestrator, **place).text or "")


def cluster_of_cli(orchestrator: str | None = None, **changes: object) -> Any:
    """The cluster file of the configuration of the CLI, with changes."""
    values = yaml.safe_load((FOLDER / "hyperpod-cli/configured.yaml").read_text("utf-8")) | changes
    made = import_text(yaml.safe_dump(values, sort_keys=False), orchestrator=orchestrator)
    assert made.text is not None, made.findings
    return yaml.safe_load(made.text)


def texts(made: Imported, change: Change, what: str) -> list[str]:
    """What the report says about a value."""
    return [note.text for note in made.notes if note.change is change and what in note.what]
