"""Checks of the nodes of a fleet: number, capacity, volume, image, MIG, mounts, alarms, user data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.fleet.node import node_settings
from cdk_gpu_clusters.fleet.plan import Topic
from cdk_gpu_clusters.fleet.profile import GroupKind
from cdk_gpu_clusters.node.kubernetes_node import kubectl_part
from cdk_gpu_clusters.node.model_server import model_server_files, model_server_part
from cdk_gpu_clusters.node.ray import check_ray_nodes, ray_part
from cdk_gpu_clusters.node.settings import NodeSettings, UserDataPart, check_settings
from cdk_gpu_clusters.node.software import NodeFile, SoftwareObject
from cdk_gpu_clusters.node.storage import (
    LustreMount,
    NfsMount,
    ScratchSettings,
    check_read_only,
    check_storage,
    checkpoint_environment,
)
from cdk_gpu_clusters.node.user_data import check_user_data_size, render_user_data
from cdk_gpu_clusters.rules.capacity_checks import (
    BLOCK_SIZE,
    BLOCK_WITH_PLACEMENT_GROUP,
    ENDED,
    FOREIGN_PLACEMENT_GROUP,
    RESERVATION_COUNT,
    RESERVATION_PLACEMENT,
    ULTRASERVER_NODES,
    check_ended,
    check_new_reservation,
)
from cdk_gpu_clusters.rules.fleet import (
    DEFAULT_IOPS,
    DEFAULT_THROUGHPUT_MIB_PER_S,
    check_alarms,
    check_emails,
    check_root_volume,
)
from cdk_gpu_clusters.rules.homes import check_home_client
from cdk_gpu_clusters.rules.images import check_image
from cdk_gpu_clusters.rules.lustre_clients import CLIENT_TYPE, check_lustre_client
from cdk_gpu_clusters.rules.mig import LAYOUT_COUNT, WITH_EFA
from cdk_gpu_clusters.rules.node_group import check_block_of_group, check_replacement, choose_ami_type
from cdk_gpu_clusters.rules.placement import SPREAD_SIZE
from cdk_gpu_clusters.rules.secrets import FETCH, check_secret_variables, check_secrets
from cdk_gpu_clusters.rules.zones import is_zone_id

from ._check_values import check_arn, check_store_name, foreign_place
from ._document import Fault, Key, faults_at, under
from ._parts import parts_of
from ._rules import (
    BLOCK_SHRINKS,
    FIXED_SIZE,
    FOREIGN_GROUP,
    NO_LOCAL_DISKS,
    NODE_COUNT,
    RAY_ON_EC2,
    SILENT_ALARMS,
    USER_DATA_FILE,
)
from .capacity import NewReservation, ReservationGroup, UltraServerBlock, block_sizes
from .data import (
    FILE_SYSTEMS,
    CheckpointsSpec,
    ExistingCheckpointsSpec,
    ExistingEfsOptions,
    ExistingLustreSpec,
    LustreSpec,
    existing_homes,
    homes_service,
)
from .fleet import FleetSpec, ImageByOs, read_script
from .inference import InferenceFleetSpec
from .model import ORCHESTRATORS, ClusterSpec
from .planned_fleet import PlannedFleet

# Number of nodes, and their root volume.


def check_number(fleet: PlannedFleet) -> list[Fault]:
    """Find a number of nodes that is missing, given twice, or no range."""
    key, spec = fleet.key, fleet.spec
    both = spec.nodes is not None and (spec.min_nodes is not None or spec.max_nodes is not None)
    if both or (spec.nodes is None and None in (spec.min_nodes, spec.max_nodes)):
        given = [name for name in ("nodes", "min_nodes", "max_nodes") if getattr(spec, name) is not None]
        cause = "both a number of nodes and a range" if both else "no number of nodes"
        finding = NODE_COUNT.finding(
            cause=cause,
            got=" and ".join(given) or "none of them",
            allowed="nodes, or min_nodes and max_nodes",
            fix="keep one of the two" if both else "add nodes, or both min_nodes and max_nodes",
        )
        return faults_at(key, [finding], at_key=True)
    if spec.minimum_nodes > spec.maximum_nodes:
        finding = NODE_COUNT.finding(
            cause="more nodes at least than at most",
            got=f"{spec.min_nodes} to {spec.max_nodes}",
            allowed=f"at most {spec.max_nodes}",
            fix="exchange min_nodes and max_nodes",
        )
        return faults_at((*key, "min_nodes"), [finding])
    return []


def check_volume(fleet: PlannedFleet) -> list[Fault]:
    """Find a root volume that EC2 refuses."""
    key, volume = fleet.key, fleet.spec.root_volume
    findings = check_root_volume(
        size_gib=fleet.root_volume_gib,
        iops=volume.iops or DEFAULT_IOPS,
        throughput_mib_per_s=volume.throughput_mib_per_s or DEFAULT_THROUGHPUT_MIB_PER_S,
    )
    return [
        fault
        for finding in findings
        for fault in faults_at((*key, "root_volume", finding.path), [replace(finding, path="")])
    ]


# Where the instances come from, and their placement.


def check_block_size(view: PlannedFleet) -> list[Fault]:
    """Find a range of nodes on a block."""
    if not view.spec.scales or not view.plan.terms.kind.is_block:
        return []
    finding = FIXED_SIZE.finding(
        cause="a block's nodes start and end together, so the fleet cannot scale",
        got="min_nodes and max_nodes",
        allowed="nodes",
        fix="write nodes: with the number of instances in the block",
    )
    return faults_at((*view.key, "max_nodes"), [finding])


#: Faults of capacity that another field of the fleet causes.
_ELSEWHERE = {
    BLOCK_WITH_PLACEMENT_GROUP.id: "placement",
    FOREIGN_PLACEMENT_GROUP.id: "placement",
    RESERVATION_PLACEMENT.id: "placement",
    **dict.fromkeys((BLOCK_SIZE.id, ULTRASERVER_NODES.id, RESERVATION_COUNT.id), "nodes"),
}


def _at_cause(view: PlannedFleet, findings: Iterable[Finding], *, key: Key) -> list[Fault]:
    """Place findings about capacity at the field that has to change."""
    faults: list[Fault] = []
    for finding in findings:
        field = _ELSEWHERE.get(finding.id)
        if field == "nodes" and view.spec.scales:
            field = "max_nodes"
        faults += faults_at((*view.key, field), [finding]) if field else under(key, [finding])
    return faults


def check_capacity(fleet: PlannedFleet) -> list[Fault]:
    """Find capacity and placement that do not suit the type, the size or each other."""
    plan, key = fleet.plan, (*fleet.key, "capacity")
    found = [one for one in plan.about(Topic.CAPACITY, Topic.RESERVATION_GROUP) if one.id != ENDED.id]
    ended = check_ended(plan.terms, now=clock())
    if isinstance(fleet.spec.capacity, NewReservation):
        ended = [replace(one, path="new_reservation.end_date") for one in ended]
    faults = _at_cause(fleet, [*found, *ended], key=key)
    faults += _check_new_reservation(fleet, (*key, "new_reservation"))
    is_requested = fleet.spec.placement_strategy is not None
    faults += faults_at((*fleet.key, "placement") if is_requested else key, plan.about(Topic.EFA_UNUSED))
    if plan.terms.kind.is_block:  # it takes no placement group at all
        return faults
    findings = plan.about(Topic.PLACEMENT, Topic.EFA_TOGETHER)
    if isinstance(fleet.spec, InferenceFleetSpec):
        fix = "use fewer nodes, more zones, or no placement group"
        findings = [replace(one, fix=fix) if one.id == SPREAD_SIZE.id else one for one in findings]
    return faults + faults_at((*fleet.key, "placement"), findings)


def _check_new_reservation(fleet: PlannedFleet, key: Key) -> list[Fault]:
    capacity = fleet.spec.capacity
    if not isinstance(capacity, NewReservation) or fleet.node_count is None:
        return []
    options = capacity.new_reservation
    findings = check_new_reservation(
        instance_count=fleet.node_count,
        ends_at=options.end_date,
        unlimited=options.unlimited,
        placement=None if "placement" in fleet.broken else fleet.spec.placement_strategy,
    )
    return _at_cause(fleet, [one for one in findings if one.id != ENDED.id], key=key)


def clock() -> datetime:
    """The time, or that of SOURCE_DATE_EPOCH (reproducible-builds.org), so that a check can be repeated."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(fixed), UTC) if fixed.isdecimal() else datetime.now(UTC)


