"""AWS ParallelCluster 3: queues become fleets of AWS PCS, where the head node goes, or of ParallelCluster still.

Every default is that of aws-parallelcluster 3.16.1, pcluster/config/cluster_config.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cdk_gpu_clusters.catalogue.images import ImagePurpose
from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION, custom_settings
from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.rules.images import choose_image
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator
from cdk_gpu_clusters.rules.pcs import SettingsLevel, check_slurm_settings

from . import parallelcluster_section
from ._rules import SCHEDULER, SLURM_SETTING, TYPE
from .draft import Change, Draft, Note
from .foreign import Foreign, Part
from .group import (
    Group,
    Market,
    Volume,
    accelerated,
    fleet_name,
    laid_out,
    refuse_equal_names,
    write_fleet,
    write_tags,
)
from .judge import Deployed, deployed_groups
from .network import Place, put_existing_network
from .slurm import write_homes, write_login_nodes, write_size
from .stores import write_stores

_OF_SLURM = "AWS PCS keeps the controller"
#: The orchestrators that a cluster can become, the first one by default.
ORCHESTRATORS = ("pcs", "parallelcluster")
#: Where a value is -> what becomes of it in AWS PCS. The longest path that fits is taken.
_LOST: Mapping[str, str] = {
    "HeadNode": "AWS PCS runs Slurm's controller itself: there is no head node, and nothing on it",
    "HeadNode.CustomActions": "AWS PCS has no head node: run on login nodes what people need there",
    "LoginNodes": "login nodes of the library are in the network of the fleets, without a public address",
    "Image.CustomAmi": "an image of ParallelCluster starts its agent, not that of AWS PCS; add PCS's agent and Slurm "
    "to yours, and name it in `image`",
    "Image": "fleets take AWS's image for their accelerator",
    "Image.Os": "AWS has no image of this system with AWS PCS's agent and drivers of the accelerator; fleets take "
    "another",
    "Scheduling.ScalingStrategy": f"{_OF_SLURM}, and launches nodes by its own strategy",
    "Scheduling.SlurmSettings": f"{_OF_SLURM}, and sets this itself",
    "Scheduling.SlurmSettings.QueueUpdateStrategy": "AWS PCS replaces nodes of a changed group when their jobs have "
    "ended, as DRAIN does",
    "Scheduling.SlurmSettings.CustomSlurmSettingsIncludeFile": "AWS PCS reads no file; write its settings as "
    "`slurm_settings` of `pcs`",
    "Scheduling.SlurmQueues.CustomActions": "call the scripts in one shell script beside the cluster file, and name it "
    "in `user_data` of the fleet; nodes of AWS PCS have no /etc/parallelcluster",
    "Scheduling.SlurmQueues.Image": "an image of ParallelCluster starts its agent, not that of AWS PCS; add PCS's "
    "agent and Slurm to yours, and name it in `image` of the fleet",
    "Scheduling.SlurmQueues.Iam": "nodes have the smallest role that works; grant more in an app, with `role` of the "
    "fleet",
    "Scheduling.SlurmQueues.Networking.SecurityGroups": "the fleet has a security group of its own, with EFA's rules",
    "Scheduling.SlurmQueues.Networking.AdditionalSecurityGroups": "the fleet has a security group of its own, with "
    "EFA's rules; stores that it mounts get rules for it",
    "Scheduling.SlurmQueues.Networking.AssignPublicIp": "nodes have no public address",
    "Scheduling.SlurmQueues.AllocationStrategy": "a fleet has one instance type",
    "Scheduling.SlurmQueues.ComputeResources.LaunchTemplateOverrides": "the library writes the launch template",
    "Scheduling.SlurmQueues.ComputeResources.DisableSimultaneousMultithreading": "AWS PCS sets the "
    "threads of a core itself; jobs ask for cores with --hint=nomultithread of sbatch",
    "DirectoryService": "write the directory as `directory` of `pcs`; it needs an ldaps:// address",
    "Monitoring": "nodes always write their logs, metrics and alarms to CloudWatch",
    "Iam": "roles and permissions boundaries come from the app that deploys",
    "DevSettings": "settings of ParallelCluster's own developers",
}
#: What to use in place of settings that AWS PCS does not take.
_NEAREST = {
    "jobcomptype": "`accounting` of `pcs`: `sacct` shows finished jobs",
    "jobcomploc": "`accounting` of `pcs`: `sacct` shows finished jobs",
    "jobcomphost": "`accounting` of `pcs`: `sacct` shows finished jobs",
    "jobacctgathertype": "`accounting` of `pcs`, with which AWS PCS gathers accounting data",
    "corespersocket": "nothing: AWS PCS knows the processors of a type; leave it out",
    "threadspercore": "nothing: AWS PCS knows the processors of a type; leave it out",
    "suspendtimeout": "`scale_down_idle_minutes` of `pcs`",
    "suspendtime": "`scale_down_idle_minutes` of `pcs`",
    "slurmctlddebug": "the scheduler's log of AWS PCS in CloudWatch",
    "slurmddebug": "the nodes' logs in CloudWatch",
    "gres": "nothing: the library writes the GPUs of a node into gres.conf",
    "nodeweight": "`Weight` in `node_settings` of `pcs`",
}
_OTHER_NODES = (
    "the catalogue has no such type with accelerators: keep these nodes in a compute node group that you make "
    "yourself, in the same cluster of AWS PCS"
)
_SYSTEMS = {"alinux2023": "al2023", "ubuntu2204": "ubuntu-22.04", "ubuntu2404": "ubuntu-24.04"}


def lost_of_parallelcluster(orchestrator: str) -> Mapping[str, str]:
    """Where values are that are lost, and what becomes of them.

    Args:
        orchestrator: The orchestrator of the cluster file.
    """
    return parallelcluster_section.LOST if orchestrator == "parallelcluster" else _LOST


def is_parallelcluster(data: object) -> bool:
    """Whether a file is one of ParallelCluster 3."""
    return isinstance(data, Mapping) and "Scheduling" in data and ("HeadNode" in data or "Image" in data)


def import_parallelcluster(foreign: Foreign, draft: Draft, place: Place, orchestrator: str) -> list[Group]:
    """Write a cluster file.

    Args:
        foreign: The ParallelCluster file.
        draft: The cluster file.
        place: What the file does not say: name, Region, zone and VPC.
        orchestrator: One of `ORCHESTRATORS`.

    Returns:
        The groups of nodes that became fleets.
    """
    root = foreign.root
    scheduling = root["Scheduling"]
    if (scheduler := scheduling["Scheduler"].text()) not in (None, "slurm"):
        scheduling["Scheduler"].refuse(
            SCHEDULER,
            cause="the fleets are nodes of Slurm",
            got=scheduler or "",
            allowed="slurm",
            fix="write the fleets by hand: `gpu-clusters init` begins one",
        )
        return []
    is_pcs = orchestrator == "pcs"
    queues = [(part, list(_groups(root, part, apart=is_pcs))) for part in scheduling["SlurmQueues"].items()]
    groups = [group for _, found in queues for group in found]
    refuse_equal_names(groups)
    draft.put("version", value=1)
    draft.put("name", value=place.name)
    region = place.put_region(draft, root["Region"])
    draft.put("orchestrator", value=orchestrator)
    subnets = [one for part, found in queues if found for one in part["Networking"]["SubnetIds"].items()]
    put_existing_network(draft, place, region, subnets, groups)
    write_tags(draft, root["Tags"])
    mounts = write_stores(draft, root["SharedStorage"])
    if is_pcs:
        _write_pcs(draft, root, groups, queues, mounts)
    else:
        parallelcluster_section.write_section(draft, root, queues, mounts)
    for queue, found in queues:
        for group in found:
            _write_fleet(draft, root, queue, group, is_pcs=is_pcs)
            if mounts:
                draft.put("training", "fleets", group.name, "mounts", value=dict(mounts), of=root["SharedStorage"])
    _note_what_is_better(draft, root, groups, others=_OTHER_NODES if is_pcs else parallelcluster_section.OTHER_NODES)
    return groups


# Queues.


def _groups(root: Part, queue: Part, *, apart: bool) -> Iterator[Group]:
    """The groups of nodes with accelerators of a queue.

    Args:
        root: The file.
        queue: The queue.
        apart: Whether nodes that stay are a group of their own: AWS PCS has no group of which some stay.
    """
    resources = queue["ComputeResources"].items()
    queue_name = queue["Name"].text() or "queue"
    for resource in resources:
        own = resource["Name"].text() or "nodes"
        name = fleet_name(queue_name if len(resources) == 1 else f"{queue_name}-{own}")
        several = resource["Instances"].items()
        type_part = several[0]["InstanceType"] if several else resource["InstanceType"]
        if not type_part.exists:
            _refuse_without_type(resource)
        kind = accelerated(type_part)
        if kind is None:
            continue
        least, most = resource["MinCount"].number(), resource["MaxCount"].number()
        minimum, maximum = 0 if least is None else least, 10 if most is None else most
        if apart and 0 < minimum < maximum:
            yield _group(root, queue, resource, f"{name[:32]}-static", kind, type_part, (minimum, minimum))
            yield _group(root, queue, resource, f"{name[:32]}-dynamic", kind, type_part, (0, maximum - minimum))
        else:
            yield _group(root, queue, resource, name, kind, type_part, (minimum, maximum))


def _refuse_without_type(resource: Part) -> None:
    """Report nodes whose type only their reservation has: it may be one with accelerators."""
    reservation = resource["CapacityReservationTarget"]["CapacityReservationId"].value
    allowed, add = "an instance type, such as p5.48xlarge", "add InstanceType to a copy of the file"
    if isinstance(reservation, str):
        allowed = f"the type is that of reservation {reservation}"
        show = f"aws ec2 describe-capacity-reservations --capacity-reservation-ids {reservation}"
        add = f"`{show}` shows it; {add}"
    resource.refuse(TYPE, cause="its nodes have no instance type", got="no InstanceType", allowed=allowed, fix=add)


def _group(
    root: Part,
    queue: Part,
    resource: Part,
    name: str,
    kind: InstanceType,
    type_part: Part,
    counts: tuple[int, int],
) -> Group:
    buys = queue["CapacityType"].text() or "ONDEMAND"
    markets = {"SPOT": Market.SPOT, "CAPACITY_BLOCK": Market.BLOCK}
    target = next(
        (one for one in (resource["CapacityReservationTarget"], queue["CapacityReservationTarget"]) if one.exists),
        resource["CapacityReservationTarget"],
    )
    placement = next(
        (
            one
            for one in (resource["Networking"]["PlacementGroup"], queue["Networking"]["PlacementGroup"])
            if one.exists
        ),
        queue["Networking"]["PlacementGroup"],
    )
    named = placement["Name"] if placement["Name"].exists else placement["Id"]
    enabled = placement["Enabled"].flag()
    is_placed = (enabled is None and named.exists) or bool(enabled)
    efa = bool(resource["Efa"]["Enabled"].flag())
    return Group(
        name=name,
        part=resource,
        instance_type=kind,
        type_part=type_part,
        minimum=counts[0],
        maximum=counts[1],
        counts=resource["MaxCount"] if resource["MaxCount"].exists else resource,
        market=markets.get(buys, Market.ON_DEMAND),
        market_part=queue["CapacityType"],
        spot_price=_price(resource["SpotPrice"]),
        reservation=_given(target["CapacityReservationId"]),
        reservation_group=_given(target["CapacityReservationResourceGroupArn"]),
        placement_group=named if named.exists and is_placed else None,
        placed=is_placed,
        efa=efa,
        efa_part=resource["Efa"]["Enabled"] if resource["Efa"]["Enabled"].exists else resource,
        interfaces=interfaces_of(kind, efa=efa, is_old=root["DevSettings"]["EfaInterfaceType"].text() == "efa"),
        volume=_volume(queue["ComputeSettings"]["LocalStorage"]["RootVolume"]),
    )


def _given(part: Part) -> Part | None:
    return part if part.exists else None


def _price(part: Part) -> tuple[float, Part] | None:
    if not isinstance(part.value, int | float) or isinstance(part.value, bool):
        return None
    part.skip()
    return float(part.value), part


def _volume(part: Part) -> Volume:
    encrypted = part["Encrypted"].flag()
    return Volume(
        size_gib=part["Size"].number(),
        iops=part["Iops"].number(),
        throughput_mib_per_s=part["Throughput"].number(),
        kind=part["VolumeType"].text(),
        encrypted=True if encrypted is None else encrypted,
        part=part,
    )


def interfaces_of(kind: InstanceType, *, efa: bool, is_old: bool) -> list[dict[str, object]]:
    """The network interfaces of a node as ParallelCluster lays them out.

    Args:
        kind: The type.
        efa: Whether EFA is enabled.
        is_old: Whether cards get `efa`, with an address each: up to ParallelCluster 3.14, and later with the developer
            setting `EfaInterfaceType: efa` (pcluster/templates/queues_stack.py of 3.16.1, add_network_interfaces).
    """
    return laid_out(kind, policy=InterfacePolicy.EFA_PER_CARD if is_old else InterfacePolicy.MINIMUM_IP, efa=efa)


# What the fleets have beside their groups.


def _write_fleet(draft: Draft, root: Part, queue: Part, group: Group, *, is_pcs: bool) -> None:
    if is_pcs:
        no_price = "AWS PCS has no price limit of Spot; you pay the Spot price"
        write_fleet(draft, group, no_spot_price=no_price, orchestrator=Orchestrator.PCS)
        _write_image(draft, root["Image"]["Os"], group)
        return
    write_fleet(draft, group)
    own, common = queue["Image"]["CustomAmi"], root["Image"]["CustomAmi"]
    os = root["Image"]["Os"]
    system = _SYSTEMS.get(str(os.value))
    parallelcluster_section.write_image(draft, group.name, system=system, image=own if own.exists else common, os=os)


def _write_image(draft: Draft, os: Part, group: Group) -> None:
    key = ("training", "fleets", group.name)
    system = _SYSTEMS.get(str(os.value))
    if not _has_image(group.instance_type, None):
        why = "an image with AWS PCS's agent and the drivers of the accelerator; AWS has none"
        draft.fill(*key, "image", "id", value="ami-0123456789abcdef0", why=why, of=os)
        if system is not None:
            draft.put(*key, "image", "os", value=system, of=os)
    elif system is not None and _has_image(group.instance_type, system):
        draft.put(*key, "image", value={"os": system}, of=os)
        os.skip()


def _has_image(kind: InstanceType, system: str | None) -> bool:
    try:
        choose_image(kind, operating_system=system, purpose=ImagePurpose.PCS)
    except ConfigError:
        return False
    return True


# Slurm.


def _write_pcs(
    draft: Draft,
    root: Part,
    groups: list[Group],
    queues: list[tuple[Part, list[Group]]],
    mounts: dict[str, str],
) -> None:
    if "/home" not in mounts:
        root["HeadNode"]["SharedStorageType"].text()
        text = "home directories, which the head node shares, are on a new Amazon EFS file system: copy them"
        mounts["/home"] = write_homes(draft, root["HeadNode"], text)
    settings = root["Scheduling"]["SlurmSettings"]
    write_size(draft, groups, of=root["Scheduling"])
    has_database = settings["Database"].exists or settings["ExternalSlurmdbd"].exists
    draft.put("pcs", "accounting", "enabled", value=has_database, of=settings["Database"])
    for name in ("Database", "ExternalSlurmdbd"):
        if settings[name].exists:
            draft.note(Change.REPLACED, "AWS PCS keeps the accounting database; old records stay where they are",
                       settings[name])  # fmt: skip
    idle = settings["ScaledownIdletime"].number()
    if idle is not None and idle > 0:
        draft.put("pcs", "scale_down_idle_minutes", value=idle, of=settings["ScaledownIdletime"])
    elif idle is not None:
        draft.note(Change.LOST, "nodes of elastic fleets end when they are idle; write `nodes` for those that stay",
                   settings["ScaledownIdletime"])  # fmt: skip
    own = _taken(draft, settings["CustomSlurmSettings"], SettingsLevel.CLUSTER)
    if settings["EnableMemoryBasedScheduling"].flag():
        own.setdefault("SelectTypeParameters", "CR_CPU_Memory")
    for name, value in own.items():
        draft.put("pcs", "slurm_settings", name, value=value, of=settings)
    _write_login(draft, root, mounts)
    _write_directory(draft, root["DirectoryService"])
    for queue, found in queues:
        if found:
            _write_queue(draft, queue, found)


def _write_queue(draft: Draft, queue: Part, groups: list[Group]) -> None:
    name = fleet_name(queue["Name"].text() or "queue")
    key = ("pcs", "queues", name)
    draft.put(*key, "fleets", value=[group.name for group in groups], of=queue)
    own = _taken(draft, queue["CustomSlurmSettings"], SettingsLevel.QUEUE)
    if queue["JobExclusiveAllocation"].flag():
        # aws-parallelcluster-cookbook, config_renderer.py: what ParallelCluster writes for it.
        own.setdefault("OverSubscribe", "EXCLUSIVE")
    for setting, value in own.items():
        draft.put(*key, "slurm_settings", setting, value=value, of=queue)
    for group in groups:
        write_tags(draft, queue["Tags"], "training", "fleets", group.name)
        write_tags(draft, group.part["Tags"], "training", "fleets", group.name)
        nodes = _taken(draft, group.part["CustomSlurmSettings"], SettingsLevel.NODE_GROUP)
        # ParallelCluster writes the priorities of nodes as their weights (SlurmNodePriorities of its cookbook).
        is_static = group.minimum == group.maximum
        priority = group.part["StaticNodePriority" if is_static else "DynamicNodePriority"]
        if (weight := priority.number()) is not None:
            nodes.setdefault("Weight", str(weight))
        for setting, value in nodes.items():
            draft.put("pcs", "node_settings", group.name, setting, value=value, of=group.part)


def _taken(draft: Draft, part: Part, level: SettingsLevel) -> dict[str, str]:
    """The custom settings that AWS PCS takes; each other is a finding with what to use in its place."""
    rows = part.items() if isinstance(part.value, list) else [part]
    given = [one for row in rows for one in row.entries().values()]
    own: dict[str, str] = {}
    for one in given:
        name, value = str(one.key[-1]), one.text()
        if value is None:
            continue
        listed = {known.lower(): known for known in custom_settings()[level.value].names}
        spelled = listed.get(name.lower(), name)
        refused = check_slurm_settings({spelled: value}, slurm_version=DEFAULT_SLURM_VERSION, level=level)
        if not refused:
            own[spelled] = value
            continue
        nearest = _NEAREST.get(name.lower()) or refused[0].fix
        draft.findings.append(
            SLURM_SETTING.finding(
                cause=f"{one.name}: {refused[0].cause}; it is left out",
                got=f"{name}={value}",
                allowed=refused[0].allowed,
                fix=nearest if nearest.startswith("nothing") else f"use {nearest}" if "`" in nearest else nearest,
                path=one.place,
                severity=Severity.WARNING,
            )
        )
        draft.note(Change.LOST, f"AWS PCS does not take it; nearest: {nearest}", one)
    return own


def _write_login(draft: Draft, root: Part, mounts: Mapping[str, str]) -> None:
    """Login nodes; where the file has none, people work on the head node, which one replaces."""
    pool = next(iter(root["LoginNodes"]["Pools"].items()), root["LoginNodes"]["Pools"])
    of_pool = isinstance(pool.value, Mapping)
    source = pool if of_pool else root["HeadNode"]
    write_login_nodes(
        draft,
        count=pool["Count"].number() if of_pool else None,
        kind=(pool if of_pool else root["HeadNode"])["InstanceType"],
        of=source,
        mounts=mounts,
    )
    ssh = source["Ssh"]["KeyName"]
    if ssh.exists and not ssh.is_placeholder:
        draft.put("pcs", "login", "ssh_key_name", value=ssh.text(), of=ssh)


def _write_directory(draft: Draft, directory: Part) -> None:
    """The LDAP directory, where it is reached by TLS, which the library insists on."""
    address, secret = directory["DomainAddr"], directory["PasswordSecretArn"]
    uris = [one.strip() for one in str(address.value or "").split(",") if one.strip().startswith("ldaps://")]
    if not uris or not secret.exists or secret.is_placeholder or address.is_placeholder:
        return
    key = ("pcs", "directory")
    domain = directory["DomainName"].text() or ""
    # aws-parallelcluster-cookbook, directory_service.rb: a domain name becomes a search base, and the schema is AD.
    base = domain if "=" in domain else ",".join(f"dc={label}" for label in domain.split("."))
    address.skip()
    draft.put(*key, "uris", value=uris, of=address)
    draft.put(*key, "search_base", value=base, of=directory["DomainName"])
    draft.put(*key, "bind_dn", value=directory["DomainReadOnlyUser"].text() or "", of=directory["DomainReadOnlyUser"])
    draft.put(*key, "password_secret", value=secret.text(), of=secret)
    draft.put(*key, "schema_name", value="ad", of=directory)
    if (file := directory["LdapTlsCaCert"]).exists:
        draft.put(*key, "ca_file", value=file.text(), of=file)


# The report.


def _note_what_is_better(draft: Draft, root: Part, groups: list[Group], *, others: str) -> None:
    """Take as read what the library does anyway, and say what it does beyond the file."""
    for part in (root["Imds"]["ImdsSupport"], root["HeadNode"]["Imds"]["Secured"]):
        if part.exists:
            part.skip()
    draft.notes.append(Note(Change.BETTER, "", "nodes take tokens only from the metadata service (IMDSv2)"))
    draft.notes.append(
        Note(
            Change.BETTER,
            "",
            "every node checks its GPUs, NVLink, EFA and mounts before Slurm gets it; a watchdog drains and replaces "
            "nodes that fail later",
        )
    )
    for queue in root["Scheduling"]["SlurmQueues"].items():
        if any(group.part.key[: len(queue.key)] == queue.key for group in groups):
            for part in (queue, *queue["ComputeResources"].items()):
                _note_health_checks(draft, part["HealthChecks"]["Gpu"]["Enabled"])
        volume = queue["ComputeSettings"]["LocalStorage"]["EphemeralVolume"]["MountDir"]
        if (point := volume.text()) not in (None, "/scratch"):
            draft.note(Change.REPLACED, f"the local disks are one file system at /scratch, not at {point}", volume)
        for resource in queue["ComputeResources"].items():
            _note_resource(draft, resource, None if any(group.part.key == resource.key for group in groups) else others)


def _note_health_checks(draft: Draft, enabled: Part) -> None:
    """Source: aws/aws-parallelcluster-cookbook @ f75d84c, gpu_health_check.sh, which a prolog of Slurm runs."""
    if enabled.flag():
        text = (
            "DCGM's diagnostics of level 2 before each job become those of level 1 at the boot, and a watchdog while "
            "jobs run; `dcgm_level: 2` in `watch` of the fleet makes those at the boot level 2"
        )
        draft.note(Change.REPLACED, text, enabled)


def _note_resource(draft: Draft, resource: Part, lost: str | None) -> None:
    if lost is not None:
        if not any(one.path.startswith(resource.place.rsplit(":", 1)[0]) for one in resource.foreign.findings):
            draft.note(Change.LOST, lost, resource)
        return
    for extra in resource["Instances"].items()[1:]:
        draft.note(Change.LOST, "a fleet has one instance type: the first one", extra)
    if resource["Efa"]["GdrSupport"].exists:
        resource["Efa"]["GdrSupport"].skip()


def deployed_by_parallelcluster(foreign: Foreign, groups: Sequence[Group]) -> Deployed:
    """What ParallelCluster deploys for groups (pcluster/templates/queues_stack.py of 3.16.1)."""
    support = foreign.root["Imds"]["ImdsSupport"].value or "v2.0"
    tokens = "optional" if support == "v1.0" else "required"
    return deployed_groups(groups, metadata={"HttpTokens": tokens})
