"""The control plane of a cluster writes down who did what."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

AUDIT = define_rule(
    "GPU-EKS-028",
    "a cluster of EKS logs what its API server is asked",
    source='Amazon EKS user guide, "Send control plane logs to CloudWatch Logs"',
)
_TYPES = ("Logging", "ClusterLogging", "EnabledTypes")


def _check(resource: Resource) -> Iterator[Fault]:
    types = resource.get(*_TYPES)
    enabled = [item.get("Type").text() for item in types.items()]
    if "audit" not in enabled:
        got = ", ".join(str(one) for one in enabled) or "no logs, by default"
        yield Fault(at=types if types.exists else resource, got=got, allowed="audit among the types")


RULE = TemplateRule(
    rule=AUDIT,
    severity=Severity.WARNING,
    cause="nobody can tell afterwards who deleted a job or read a secret",
    fix="enable the log type audit, and give the log group /aws/eks/<cluster>/cluster a retention",
    url="https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html",
    on=("AWS::EKS::Cluster",),
    looks_at=("/".join(_TYPES),),
    check=_check,
    bad="""
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
      Logging: {ClusterLogging: {EnabledTypes: [{Type: api}]}}
      ResourcesVpcConfig:
        SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
        EndpointPrivateAccess: true
        EndpointPublicAccess: false
""",
    good="""
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
      Logging: {ClusterLogging: {EnabledTypes: [{Type: api}, {Type: audit}]}}
      ResourcesVpcConfig:
        SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
        EndpointPrivateAccess: true
        EndpointPublicAccess: false
""",
)
