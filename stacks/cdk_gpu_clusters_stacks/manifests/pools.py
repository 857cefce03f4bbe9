"""The fleets of a cluster file as node pools of Kubernetes, with the file systems that their pods mount."""

from __future__ import annotations

from collections.abc import Mapping

from cdk_gpu_clusters.catalogue.network_topology import has_topology
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NodePool, node_pool
from cdk_gpu_clusters.rules.interfaces import uses_efa
from cdk_gpu_clusters_stacks.spec.data import ExistingLustreSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.fleet import NodesSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.stack_names import data_stack

#: What stands in a text for a value that only the deployed stack knows: a variable of the shell.
FILE_SYSTEM_ID, DNS_NAME, MOUNT_NAME = "FILE_SYSTEM_ID", "DNS_NAME", "MOUNT_NAME"
#: Variable -> the output of the store's stack that has its value.
OUTPUTS = {FILE_SYSTEM_ID: "FileSystemId", DNS_NAME: "DnsName", MOUNT_NAME: "MountName"}


def variable(store: str, name: str) -> str:
    """The shell variable that holds a value of a store, such as `CORPUS_DNS_NAME`."""
    return f"{store.upper().replace('-', '_')}_{name}"


def store_stacks(spec: ClusterSpec) -> dict[str, str]:
    """The stacks of the file systems that are made here, by the store's name."""
    return {
        name: data_stack(spec.name, name) for name, one in spec.data.items() if isinstance(one, LustreSpec)
    }


def volumes(spec: ClusterSpec) -> dict[str, LustreVolume]:
    """The file systems of a cluster file by name; of one that is made here, variables stand for what is not known."""
    found = {}
    for name, store in spec.data.items():
        if isinstance(store, ExistingLustreSpec):
            options = store.existing_lustre
            found[name] = LustreVolume(
                name=name,
                file_system_id=options.file_system_id,
                dns_name=options.dns_name or _dns_name(options.file_system_id, spec.region),
                mount_name=options.mount_name,
            )
        elif isinstance(store, LustreSpec):
            found[name] = LustreVolume(
                name=name,
                file_system_id=f"${{{variable(name, FILE_SYSTEM_ID)}}}",
                dns_name=f"${{{variable(name, DNS_NAME)}}}",
                mount_name=f"${{{variable(name, MOUNT_NAME)}}}",
                storage_capacity_gib=store.lustre.storage_capacity_gib,
            )
    return found


def node_pools(spec: ClusterSpec, known: Mapping[str, LustreVolume]) -> dict[str, NodePool]:
    """The fleets of a cluster file by name.

    Args:
        spec: The cluster.
        known: Its file systems by name.
    """
    fleets: dict[str, NodesSpec] = {**spec.training.fleets, **spec.inference.fleets}
    return {name: pool_of(name, fleet, known, region=spec.region) for name, fleet in fleets.items()}


def pool_of(
    name: str, fleet: NodesSpec, known: Mapping[str, LustreVolume], *, region: str | None = None
) -> NodePool:
    """One fleet as a node pool.

    Args:
        name: Its name.
        fleet: The fleet.
        known: File systems of the cluster by name.
        region: Region of the cluster; None where the place of the nodes in the network does not matter.
    """
    return node_pool(
        name,
        instance_type=fleet.instance_type,
        node_count=fleet.maximum_nodes,
        efa=uses_efa(fleet.instance_type, fleet.efa_wish),
        interface_policy=fleet.interface_wish,
        mig=fleet.mig_layouts,
        mounts={point: known[store] for point, store in fleet.mounts.items() if store in known},
        network_topology=region is None or has_topology(region),
    )


def _dns_name(file_system_id: str, region: str) -> str:
    """Name of a file system (FSx for Lustre user guide, "Mounting from an EC2 instance")."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{file_system_id}.fsx.{region}.{suffix}"
