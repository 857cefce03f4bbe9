"""A cluster of HyperPod that stays one: the section `hyperpod` of the cluster file, and its fleets.

What a key means is stated by botocore 1.44.5, sagemaker service model: CreateCluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdk_gpu_clusters.rules.interfaces import Orchestrator, plan_interfaces

from ._rules import VALUE
from .draft import Change, Draft, Note
from .foreign import Part
from .group import Group, Market, note_addresses, was, write_efa, write_nodes
from .instance_groups import ML, InstanceGroups, policy_of, volumes_of, write_mounts
from .small_nodes import write_plain_type

_SECTION = "hyperpod"
#: The library's own controller: `controller.instance_type` of the section.
_CONTROLLER = "m7i.12xlarge"
_MOST_LOGIN_NODES = 10
_OF_FLEETS = "the cluster file has it for fleets; the controller and login nodes are as HyperPod makes them"
_UPDATES = "`aws sagemaker update-cluster-software` installs a newer image when you run it"
#: Keys of an instance group -> what becomes of them.
LOST_OF_GROUPS: Mapping[str, str] = {
    "AutoPatchConfig": _UPDATES,
    "ExecutionRole": "the library makes the role; grant more in an app, with `role` of the instance group",
    "ImageId": _OF_FLEETS,
    "ImageReleaseVersion": _OF_FLEETS,
    "InstanceStorageConfigs": _OF_FLEETS,
    "KubernetesConfig": "each node has the label gpu-cluster/fleet with the name of its fleet; write more labels and "
    "taints in an app, with `labels` and `taints` of the instance group",
    "LifeCycleConfig": "HyperPod runs the script of the library, on Slurm after its own set-up; call what is yours of "
    "these scripts in one shell script beside the cluster file, and name it in `user_data` of the fleet",
    "MinInstanceCount": _OF_FLEETS,
    "OverrideVpcConfig": "all nodes of the cluster share a security group, with EFA's rules",
    "ScheduledUpdateConfig": _UPDATES,
    "SlurmConfig": _OF_FLEETS,
    "ThreadsPerCore": _OF_FLEETS,
}


# The cluster.


def write_cluster(draft: Draft, *, name: Part, recovery: Part, mode: Part, is_eks: bool) -> None:
    """Write who replaces nodes, and how they are provisioned.

    Args:
        draft: The cluster file.
        name: The name of the cluster.
        recovery: `NodeRecovery`.
        mode: `NodeProvisioningMode`.
        is_eks: Whether the cluster is on Amazon EKS.
    """
    text = "the new cluster has a name of its own: what is on the volumes of the old nodes does not move"
    draft.notes.append(Note(Change.REPLACED, name.name, text, name.place))
    key = (_SECTION, "node_recovery")
    if recovery.is_placeholder:
        draft.fill(*key, value=True, why=was(recovery, "whether SageMaker replaces failed nodes"), of=recovery)
        recovery.skip()
    elif (given := recovery.text()) in ("Automatic", "None"):
        draft.put(*key, value=given == "Automatic", of=recovery)
    elif given is not None:
        recovery.refuse(VALUE, cause="SageMaker has no such recovery", got=given, allowed="Automatic, None",
                        fix="write Automatic")  # fmt: skip
    if mode.text() == "Continuous":
        draft.put(_SECTION, "continuous_provisioning", value=True, of=mode)
    else:
        text = "a group takes work before all its nodes are there, and SageMaker goes on to add them"
        draft.notes.append(Note(Change.BETTER, "", text))
    who = "pods get it" if is_eks else "Slurm gets it"
    text = (
        f"every node checks its GPUs, NVLink, EFA and mounts before {who}; a watchdog asks HyperPod to replace nodes "
        "that fail later"
    )
    draft.notes.append(Note(Change.BETTER, "", text))


def write_tiered_checkpoints(draft: Draft, tiered: Part, *, is_eks: bool) -> None:
    """Write how much memory of a node of Amazon EKS holds checkpoints."""
    key, share = (_SECTION, "tiered_checkpoint_percent"), tiered["InstanceMemoryAllocationPercentage"]
    if tiered["Mode"].text() != "Enable":
        share.skip()
    elif not is_eks:
        draft.note(Change.LOST, "SageMaker keeps tiered checkpoints on Amazon EKS alone", tiered)
    elif (percent := share.number()) is not None:
        draft.put(*key, value=percent, of=share)
    else:
        draft.fill(*key, value=20, why="the share of memory for tiered checkpoints", of=tiered)


# What only Slurm has.


def write_slurm(draft: Draft, slurm: Part, found: InstanceGroups) -> None:
    """Write the controller, the login nodes and the database.

    Args:
        draft: The cluster file.
        slurm: `Orchestrator.Slurm`.
        found: The instance groups.
    """
    strategy = slurm["SlurmConfigStrategy"]
    if strategy.exists and strategy.text() != "Merge":
        text = "continuous provisioning takes no strategy: SageMaker merges its partitions into slurm.conf"
        draft.note(Change.REPLACED, text, strategy)
    if (database := slurm["AccountingDatabase"]).exists:
        _write_database(draft, database)
    for number, part in enumerate(found.controllers):
        if number or (part["InstanceCount"].number() or 1) > 1:
            draft.note(Change.LOST, "the library makes one controller", part if number else part["InstanceCount"])
    for part in found.controllers[:1]:
        _write_type(draft, "controller", part, otherwise=_CONTROLLER)
    _write_login(draft, found)


def _write_database(draft: Draft, database: Part) -> None:
    for name, key, value, why in (
        ("Endpoint", "endpoint", "slurm.example.com", "the host name of your database"),
        ("SecretArn", "secret_arn", "arn:aws:secretsmanager:us-east-1:111122223333:secret:slurm-AbCdEf",
         "the ARN of its secret"),
    ):  # fmt: skip
        _put(draft, (_SECTION, "accounting_database", key), database[name], value, why)
    for name, key in (("Port", "port"), ("Name", "name")):
        if (part := database[name]).exists:
            given = part.number() if name == "Port" else part.text()
            draft.put(_SECTION, "accounting_database", key, value=given, of=part)


def _put(draft: Draft, key: tuple[str, ...], part: Part, value: str, why: str) -> None:
    """Write a text, or one to fill in where the file has none."""
    if part.exists and not part.is_placeholder:
        draft.put(*key, value=part.text(), of=part)
        return
    draft.fill(*key, value=value, why=was(part, why), of=part)
    part.skip()


def _write_login(draft: Draft, found: InstanceGroups) -> None:
    key = (_SECTION, "login")
    if not found.logins:
        draft.put(*key, "nodes", value=0)
        return
    first, *others = found.logins
    count = first["InstanceCount"].number()
    draft.put(*key, "nodes", value=min(1 if count is None else count, _MOST_LOGIN_NODES), of=first["InstanceCount"])
    _write_type(draft, "login", first, otherwise="m7i.xlarge")
    if mounts := write_mounts(draft, first):
        draft.put(*key, "mounts", value=mounts, of=first["InstanceStorageConfigs"])
    for part in others:
        draft.note(Change.LOST, "all login nodes are of one group: the first one", part)


def _write_type(draft: Draft, name: str, part: Part, *, otherwise: str) -> None:
    part["InstanceGroupName"].skip()
    part["SlurmConfig"].skip()
    write_plain_type(draft, (_SECTION, name), part["InstanceType"], otherwise=otherwise, prefix=ML)


# The fleets.


def write_fleets(draft: Draft, found: InstanceGroups, mounts: Mapping[str, Mapping[str, str]]) -> None:
    """Write the fleets, and what only HyperPod has of them.

    Args:
        draft: The cluster file.
        found: The instance groups.
        mounts: Directories and stores of each fleet, by its name.
    """
    orchestrator = Orchestrator.HYPERPOD_EKS if found.is_eks else Orchestrator.HYPERPOD_SLURM
    for group in found.fleets:
        _write_group(draft, group, is_eks=found.is_eks)
    for group in found.fleets:
        key = ("training", "fleets", group.name)
        write_nodes(draft, group)
        _write_capacity(draft, (*key, "capacity"), group)
        write_efa(draft, group)
        _write_image(draft, (*key, "image", "id"), group.part["ImageId"])
        if mounts.get(group.name):
            draft.put(*key, "mounts", value=dict(mounts[group.name]), of=group.part["InstanceStorageConfigs"])
        if group.efa:
            kind, policy = group.instance_type, policy_of(group.part)
            today = plan_interfaces(kind, policy=policy, efa=True, orchestrator=orchestrator)
            note_addresses(draft, group, orchestrator, theirs=today.ip_addresses_per_node)
        _note_group(draft, group)


def _write_capacity(draft: Draft, key: tuple[str, ...], group: Group) -> None:
    if group.market is Market.SPOT:
        draft.put(*key, value={"spot": {}}, of=group.market_part)
    elif group.market is Market.BLOCK:
        any_plan = f"arn:aws:sagemaker:{draft.data['region']}:111122223333:training-plan/mine"
        _put(draft, (*key, "training_plan"), group.market_part, any_plan, "the ARN of your training plan")


def _write_image(draft: Draft, key: tuple[str, ...], image: Part) -> None:
    if image.value == "default":
        image.skip()  # the image of HyperPod, as without the key
    elif image.exists:
        _put(draft, key, image, "ami-0123456789abcdef0", "the id of your image, which is made from one of HyperPod")


def _write_group(draft: Draft, group: Group, *, is_eks: bool) -> None:
    """What only HyperPod has of a fleet."""
    part, key = group.part, (_SECTION, "groups", group.name)
    for name, option in (("MinInstanceCount", "least_nodes"), ("ThreadsPerCore", "threads_per_core")):
        if (value := part[name].number()) is not None:
            draft.put(*key, option, value=value, of=part[name])
    if checks := part["OnStartDeepHealthChecks"].texts():
        draft.put(*key, "deep_health_checks", value=checks, of=part["OnStartDeepHealthChecks"])
    if (size := group.volume.size_gib) is not None:
        draft.put(*key, "volume_gib", value=size, of=group.volume.part)
    release = part["ImageReleaseVersion"]
    if release.is_placeholder:
        draft.note(Change.LOST, "this placeholder has no value: nodes get the latest image of HyperPod", release)
    elif release.exists:
        draft.put(*key, "image_release", value=release.text(), of=release)
    if not is_eks:
        _write_partition(draft, key, part)


def _write_partition(draft: Draft, key: tuple[str, ...], group: Part) -> None:
    slurm = group["SlurmConfig"]
    slurm["NodeType"].skip()
    first, *others = slurm["PartitionNames"].items() or [slurm["PartitionNames"]]
    if first.exists:
        draft.put(*key, "partition", value=first.text(), of=first)
    else:
        text = f"its partition has the name of the fleet; `partition` of hyperpod.groups.{key[-1]} gives another"
        draft.notes.append(Note(Change.REPLACED, group.name, text, group.place))
    for part in others:
        draft.note(Change.LOST, "a fleet is in one partition: the first one", part)


def _note_group(draft: Draft, group: Group) -> None:
    part = group.part
    if group.maximum == 0:
        draft.note(Change.REPLACED, "0 nodes become 1, the least of a fleet", part["InstanceCount"])
    for extra in part["InstanceRequirements"]["InstanceTypes"].items()[1:]:
        draft.note(Change.LOST, "a fleet has one instance type: the first one", extra)
    for one in volumes_of(part):
        if (key := one["VolumeKmsKeyId"]).exists:
            text = "a key of AWS encrypts it; in an app, the instance group takes another for the second volume"
            draft.note(Change.LOST, text, key)
