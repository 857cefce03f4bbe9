"""The software of a plain EC2 training node: its user data, boot checks, peer list and drain. Imports no CDK."""

from cdk_gpu_clusters.node.mig import FabricManagerOrder, MigSettings, mig_settings
from cdk_gpu_clusters.node.node_file import NodeFile
from cdk_gpu_clusters.node.settings import (
    COMMUNICATION_VARIABLES,
    NodeSettings,
    UserPart,
    check_settings,
    default_nccl_environment,
    nccl_environment,
)
from cdk_gpu_clusters.node.software import NodeSoftware, SoftwareObject, software_archive
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
    choose_software,
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
    "NodeSoftware",
    "ScratchSettings",
    "SoftwareObject",
    "UserPart",
    "check_secrets",
    "check_settings",
    "check_storage",
    "check_user_data",
    "check_user_data_size",
    "checkpoint_environment",
    "choose_software",
    "default_nccl_environment",
    "mig_settings",
    "nccl_environment",
    "render_user_data",
    "software_archive",
    "user_data_size_bytes",
]
