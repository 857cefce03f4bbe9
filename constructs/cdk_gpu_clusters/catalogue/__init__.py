"""Facts: instance types, images, prices and Regions, each row with its source and date.

No CDK and no boto3 here; a data file is read when it is first asked for. Images, prices and Regions have
modules of their own: `catalogue.images`, `catalogue.prices`, `catalogue.regions`.
"""

from cdk_gpu_clusters.catalogue.instances import (
    Accelerator,
    AcceleratorKind,
    Architecture,
    Efa,
    InstanceType,
    LocalDisk,
    Network,
    NetworkCard,
    UltraServer,
    instance_type,
    instance_type_names,
    instance_types,
    name_only_types,
)

__all__ = [
    "Accelerator",
    "AcceleratorKind",
    "Architecture",
    "Efa",
    "InstanceType",
    "LocalDisk",
    "Network",
    "NetworkCard",
    "UltraServer",
    "instance_type",
    "instance_type_names",
    "instance_types",
    "name_only_types",
]
