"""A cluster of ParallelCluster that stays one: the section `parallelcluster` of the cluster file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

from cdk_gpu_clusters.catalogue import Architecture
from cdk_gpu_clusters.rules.parallelcluster import check_settings
from cdk_gpu_clusters_stacks.spec.parallelcluster import HEAD_TYPES, LOGIN_TYPES

from .draft import Change, Draft, Note
from .foreign import Part
from .group import Group, fleet_name, was, write_tags
from .small_nodes import write_plain_type

_SECTION = "parallelcluster"
_ADD = "add it to the configuration that `gpu-clusters export` writes: a later export keeps it"
_IN_SETTINGS = "Scheduling.SlurmSettings"
_SCRIPTS = (
    "call the scripts in one shell script beside the cluster file, and name it in `user_data` of the fleet; it runs "
    "before the checks of the node"
)
#: What becomes of nodes without accelerators of the catalogue.
OTHER_NODES = f"the catalogue has no such type with accelerators: {_ADD}"
#: Where a value is -> what becomes of it. The longest path that fits is taken.
LOST: Mapping[str, str] = {
    "DevSettings": "settings of ParallelCluster's own developers",
    "DirectoryService": _ADD,
    "HeadNode": _ADD,
    "HeadNode.Networking": "the head node is in the first subnet of the nodes, without a public address",
    "Iam": _ADD,
    "Image.Os": "neither AWS's images of this version nor the library have the system: fleets take Amazon Linux 2023",
    "LoginNodes": _ADD,
    "LoginNodes.Pools.Networking": "login nodes are in the first subnet of the nodes",
    "Monitoring": _ADD,
    _IN_SETTINGS: _ADD,
    f"{_IN_SETTINGS}.EnableMemoryBasedScheduling": _ADD,
    f"{_IN_SETTINGS}.QueueUpdateStrategy": "export writes DRAIN: nodes of a changed queue end when their jobs have "
    "ended",
    "Scheduling.ScalingStrategy": _ADD,
    "Scheduling.SlurmQueues": _ADD,
    "Scheduling.SlurmQueues.CustomActions": _SCRIPTS,
    "Scheduling.SlurmQueues.Networking.AssignPublicIp": "nodes have no public address",
    "Scheduling.SlurmQueues.Networking.SecurityGroups": _ADD,
    "Scheduling.SlurmQueues.AllocationStrategy": "a fleet has one instance type",
    "Scheduling.SlurmQueues.ComputeResources.LaunchTemplateOverrides": _ADD,
    "Scheduling.SlurmQueues.ComputeResources.DisableSimultaneousMultithreading": _ADD,
}
_VOLUME = re.compile(r"fsvol-[0-9a-f]{17}")
#: First keys of lines of slurm.conf that are no settings of the cluster.
_LINES = {"partitionname", "nodename", "nodeset", "frontendname", "downnodes"}
# aws-parallelcluster 3.16.1, pcluster/config/cluster_config.py, HeadNodeSsh: CIDR_ALL_IPS.
_EVERYBODY = "0.0.0.0/0"
# RFC 1918, section 3.
_INSIDE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))


def write_section(
    draft: Draft, root: Part, queues: Sequence[tuple[Part, Sequence[Group]]], mounts: Mapping[str, str]
) -> None:
    """Write the head node, login nodes, Slurm's settings and the queues.

    Args:
        draft: The cluster file.
        root: The ParallelCluster file.
        queues: Its queues, each with its fleets.
        mounts: Directories and stores.
    """
    draft.put(_SECTION, value={})
    _write_head_node(draft, root["HeadNode"])
    _write_login(draft, root["LoginNodes"]["Pools"])
    _write_settings(draft, root["Scheduling"]["SlurmSettings"])
    for part in root["SharedStorage"].items():
        _write_volume(draft, part, mounts)
    for queue, groups in queues:
        if groups:
            _write_queue(draft, queue, groups)


# The head node and login nodes.


def _write_head_node(draft: Draft, head: Part) -> None:
    key = (_SECTION, "head_node")
    write_plain_type(draft, key, head["InstanceType"], otherwise=HEAD_TYPES[Architecture.X86_64])
    ssh = head["Ssh"]
    if (name := ssh["KeyName"]).exists and not name.is_placeholder:
        draft.put(*key, "ssh_key_name", value=name.text(), of=name)
    given = ssh["AllowedIps"].text() or _EVERYBODY
    if _is_inside(given):
        draft.put(*key, "ssh_cidr", value=given, of=ssh["AllowedIps"])
    else:
        text = f"SSH of the head node took connections from {given}; here sessions come through Systems Manager"
        part = ssh["AllowedIps"] if ssh["AllowedIps"].exists else head
        draft.notes.append(Note(Change.BETTER, part.name, text, part.place))


def _is_inside(cidr: str) -> bool:
    """Whether a range is one of addresses inside networks."""
    try:
        network = IPv4Network(cidr)
    except ValueError:
        return False
    return any(network.subnet_of(one) for one in _INSIDE)


def _write_login(draft: Draft, pools: Part) -> None:
    for number, pool in enumerate(pools.items()):
        if number:
            draft.note(Change.LOST, f"all login nodes are of one pool: the first one; {_ADD}", pool)
            continue
        count = pool["Count"].number()
        pool["Name"].skip()
        draft.put(_SECTION, "login", "nodes", value=1 if count is None else count, of=pool["Count"])
        otherwise = LOGIN_TYPES[Architecture.X86_64]
        write_plain_type(draft, (_SECTION, "login"), pool["InstanceType"], otherwise=otherwise)


# Slurm.


def _write_settings(draft: Draft, settings: Part) -> None:
    minutes = settings["ScaledownIdletime"]
    if (idle := minutes.number()) is not None and idle > 0:
        draft.put(_SECTION, "scale_down_idle_minutes", value=idle, of=minutes)
    elif idle is not None:
        draft.note(Change.LOST, "write `nodes` of the fleet for nodes that stay", minutes)
    for row in settings["CustomSlurmSettings"].items():
        entries = row.entries()
        if {name.lower() for name in entries} & _LINES:
            draft.note(Change.LOST, f"write partitions as `queues` of `{_SECTION}`; for other lines, {_ADD}", row)
            continue
        for name, value in _taken(draft, row, "cluster").items():
            draft.put(_SECTION, "slurm_settings", name, value=value, of=row)


def _write_queue(draft: Draft, queue: Part, groups: Sequence[Group]) -> None:
    """A queue has the name of its fleet; of several fleets, it is a partition over theirs."""
    name, own = fleet_name(queue["Name"].text() or "queue"), _taken(draft, queue["CustomSlurmSettings"], "queue")
    if queue["JobExclusiveAllocation"].flag():
        # aws-parallelcluster-cookbook, config_renderer.py: what ParallelCluster writes for it.
        own.setdefault("OverSubscribe", "EXCLUSIVE")
    fleets = [group.name for group in groups]
    key = (_SECTION, "queues", name)
    if own or fleets != [name]:
        draft.put(*key, "fleets", value=fleets, of=queue)
    if own:
        draft.put(*key, "slurm_settings", value=own, of=queue)
    if len(fleets) > 1:
        text = f"each fleet has a queue of its own, and {name} is a partition over {', '.join(fleets)}"
        draft.notes.append(Note(Change.REPLACED, queue.name, text, queue.place))
    for group in groups:
        write_tags(draft, queue["Tags"], "training", "fleets", group.name)
        write_tags(draft, group.part["Tags"], "training", "fleets", group.name)
        nodes = _taken(draft, group.part["CustomSlurmSettings"], "compute resource")
        # ParallelCluster writes the priorities of nodes as their weights (SlurmNodePriorities of its cookbook).
        priority = group.part["DynamicNodePriority" if group.minimum < group.maximum else "StaticNodePriority"]
        if (weight := priority.number()) is not None:
            nodes.setdefault("Weight", str(weight))
        if nodes:
            draft.put(_SECTION, "node_settings", group.name, value=nodes, of=group.part)


def _taken(draft: Draft, settings: Part, level: str) -> dict[str, str]:
    """The settings that ParallelCluster does not set itself, which it would refuse."""
    taken: dict[str, str] = {}
    for name, part in settings.entries().items():
        refused = check_settings([name], level=level)
        if refused:
            draft.note(Change.LOST, refused[0].cause, part)
        else:
            taken[name] = part.text() or ""
    return taken


# Stores and images.


def _write_volume(draft: Draft, part: Part, mounts: Mapping[str, str]) -> None:
    """The volume of a store on FSx for OpenZFS, by whose id ParallelCluster mounts it."""
    volume = part["FsxOpenZfsSettings"]["VolumeId"]
    point = f"/{(part['MountDir'].text() or '').lstrip('/')}"
    if part["StorageType"].text() != "FsxOpenZfs" or point not in mounts:
        return
    key, text = (_SECTION, "volumes", mounts[point]), str(volume.value)
    if _VOLUME.fullmatch(text):
        draft.put(*key, value=text, of=volume)
    else:
        draft.fill(*key, value="fsvol-0123456789abcdef0", why=was(volume, "the id of the volume"), of=volume)


def write_image(draft: Draft, name: str, *, system: str | None, image: Part, os: Part) -> None:
    """Write the image of a fleet: an own one by its id, which is made by `pcluster build-image`, or the system.

    Args:
        draft: The cluster file.
        name: Name of the fleet.
        system: Operating system, in the words of the cluster file; None if it has none for it.
        image: Where the id of an own image is.
        os: Where the operating system is.
    """
    key = ("training", "fleets", name, "image")
    if system is not None:
        os.skip()
    if image.exists:
        text = None if image.is_placeholder else image.text()
        if text is None:
            image.skip()
            draft.fill(*key, "id", value="ami-0123456789abcdef0", why=was(image, "the id of your image"), of=image)
        else:
            draft.put(*key, "id", value=text, of=image)
    if system is not None:
        draft.put(*key, "os", value=system, of=os)
