"""Mistakes that a type checker must find in a user's app; never run.

Each line that ends in a `# wrong` comment must be reported, and no other.
"""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

import cdk_gpu_clusters as gpu

P5 = "p5.48xlarge"


def mistakes(scope: Construct, vpc: ec2.IVpc) -> None:
    gpu.GpuFleett  # wrong: no such name
    gpu.EfaSecurityGroup(scope, "Fabric", vcp=vpc)  # wrong: misspelt keyword
    gpu.Capacity.capacity_block("cr-0123456789abcdef0")  # wrong: a block needs its end
    gpu.GpuFleet(scope, "A", vpc=vpc, instance_type=P5, node_count="16")  # wrong: text for a number
    gpu.GpuFleet(scope, "B", vpc=vpc, instance_type=P5, capacity="spot")  # wrong: text for a Capacity
    gpu.GpuFleet(scope, "E", vpc=vpc, instance_type=P5, node_cuont=2)  # wrong: misspelt option
    gpu.InferenceFleetProps(node_prot=80)  # wrong: misspelt option
    gpu.MigLayout("1g.5gb", "1g.5gb")  # wrong: one list of profiles
    gpu.InferenceFleet(scope, "C", vpc=vpc, instance_type=P5, min_node_count=1)  # wrong: no server
    gpu.CheckpointStore(scope, "D").grant_read_write(vpc)  # wrong: a network reads nothing
