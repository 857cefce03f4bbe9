"""Amazon SageMaker HyperPod, as `aws sagemaker create-cluster --cli-input-json` takes it.

It stays a cluster of HyperPod, or moves to Amazon EKS or AWS PCS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS

from . import hyperpod_section
from .draft import Change, Draft
from .eks import write_existing
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
from .slurm import write_homes, write_login_nodes, write_size

_OF_SLURM = "AWS PCS keeps the controller"
_FIXED_SIZE = "the size of an instance group of the library is fixed: HyperPod does not scale it"
_SCALING = "write `min_nodes` and `max_nodes` for a fleet that scales"
_OF_ALL: Mapping[str, str] = {
    "RestrictedInstanceGroups": "only SageMaker trains its own models in such groups",
    "RestrictedInstanceGroupsConfig": "only SageMaker trains its own models in such groups",
}
#: Where a value is -> what becomes of it, by the orchestrator. The longest path that fits is taken.
_LOST: Mapping[str, str] = {
    **{f"InstanceGroups.{key}": text for key, text in LOST_OF_GROUPS.items()},
    **_OF_ALL,
    "AutoScaling": _SCALING,
    "ClusterRole": _SCALING,
    "NodeProvisioningMode": "nodes of a fleet always launch one by one, as capacity allows",
    "Orchestrator.Slurm.SlurmConfigStrategy": _OF_SLURM,
    "TieredStorageConfig": "write checkpoints to a store, such as `checkpoints` of `data`, or to /scratch",
    "VpcConfig.SecurityGroupIds": "the fleet has a security group of its own, with EFA's rules",
}
_LOST_IN_HYPERPOD: Mapping[str, str] = {
    **{f"InstanceGroups.{key}": text for key, text in hyperpod_section.LOST_OF_GROUPS.items()},
    **_OF_ALL,
    "AutoScaling": _FIXED_SIZE,
    "ClusterRole": _FIXED_SIZE,
    "VpcConfig.SecurityGroupIds": "the cluster has a security group of its own, with EFA's rules",
}


def lost_of_hyperpod(orchestrator: str) -> Mapping[str, str]:
    """Where values are that are lost, and what becomes of them.

    Args:
        orchestrator: The orchestrator of the cluster file.
    """
    return _LOST_IN_HYPERPOD if ORCHESTRATORS[orchestrator].joins_hyperpod else _LOST


_PROPERTIES = (
    "InstanceGroups", "VpcConfig", "Orchestrator", "NodeRecovery", "NodeProvisioningMode", "AutoScaling",
    "ClusterRole", "TieredStorageConfig",
)  # fmt: skip


def is_hyperpod(data: object) -> bool:
    """Whether a file is a request of CreateCluster."""
    return isinstance(data, Mapping) and "InstanceGroups" in data


def name_of_hyperpod(foreign: Foreign, otherwise: str) -> str:
    """The name of the cluster in the file."""
    part = foreign.root["ClusterName"]
    given = None if part.is_placeholder else part.text()
    return fleet_name(given or otherwise) or "cluster"


def words_of_hyperpod(foreign: Foreign) -> tuple[str, ...]:
    """The orchestrators that the cluster can become, the first one by default."""
    return orchestrators_of(is_eks=foreign.root["Orchestrator"]["Eks"].exists)


def import_hyperpod(foreign: Foreign, draft: Draft, place: Place, orchestrator: str) -> list[Group]:
    """Write a cluster file.

    Args:
        foreign: The file.
        draft: The cluster file.
        place: What the file does not say.
        orchestrator: One of `words_of_hyperpod`.

    Returns:
        The groups of nodes that became fleets.
    """
    root = foreign.root
    found = read_instance_groups(root["InstanceGroups"], is_eks=root["Orchestrator"]["Eks"].exists)
    refuse_equal_names(found.fleets)
    root["ClusterName"].skip()
    draft.put("version", value=1)
    draft.put("name", value=place.name, of=root["ClusterName"])
    region = _put_region(draft, place, root, found)
    draft.put("orchestrator", value=orchestrator, of=root["Orchestrator"])
    own = [one for group in found.fleets for one in group.part["OverrideVpcConfig"]["Subnets"].items()]
    put_existing_network(draft, place, region, own or root["VpcConfig"]["Subnets"].items(), found.fleets)
    if own:
        root["VpcConfig"]["Subnets"].skip()
    write_tags(draft, root["Tags"])
    mounts = {group.name: write_mounts(draft, group.part) for group in found.fleets}
    if ORCHESTRATORS[orchestrator].joins_hyperpod:
        _stay(draft, root, found, mounts)
    else:
        _move(draft, root, found, mounts)
    note_nodes_of_others(draft, found.others)
    return found.fleets


def _stay(draft: Draft, root: Part, found: InstanceGroups, mounts: dict[str, dict[str, str]]) -> None:
    """Keep it a cluster of HyperPod."""
    hyperpod_section.write_cluster(
        draft,
        name=root["ClusterName"],
        recovery=root["NodeRecovery"],
        mode=root["NodeProvisioningMode"],
        is_eks=found.is_eks,
    )
    hyperpod_section.write_tiered_checkpoints(draft, root["TieredStorageConfig"], is_eks=found.is_eks)
    if found.is_eks:
        _write_existing_eks(draft, root["Orchestrator"]["Eks"]["ClusterArn"], joins_hyperpod=True)
    else:
        hyperpod_section.write_slurm(draft, root["Orchestrator"]["Slurm"], found)
    hyperpod_section.write_fleets(draft, found, mounts)


def _move(draft: Draft, root: Part, found: InstanceGroups, mounts: dict[str, dict[str, str]]) -> None:
    """Take the nodes out of SageMaker."""
    if found.is_eks:
        _write_existing_eks(draft, root["Orchestrator"]["Eks"]["ClusterArn"], joins_hyperpod=False)
    else:
        _write_slurm(draft, root, found, mounts)
    write_instance_groups(draft, found, mounts)
    note_recovery(draft, root["NodeRecovery"], is_eks=found.is_eks)


def _put_region(draft: Draft, place: Place, root: Part, found: InstanceGroups) -> str:
    """The Region, which no key gives, but ARNs and DNS names do."""
    storage = [one for group in found.fleets for one in group.part["InstanceStorageConfigs"].items()]
    named = region_in(
        [
            root["Orchestrator"]["Eks"]["ClusterArn"],
            root["Orchestrator"]["Slurm"]["AccountingDatabase"]["SecretArn"],
            *(group.part["TrainingPlanArn"] for group in found.fleets),
            *(one[kind]["DnsName"] for one in storage for kind in ("FsxLustreConfig", "FsxOpenZfsConfig")
              if one[kind].exists),
        ]
    )  # fmt: skip
    if named is None:
        return place.put_region(draft, root["Region"])
    return replace(place, region=place.region or region_named_by(named)).put_region(draft, named)


def _write_existing_eks(draft: Draft, arn: Part, *, joins_hyperpod: bool) -> None:
    """The cluster of Amazon EKS, which exists: HyperPod makes none."""
    name = str(arn.value).rpartition(":cluster/")[2] if region_named_by(arn) is not None else None
    write_existing(draft, name, of=arn, joins_hyperpod=joins_hyperpod)


def _write_slurm(draft: Draft, root: Part, found: InstanceGroups, mounts: dict[str, dict[str, str]]) -> None:
    """Slurm, whose controller AWS PCS keeps."""
    controller = next(iter(found.controllers), root["Orchestrator"])
    shared = {point: store for fleet in mounts.values() for point, store in fleet.items()}
    if "/home" not in shared:
        text = "home directories are on a new Amazon EFS file system: copy them"
        shared["/home"] = write_homes(draft, controller, text)
        for fleet in mounts.values():
            fleet["/home"] = shared["/home"]
    write_size(draft, found.fleets, of=root["InstanceGroups"])
    database = root["Orchestrator"]["Slurm"]["AccountingDatabase"]
    draft.put("pcs", "accounting", "enabled", value=True, of=database)
    text = "AWS PCS keeps the accounting database; old records stay where they are"
    if database.exists:
        draft.note(Change.REPLACED, text, database)
    for part in found.controllers:
        draft.note(Change.REPLACED, "AWS PCS runs Slurm's controller itself: there are no nodes for it", part)
    login = next(iter(found.logins), None)
    write_login_nodes(
        draft,
        count=None if login is None else login["InstanceCount"].number(),
        kind=None if login is None else login["InstanceType"],
        of=controller if login is None else login,
        mounts=shared,
        prefix="ml.",
    )
    for part in found.logins:
        text = "login nodes of the library are in the network of the fleets, without a public address"
        draft.note(Change.REPLACED, text, part)
    queues: dict[str, list[Group]] = {}
    for group in found.fleets:
        names = group.part["SlurmConfig"]["PartitionNames"].texts() or [group.name]
        group.part["SlurmConfig"]["NodeType"].skip()
        queues.setdefault(fleet_name(names[0]), []).append(group)
    for name, groups in queues.items():
        of = groups[0].part["SlurmConfig"]["PartitionNames"]
        draft.put("pcs", "queues", name, "fleets", value=[group.name for group in groups], of=of)


def deployed_by_hyperpod(foreign: Foreign, name: str) -> Deployed:
    """What CreateCluster makes of the file."""
    root = foreign.root
    return deployed_cluster({key: root[key] for key in _PROPERTIES}, name=name, network=None)
