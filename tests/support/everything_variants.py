"""A stack of what the stacks with everything on leave out."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import (
    ClusterNetwork,
    EfaSecurityGroup,
    Egress,
    Feature,
    GpuFleet,
    GpuLaunchTemplate,
    InferenceFleet,
    ModelServer,
    NodeRole,
    Orchestrator,
    ServerSecret,
)
from everything import existing_vpc


def define_variants(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """What the other stacks leave out: further networks, templates for other orchestrators, a shared role."""
    stack = cdk.Stack(app, "Variants", env=env)
    open_network = ClusterNetwork(stack, "Nat", availability_zone=zone)
    ClusterNetwork(stack, "Unrecorded", availability_zone=zone, flow_logs=False)
    block = cdk.Fn.import_value("block")
    ClusterNetwork(
        stack,
        "Token",
        availability_zone=zone,
        cidr=block,
        egress=Egress.CLOSED,
        features=[Feature.SESSION_MANAGER],
    )
    fabric = EfaSecurityGroup(stack, "Fabric", vpc=open_network.vpc)
    for orchestrator in Orchestrator:
        GpuLaunchTemplate(
            stack,
            f"For{orchestrator.name.title().replace('_', '')}",
            instance_type="p5en.48xlarge",
            orchestrator=orchestrator,
            fabric=fabric,
        )
    role = NodeRole(stack, "Role")
    for name in ("First", "Second"):
        GpuFleet(
            stack,
            name,
            vpc=open_network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[open_network.fleet_subnet]),
            instance_type="trn1.32xlarge",
            node_count=1,
            role=role,
            fabric=fabric,
        )
    arn = stack.format_arn(service="ssm", resource="parameter", resource_name="hub-token")
    InferenceFleet(
        stack,
        "Chat",
        vpc=existing_vpc(stack, zone),
        instance_type="inf2.48xlarge",
        min_node_count=1,
        server=ModelServer(
            image="vllm/vllm-openai:v0.11.0", secrets={"HF_TOKEN": ServerSecret.from_arn(arn)}
        ),
        plain_http=True,
        clients=[ec2.Peer.ipv4("10.0.0.0/16")],
    )
    return stack
