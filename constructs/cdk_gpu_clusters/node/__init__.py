"""The software of a plain EC2 training node: its user data, boot checks, peer list and drain. Imports no CDK."""

from cdk_gpu_clusters.node.settings import (
    NodeSettings,
    UserPart,
    check_settings,
    default_nccl_environment,
    nccl_environment,
)
from cdk_gpu_clusters.node.user_data import (
    USER_DATA_LIMIT_BYTES,
    check_user_data,
    render_user_data,
    user_data_size_bytes,
)

__all__ = [
    "USER_DATA_LIMIT_BYTES",
    "NodeSettings",
    "UserPart",
    "check_settings",
    "check_user_data",
    "default_nccl_environment",
    "nccl_environment",
    "render_user_data",
    "user_data_size_bytes",
]
