"""Whether a template is one of a GPU cluster."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.template_rules.case import Case, Value
from cdk_gpu_clusters.template_rules.choices import Undecidable
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.lookups.groups import (
    COMPUTE_ENVIRONMENT,
    EKS_NODE_GROUP,
    HYPERPOD,
    PCS_NODE_GROUP,
    own_types_of,
)
from cdk_gpu_clusters.template_rules.lookups.launches import launches, looks_accelerated


def has_accelerated_nodes(case: Case) -> bool | None:
    """Whether a template launches accelerated nodes, or makes a Lustre file system; None if it leaves that open."""
    if case.resources(HYPERPOD) or any(
        one.get("FileSystemType").text() == "LUSTRE" for one in case.resources(FILE_SYSTEM)
    ):
        return True
    answers = [_is_accelerated(value) for value in _instance_types(case)]
    if any(answers):
        return True
    return None if None in answers or not answers else False


def _is_accelerated(value: Value) -> bool | None:
    try:
        return looks_accelerated(value)
    except Undecidable:
        return None


def _instance_types(case: Case) -> Iterator[Value]:
    for launch in launches(case):
        yield from launch.instance_types()
    for group in case.resources(EKS_NODE_GROUP, PCS_NODE_GROUP, COMPUTE_ENVIRONMENT):
        yield from own_types_of(group)
    for configuration in case.resources("AWS::AutoScaling::LaunchConfiguration"):
        yield configuration.get("InstanceType")
