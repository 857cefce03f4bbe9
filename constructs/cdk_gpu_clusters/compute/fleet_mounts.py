"""What a fleet needs of the file systems that its nodes mount."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.errors import Finding, raise_for
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.node.storage import LustreMount, Mount, NfsMount, check_read_only


class LustreFileSystem(Protocol):
    """A file system of FSx for Lustre: a `LustreStore`, or CDK's own `aws_fsx.LustreFileSystem`."""

    @property
    def dns_name(self) -> str:
        """Name to mount."""
        ...

    @property
    def mount_name(self) -> str:
        """The file system's own word behind the name."""
        ...


@runtime_checkable
class NfsFileSystem(Protocol):
    """A file system that speaks NFS: a `HomeStore`, or a class of yours with these properties."""

    @property
    def dns_name(self) -> str:
        """Name to mount."""
        ...

    @property
    def export_path(self) -> str:
        """Directory of the file system that is mounted."""
        ...

    @property
    def nfs_options(self) -> str:
        """Options of mount(8), separated by commas."""
        ...


#: What nodes mount: FSx for Lustre, or NFS.
MountableFileSystem: TypeAlias = LustreFileSystem | NfsFileSystem


@runtime_checkable
class _KnowsClients(Protocol):
    """A store that opens its ports to clients, and knows which of them cannot mount it."""

    def allow_clients(self, security_group: ec2.ISecurityGroup) -> None: ...

    def check_client(
        self,
        *,
        subnets: Sequence[ec2.ISubnet] = (),
        instance_type: InstanceType | None = None,
        operating_system: str | None = None,
        kernel: str | None = None,
        node_count: int | None = None,
        efa: bool | None = None,
    ) -> list[Finding]: ...


def node_mounts(stores: Mapping[str, MountableFileSystem], read_only: Collection[str] = ()) -> tuple[Mount, ...]:
    """The mounts of a node, in the order given, with EFA if the file system has it.

    Args:
        stores: File systems by mount point.
        read_only: Mount points at which the nodes only read.

    Raises:
        ConfigError: GPU-MNT-006.
    """
    raise_for(check_read_only(read_only, stores))
    return tuple(_mount(point, store, is_read_only=point in read_only) for point, store in stores.items())


def _mount(point: str, store: MountableFileSystem, *, is_read_only: bool) -> Mount:
    if isinstance(store, NfsFileSystem):
        return NfsMount(
            mount_point=point,
            dns_name=store.dns_name,
            export_path=store.export_path,
            options=store.nfs_options,
            read_only=is_read_only,
        )
    return LustreMount(
        mount_point=point,
        dns_name=store.dns_name,
        mount_name=store.mount_name,
        # Only a `LustreStore` knows it of itself.
        efa=bool(getattr(store, "efa", False)),
        read_only=is_read_only,
    )


def join_stores(
    scope: Construct,
    plan: FleetPlan,
    stores: Mapping[str, MountableFileSystem],
    security_group: ec2.ISecurityGroup,
    *,
    subnets: Sequence[ec2.ISubnet],
) -> None:
    """Open each file system to the nodes, where it can do that by itself, and report what keeps them from it.

    Args:
        scope: The fleet.
        plan: What was decided about it.
        stores: File systems by mount point.
        security_group: Group of the nodes.
        subnets: Subnets of the nodes.

    Raises:
        ConfigError: The faults that the file systems find in their clients.
    """
    check_stores(scope, plan, stores, subnets=subnets)
    for store in _known(stores):
        store.allow_clients(security_group)


def check_stores(
    scope: Construct,
    plan: FleetPlan,
    stores: Mapping[str, MountableFileSystem],
    *,
    subnets: Sequence[ec2.ISubnet] = (),
) -> None:
    """Report what keeps nodes from mounting file systems.

    Args:
        scope: Construct of the nodes.
        plan: What was decided about them.
        stores: File systems by mount point.
        subnets: Their subnets, as far as those are known.

    Raises:
        ConfigError: The faults that the file systems find in their clients.
    """
    findings = [
        finding
        for store in _known(stores)
        for finding in store.check_client(
            subnets=subnets,
            instance_type=plan.instance_type,
            operating_system=plan.operating_system,
            kernel=plan.kernel,
            node_count=plan.maximum,
            # Nodes without EFA mount over TCP; the others as the file system has it.
            efa=None if plan.efa else False,
        )
    ]
    report(scope, findings)


def _known(stores: Mapping[str, MountableFileSystem]) -> list[_KnowsClients]:
    return [store for store in stores.values() if isinstance(store, _KnowsClients)]
