"""The secrets of a cluster are encrypted with a key that its owner holds."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

SECRETS = define_rule(
    "GPU-EKS-029",
    "the secrets of a cluster of EKS are encrypted with a KMS key of one's own",
    source='Amazon EKS user guide, "Encrypt Kubernetes secrets with KMS on existing clusters"; CloudFormation schema '
    "of AWS::EKS::Cluster: EncryptionConfig is create-only (cfn-lint 1.58.0)",
)


def _check(resource: Resource) -> Iterator[Fault]:
    configuration = resource.get("EncryptionConfig")
    if not any(item.get("Provider", "KeyArn").exists for item in configuration.items()):
        at = configuration if configuration.exists else resource
        yield Fault(at=at, got="no key", allowed="Provider.KeyArn for the resource secrets")


RULE = TemplateRule(
    rule=SECRETS,
    severity=Severity.INFO,
    cause="no key policy of yours says who may decrypt secrets; CloudFormation replaces the cluster to add a key later",
    fix="add EncryptionConfig with a KMS key that is retained",
    url="https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html",
    on=("AWS::EKS::Cluster",),
    looks_at=("EncryptionConfig/*/Provider/KeyArn",),
    check=_check,
    bad="""
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
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
      EncryptionConfig:
        - Provider: {KeyArn: "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"}
          Resources: [secrets]
      Logging: {ClusterLogging: {EnabledTypes: [{Type: audit}]}}
      ResourcesVpcConfig:
        SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
        EndpointPublicAccess: false
        EndpointPrivateAccess: true
""",
)
