"""Remove everything that a run made, by its tag: before a run, after it, and after one that was killed.

It can be repeated. It knows no run: what has the tag goes, whoever made it. Stacks go first, with what they protect;
then what stacks leave behind on purpose, such as file systems, buckets, backups and log groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from .account import CLUSTER_PREFIX, Account

#: The tag of every resource of a run. Its value is the scenario.
TAG = "gpu-clusters-test"
_MINUTES = 60
# A network that fails for a minute, or a login that ended: the next round tries again.
_FAULTS = (BotoCoreError, ClientError)
_FILTER = [{"Name": "tag-key", "Values": [TAG]}]
_LIVE = ["pending", "running", "stopping", "stopped", "shutting-down"]


def clean(account: Account, *, tell: Callable[[str], None], minutes: float = _MINUTES) -> list[str]:
    """Remove what has the tag.

    Args:
        tell: Takes a line for each thing that goes.
        minutes: When to give up.

    Returns:
        What is left, empty if all is gone. It is safe to call this again.
    """
    deadline = account.seconds() + minutes * 60
    told: set[str] = set()
    while True:
        left = []
        for kind in _KINDS:
            for one in _found(kind, account):
                name = f"{kind.name} {one}"
                left.append(name)
                if name not in told:
                    told.add(name)
                    tell(f"remove {name}")
                with suppress(*_FAULTS):  # in use still, on its way, or gone: the next round tells
                    kind.remove(account, one)
        if not left or account.seconds() > deadline:
            return left
        account.pause()


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of thing that costs money or stands in the way.

    Attributes:
        name: Its name.
        find: Ids of those with the tag that are not gone.
        remove: Removes one, or asks for it.
    """

    name: str
    find: Callable[[Account], Iterator[str]]
    remove: Callable[[Account, str], None]


def _found(kind: _Kind, account: Account) -> list[str]:
    """What is there of a kind; what cannot be listed counts as left, with the reason."""
    if kind.name in account.gaps:
        return []
    try:
        return list(kind.find(account))
    except _FAULTS as fault:
        return [f"not listed: {fault}"]


def _is_ours(tags: Any) -> bool:
    return any(one.get("Key") == TAG for one in tags or ())


def _pages(account: Account, service: str, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
    for page in account.client(service).get_paginator(operation).paginate(**parameters):
        yield from page.get(key, ())


def _reservations(account: Account) -> Iterator[str]:
    asked = {"Filters": [*_FILTER, {"Name": "state", "Values": ["active", "pending"]}]}
    for one in _pages(account, "ec2", "describe_capacity_reservations", "CapacityReservations", **asked):
        if _is_ours(one.get("Tags")) and one["State"] in ("active", "pending"):
            yield one["CapacityReservationId"]


def _cancel(account: Account, reservation_id: str) -> None:
    account.client("ec2").cancel_capacity_reservation(CapacityReservationId=reservation_id)


def _groups(account: Account) -> Iterator[str]:
    """Groups with nodes: they go to zero before their stack does, so that the nodes drain."""
    for one in _pages(account, "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups"):
        wanted = one["DesiredCapacity"] or one["MinSize"]
        if _is_ours(one.get("Tags")) and wanted and one.get("Status") is None:
            yield one["AutoScalingGroupName"]


def _empty(account: Account, name: str) -> None:
    account.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName=name, MinSize=0, DesiredCapacity=0)


def _stacks(account: Account) -> Iterator[str]:
    for one in _pages(account, "cloudformation", "describe_stacks", "Stacks"):
        if _is_ours(one.get("Tags")) and one["StackStatus"] != "DELETE_COMPLETE":
            yield one["StackName"]


def _delete_stack(account: Account, name: str) -> None:
    cloudformation = account.client("cloudformation")
    cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)
    cloudformation.delete_stack(StackName=name)


def _instances(account: Account) -> Iterator[str]:
    asked = {"Filters": [*_FILTER, {"Name": "instance-state-name", "Values": _LIVE}]}
    for one in _pages(account, "ec2", "describe_instances", "Reservations", **asked):
        for instance in one["Instances"]:
            if _is_ours(instance.get("Tags")) and instance["State"]["Name"] in _LIVE and not _has_group(instance):
                yield instance["InstanceId"]


def _has_group(instance: Any) -> bool:
    return any(one["Key"] == "aws:autoscaling:groupName" for one in instance["Tags"])


def _terminate(account: Account, instance_id: str) -> None:
    account.client("ec2").terminate_instances(InstanceIds=[instance_id])


def _volumes(account: Account) -> Iterator[str]:
    for one in _pages(account, "ec2", "describe_volumes", "Volumes", Filters=_FILTER):
        if _is_ours(one.get("Tags")) and one["State"] == "available":
            yield one["VolumeId"]