def check_block_sizes(deployed: ClusterSpec, wanted: ClusterSpec) -> list[Fault]:
    """Find blocks of a deployed cluster that are to have fewer nodes."""
    before = {part.name: block_sizes(part.spec.capacity, part.spec.maximum_nodes) for part in parts_of(deployed).fleets}
    faults: list[Fault] = []
    for part in parts_of(wanted).fleets:
        old = before.get(part.name, {})
        for block, nodes in block_sizes(part.spec.capacity, part.spec.maximum_nodes).items():
            if nodes >= old.get(block, 0):
                continue
            finding = BLOCK_SHRINKS.finding(
                cause=f"nodes of {block} that run would be drained, and its paid instances stay unused",
                got=str(nodes),
                allowed=str(old[block]),
                fix="keep the number; for fewer nodes for a time, give the group the tag gpu-clusters:size = manual",
            )
            faults += faults_at((*part.key, "capacity" if part.spec.nodes == old[block] else "nodes"), [finding])
    return faults


def check_group_region(view: PlannedFleet) -> list[Fault]:
    """Find a resource group in another Region or partition than the cluster."""
    form = {ReservationGroup: "reservation_group", UltraServerBlock: "ultraserver_block"}.get(type(view.spec.capacity))
    if form is None or view.plan.request.region is None:
        return []
    arn: str = getattr(view.spec.capacity, form)
    foreign = foreign_place(arn, view.plan.request.region)
    if foreign is None:
        return []
    finding = FOREIGN_GROUP.finding(
        cause="the resource group is in another Region or partition than the cluster",
        got=foreign.got,
        allowed=foreign.allowed,
        fix="give a group of the cluster's Region, or correct region:",
    )
    return faults_at((*view.key, "capacity", form), [finding])


