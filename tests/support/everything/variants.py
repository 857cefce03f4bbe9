"""A stack of what the stacks with everything on leave out."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import (
    ClusterNetwork,
    EfaSecurityGroup,
    EksCluster,
    GpuFleet,
    GpuLaunchTemplate,
    InferenceFleet,
    ModelServer,
    NetworkEgress,
    NetworkFeature,
    NodeConfig,
    NodeImage,
    NodeRole,
    NodeUserData,
    Orchestrator,
    ServerSecret,
)
from everything.fleets import existing_vpc


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
        egress=NetworkEgress.CLOSED,
        features=[NetworkFeature.SESSION_MANAGER],
    )
    fabric = EfaSecurityGroup(stack, "Fabric", vpc=open_network.vpc)
    role = NodeRole(stack, "Role")
    for orchestrator in Orchestrator:
        if orchestrator.is_hyperpod:  # takes no launch template
            continue
        _for_orchestrator(stack, orchestrator, fabric, role)
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
        server=ModelServer(image="vllm/vllm-openai:v0.11.0", secrets={"HF_TOKEN": ServerSecret.from_arn(arn)}),
        plain_http=True,
        clients=[ec2.Peer.ipv4("10.0.0.0/16")],
    )
    return stack


def _for_orchestrator(stack: cdk.Stack, orchestrator: Orchestrator, fabric: ec2.ISecurityGroup, role: NodeRole) -> None:
    name, kind = orchestrator.name.title().replace("_", ""), "p5en.48xlarge"
    is_self_managed = orchestrator is Orchestrator.EKS_SELF_MANAGED
    cluster = EksCluster(
        name="training",
        endpoint=cdk.Fn.import_value("endpoint"),
        certificate_authority=cdk.Fn.import_value("authority"),
        service_cidr="172.20.0.0/16",
    )
    text = None
    if orchestrator is not Orchestrator.EC2:
        text = NodeUserData(
            stack,
            f"{name}Nodes",
            instance_type=kind,
            orchestrator=orchestrator,
            role=role,
            node_config=NodeConfig(cluster=cluster) if is_self_managed else None,
            slurm_version="25.11" if orchestrator is Orchestrator.PCS else None,
        ).text
    GpuLaunchTemplate(
        stack,
        f"For{name}",
        instance_type=kind,
        orchestrator=orchestrator,
        fabric=fabric,
        image=NodeImage.from_id("ami-0123456789abcdef0") if is_self_managed else None,
        user_data=text,
    )
