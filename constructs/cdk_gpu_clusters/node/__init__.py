"""The software of a plain EC2 training node: its user data, boot checks, peer list and drain. Imports no CDK."""

from cdk_gpu_clusters.node.mig import FabricManagerOrder, MigSettings, mig_settings
from cdk_gpu_clusters.node.settings import (
    COMMUNICATION_VARIABLES,
    NodeSettings,
    UserDataPart,
    check_settings,
    default_nccl_environment,
    nccl_environment,
)
from cdk_gpu_clusters.node.software import NodeFile, SoftwareObject, software_archive, software_files
from cdk_gpu_clusters.node.storage import (
    LustreMount,
    ScratchSettings,
    check_storage,
    checkpoint_environment,
)
from cdk_gpu_clusters.node.user_data import (
    USER_DATA_LIMIT_BYTES,
    check_secrets,
    check_user_data,
    check_user_data_size,
    render_user_data,
    user_data_size_bytes,
)

__all__ = [
    "COMMUNICATION_VARIABLES",
    "USER_DATA_LIMIT_BYTES",
    "FabricManagerOrder",
    "LustreMount",
    "MigSettings",
    "NodeFile",
    "NodeSettings",
    "ScratchSettings",
    "SoftwareObject",
    "UserDataPart",
    "check_secrets",
    "check_settings",
    "check_storage",
    "check_user_data",
    "check_user_data_size",
    "checkpoint_environment",
    "default_nccl_environment",
    "mig_settings",
    "nccl_environment",
    "render_user_data",
    "software_archive",
    "software_files",
    "user_data_size_bytes",
]
