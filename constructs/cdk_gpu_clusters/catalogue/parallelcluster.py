"""AWS ParallelCluster: what its configuration takes and refuses, each row with its source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from cdk_gpu_clusters.catalogue._files import read_json

_FILE = "parallelcluster.json"

#: The version whose configuration this library writes.
PARALLELCLUSTER_VERSION: str = read_json(_FILE)["version"]
#: Longest name of a queue or of a compute resource.
LONGEST_NAME: int = read_json(_FILE)["limits"]["name_length"]
#: Longest name of a cluster; the second one where it records jobs in a database.
LONGEST_CLUSTER_NAME: int = read_json(_FILE)["limits"]["cluster_name_length"]
LONGEST_RECORDED_NAME: int = read_json(_FILE)["limits"]["cluster_name_length_with_accounting"]
#: Longest name of shared storage.
LONGEST_STORAGE_NAME: int = read_json(_FILE)["limits"]["storage_name_length"]
#: Most queues of a cluster.
MOST_QUEUES: int = read_json(_FILE)["limits"]["queues"]
#: Most compute resources of all queues together.
MOST_COMPUTE_RESOURCES: int = read_json(_FILE)["limits"]["compute_resources"]


@cache
def refused_settings() -> Mapping[str, frozenset[str]]:
    """Settings of slurm.conf that ParallelCluster sets itself, in lower case, by level.

    The levels are `cluster`, `queue` and `compute resource`.

    Example:
        >>> "gres" in refused_settings()["compute resource"]
        True
    """
    rows = read_json(_FILE)["settings"]
    return MappingProxyType({row["level"]: frozenset(row["names"]) for row in rows})


@cache
def system_names() -> Mapping[str, str]:
    """Operating systems of this library -> `Image.Os` of ParallelCluster.

    Example:
        >>> system_names()["al2023"]
        'alinux2023'
    """
    return MappingProxyType(read_json(_FILE)["systems"]["names"])


@cache
def image_names() -> Mapping[str, str]:
    """Operating systems of this library -> part of the names of ParallelCluster's images.

    Example:
        >>> image_names()["al2023"]
        'amzn2023-hvm'
    """
    return MappingProxyType(read_json(_FILE)["systems"]["images"])


@cache
def reserved_folders() -> frozenset[str]:
    """Directories at which ParallelCluster mounts no shared storage.

    Example:
        >>> "/opt" in reserved_folders(), "/home" in reserved_folders()
        (True, False)
    """
    return frozenset(read_json(_FILE)["reserved_folders"]["paths"])


@cache
def accelerators_with_driver() -> frozenset[str]:
    """Kinds of accelerators whose driver is in ParallelCluster's images.

    Example:
        >>> sorted(accelerators_with_driver())
        ['gpu']
    """
    return frozenset(read_json(_FILE)["drivers"]["accelerators"])


@cache
def families_without_driver() -> frozenset[str]:
    """Families of types whose GPUs are too old for the driver in ParallelCluster's images.

    Example:
        >>> "p3dn" in families_without_driver()
        True
    """
    return frozenset(read_json(_FILE)["drivers"]["families_without"])
