"""The MIG configuration that a label asks for is one of the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.rules.mig import NOT_CAPABLE, UNKNOWN_PROFILE, MigLayout, check_mig
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.groups import (
    EKS_NODE_GROUP,
    HYPERPOD,
    hyperpod_record_of,
    instance_groups,
    records_of,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

LABELLED = define_rule(
    "GPU-MIG-011",
    "the MIG configuration that the label nvidia.com/mig.config asks for is one of the GPU",
    source="NVIDIA/mig-parted v0.15.0, config-default; NVIDIA GPU Operator guide, MIG manager",
)
_LABEL = "nvidia.com/mig.config"
_ALL = re.compile(r"all-([0-9]g\.[0-9]+gb(?:\+me|\.me)?)")
_WHOLE = ("all-enabled", "all-balanced")


def _check(resource: Resource) -> Iterator[Fault]:
    labels = list(_labels(resource))
    if not labels:
        raise NotApplicable
    for label, records in labels:
        layout = _layout(label)
        for record in records if layout else ():
            for finding in check_mig(record, layout or ()):
                if finding.id in (NOT_CAPABLE.id, UNKNOWN_PROFILE.id):
                    got = f"{label.text()} on {record.name}"
                    yield Fault(at=label, got=got, allowed=finding.allowed, cause=finding.cause)


def _labels(resource: Resource) -> Iterator[tuple[Value, list[InstanceType]]]:
    """Each label that asks for a configuration, with the types of the nodes that carry it."""
    if resource.type == EKS_NODE_GROUP:
        label = resource.get("Labels", _LABEL)
        if label.exists:
            yield label, [record for _, record in records_of(resource)]
        return
    for group in instance_groups(resource):
        label = group.get("KubernetesConfig", "Labels", _LABEL)
        if label.exists:
            record = hyperpod_record_of(group.get("InstanceType"))
            if record is None:
                raise group.get("InstanceType").undecidable("the catalogue does not know this type")
            yield label, [record]


def _layout(label: Value) -> MigLayout | None:
    """What a configuration of mig-parted's own asks of a GPU; None where MIG is off."""
    name = label.text() or ""
    if name == "all-disabled":
        return None
    if name in _WHOLE:
        return MigLayout.whole_gpu()
    found = _ALL.fullmatch(name)
    if found is None:
        raise label.undecidable("this is no configuration of mig-parted's own")
    return MigLayout([found[1].replace(".me", "+me")])


RULE = TemplateRule(
    rule=LABELLED,
    severity=Severity.ERROR,
    cause="the MIG manager sets the label nvidia.com/mig.config.state to failed, and the node has no slices",
    fix="ask for a configuration with a profile of this GPU",
    url="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html",
    on=(EKS_NODE_GROUP, HYPERPOD),
    looks_at=(
        "AWS::EKS::Nodegroup/Labels",
        "AWS::SageMaker::Cluster/InstanceGroups/*/KubernetesConfig/Labels",
        "instance types of the nodes",
    ),
    check=_check,
    bad="""
Resources:
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: serving
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_NVIDIA
      InstanceTypes: [p5.48xlarge]
      Labels: {nvidia.com/mig.config: all-1g.5gb}
""",
    good="""
Resources:
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: serving
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_NVIDIA
      InstanceTypes: [p5.48xlarge]
      Labels: {nvidia.com/mig.config: all-1g.10gb}
""",
)