def check_node_group(view: PlannedFleet) -> list[Fault]:
    """Find capacity that a node group of EKS cannot take, and updates for which it has no room."""
    if not view.profile.has_node_group:
        return []
    terms, rolls = view.plan.terms, view.spec.update == "rolling"
    updates = [replace(one, fix=_NO_ROLL) for one in check_replacement(terms, None, rolls=rolls)]
    return [
        *faults_at((*view.key, "capacity"), check_block_of_group(terms, keeps_size=view.plan.keeps_size)),
        *faults_at((*view.key, "update"), updates),
    ]


_NO_ROLL = "write update: never; the next block is another node group (docs: Amazon EKS, effect of an edit)"


# Machine image and MIG layout.

_LIST_FIX = (
    "write one text for all GPUs, its profiles separated by commas, or a list with a text for each GPU; "
    "off leaves a GPU unsplit"
)
_EFA_ALLOWED = "mig with efa: false, or EFA with GPUs that are not split"
_EFA_FIX = "write efa: false if the nodes serve or share GPUs; remove mig if they train together"
_INDEX = re.compile(r"mig\[(\d+)\]")


def check_machine_image(fleet: PlannedFleet) -> list[Fault]:
    """Find a type that the image does not suit; the contents of your own image are unknown."""
    if fleet.profile.has_node_group:
        return faults_at((*fleet.key, "instance_type"), choose_ami_type(fleet.plan.instance_type)[1])
    image = fleet.spec.image
    named = "framework" if isinstance(image, ImageByOs) and image.framework else "os"
    key = (*fleet.key, "image", named) if image else (*fleet.key, "instance_type")
    row = fleet.plan.image
    findings = [] if row is None else check_image(fleet.plan.instance_type, row)
    return faults_at(key, [*fleet.plan.about(Topic.IMAGE), *findings])


