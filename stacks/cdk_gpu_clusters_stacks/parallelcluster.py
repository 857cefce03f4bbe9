"""What the stacks give to a cluster of AWS ParallelCluster, which `pcluster` or a custom resource makes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import ParallelCluster, ParallelClusterProvider
from cdk_gpu_clusters.compute.node_asset import NodeAsset
from cdk_gpu_clusters_stacks.data import CheckpointStack, ExistingCheckpoints
from cdk_gpu_clusters_stacks.export.parallelcluster import deployed_configuration
from cdk_gpu_clusters_stacks.export.scripts import HEAD_NODE, NodeScript, scripts_of
from cdk_gpu_clusters_stacks.fleets import Site, mounted_stores
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.parallelcluster import CustomResourceSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import checkpoint_policy_output, parallelcluster_stack

#: What the documented policies of people and functions that make clusters let them attach to roles of nodes.
#: Source: aws/aws-parallelcluster @ 451cc53, cloudformation/policies/parallelcluster-policies.yaml: IamPolicy.
_PATH = "/parallelcluster/"


class ParallelClusterStack(cdk.Stack):
    """The security group that stores admit, the scripts of custom actions, and what nodes may do with checkpoints.

    `gpu-clusters export --outputs` writes them into the configuration of the cluster. With `custom_resource`, the stack
    has the cluster, too, as a resource with this configuration.
    """

    def __init__(self, site: Site, fleets: Sequence[PlannedFleet]) -> None:
        """Define the stack.

        Args:
            site: What the stacks of the cluster have in common. Reservations are made before.
            fleets: The fleets of the file.
        """
        name = parallelcluster_stack(site.spec.name)
        super().__init__(
            site.app, name, env=site.env, description="Access of nodes of AWS ParallelCluster to a GPU cluster"
        )
        self._published: dict[str, str] = {}
        group = ec2.SecurityGroup(
            self,
            "Clients",
            vpc=site.place.vpc(self),
            description="Nodes of AWS ParallelCluster: clients of file systems",
        )
        self._publish("ClientSecurityGroupId", group.security_group_id, "Group that all nodes join")
        mounts = {f"{fleet.name}:{point}": store for fleet in fleets for point, store in fleet.spec.mounts.items()}
        for index, store in enumerate(dict.fromkeys(mounted_stores(mounts, site.stores).values())):
            store.import_into(self).allow_from(self, f"Data{index or ''}", group)
        for script in [HEAD_NODE, *(one for fleet in fleets for one in scripts_of(fleet))]:
            self._keep(script)
        for fleet in fleets:
            self._grant_checkpoints(site, fleet)
        if site.spec.parallelcluster.custom_resource is not None:
            self._make_cluster(site, site.spec.parallelcluster.custom_resource)

    def _publish(self, name: str, value: str, description: str) -> None:
        self._published[name] = value
        publish(self, name, value, description=description)

    def _keep(self, script: NodeScript) -> None:
        """Put a script into the bucket of the app's assets; another text is another object."""
        asset = NodeAsset(self, script.output, content=script.text.encode(), file_extension=".sh")
        self._publish(f"{script.output}Url", f"s3://{asset.bucket_name}/{asset.object_key}", script.description)

    def _grant_checkpoints(self, site: Site, fleet: PlannedFleet) -> None:
        """A policy by which the nodes of a fleet use its store for checkpoints, also one with a key or in one zone."""
        spec = fleet.spec
        store = site.stores[spec.checkpoints] if isinstance(spec, FleetSpec) and spec.checkpoints else None
        if not isinstance(spec, FleetSpec) or not isinstance(store, CheckpointStack | ExistingCheckpoints):
            return
        output = checkpoint_policy_output(fleet.name)
        policy = iam.ManagedPolicy(
            self, output.removesuffix("Arn"), path=_PATH, description=f"Checkpoints of {fleet.name}"
        )
        reached = store.import_into(self, spec.checkpoint_folder(fleet.name), write=not spec.checkpoints_read_only)
        reached.allow(policy)
        self._publish(output, policy.managed_policy_arn, f"Lets nodes of {fleet.name} use checkpoints")

    def _make_cluster(self, site: Site, made: CustomResourceSpec) -> None:
        """Make the cluster when all is there that its nodes use, such as the ways to file systems."""
        used = [child for child in self.node.children if not isinstance(child, cdk.CfnOutput)]
        role = None if made.role_arn is None else iam.Role.from_role_arn(self, "Operator", made.role_arn)
        cluster = ParallelCluster(
            self,
            "Cluster",
            cluster_name=site.spec.name,
            configuration=deployed_configuration(site.spec, partial(self._output, site.app)),
            provider=ParallelClusterProvider(self, "Provider", version=made.version, role=role),
            removal_policy=cdk.RemovalPolicy.DESTROY if made.delete_with_stack else cdk.RemovalPolicy.RETAIN,
        )
        cluster.node.add_dependency(*used)

    def _output(self, app: cdk.App, stack: str, output: str) -> str:
        """The value of an output of this stack, or of one that is deployed before."""
        if stack == self.node.id:
            return self._published[output]
        publisher = app.node.find_child(stack)
        assert isinstance(publisher, cdk.Stack)  # noqa: S101 - stacks are the children of the app
        return read(self, publisher, output)
