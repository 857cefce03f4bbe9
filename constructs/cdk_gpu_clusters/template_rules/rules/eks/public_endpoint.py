"""The API server of a cluster is not open to the whole internet."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.eks_cluster import PUBLIC_CIDRS
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

_NETWORK = "ResourcesVpcConfig"


def _check(resource: Resource) -> Iterator[Fault]:
    network = resource.get(_NETWORK)
    public = network.get("EndpointPublicAccess")
    if public.flag() is False:
        return
    blocks = network.get("PublicAccessCidrs")
    if not blocks.items():
        at = next((one for one in (blocks, public, network) if one.exists), resource)
        yield Fault(at=at, got="a public endpoint for every address", allowed="named networks, or none")
    for block in blocks.items():
        text = block.text()
        if text is not None and text.endswith("/0"):
            yield Fault(at=block, got=text, allowed="named networks, or none")


RULE = TemplateRule(
    rule=PUBLIC_CIDRS,
    severity=Severity.WARNING,
    cause="everybody on the internet reaches the API server, and only its login stands between them and the cluster",
    fix="set EndpointPrivateAccess to true and EndpointPublicAccess to false, or name networks in PublicAccessCidrs",
    url="https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",
    on=("AWS::EKS::Cluster",),
    looks_at=(f"{_NETWORK}/EndpointPublicAccess", f"{_NETWORK}/PublicAccessCidrs"),
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
        EndpointPrivateAccess: true
        PublicAccessCidrs: [0.0.0.0/0]
""",
    good="""
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
      Logging: {ClusterLogging: {EnabledTypes: [{Type: audit}]}}
      ResourcesVpcConfig:
        SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
        EndpointPrivateAccess: true
        PublicAccessCidrs: [203.0.113.0/24]
""",
)