def check_mig(fleet: PlannedFleet) -> list[Fault]:
    """Find a MIG layout that the GPUs, the image or the network interfaces of the nodes do not allow."""
    return mig_faults(fleet, fleet.plan.about(Topic.MIG, Topic.MIG_WITH_EFA, Topic.DRIVER))


def mig_faults(view: PlannedFleet, findings: Iterable[Finding]) -> list[Fault]:
    """Place findings at the text of the layout that each is about."""
    faults: list[Fault] = []
    for finding in findings:
        index = _INDEX.fullmatch(finding.path)
        key: Key = (*view.key, "mig", int(index[1])) if index else (*view.key, "mig")
        faults += faults_at(key, [replace(_in_words_of_the_file(finding), path="")])
    return faults


def _in_words_of_the_file(finding: Finding) -> Finding:
    if finding.id == LAYOUT_COUNT.id:
        return replace(finding, fix=_LIST_FIX)
    if finding.id == WITH_EFA.id:
        return replace(finding, allowed=_EFA_ALLOWED, fix=_EFA_FIX)
    return finding


# Mounts: names of stores, mount points, and clients of file systems.


def check_mounted_stores(fleet: PlannedFleet) -> list[Fault]:
    """Find names of stores that are not there, or are no file systems."""
    stores = fleet.parts.stores
    if stores is None:
        return []
    return [
        fault
        for point, name in fleet.spec.mounts.items()
        for fault in faults_at(
            (*fleet.key, "mounts", point),
            check_store_name(name, stores, FILE_SYSTEMS, "lustre"),
        )
    ]


def check_mounts(view: PlannedFleet) -> list[Fault]:
    """Find mount points that cannot be, and file systems that the nodes cannot mount."""
    unknown = faults_at((*view.key, "read_only_mounts"), check_read_only(view.spec.read_only_mounts, view.spec.mounts))
    if unknown or not view.spec.mounts:
        return unknown
    key = (*view.key, "mounts")
    stores = view.parts.stores or {}
    faults = check_mount_points(key, view.spec.mounts, stores, view.scratch)
    for point, name in view.spec.mounts.items():
        faults += faults_at((*key, point), _check_client(view, stores.get(name)))
    return faults


def check_mount_points(
    key: tuple[str | int, ...],
    mounts: Mapping[str, str],
    stores: Mapping[str, Any],
    scratch: ScratchSettings | None = None,
) -> list[Fault]:
    """Find mount points that cannot be, at their keys.

    Args:
        key: Where the mounts are in the file.
        mounts: Mount point -> name of a store.
        stores: The stores by name.
        scratch: The file system on local disks; none by default.
    """
    given = [
        LustreMount(mount_point=point, dns_name="d", mount_name="m")
        if isinstance(stores.get(name), LustreSpec | ExistingLustreSpec)
        # Also a store with a fault of its own, which may be of any kind.
        else NfsMount(mount_point=point, dns_name="d", export_path="/")
        for point, name in mounts.items()
    ]
    faults: list[Fault] = []
    for finding in check_storage(given, scratch):
        point = finding.path.removeprefix("mounts[").removesuffix("]")
        fix = finding.fix or "write a directory such as /fsx"
        where = (*key, point) if point in mounts else key
        faults += faults_at(where, [replace(finding, path="", fix=fix)], at_key=True)
    return faults


