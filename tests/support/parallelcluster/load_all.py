"""Run with ParallelCluster: its schema's faults of each YAML text in a JSON list from stdin, as a JSON list."""

from __future__ import annotations

import json
import sys

import yaml
from marshmallow import ValidationError
from pcluster.schemas.cluster_schema import ClusterSchema


def faults(text: str) -> object:
    """What the schema says of one file, by key; empty if it takes the file."""
    try:
        ClusterSchema(cluster_name="cluster").load(yaml.safe_load(text))
    except ValidationError as error:
        return error.messages
    return {}


json.dump([faults(text) for text in json.load(sys.stdin)], sys.stdout)
