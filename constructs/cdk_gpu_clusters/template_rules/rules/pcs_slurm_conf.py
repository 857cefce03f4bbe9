"""Settings of Slurm under AWS PCS that end its controller together, or show a job the GPUs of others."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.pcs import SettingsLevel
from cdk_gpu_clusters.rules.pcs_slurm_conf import (
    DEVICES,
    STARTS,
    STEP_MANAGER,
    check_controller_starts,
    check_devices,
)
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.groups import PCS_CLUSTER, PCS_NODE_GROUP
from cdk_gpu_clusters.template_rules.lookups.pcs import (
    gres_of,
    kind_and_mig_of,
    level_of,
    settings_of,
)
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    SharedCheck,
    TemplateRule,
    faults_of,
    template_rule,
)

_SETTINGS_PAGE = "https://docs.aws.amazon.com/pcs/latest/userguide/slurm-custom-settings-cluster.html"
_COMBINED = (
    "AccountingStorageTRES",
    "FirstJobId",
    "HealthCheckNodeState",
    "LaunchParameters",
    "PreemptMode",
    "PreemptType",
    "PrologFlags",
    "SchedulerParameters",
)


def _known_settings(resource: Resource) -> dict[str, tuple[Value, str]]:
    """The settings of `slurm.conf` that the rules read, with their places.

    Raises:
        Undecidable: If only a deployment knows one of them.
    """
    return {
        name: (item, item.get("ParameterValue").text() or "")
        for level, item, name, _ in settings_of(resource)
        if level is level_of(resource) and name in _COMBINED
    }


def _cluster_findings(cluster: Resource) -> list[tuple[Value, list[Finding]]]:
    settings = _known_settings(cluster)
    if not settings:
        raise NotApplicable
    accounting = cluster.get("SlurmConfiguration", "Accounting", "Mode").text() == "STANDARD"
    values = {name: value for name, (_, value) in settings.items()}
    everywhere = cluster.get("SlurmConfiguration", "SlurmCustomSettings")
    return [
        (settings[one.path][0] if one.path in settings else everywhere, [one])
        for one in check_controller_starts(values, accounting=accounting)
    ]


_cluster_settings = SharedCheck(
    find=_cluster_findings,
    url=_SETTINGS_PAGE,
    on=(PCS_CLUSTER,),
    looks_at=tuple(f"SlurmConfiguration/SlurmCustomSettings: {name}" for name in _COMBINED),
)

controller_starts: TemplateRule = _cluster_settings.rule(
    STARTS,
    cause="Slurm's controller ends when it starts with these settings: AWS PCS cannot create or update the cluster",
    fix="change one of the settings",
)
step_manager: TemplateRule = _cluster_settings.rule(
    STEP_MANAGER,
    severity=Severity.WARNING,
    cause="the step manager, which AWS PCS turns on, needs Contain: Slurm's controller ends when it starts without it",
    fix="set PrologFlags to Alloc,Contain",
)


@template_rule(
    DEVICES,
    severity=Severity.WARNING,
    cause="a job can use all GPUs and MIG slices of its nodes, also those of other jobs",
    fix="set ConstrainDevices to yes in CgroupCustomSettings of the cluster",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/cgroup-custom-settings.html",
    on=(PCS_CLUSTER,),
    looks_at=(
        "SlurmConfiguration/CgroupCustomSettings: ConstrainDevices",
        "SlurmConfiguration/SlurmCustomSettings of the node groups: Gres",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData: MIG_PARTITION, nvidia-smi mig -cgi",
    ),
)
def constrained_devices(resource: Resource) -> Iterator[Fault]:
    settings = {
        name: item.get("ParameterValue").text() or ""
        for level, item, name, _ in settings_of(resource)
        if level is SettingsLevel.CGROUP and name == "ConstrainDevices"
    }
    given = settings.get("ConstrainDevices")
    has_gres = given is None and any(map(_has_gres, _groups_of(resource)))
    if given is None and not has_gres:
        raise NotApplicable
    at = resource.get("SlurmConfiguration", "CgroupCustomSettings")
    yield from faults_of(DEVICES, check_devices(settings, has_gres=has_gres), at if at.exists else resource)


def _groups_of(cluster: Resource) -> Iterator[Resource]:
    return (one for one in cluster.case.resources(PCS_NODE_GROUP) if cluster.is_target_of(one.get("ClusterId")))


def _has_gres(group: Resource) -> bool:
    if gres_of(group) is not None:
        return True
    try:
        return kind_and_mig_of(group)[1] is not None
    except NotApplicable:
        return False