def _check_client(view: PlannedFleet, store: Any) -> list[Finding]:
    version: str | None
    network = view.parts.network
    zone = None if network is None else network.availability_zone
    service, existing = homes_service(store), existing_homes(store)
    # A name and an id cannot be compared: which is which differs between accounts.
    alike = [one for one in view.zones if zone is not None and is_zone_id(one) == is_zone_id(zone)]
    if service is not None and existing is not None:
        zones = existing.availability_zones if isinstance(existing, ExistingEfsOptions) else ()
        found = check_home_client(service, zones=_like(view.zones, zones), file_system_zones=zones)
        return [replace(one, fix=_MOUNT_TARGET) for one in found]
    if service is not None:
        return check_home_client(service, zones=alike, file_system_zones=[] if zone is None else [zone])
    if isinstance(store, LustreSpec):
        version = store.lustre.lustre_version
    elif isinstance(store, ExistingLustreSpec):
        version, zone = store.existing_lustre.lustre_version, store.existing_lustre.availability_zone
    else:
        return []
    findings = check_lustre_client(
        operating_system=view.plan.operating_system,
        kernel=view.plan.kernel,
        version=version,
        instance_type=view.plan.instance_type,
        node_count=view.node_count,
        # A name and an id cannot be compared: which is which differs between accounts.
        zones=[one for one in view.zones if zone is not None and is_zone_id(one) == is_zone_id(zone)],
        file_system_zone=zone,
        efa=view.mounts_over_efa(store),
    )
    fix = "let this fleet mount a store without efa, or choose another type"
    return [replace(one, fix=fix) if one.id == CLIENT_TYPE.id else one for one in findings]


_MOUNT_TARGET = "make a mount target in this zone, and add the zone to availability_zones of the store"


def _like(zones: Sequence[str], others: Sequence[str]) -> list[str]:
    """The zones that are written as the others: a name and an id cannot be compared."""
    forms = {is_zone_id(one) for one in others}
    return [one for one in zones if {is_zone_id(one)} == forms]


# Alarms.


def check_alarms_of(fleet: PlannedFleet) -> list[Fault]:
    """Find numbers that AWS refuses, recipients without an address, and recipients of alarms that are off."""
    alarms, here, region = fleet.spec.alarms, (*fleet.key, "alarms"), fleet.parts.region
    faults: list[Fault] = []
    more = ", or raise ready_timeout_seconds" if isinstance(fleet.spec, InferenceFleetSpec) else ""
    if alarms.settings is not None:
        for finding in check_alarms(alarms.settings, ready_timeout_seconds=fleet.plan.ready_timeout_seconds):
            name = finding.path.rpartition(".")[2]
            faults += faults_at((*here, name), [replace(finding, fix=f"lower {name}{more}", path="")])
    elif alarms.tells or alarms.mute is not None:
        finding = SILENT_ALARMS.finding(
            cause="alarms that do not exist notify no one",
            got="enabled: false with topic_arn, emails or mute",
            allowed="one of the two",
            fix="remove enabled, or topic_arn, emails and mute",
        )
        faults += faults_at((*here, "enabled"), [finding])
    if alarms.topic_arn is not None and region is not None:
        faults += check_arn((*here, "topic_arn"), alarms.topic_arn, region, "topic")
    if alarms.emails:
        for finding in check_emails(alarms.emails):
            index = int(finding.path.rpartition("[")[2].rstrip("]"))
            faults += faults_at((*here, "emails", index), [replace(finding, path="")])
    return faults


# What becomes user data: environment, script and model servers, by the rules that their constructs ask too.

#: Lengths of the names that only the app knows: stack names are two names of at most 40 characters and a word between
#: them, and CloudFormation adds an id and 12 random characters to the name of the log group.
_LONGEST_PATH = 2 * 40 + len("-inference-") + len("/Service/Fleet")
_LONGEST_LOG_GROUP = _LONGEST_PATH + 40

_LONGEST_BUCKET_URI = "s3://" + "b" * 63
_LONGEST_EVIDENCE_URI = _LONGEST_BUCKET_URI + "/node-evidence/" + "f" * _LONGEST_PATH

#: `fs-` and 17 digits, `.fsx.`, the longest Region, `.amazonaws.com.cn`.
_LONGEST_DNS_NAME = 20 + len(".fsx.ap-southeast-1.amazonaws.com.cn")

#: A bucket's name has at most 63 characters; `cdk bootstrap` gives assets no prefix of its own.
_LONGEST_OBJECT = SoftwareObject(bucket_name="b" * 63, object_key="k" * 64 + ".gpunode-" + "k" * 16, sha256="s" * 64)


