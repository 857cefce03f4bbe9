"""The user data of nodes, and the asset with the files that can wait for the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from constructs import Construct

from cdk_gpu_clusters._cdk import report, stack_of
from cdk_gpu_clusters.compute.node_asset import NodeAsset, node_software
from cdk_gpu_clusters.fleet.node import NodeRequest, node_settings
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.node.settings import check_settings
from cdk_gpu_clusters.node.software import NodeFile, SoftwareObject, software_archive
from cdk_gpu_clusters.node.user_data import render_user_data


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenNode:
    """What a node is launched with.

    Attributes:
        user_data: The user data.
        asset: The files that come from S3.
    """

    user_data: str
    asset: NodeAsset


def write_node(scope: Construct, plan: FleetPlan, node: NodeRequest) -> WrittenNode:
    """Write the user data of nodes, and make the asset that holds the files that can wait for the network.

    Args:
        scope: Their construct.
        plan: What was decided about their fleet.
        node: What is requested of them.

    Raises:
        ConfigError: GPU-UD-003 and -005 to -008, GPU-MNT-001 to -003.
    """
    settings = node_settings(plan, node)
    report(scope, check_settings(settings))
    asset = _asset(scope, node.files)
    place = SoftwareObject(bucket_name=asset.bucket_name, object_key=asset.object_key, sha256=asset.sha256)
    return WrittenNode(user_data=render_user_data(settings, place), asset=asset)


def _asset(scope: Construct, files: Sequence[NodeFile]) -> NodeAsset:
    if all(file.early for file in files):
        return node_software(stack_of(scope))
    return NodeAsset(scope, "Software", content=software_archive(files), file_extension=".tar")
