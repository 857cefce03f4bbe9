"""AWS PCS: the version of Slurm of a resource, its custom settings, its records of `gres.conf`, and its scripts."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.rules.mig import MigPlan, check_mig, plan_mig
from cdk_gpu_clusters.rules.pcs import SettingsLevel
from cdk_gpu_clusters.rules.pcs_scripts import LifecycleScriptFacts
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.groups import (
    PCS_CLUSTER,
    PCS_NODE_GROUP,
    launch_of_node_group,
    records_of,
)
from cdk_gpu_clusters.template_rules.lookups.launches import looks_accelerated, own_types_of
from cdk_gpu_clusters.template_rules.lookups.mig import splits_of
from cdk_gpu_clusters.template_rules.rule import NotApplicable

PCS_QUEUE = "AWS::PCS::Queue"

_LEVELS = {
    PCS_CLUSTER: SettingsLevel.CLUSTER,
    PCS_NODE_GROUP: SettingsLevel.NODE_GROUP,
    PCS_QUEUE: SettingsLevel.QUEUE,
}
_SETTINGS = "SlurmCustomSettings"
_OTHER_SETTINGS = {
    "SlurmdbdCustomSettings": SettingsLevel.SLURMDBD,
    "CgroupCustomSettings": SettingsLevel.CGROUP,
}
#: The lists of settings in the Slurm configuration of a resource.
SETTING_LISTS = (_SETTINGS, *_OTHER_SETTINGS, "GresCustomSettings")
STAGES = ("NodeBootstrapped", "NodeReady")


def level_of(resource: Resource) -> SettingsLevel:
    """What the settings of a resource belong to."""
    return _LEVELS[resource.type]


def slurm_version_of(resource: Resource) -> Value:
    """The version of Slurm of a cluster, or of the cluster of a node group or queue.

    Raises:
        Undecidable: If the cluster is not in the template.
    """
    cluster = resource if resource.type == PCS_CLUSTER else target_of(resource.get("ClusterId"), PCS_CLUSTER)
    if cluster is None:
        raise resource.get("ClusterId").undecidable("the version of Slurm of this cluster is not in the template")
    return cluster.get("Scheduler", "Version")


def settings_of(resource: Resource) -> Iterator[tuple[SettingsLevel, Value, str, str]]:
    """Every custom setting: what it belongs to, where it is, its name and its value.

    A value that only a deployment knows has `${Name}` for it.
    """
    lists = {_SETTINGS: level_of(resource)} | (_OTHER_SETTINGS if resource.type == PCS_CLUSTER else {})
    for key, level in lists.items():
        for item in resource.get("SlurmConfiguration", key).items():
            name, value = item.get("ParameterName").text() or "", item.get("ParameterValue").template_text() or ""
            yield level, item, name, value


def own_settings_of(resource: Resource) -> dict[str, str]:
    """The settings of `slurm.conf` alone, by name."""
    own = level_of(resource)
    return {name: value for level, _, name, value in settings_of(resource) if level is own}


def gres_of(group: Resource) -> Value | None:
    """The value of the `Gres` setting of a node group, None if there is none."""
    for item in group.get("SlurmConfiguration", _SETTINGS).items():
        if item.get("ParameterName").text() == "Gres":
            return item.get("ParameterValue")
    return None


def gres_records_of(group: Resource) -> list[dict[str, str]]:
    """The records of `gres.conf` of a node group."""
    return [_texts(item) for item in group.get("SlurmConfiguration", "GresCustomSettings").items()]


def _texts(mapping: Value) -> dict[str, str]:
    keys = mapping.keys()
    return {key: mapping.get(key).text() or "" for key in keys}


def kind_and_mig_of(group: Resource) -> tuple[InstanceType, MigPlan | None]:
    """The type of a node group's nodes, and how its user data splits their GPUs.

    Raises:
        NotApplicable: If the nodes have no GPUs, or a layout that other rules report.
        Undecidable: If the template does not show it.
    """
    if not any(map(looks_accelerated, own_types_of(group))):
        raise NotApplicable
    record = records_of(group)[0][1]
    if record.accelerator is None:
        raise NotApplicable
    launch = launch_of_node_group(group)
    try:
        splits = splits_of(launch) if launch.data.get("UserData").exists else []
    except NotApplicable:
        splits = []
    layouts = splits[0].layouts if splits else ()
    if not layouts:
        return record, None
    if check_mig(record, layouts[0] if len(layouts) == 1 else layouts):
        raise NotApplicable
    return record, plan_mig(record, layouts[0] if len(layouts) == 1 else layouts)


def scripts_of(group: Resource) -> Iterator[tuple[str, Value, list[LifecycleScriptFacts]]]:
    """The lifecycle scripts of a node group: each stage that it names, where, and its scripts."""
    for stage in STAGES:
        value = group.get("NodeLifecycleActions", "Stages", stage)
        if value.exists:
            yield stage, value, [_script(item) for item in value.items()]


def _script(item: Value) -> LifecycleScriptFacts:
    source = item.get("ScriptSource")
    checksum = source.get("Checksum")
    return LifecycleScriptFacts(
        name=item.get("Name").text() or "",
        arguments=[one.template_text() or "" for one in item.get("Arguments").items()],
        location=source.get("ScriptLocation").template_text(),
        # one that only a deployment knows has the right form
        checksum=(checksum.text() if checksum.is_known else "0" * 64) if checksum.exists else None,
        has_version=source.get("S3VersionId").exists,
        on_error=item.get("OnError").text() or "TERMINATE",
    )
