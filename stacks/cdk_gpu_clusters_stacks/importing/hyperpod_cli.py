"""`config.yaml` of the SageMaker HyperPod CLI, as `hyp init cluster-stack` writes it.

It stays a cluster of HyperPod on Amazon EKS, or moves to Amazon EKS.

Keys and defaults are those of sagemaker-hyperpod 3.12.0: hyperpod_cluster_stack_template/v1_0/model.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS

from . import hyperpod_section
from .draft import Change, Draft, Note
from .eks import write_existing, write_version
from .foreign import Foreign, Part
from .group import Group, fleet_name, refuse_equal_names, write_tags
from .instance_groups import (
    LOST_OF_GROUPS,
    InstanceGroups,
    deployed_cluster,
    note_nodes_of_others,
    note_recovery,
    orchestrators_of,
    read_instance_groups,
    region_in,
    region_named_by,
    write_instance_groups,
    write_mounts,
)
from .judge import Deployed
from .network import Place, put_existing_network
from .small_nodes import plain_type
from .stores import write_lustre_by_id

_CHARTS = "the library installs what its nodes need; add other charts as you do today"
_SCRIPTS = "call the scripts in one shell script beside the cluster file, and name it in `user_data` of the fleet"
_OF_ALL: Mapping[str, str] = {
    "on_create_path": _SCRIPTS,
    "rig_s3_bucket_name": "only SageMaker trains its own models in such groups",
    "rig_settings": "only SageMaker trains its own models in such groups",
}
#: Where a value is -> what becomes of it, by the orchestrator. The longest path that fits is taken.
_LOST: Mapping[str, str] = {
    **{f"instance_group_settings.{key}": text for key, text in LOST_OF_GROUPS.items()},
    **_OF_ALL,
    "enable_hp_inference_feature": "write `inference` for models that are served",
    "helm_operators": _CHARTS,
    "node_provisioning_mode": "nodes of a fleet always launch one by one, as capacity allows",
    "security_group_id": "the fleet has a security group of its own, with EFA's rules",
    "security_group_ids": "the fleet has a security group of its own, with EFA's rules",
}
_LOST_IN_HYPERPOD: Mapping[str, str] = {
    **{f"instance_group_settings.{key}": text for key, text in hyperpod_section.LOST_OF_GROUPS.items()},
    **_OF_ALL,
    "enable_hp_inference_feature": "add HyperPod's inference operator to the cluster of Amazon EKS yourself",
    "helm_operators": "give these values to HyperPod's Helm chart, which you install before the cluster of HyperPod",
    "security_group_id": "the cluster has a security group of its own, with EFA's rules",
    "security_group_ids": "the cluster has a security group of its own, with EFA's rules",
}


def lost_of_hyperpod_cli(orchestrator: str) -> Mapping[str, str]:
    """Where values are that are lost, and what becomes of them.

    Args:
        orchestrator: The orchestrator of the cluster file.
    """
    return _LOST_IN_HYPERPOD if ORCHESTRATORS[orchestrator].joins_hyperpod else _LOST


#: What the CLI's own stacks are made of, and those of the library make otherwise.
_OF_ITS_STACKS = (
    "create_eks_cluster_stack", "create_fsx_stack", "create_helm_chart_stack", "create_hyperpod_cluster_stack",
    "create_life_cycle_script_stack", "create_s3_bucket_stack", "create_s3_endpoint_stack",
    "create_sagemaker_iam_role_stack", "create_security_group_stack", "create_vpc_stack", "eks_cluster_name",
    "fsx_availability_zone_id", "fsx_subnet_id", "helm_release", "namespace", "nat_gateway_ids",
    "private_route_table_ids", "resource_name_prefix", "s3_bucket_name", "sagemaker_iam_role_name", "stage", "template",
    "version",
)  # fmt: skip
_NETWORK = {"SecurityGroupIds": ["sg-0123456789abcdef0"], "Subnets": ["subnet-0123456789abcdef0"]}
_SUBNET = re.compile(r"subnet-([0-9a-f]{8}|[0-9a-f]{17})")
#: Stand for the subnets of the control plane, of which the file has fewer than two.
_ANY_SUBNETS = ["subnet-0123456789abcde01", "subnet-0123456789abcde02"]
_MOUNT_POINT = "/fsx"


def is_hyperpod_cli(data: object) -> bool:
    """Whether a file is a configuration of a cluster for the HyperPod CLI."""
    return isinstance(data, Mapping) and bool({"instance_group_settings", "hyperpod_cluster_name"} & data.keys())


def name_of_hyperpod_cli(foreign: Foreign, _otherwise: str) -> str:
    """The name of the cluster in the file."""
    part = foreign.root["hyperpod_cluster_name"]
    return fleet_name("" if part.is_placeholder else part.text() or "") or "hyperpod-cluster"


def words_of_hyperpod_cli(_foreign: Foreign) -> tuple[str, ...]:
    """The orchestrators that the cluster can become, the first one by default."""
    return orchestrators_of(is_eks=True)


def import_hyperpod_cli(foreign: Foreign, draft: Draft, place: Place, orchestrator: str) -> list[Group]:
    """Write a cluster file.

    Args:
        foreign: The file.
        draft: The cluster file.
        place: What the file does not say.
        orchestrator: One of `words_of_hyperpod_cli`.

    Returns:
        The groups of nodes that became fleets.
    """
    root, joins_hyperpod = foreign.root, ORCHESTRATORS[orchestrator].joins_hyperpod
    found = read_instance_groups(root["instance_group_settings"], is_eks=True)
    refuse_equal_names(found.fleets)
    root["hyperpod_cluster_name"].skip()
    draft.put("version", value=1)
    draft.put("name", value=place.name, of=root["hyperpod_cluster_name"])
    zones = [group.part["TargetAvailabilityZoneId"] for group in found.fleets]
    zones += root["availability_zone_ids"].items()
    named = region_in(zones)
    region = (
        place.put_region(draft, root["region"])
        if named is None
        else replace(place, region=place.region or region_named_by(named)).put_region(draft, named)
    )
    draft.put("orchestrator", value=orchestrator)
    _write_network(draft, replace(place, zone=place.zone or _zone(named)), region, root, found)
    _skip_zones(draft, zones, named)
    write_tags(draft, root["tags"])
    mounts = {group.name: write_mounts(draft, group.part) for group in found.fleets}
    if (store := _write_file_system(draft, root)) is not None:
        for fleet in mounts.values():
            fleet.setdefault(_MOUNT_POINT, store)
    if _has_eks(root):
        write_existing(
            draft,
            _name_of_eks(root),
            of=root["eks_cluster_name"],
            version=root["kubernetes_version"],
            joins_hyperpod=joins_hyperpod,
        )
        note_nodes_of_others(draft, found.others)
    else:
        _write_cluster(draft, root, found)
    replaced = "network, roles, buckets and charts"
    if joins_hyperpod:
        hyperpod_section.write_cluster(
            draft,
            name=root["hyperpod_cluster_name"],
            recovery=root["node_recovery"],
            mode=root["node_provisioning_mode"],
            is_eks=True,
        )
        hyperpod_section.write_fleets(draft, found, mounts)
        replaced = "network, roles and buckets; install HyperPod's Helm chart before the cluster of HyperPod"
    else:
        write_instance_groups(draft, found, mounts)
        note_recovery(draft, root["node_recovery"], is_eks=True)
    for key in _OF_ITS_STACKS:
        root[key].skip()
    text = f"stacks of the library take the place of those that the CLI makes: {replaced}"
    draft.notes.append(Note(Change.REPLACED, "", text))
    return found.fleets


def _has_eks(root: Part) -> bool:
    """Whether the cluster of Amazon EKS exists: the CLI then makes none."""
    return root["create_eks_cluster_stack"].flag() is False


def _name_of_eks(root: Part) -> str | None:
    part = root["eks_cluster_name"]
    return None if part.is_placeholder else part.text()


def _zone(part: Part | None) -> str | None:
    return None if part is None else str(part.value)


def _skip_zones(draft: Draft, zones: list[Part], named: Part | None) -> None:
    """All fleets are in one zone; say which groups were elsewhere."""
    for one in zones:
        if one.exists and named is not None and one.value != named.value and one.key[0] == "instance_group_settings":
            text = (
                "all fleets of a cluster file are in one zone: give these a file of their own if they must stay there"
            )
            draft.note(Change.REPLACED, text, one)
        one.skip()


def _write_network(draft: Draft, place: Place, region: str, root: Part, found: InstanceGroups) -> None:
    vpc, subnets = root["vpc_id"], root["private_subnet_ids"].items()
    own = [one for group in found.fleets for one in group.part["OverrideVpcConfig"]["Subnets"].items()]
    if not vpc.exists and not subnets and not own and not _has_eks(root):
        place.put_zone(draft, region, found.fleets)
        if (cidr := root["vpc_cidr"]).exists:
            draft.put("network", "cidr", value=cidr.text(), of=cidr)
        return
    root["vpc_cidr"].skip()
    put_existing_network(draft, place, region, own or subnets, found.fleets, vpc)
    root["private_subnet_ids"].skip()
    control = root["eks_private_subnet_ids"]
    if _has_eks(root):
        control.skip()
        return
    ids = [str(one.value) for one in control.items()]
    known = [one for one in ids if _SUBNET.fullmatch(one)]
    values = dict(
        zip((f"{region}{letter}" for letter in "abcdef"), [*known, *_ANY_SUBNETS[len(known) :]], strict=False)
    )
    why = f"two private subnets by their zones (the file has {', '.join(ids) or 'none'})"
    draft.fill("network", "service_subnets", value=values, why=why, of=control)
    control.skip()


def _write_file_system(draft: Draft, root: Part) -> str | None:
    """The file system: an existing one, a new one unless `create_fsx_stack` is false, or none."""
    existing = root["fsx_file_system_id"]
    sizes = [root[key] for key in ("storage_capacity", "per_unit_storage_throughput", "data_compression_type",
                                   "file_system_type_version")]  # fmt: skip
    if existing.exists and existing.value != "":
        for part in sizes:
            part.skip()
        return write_lustre_by_id(draft, existing)
    if root["create_fsx_stack"].flag() is False:
        for part in sizes:
            part.skip()
        return None
    capacity, throughput, compression, version = sizes
    key = ("data", "fsx", "lustre")
    # The defaults of the CLI: 1200 GiB, 250 MB/s for each TiB, without compression.
    draft.put(*key, "storage_capacity_gib", value=capacity.number() or 1200, of=capacity)
    draft.put(*key, "throughput_mb_per_s_per_tib", value=throughput.number() or 250, of=throughput)
    draft.put(*key, "compression", value=(compression.text() or "NONE") != "NONE", of=compression)
    if (text := version.text()) is not None:
        draft.put(*key, "lustre_version", value=text, of=version)
    draft.note(Change.REPLACED, "a new and empty file system: copy your data", capacity)
    return "fsx"


def _write_cluster(draft: Draft, root: Part, found: InstanceGroups) -> None:
    write_version(draft, root["kubernetes_version"])
    if not found.others:
        text = "two m7i.large in two zones hold the cluster's own pods, since the file has no nodes for them"
        draft.notes.append(Note(Change.REPLACED, "instance_group_settings", text))
        return
    first, *rest = found.others
    key = ("eks", "system_nodes")
    name, kind = first["InstanceGroupName"].value or first.name, plain_type(first["InstanceType"], prefix="ml.")
    if kind is not None:
        draft.put(*key, "instance_type", value=kind, of=first["InstanceType"])
    count = first["InstanceCount"].number() or 0
    draft.put(*key, "nodes", value=min(max(2, count), 100), of=first)
    text = f"{name} becomes the system nodes, of the type {kind or 'm7i.large'}: two at least, over two zones"
    draft.note(Change.REPLACED, text, first)
    note_nodes_of_others(draft, rest)


def deployed_by_hyperpod_cli(foreign: Foreign, name: str) -> Deployed:
    """The cluster that the CLI's stacks make."""
    root = foreign.root
    properties = {"InstanceGroups": root["instance_group_settings"], "NodeRecovery": root["node_recovery"]}
    return deployed_cluster(properties, name=name, network=_NETWORK)
