"""FSx and S3: quotas and names of new stores, and existing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cdk_gpu_clusters.catalogue.quotas import quota
from cdk_gpu_clusters_stacks.spec import (
    CheckpointsSpec,
    ExistingLustreOptions,
    LustreOptions,
    LustreSpec,
    OpenZfsOptions,
    OpenZfsSpec,
)
from cdk_gpu_clusters_stacks.spec.data import ExistingCheckpointsSpec
from cdk_gpu_clusters_stacks.stack_names import data_stack

from ..call import BUCKET, DIRECTORY_BUCKETS, FILE_SYSTEMS, STACKS, SUBNETS, Absent, Denied, NoAnswer
from ..check import Inquiry, Verdict, cannot_tell, define_check, failed, passed, warned
from ..cluster import Cluster, ExistingFsx
from ..quota import QUOTA_CALLS, weigh
from .network import found_subnets

_QUOTAS = 'FSx for Lustre user guide, "Quotas"'
_FILE_SYSTEMS = "Amazon FSx API reference, DescribeFileSystems"
_NONE_NEW = "no Lustre file system is made"
_NONE_EXISTS = "the file names no existing file system"


def _new_of(cluster: Cluster, scratch: bool) -> list[LustreOptions]:
    return [
        store.lustre
        for store in cluster.stores(LustreSpec).values()
        if store.lustre.deployment_type.startswith("SCRATCH") is scratch
    ]


def _classes(cluster: Cluster) -> Mapping[str, bool]:
    """Whether it is scratch, for each class of file systems that is made."""
    names = {False: "data (persistent)", True: "data (scratch)"}
    return {names[scratch]: scratch for scratch in (False, True) if _new_of(cluster, scratch)}


def _others(scratch: bool, inquiry: Inquiry) -> list[Mapping[str, Any]]:
    kinds = ("SCRATCH_1", "SCRATCH_2") if scratch else ("PERSISTENT_2",)
    return [
        one
        for one in inquiry.ask(FILE_SYSTEMS)["FileSystems"]
        if one.get("LustreConfiguration", {}).get("DeploymentType") in kinds and not inquiry.cluster.owns(one)
    ]


@define_check(
    "GPU-PRE-111",
    "the storage quota of FSx for Lustre has room for new file systems",
    source=_QUOTAS,
    calls=(*QUOTA_CALLS, FILE_SYSTEMS),
    subjects=_classes,
    unless=_NONE_NEW,
)
def _storage(scratch: bool, inquiry: Inquiry) -> Verdict:
    return weigh(
        quota("lustre-scratch-storage" if scratch else "lustre-persistent-storage"),
        inquiry,
        used=lambda: sum(one.get("StorageCapacity", 0) for one in _others(scratch, inquiry)),
        least=sum(store.storage_capacity_gib or 0 for store in _new_of(inquiry.cluster, scratch)),
    )


@define_check(
    "GPU-PRE-112",
    "the quota of Lustre file systems has room for new ones",
    source=_QUOTAS,
    calls=(*QUOTA_CALLS, FILE_SYSTEMS),
    subjects=_classes,
    unless=_NONE_NEW,
)
def _count(scratch: bool, inquiry: Inquiry) -> Verdict:
    return weigh(
        quota("lustre-scratch-file-systems" if scratch else "lustre-persistent-file-systems"),
        inquiry,
        used=lambda: len(_others(scratch, inquiry)),
        least=len(_new_of(inquiry.cluster, scratch)),
    )


def _found(store: ExistingFsx, inquiry: Inquiry) -> Mapping[str, Any] | None:
    found = inquiry.ask(FILE_SYSTEMS)["FileSystems"]
    return next((one for one in found if one["FileSystemId"] == store.file_system_id), None)


@define_check(
    "GPU-PRE-113",
    "an existing file system of FSx is of the type that the file gives, and available",
    source=_FILE_SYSTEMS,
    calls=(FILE_SYSTEMS,),
    subjects=lambda cluster: cluster.existing_fsx,
    unless=_NONE_EXISTS,
)
def _file_system_exists(store: ExistingFsx, inquiry: Inquiry) -> Verdict:
    found, name = _found(store, inquiry), store.file_system_id
    wanted = "Lustre" if isinstance(store, ExistingLustreOptions) else "OpenZFS"
    if found is None:
        return failed(f"there is no {name} in {inquiry.cluster.region}", fix="correct id, Region or profile")
    state = found.get("Lifecycle")
    if found.get("FileSystemType") != wanted.upper():
        return failed(f"{name} is {found.get('FileSystemType')}", fix=f"name a file system of FSx for {wanted}")
    if state == "UPDATING":
        return warned(f"{name} is being updated", fix="wait, or expect slow mounts")
    if state != "AVAILABLE":
        return failed(f"{name} is {state}", fix="repair it in the FSx console")
    return passed(f"{name} is available")


def _known(store: ExistingFsx, inquiry: Inquiry) -> Mapping[str, Any]:
    found = _found(store, inquiry)
    configuration = "LustreConfiguration" if isinstance(store, ExistingLustreOptions) else "OpenZFSConfiguration"
    if found is None or configuration not in found:
        raise NoAnswer(f"{store.file_system_id} is not there", fix="see GPU-PRE-113")
    return found


@define_check(
    "GPU-PRE-114",
    "an existing Lustre file system matches the file: mount name, DNS name, EFA, version",
    source=_FILE_SYSTEMS,
    calls=(FILE_SYSTEMS,),
    subjects=lambda cluster: cluster.existing_lustre,
    unless=_NONE_EXISTS,
)
def _as_described(store: ExistingLustreOptions, inquiry: Inquiry) -> Iterator[Verdict]:
    found = _known(store, inquiry)
    lustre = found["LustreConfiguration"]
    pairs = (
        ("mount_name", store.mount_name, lustre.get("MountName")),
        ("dns_name", store.dns_name, found.get("DNSName")),
        ("efa", store.efa, lustre.get("EfaEnabled", False)),
        ("lustre_version", store.lustre_version, found.get("FileSystemTypeVersion")),
    )
    for name, said, real in pairs:
        if said is not None and real is not None and said != real:
            right = str(real).lower() if isinstance(real, bool) else real
            yield failed(f"{store.file_system_id} has {name} {right}, the file has {said}", fix=f"{name}: {right}")


@define_check(
    "GPU-PRE-115",
    "an existing file system is in the VPC and zone of the fleets",
    source='FSx for Lustre user guide, "Working with EFA-enabled file systems"; traffic between zones is charged',
    calls=(FILE_SYSTEMS, SUBNETS),
    subjects=lambda cluster: cluster.existing_fsx,
    unless=_NONE_EXISTS,
)
def _same_network(store: ExistingFsx, inquiry: Inquiry) -> Iterator[Verdict]:
    inquiry.start(SUBNETS)
    found, network = _known(store, inquiry), inquiry.cluster.existing_network
    if network is None:
        yield failed(
            f"{store.file_system_id} is in {found.get('VpcId')}, and the fleets get a VPC of their own",
            fix=f"network: {{ vpc_id: {found.get('VpcId')}, … }}, or join the two by a peering after the deployment",
        )
        return
    if found.get("VpcId") != network.vpc_id:
        yield failed(
            f"{store.file_system_id} is in {found.get('VpcId')}, the fleets in {network.vpc_id}",
            fix="put the fleets into its VPC, or make sure that a peering joins the two",
        )
    subnets = found_subnets(inquiry)
    # FSx API reference, OpenZFSFileSystemConfiguration: of two servers, the preferred one is in this subnet.
    preferred = found.get("OpenZFSConfiguration", {}).get("PreferredSubnetId")
    servers = [preferred] if preferred else found.get("SubnetIds", ())
    for subnet in (subnets[one] for one in servers if one in subnets):
        if not inquiry.cluster.is_zone(network.availability_zone, subnet):
            cause = f"{store.file_system_id} is in {subnet['AvailabilityZone']}"
            if isinstance(store, ExistingLustreOptions) and store.efa:
                yield failed(f"{cause}, and EFA does not leave a zone", fix="put the fleets into that zone")
            else:
                yield warned(f"{cause}: slower, and each GB is charged", fix="put the fleets into that zone")


# FSx for OpenZFS: new home directories.


def _new_homes(cluster: Cluster) -> list[OpenZfsOptions]:
    return [store.openzfs for store in cluster.stores(OpenZfsSpec).values()]


def _other_homes(inquiry: Inquiry) -> list[Mapping[str, Any]]:
    found = inquiry.ask(FILE_SYSTEMS)["FileSystems"]
    return [one for one in found if one.get("FileSystemType") == "OPENZFS" and not inquiry.cluster.owns(one)]


def _throughput(found: Mapping[str, Any]) -> int:
    return int(found.get("OpenZFSConfiguration", {}).get("ThroughputCapacity", 0))


#: Quota -> what a file system of the file takes of it, and one of the account.
_OF_HOMES: Mapping[str, tuple[Callable[[OpenZfsOptions], int], Callable[[Mapping[str, Any]], int]]] = {
    "openzfs-file-systems": (lambda _: 1, lambda _: 1),
    "openzfs-storage": (lambda one: one.storage_capacity_gib, lambda one: int(one.get("StorageCapacity", 0))),
    "openzfs-throughput": (lambda one: one.throughput_mb_per_s, _throughput),
}


@define_check(
    "GPU-PRE-116",
    "the quotas of FSx for OpenZFS have room for new home directories",
    source='FSx for OpenZFS user guide, "Quotas"',
    calls=(*QUOTA_CALLS, FILE_SYSTEMS),
    subjects=lambda cluster: {f"data ({name})": name for name in _OF_HOMES} if _new_homes(cluster) else {},
    unless="no home directories are made on FSx for OpenZFS",
)
def _room_for_homes(name: str, inquiry: Inquiry) -> Verdict:
    of_new, of_other = _OF_HOMES[name]
    return weigh(
        quota(name),
        inquiry,
        used=lambda: sum(map(of_other, _other_homes(inquiry))),
        least=sum(map(of_new, _new_homes(inquiry.cluster))),
    )


# Buckets: existing ones that the file names, and names that new ones are to have.

_HEAD = "Amazon S3 API reference, HeadBucket"
_NO_BUCKET = "the file names no existing bucket"


@define_check(
    "GPU-PRE-121",
    "the buckets are there, and let the caller list them",
    source=_HEAD,
    calls=(BUCKET,),
    subjects=lambda cluster: cluster.buckets,
    unless=_NO_BUCKET,
)
def _bucket_exists(name: str, inquiry: Inquiry) -> Verdict | None:
    try:
        inquiry.ask(BUCKET, Bucket=name)
    except Absent:
        return failed(f"there is no bucket {name}", fix="correct the name, or make the bucket first")
    except Denied:
        return cannot_tell(
            f"bucket {name} is there and refuses: it is another account's, or s3:ListBucket is missing",
            fix="let the caller in by the bucket's policy, or allow s3:ListBucket",
            permission="s3:ListBucket",
        )
    return None


def _placed(cluster: Cluster) -> Mapping[str, tuple[str, str, bool]]:
    """Bucket, its Region, and whether another one is an error."""
    found = {
        where: (name, cluster.region, where.endswith("access_log_bucket")) for where, name in cluster.buckets.items()
    }
    for where, store in cluster.stores(LustreSpec).items():
        for index, link in enumerate(store.repositories):
            region = link.bucket_region or cluster.region
            found[f"{where}.repositories.{index}.bucket"] = (link.bucket, region, True)
    return found


@define_check(
    "GPU-PRE-122",
    "the buckets are in the Region that the file gives, or in the cluster's",
    source=f'{_HEAD}; FSx for Lustre user guide, "Linking your file system to an Amazon S3 bucket"; traffic '
    "between Regions is charged",
    calls=(BUCKET,),
    subjects=_placed,
    unless=_NO_BUCKET,
)
def _same_region(named: tuple[str, str, bool], inquiry: Inquiry) -> Verdict:
    name, wanted, must = named
    answer = inquiry.find(BUCKET, Bucket=name)
    if answer is None:
        return cannot_tell(f"there is no bucket {name}", fix="see GPU-PRE-121")
    found = answer.get("BucketRegion")
    if found is None:
        return cannot_tell(f"S3 does not say where {name} lies")
    if found == wanted:
        return passed(f"{name} in {found}")
    if must:
        return failed(
            f"{name} lies in {found}, and {wanted} is expected",
            fix=f"for a repository say bucket_region: {found}; access logs need a bucket of {wanted}",
        )
    return warned(f"{name} lies in {found}: each GB to {wanted} is charged", fix=f"use a bucket in {wanted}")


def _new(cluster: Cluster) -> Mapping[str, tuple[str, str]]:
    """Name of a new bucket, and the stack that makes it."""
    return {
        f"{where}.checkpoints.bucket_name": (name, data_stack(cluster.spec.name, where.removeprefix("data.")))
        for where, store in cluster.stores(CheckpointsSpec).items()
        if (name := store.checkpoints.bucket_name) is not None
    }


@define_check(
    "GPU-PRE-123",
    "the name of a new bucket is free",
    source='Amazon S3 user guide, "General purpose bucket naming rules": names are unique in a partition',
    calls=(BUCKET, STACKS),
    subjects=_new,
    unless="no new bucket has a name of its own",
)
def _name_free(named: tuple[str, str], inquiry: Inquiry) -> Verdict:
    name, stack = named
    inquiry.start(STACKS, StackName=stack)
    try:
        inquiry.ask(BUCKET, Bucket=name)
    except Absent:
        return passed(f"{name} is free")
    except Denied:
        return failed(f"{name} is another account's, or hidden from the caller", fix="choose another name")
    if inquiry.find(STACKS, StackName=stack) is not None:
        return passed(f"{name} is there, and so is stack {stack}")
    return failed(
        f"{name} is there already, and stack {stack} is not",
        fix="choose another name, or name it as existing_checkpoints",
    )


def _directory(cluster: Cluster) -> Mapping[str, str]:
    return {
        f"{where}.existing_checkpoints.express_bucket_name": name
        for where, store in cluster.stores(ExistingCheckpointsSpec).items()
        if (name := store.existing_checkpoints.express_bucket_name) is not None
    }


@define_check(
    "GPU-PRE-124",
    "existing directory buckets are there",
    source="Amazon S3 API reference, ListDirectoryBuckets",
    calls=(DIRECTORY_BUCKETS,),
    subjects=_directory,
    unless="the file names no directory bucket",
)
def _directory_bucket_there(name: str, inquiry: Inquiry) -> Verdict | None:
    if name in {one["Name"] for one in inquiry.ask(DIRECTORY_BUCKETS).get("Buckets", ())}:
        return None
    return failed(
        f"the account has no directory bucket {name} in {inquiry.cluster.region}",
        fix="correct the name, or the Region",
    )
