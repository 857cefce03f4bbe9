"""User data whose software lies anywhere."""

from __future__ import annotations

from cdk_gpu_clusters.node import NodeSettings, SoftwareObject, render_user_data

#: As long as such names get.
SOFTWARE = SoftwareObject(bucket_name="b" * 63, object_key="k" * 68, sha256="5" * 64)


def rendered(settings: NodeSettings) -> str:
    """The user data of a node."""
    return render_user_data(settings, SOFTWARE)