def check_environment(key: Key, environment: Mapping[str, str], not_secret: Sequence[str]) -> list[Fault]:
    """Find variables of a node that cannot be set, do harm, or look like secrets."""
    faults: list[Fault] = []
    for finding in check_settings(NodeSettings(fleet_name="", extra_environment=environment)):
        name = finding.path.partition(".")[2]
        faults += faults_at((*key, name), [replace(finding, path="")])
    return faults + check_plain_values(key, environment, not_secret=not_secret, fix=FETCH)


def check_plain_values(key: Key, environment: Mapping[str, str], *, not_secret: Sequence[str], fix: str) -> list[Fault]:
    """Find variables that look like secrets."""
    return [
        fault
        for finding in check_secret_variables(environment, not_secret=not_secret, fix=fix)
        for fault in faults_at((*key, finding.path), [replace(finding, path="")])
    ]


def check_script(key: Key, spec: FleetSpec) -> list[Fault]:
    """Find a script that is not there, that a node cannot run, or that holds what looks like a secret."""
    if spec.user_data is None:
        return []
    text = _read(spec.user_data)
    if isinstance(text, Finding):
        return faults_at((*key, "user_data"), [text])
    found = check_settings(NodeSettings(fleet_name="", user_parts=(_part(text),)))
    found += check_secrets(text, not_secret=spec.not_secret)
    return faults_at((*key, "user_data"), [replace(finding, path="") for finding in found])


def check_size(fleet: PlannedFleet) -> list[Fault]:
    """Find user data that is longer than EC2 accepts; names that only the app knows are taken at their longest."""
    spec, profile = fleet.spec, fleet.profile
    if fleet.plan.interfaces_or_none is None or profile.joins_parallelcluster:  # it writes the user data itself
        return []
    node = fleet.node_request(dns_name="d" * _LONGEST_DNS_NAME, mount_name="m" * 8)
    evidence = None if spec.evidence_bucket is None else _LONGEST_EVIDENCE_URI
    parts, environment = _kubectl(fleet), dict[str, str]()
    files: tuple[NodeFile, ...] = ()
    if isinstance(spec, FleetSpec):
        text = None if spec.user_data is None else _read(spec.user_data)
        if isinstance(text, Finding):
            return []
        parts += () if text is None else (_part(text),)
        parts += () if fleet.ray is None else (ray_part(fleet.ray),)
        environment = {**_of_checkpoints(fleet, spec), **spec.environment}
    elif profile.runs_model_servers:
        settings = fleet.server_settings
        if settings is None:
            return []
        parts, files = (model_server_part(settings),), model_server_files(settings)
    node = replace(
        node,
        log_group_name="l" * _LONGEST_LOG_GROUP,
        evidence_uri=evidence,
        environment=environment,
        user_parts=parts,
        files=files,
    )
    plan = replace(fleet.plan, request=replace(fleet.plan.request, name="f" * _LONGEST_PATH))
    text = render_user_data(node_settings(plan, node), _LONGEST_OBJECT)
    where = "server" if isinstance(spec, InferenceFleetSpec) else "user_data" if spec.user_data else "environment"
    # A fleet of EKS has no image of its own here.
    added = profile.added_user_data_bytes(own_image=False)
    return faults_at((*fleet.key, where), check_user_data_size(text, added_bytes=added))


def _kubectl(fleet: PlannedFleet) -> tuple[UserDataPart, ...]:
    """The part that brings kubectl to nodes of EKS, if the file names one for their processors."""
    eks = fleet.parts.eks if fleet.profile.joins_eks else None
    program = None if eks is None else eks.kubectl.of(fleet.plan.instance_type.architecture)
    return () if program is None else (kubectl_part(url=program.url, sha256=program.sha256),)


