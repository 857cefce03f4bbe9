"""Faults in clusters and managed node groups of EKS."""

from __future__ import annotations

from mutations import drop, put
from rule_mutation import RuleMutation

CLUSTER, GROUP = "eks_cluster/a_cluster", "eks_node_group/a_group"
_CONTROL_PLANE, _NODES, _TEMPLATE = "AWS::EKS::Cluster", "AWS::EKS::Nodegroup", "AWS::EC2::LaunchTemplate"
_DATA = "LaunchTemplateData"

MUTATIONS = (
    RuleMutation(
        rule="GPU-EKS-011",
        template=GROUP,
        at=_TEMPLATE,
        change=put(f"{_DATA}.IamInstanceProfile", {"Name": "nodes"}),
    ),
    RuleMutation(rule="GPU-EKS-012", template=GROUP, at=_NODES, change=put("CapacityType", "ON_DEMAND")),
    RuleMutation(rule="GPU-EKS-013", template=GROUP, at=_NODES, change=put("InstanceTypes", ["p5.48xlarge"])),
    RuleMutation(rule="GPU-EKS-014", template=GROUP, at=_NODES, change=put("DiskSize", 200)),
    RuleMutation(
        rule="GPU-EKS-015",
        template=CLUSTER,
        at=_TEMPLATE,
        change=put(f"{_DATA}.ImageId", "ami-0123456789abcdef0"),
    ),
    RuleMutation(
        rule="GPU-EKS-016", template=GROUP, at=_NODES, change=put("AmiType", "AL2023_x86_64_STANDARD")
    ),
    RuleMutation(
        rule="GPU-EKS-017",
        template=CLUSTER,
        at=_TEMPLATE,
        change=put(
            f"{_DATA}.NetworkInterfaces.0.Groups", [{"Fn::GetAtt": ["KubeControlPlaneC0E28556", "GroupId"]}]
        ),
    ),
    RuleMutation(
        rule="GPU-EKS-018",
        template=CLUSTER,
        at=_TEMPLATE,
        change=put(f"{_DATA}.UserData", {"Fn::Base64": "#!/bin/sh\necho hello\n"}),
    ),
    RuleMutation(rule="GPU-EKS-020", template=CLUSTER, at=_CONTROL_PLANE, change=put("Version", "1.25")),
    RuleMutation(
        rule="GPU-EKS-021",
        template=CLUSTER,
        at=_CONTROL_PLANE,
        change=put("ResourcesVpcConfig.PublicAccessCidrs", ["0.0.0.0/0"]),
    ),
    RuleMutation(rule="GPU-EKS-028", template=CLUSTER, at=_CONTROL_PLANE, change=drop("Logging")),
    RuleMutation(rule="GPU-EKS-029", template=CLUSTER, at=_CONTROL_PLANE, change=drop("EncryptionConfig")),
)
