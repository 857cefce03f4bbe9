"""User data of node settings, with software in a bucket of any name. Imports no CDK."""

from __future__ import annotations

from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.software import SoftwareObject
from cdk_gpu_clusters.node.user_data import render_user_data

#: Names of the greatest length.
SOFTWARE = SoftwareObject(bucket_name="b" * 63, object_key="k" * 68, sha256="5" * 64)


def rendered(settings: NodeSettings) -> str:
    """The user data of a node."""
    return render_user_data(settings, SOFTWARE)
