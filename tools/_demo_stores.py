"""File systems and buckets of an emulated account, as plain lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdk_gpu_clusters.testing import EmulatedAccount

Json = dict[str, Any]
_BUCKETS = ("AWS::S3::Bucket", "AWS::S3Express::DirectoryBucket")


def store_lines(account: EmulatedAccount) -> Iterator[str]:
    """Every file system with its links to S3, and every bucket that a stack of ours made."""
    fsx = account.client("fsx")
    associations = fsx.describe_data_repository_associations()["Associations"]
    for one in fsx.describe_file_systems()["FileSystems"]:
        yield f"file system {one['FileSystemId']} [model]: {_words(one)}"
        for link in associations:
            if link["FileSystemId"] == one["FileSystemId"]:
                yield f"  link [model]: {link['FileSystemPath']} and {link['DataRepositoryPath']}{_events(link)}"
    for found in account.resources():
        if found["type"] in _BUCKETS and found["stack"] != "CDKToolkit":
            answered = "emulator" if found["answered_by"] == "emulator" else "model"
            yield f"bucket {found['physical_id']} [{answered}]"


def _words(file_system: Json) -> str:
    if "LustreConfiguration" in file_system:
        return _lustre(file_system)
    size, name = file_system["StorageCapacity"], file_system["DNSName"]
    return f"{file_system['FileSystemType']}, {size} GiB, mounted from {name}"


def _lustre(file_system: Json) -> str:
    given = file_system["LustreConfiguration"]
    size = f"{file_system['StorageCapacity']} GiB" if "StorageCapacity" in file_system else "elastic"
    rate = given.get("PerUnitStorageThroughput")
    parts = [
        f"{given['DeploymentType']} {file_system['StorageType']}, {size}",
        f"{rate} MB/s/TiB" if rate else f"{given.get('ThroughputCapacity', 200)} MB/s",
        "EFA" if given["EfaEnabled"] else "no EFA",
        f"mounted from {file_system['DNSName']}",
    ]
    return ", ".join(parts)


def _events(link: Json) -> str:
    policies = link.get("S3", {})
    words = []
    for name, verb in (("AutoImportPolicy", "imports"), ("AutoExportPolicy", "exports")):
        events = policies.get(name, {}).get("Events", [])
        if events:
            words.append(f"{verb} what is {', '.join(event.lower() for event in events)}")
    return f", {' and '.join(words)}" if words else ""
