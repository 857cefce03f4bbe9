"""What the stacks give to a cluster of AWS ParallelCluster, which `pcluster` makes from its own configuration."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters.compute.node_asset import NodeAsset
from cdk_gpu_clusters_stacks.data import CheckpointStack, ExistingCheckpoints
from cdk_gpu_clusters_stacks.export.scripts import HEAD_NODE, NodeScript, scripts_of
from cdk_gpu_clusters_stacks.fleets import Site, mounted_stores
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import checkpoint_policy_output, parallelcluster_stack


class ParallelClusterStack(cdk.Stack):
    """The security group that stores admit, the scripts of custom actions, and what nodes may do with checkpoints.

    `gpu-clusters export --outputs` writes them into the configuration of the cluster.
    """

    def __init__(self, site: Site, fleets: Sequence[PlannedFleet]) -> None:
        """Define the stack.

        Args:
            site: What the stacks of the cluster have in common.
            fleets: The fleets of the file.
        """
        name = parallelcluster_stack(site.spec.name)
        super().__init__(
            site.app, name, env=site.env, description="Access of nodes of AWS ParallelCluster to a GPU cluster"
        )
        group = ec2.SecurityGroup(
            self,
            "Clients",
            vpc=site.place.vpc(self),
            description="Nodes of AWS ParallelCluster: clients of file systems",
        )
        publish(self, "ClientSecurityGroupId", group.security_group_id, description="Group that all nodes join")
        mounts = {f"{fleet.name}:{point}": store for fleet in fleets for point, store in fleet.spec.mounts.items()}
        for index, store in enumerate(dict.fromkeys(mounted_stores(mounts, site.stores).values())):
            store.import_into(self).allow_from(self, f"Data{index or ''}", group)
        for script in [HEAD_NODE, *(one for fleet in fleets for one in scripts_of(fleet))]:
            self._keep(script)
        for fleet in fleets:
            self._grant_checkpoints(site, fleet)

    def _keep(self, script: NodeScript) -> None:
        """Put a script into the bucket of the app's assets; another text is another object."""
        asset = NodeAsset(self, script.output, content=script.text.encode(), file_extension=".sh")
        publish(
            self, f"{script.output}Url", f"s3://{asset.bucket_name}/{asset.object_key}", description=script.description
        )

    def _grant_checkpoints(self, site: Site, fleet: PlannedFleet) -> None:
        """A policy by which the nodes of a fleet use its store for checkpoints, also one with a key or in one zone."""
        spec = fleet.spec
        store = site.stores[spec.checkpoints] if isinstance(spec, FleetSpec) and spec.checkpoints else None
        if not isinstance(spec, FleetSpec) or not isinstance(store, CheckpointStack | ExistingCheckpoints):
            return
        output = checkpoint_policy_output(fleet.name)
        policy = iam.ManagedPolicy(self, output.removesuffix("Arn"), description=f"Checkpoints of {fleet.name}")
        reached = store.import_into(self, spec.checkpoint_folder(fleet.name), write=not spec.checkpoints_read_only)
        reached.allow(policy)
        publish(self, output, policy.managed_policy_arn, description=f"Lets nodes of {fleet.name} use checkpoints")
