"""Mistakes that a type checker must find in a user's app; never run.

Each line that ends in a `# wrong` comment must be reported, and no other. mypy reports a comment that ignores nothing
(`make lint`); pyright is asked without these comments (`tests/packaging/test_typed.py`).
"""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

import cdk_gpu_clusters as gpu

P5 = "p5.48xlarge"


def mistakes(scope: Construct, vpc: ec2.IVpc) -> None:
    gpu.GpuFleett  # type: ignore[attr-defined]  # wrong: no such name
    gpu.EfaSecurityGroup(scope, "Fabric", vcp=vpc)  # type: ignore[call-arg]  # wrong: misspelt keyword
    gpu.Capacity.capacity_block("cr-0123456789abcdef0")  # type: ignore[call-arg]  # wrong: a block needs its end
    gpu.GpuFleet(scope, "A", vpc=vpc, instance_type=P5, node_count="16")  # type: ignore[arg-type]  # wrong: text for a number
    gpu.GpuFleet(scope, "B", vpc=vpc, instance_type=P5, capacity="spot")  # type: ignore[arg-type]  # wrong: text for a Capacity
    gpu.GpuFleet(scope, "E", vpc=vpc, instance_type=P5, node_cuont=2)  # type: ignore[call-arg]  # wrong: misspelt option
    gpu.InferenceFleetProps(node_prot=80)  # type: ignore[typeddict-unknown-key]  # wrong: misspelt option
    gpu.MigLayout("1g.5gb", "1g.5gb")  # type: ignore[call-arg]  # wrong: one list of profiles
    gpu.InferenceFleet(scope, "C", vpc=vpc, instance_type=P5, min_node_count=1)  # type: ignore[call-arg]  # wrong: no server
    gpu.CheckpointStore(scope, "D").grant_read_write(vpc)  # type: ignore[arg-type]  # wrong: a network reads nothing
