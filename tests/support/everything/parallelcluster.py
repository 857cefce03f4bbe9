"""Clusters of AWS ParallelCluster by AWS's custom resource, which mount a store: with two kinds of roles."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import LustreStore, ParallelCluster, ParallelClusterProvider
from stack_fixtures import Site


def define_parallelcluster(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Define the stack."""
    site = Site(app, env)
    stack = site.stack
    role = iam.Role.from_role_name(stack, "Operators", "cluster-operators")
    policy = iam.ManagedPolicy.from_aws_managed_policy_name("ReadOnlyAccess")
    corpus = LustreStore(
        stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=38_400,
        throughput_mb_per_s_per_tib=250,
    )
    subnet = site.vpc.private_subnets[0].subnet_id
    providers = {
        "Own": ParallelClusterProvider(stack, "Own", role=role),
        "Made": ParallelClusterProvider(stack, "Made", policies=[policy]),
    }
    for name, provider in providers.items():
        queue = {
            "Name": "train",
            "ComputeResources": [{"Name": "train", "InstanceType": "p5.48xlarge", "MinCount": 2, "MaxCount": 2}],
            "Networking": {"SubnetIds": [subnet]},
        }
        ParallelCluster(
            stack,
            f"Cluster{name}",
            cluster_name=name.lower(),
            configuration={
                "Region": stack.region,
                "Image": {"Os": "alinux2023"},
                "HeadNode": {"InstanceType": "m7i.xlarge", "Networking": {"SubnetId": subnet}},
                "Scheduling": {"Scheduler": "slurm", "SlurmQueues": [queue]},
                "SharedStorage": [
                    {
                        "Name": "corpus",
                        "MountDir": "/fsx",
                        "StorageType": "FsxLustre",
                        "FsxLustreSettings": {"FileSystemId": corpus.file_system_id},
                    }
                ],
            },
            provider=provider,
            removal_policy=cdk.RemovalPolicy.DESTROY if name == "Made" else cdk.RemovalPolicy.RETAIN,
        )
    return stack