def _of_checkpoints(fleet: PlannedFleet, spec: FleetSpec) -> dict[str, str]:
    """The variables by which nodes find the store of their checkpoints."""
    store = None if spec.checkpoints is None else (fleet.parts.stores or {}).get(spec.checkpoints)
    if isinstance(store, CheckpointsSpec):
        has_express = store.checkpoints.express_zone_id is not None
    elif isinstance(store, ExistingCheckpointsSpec):
        has_express = store.existing_checkpoints.express_bucket_name is not None
    else:
        return {}
    uri = f"{_LONGEST_BUCKET_URI}/{spec.checkpoint_folder(fleet.name)}"
    return checkpoint_environment(s3_uri=uri, express_s3_uri=uri if has_express else None)


def _part(text: str) -> UserDataPart:
    return UserDataPart(content_type="text/x-shellscript", body=text)


def _read(path: Path) -> str | Finding:
    text = ""
    try:
        text = read_script(path)
        cause = "" if text.strip() else "the script is empty"
        if text.startswith("\ufeff"):
            cause = "the script starts with a byte-order mark, so a node does not see its #!; save it without"
    except FileNotFoundError:
        cause = "there is no such file" if "\n" not in str(path) else "this is a script, not the path of one"
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        cause = f"the script is not UTF-8 text: byte 0x{fault.object[fault.start]:02x} in its line {line}"
    except (OSError, ValueError) as fault:
        cause = f"the script cannot be read: {(getattr(fault, 'strerror', None) or str(fault)).lower()}"
    if not cause:
        return text
    return USER_DATA_FILE.finding(
        cause=cause, got=str(path), fix="give the path of a shell script, relative to the cluster file"
    )


# What only training fleets have: EFA, interfaces, checkpoints, environment and script.


def check_training_values(fleet: PlannedFleet, spec: FleetSpec) -> list[Fault]:
    """Find what is wrong with a training fleet of whatever type."""
    faults: list[Fault] = []
    key, stores = fleet.key, fleet.parts.stores
    if "environment" not in fleet.broken:
        faults += check_environment((*key, "environment"), spec.environment, spec.not_secret)
    if "user_data" not in fleet.broken:
        faults += check_script(key, spec)
    faults += check_ray(fleet, spec)
    if spec.checkpoints is not None and stores is not None:
        buckets = (CheckpointsSpec, ExistingCheckpointsSpec)
        found = check_store_name(spec.checkpoints, stores, buckets, "checkpoints")
        faults += faults_at((*key, "checkpoints"), found)
    return faults


def check_ray(fleet: PlannedFleet, spec: FleetSpec) -> list[Fault]:
    """Find nodes on which Ray does not start, or on which something else starts jobs."""
    if spec.ray is None:
        return []
    profile = fleet.profile
    if profile.group is not GroupKind.AUTO_SCALING_GROUP:
        word = next(name for name, one in ORCHESTRATORS.items() if one is profile)
        finding = RAY_ON_EC2.finding(
            cause="something else starts the jobs of these nodes",
            got=f"ray with orchestrator: {word}",
            allowed="orchestrator: ec2",
            fix="write eks.software.ray: true in its place" if profile.joins_eks else "remove ray",
        )
        return faults_at((*fleet.key, "ray"), [finding], at_key=True)
    return under(fleet.key, check_ray_nodes(spec.ray.settings, is_split=spec.mig is not None))


def check_training_nodes(fleet: PlannedFleet) -> list[Fault]:
    """Find what is wrong with a training fleet of its type."""
    return [
        *faults_at((*fleet.key, "efa"), fleet.plan.about(Topic.EFA)),
        *faults_at((*fleet.key, "interface_policy"), fleet.plan.about(Topic.INTERFACES)),
        *faults_at((*fleet.key, "scratch"), _about_scratch(fleet)),
    ]


def _about_scratch(fleet: PlannedFleet) -> Iterator[Finding]:
    spec, record = fleet.spec, fleet.plan.instance_type
    asks = isinstance(spec, FleetSpec) and spec.scratch and "scratch" in spec.model_fields_set
    if asks and not record.local_disks:
        yield NO_LOCAL_DISKS.finding(
            cause=f"{record.name} has no local disks, so there is no /scratch",
            got="scratch: true",
            allowed="a type with local disks",
            fix="remove scratch, or choose another type",
            severity=Severity.WARNING,
        )
