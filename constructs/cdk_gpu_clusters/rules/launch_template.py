"""What a launch template asks of its security groups and its orchestrator."""

from __future__ import annotations

from cdk_gpu_clusters.errors import define_rule

EFA_WITHOUT_GROUP = define_rule(
    "GPU-LT-004",
    "EFA interfaces carry a security group that allows all traffic with itself",
    source='AWS EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads on Amazon EC2"',
)
NO_SECURITY_GROUP = define_rule(
    "GPU-LT-005", "every interface names its security groups", source="default groups admit what nobody chose"
)
SUBNET_IN_TEMPLATE = define_rule(
    "GPU-LT-006",
    "the orchestrator, not the launch template, names the subnet",
    source="Amazon EKS CreateNodegroup reference; EC2 Auto Scaling VPCZoneIdentifier",
)