def _delete_volume(account: Account, volume_id: str) -> None:
    account.client("ec2").delete_volume(VolumeId=volume_id)


def _file_systems(account: Account) -> Iterator[str]:
    for one in _pages(account, "fsx", "describe_file_systems", "FileSystems"):
        if _is_ours(one.get("Tags")) and not _is_of_stack(one.get("Tags"), account):
            yield one["FileSystemId"]


def _is_of_stack(tags: Any, account: Account) -> bool:
    """Whether a stack that is still there has the resource: it deletes the resource, or leaves it, when it goes."""
    names = {one["Value"] for one in tags if one["Key"] == "aws:cloudformation:stack-name"}
    return bool(names & set(_stacks(account)))


def _delete_file_system(account: Account, file_system_id: str) -> None:
    account.client("fsx").delete_file_system(FileSystemId=file_system_id, LustreConfiguration={"SkipFinalBackup": True})


def _backups(account: Account) -> Iterator[str]:
    for one in _pages(account, "fsx", "describe_backups", "Backups"):
        if _is_ours(one.get("Tags")) and one["Lifecycle"] != "DELETED":
            yield one["BackupId"]


def _delete_backup(account: Account, backup_id: str) -> None:
    account.client("fsx").delete_backup(BackupId=backup_id)


def _buckets(account: Account) -> Iterator[str]:
    existing = {one["Name"] for one in account.client("s3").list_buckets()["Buckets"]}
    kept = set(_resources_of_stacks(account, "AWS::S3::Bucket"))
    yield from (name for name in account.tagged(TAG, "s3") if name in existing - kept)


def _resources_of_stacks(account: Account, kind: str) -> Iterator[str]:
    for stack in _stacks(account):
        asked = {"StackName": stack}
        for one in _pages(account, "cloudformation", "list_stack_resources", "StackResourceSummaries", **asked):
            if one["ResourceType"] == kind and one["ResourceStatus"] != "DELETE_COMPLETE":
                yield one.get("PhysicalResourceId", "")


def _delete_bucket(account: Account, name: str) -> None:
    s3 = account.client("s3")
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        for one in found:
            s3.delete_object(Bucket=name, Key=one["Key"], VersionId=one["VersionId"])
    s3.delete_bucket(Bucket=name)


def _security_groups(account: Account) -> Iterator[str]:
    """Groups that were left with a file system; the network cannot go before them."""
    found = _pages(account, "ec2", "describe_security_groups", "SecurityGroups")
    existing = {one["GroupId"] for one in found}
    kept = set(_resources_of_stacks(account, "AWS::EC2::SecurityGroup"))
    yield from (one for one in account.tagged(TAG, "ec2:security-group") if one in existing - kept)


def _delete_security_group(account: Account, group_id: str) -> None:
    account.client("ec2").delete_security_group(GroupId=group_id)


def _keys(account: Account) -> Iterator[str]:
    kms = account.client("kms")
    kept = set(_resources_of_stacks(account, "AWS::KMS::Key"))
    for one in account.tagged(TAG, "kms:key"):
        with suppress(kms.exceptions.NotFoundException):  # its days are over, and the tags do not know it yet
            if one not in kept and kms.describe_key(KeyId=one)["KeyMetadata"]["KeyState"] == "Enabled":
                yield one


def _schedule_deletion(account: Account, key_id: str) -> None:
    account.client("kms").schedule_key_deletion(KeyId=key_id, PendingWindowInDays=7)


def _log_groups(account: Account) -> Iterator[str]:
    """Groups with the tag; and those of clusters of EKS, which EKS makes again, without tags, if it writes late."""
    existing = {one["logGroupName"] for one in _pages(account, "logs", "describe_log_groups", "logGroups")}
    of_clusters = {one for one in existing if one.startswith(f"/aws/eks/{CLUSTER_PREFIX}")}
    tagged = existing & set(account.tagged(TAG, "logs:log-group"))
    yield from sorted((tagged | of_clusters) - set(_resources_of_stacks(account, "AWS::Logs::LogGroup")))


def _delete_log_group(account: Account, name: str) -> None:
    account.client("logs").delete_log_group(logGroupName=name)


# In the order in which they go; what a later one waits for is tried again in the next round.
_KINDS = (
    _Kind("capacity reservation", _reservations, _cancel),
    _Kind("nodes of", _groups, _empty),
    _Kind("stack", _stacks, _delete_stack),
    _Kind("instance", _instances, _terminate),
    _Kind("volume", _volumes, _delete_volume),
    _Kind("file system", _file_systems, _delete_file_system),
    _Kind("backup", _backups, _delete_backup),
    _Kind("bucket", _buckets, _delete_bucket),
    _Kind("security group", _security_groups, _delete_security_group),
    _Kind("key", _keys, _schedule_deletion),
    _Kind("log group", _log_groups, _delete_log_group),
)
