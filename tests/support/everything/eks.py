"""A stack with clusters of EKS with every option, and what is applied in them."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import (
    ArgoRollouts,
    ClusterAutoscaler,
    ContainerInsights,
    EksGpuCluster,
    ExternalDns,
    Karpenter,
    Keda,
    KubernetesSoftware,
    LoadBalancerController,
    MetricsWorkspace,
)
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.software import cluster_software
from everything.fleets import existing_vpc


def define_eks(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """A cluster as it comes, one with every option, and one that exists, each with software."""
    stack = cdk.Stack(app, "Kubernetes", env=env)
    vpc = existing_vpc(stack, zone)
    # Without the files of kubectl, which are 40 MB.
    arn = stack.format_arn(
        service="lambda",
        resource="layer",
        resource_name="kubectl:1",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    layer = lambda_.LayerVersion.from_layer_version_arn(stack, "Layer", arn)
    pool = node_pool("train", instance_type="p5.48xlarge", node_count=2)
    plain = EksGpuCluster(stack, "Plain", vpc=vpc)
    software = KubernetesSoftware(
        stack, "Software", cluster=plain, releases=cluster_software([pool]), kubectl_layer=layer
    )
    software.apply("Research", [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}])
    key = kms.Key(stack, "Key", enable_key_rotation=True)
    full = EksGpuCluster(
        stack,
        "Full",
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=list(vpc.private_subnets)),
        kubernetes_version="1.34",
        cluster_name="research",
        service_ipv4_cidr="10.100.0.0/16",
        public_access_cidrs=["203.0.113.0/24"],
        secrets_encryption_key=key,
        system_instance_type="m8g.large",
        system_node_count=3,
        add_on_versions={"coredns": "v1.12.1-eksbuild.2"},
        deletion_protection=True,
        log_encryption_key=key,
    )
    full.grant_admin(iam.Role.from_role_name(stack, "Platform", "platform"))
    full.grant_edit("arn:aws:iam::111122223333:role/research", namespaces=["research"])
    full.grant_bucket_volumes(s3.Bucket.from_bucket_name(stack, "Corpus", "my-corpus"), write=True)
    full.add_add_on("snapshot-controller")
    ContainerInsights(stack, "Insights", cluster=full)
    karpenter = Karpenter(stack, "Karpenter", cluster=full)
    karpenter.admit(iam.Role.from_role_name(stack, "Nodes", "nodes"))
    scaled = full.add_gpu_node_group("Scaled", instance_type="g6e.xlarge", min_node_count=0, max_node_count=4)
    ClusterAutoscaler(stack, "Autoscaler", cluster=full, groups=[scaled])
    LoadBalancerController(stack, "LoadBalancers", cluster=full)
    hosted = route53.HostedZone.from_hosted_zone_attributes(
        stack, "Zone", hosted_zone_id="Z0123456789ABCDEFGHIJ", zone_name="models.internal"
    )
    ExternalDns(stack, "Names", cluster=full, zone=hosted)
    arn = "arn:aws:aps:us-east-1:111122223333:workspace/ws-0123abcd"
    workspace = MetricsWorkspace.from_metrics_workspace_attributes(stack, "Workspace", workspace_arn=arn)
    Keda(stack, "Keda", cluster=full, workspace=workspace)
    ArgoRollouts(stack, "Versions", cluster=full, workspace=workspace)
    existing = EksGpuCluster.from_eks_gpu_cluster_attributes(
        stack,
        "Existing",
        vpc=vpc,
        cluster_name="older",
        cluster_security_group_id="sg-0123456789abcdef0",
        kubernetes_version="1.34",
        kubectl_role_arn="arn:aws:iam::111122223333:role/kubectl",
    )
    KubernetesSoftware(stack, "ExistingSoftware", cluster=existing, kubectl_layer=layer)
    return stack
