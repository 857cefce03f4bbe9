"""A cluster asks for a version of Kubernetes that EKS offers."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, errors_in
from cdk_gpu_clusters.rules.eks_cluster import VERSION, check_version
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    version = resource.get("Version")
    text = version.text()
    if text is None:  # EKS takes its newest
        raise NotApplicable
    # One that is newer than the catalogue is nobody's fault.
    yield from faults_of(VERSION, errors_in(check_version(text)), version, own_fix=True)


RULE = TemplateRule(
    rule=VERSION,
    severity=Severity.ERROR,
    cause="EKS makes no cluster of this version",
    fix="take a version in standard support",
    url="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html",
    on=("AWS::EKS::Cluster",),
    looks_at=("Version",),
    check=_check,
    bad="""
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
      Version: "1.25"
      Logging: {ClusterLogging: {EnabledTypes: [{Type: audit}]}}
      ResourcesVpcConfig:
        SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
        EndpointPublicAccess: false
        EndpointPrivateAccess: true
""",
    good="""
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
      Version: "1.35"
      Logging: {ClusterLogging: {EnabledTypes: [{Type: audit}]}}
      ResourcesVpcConfig:
        SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
        EndpointPublicAccess: false
        EndpointPrivateAccess: true
""",
)
