"""Slurm under AWS PCS: its version, custom settings of `slurm.conf`, and GRES."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.gres import DIFFERENT_LAYOUT, GRES_FORM, check_gres
from cdk_gpu_clusters.rules.pcs import METRICS, SETTING, TIMES, SettingsLevel, check_slurm_settings, check_times
from cdk_gpu_clusters.rules.pcs_gres import (
    DECLARED_MIG,
    GRES_AGREEMENT,
    GRES_RECORD,
    SOCKETS,
    check_declared_mig,
    check_gres_agreement,
    check_gres_records,
    check_sockets,
)
from cdk_gpu_clusters.rules.pcs_programs import NODE_PROGRAMS, check_node_programs, programs_of
from cdk_gpu_clusters.rules.pcs_versions import (
    NEEDS_VERSION,
    VERSION,
    check_feature,
    check_slurm_version,
)
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.groups import PCS_CLUSTER, PCS_NODE_GROUP, launch_of_node_group
from cdk_gpu_clusters.template_rules.lookups.launches import user_data_of
from cdk_gpu_clusters.template_rules.lookups.pcs import (
    PCS_QUEUE,
    SETTING_LISTS,
    gres_of,
    gres_records_of,
    kind_and_mig_of,
    own_settings_of,
    scripts_of,
    settings_of,
    slurm_version_of,
)
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    SharedCheck,
    TemplateRule,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)

_EVERYWHERE = (PCS_CLUSTER, PCS_NODE_GROUP, PCS_QUEUE)
_SETTINGS_PAGE = "https://docs.aws.amazon.com/pcs/latest/userguide/slurm-custom-settings.html"
_GRES_PAGE = "https://docs.aws.amazon.com/pcs/latest/userguide/gres-custom-settings.html"


@template_rule(
    VERSION,
    cause="PCS makes no cluster of a version of Slurm that it does not offer",
    fix="choose the newest version, for which an image of the nodes exists",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/slurm-versions.html",
    on=(PCS_CLUSTER,),
    looks_at=("Scheduler/Version",),
)
def slurm_version(resource: Resource) -> Iterator[Fault]:
    version = resource.get("Scheduler", "Version")
    for finding in check_slurm_version(applicable(version.text())):
        yield Fault(
            at=version,
            got=finding.got,
            allowed=finding.allowed,
            cause=finding.cause,
            severity=finding.severity,
        )


@template_rule(
    NEEDS_VERSION,
    cause="PCS refuses a setting or feature that this version of Slurm does not have",
    fix="choose a newer version of Slurm, or leave it out",
    url=_SETTINGS_PAGE,
    on=_EVERYWHERE,
    looks_at=("Scheduler/Version of the cluster", "SlurmConfiguration"),
)
def new_enough(resource: Resource) -> Iterator[Fault]:
    asked = list(_version_checks(resource, None))
    if not any(asked):
        raise NotApplicable
    for at, findings in _version_checks(resource, applicable(slurm_version_of(resource).text())):
        yield from faults_of(NEEDS_VERSION, findings, at, own_fix=True)


def _version_checks(resource: Resource, version: str | None) -> Iterator[tuple[Value, list[Finding]]]:
    """What depends on the version: every custom setting, and the features that the resource uses."""
    for level, at, name, value in settings_of(resource):
        yield at, check_slurm_settings({name: value}, slurm_version=version, level=level)
    configuration = resource.get("SlurmConfiguration")
    if resource.type == PCS_CLUSTER:
        for key, feature in (("Accounting", "accounting"), ("SlurmRest", "rest_api")):
            mode = configuration.get(key, "Mode")
            if mode.text() == "STANDARD":
                yield mode, check_feature(feature, version)
    if resource.type == PCS_NODE_GROUP:
        idle = configuration.get("ScaleDownIdleTimeInSeconds")
        if idle.exists and idle.integer() != -1:
            yield idle, check_feature("idle_time_of_group", version)
        if records := gres_records_of(resource):
            yield configuration.get("GresCustomSettings"), check_gres_records(records, slurm_version=version)


@template_rule(
    SETTING,
    cause="PCS takes some settings of Slurm only, and others at each level",
    fix="give it to the level that takes it, or leave it out",
    url=_SETTINGS_PAGE,
    on=_EVERYWHERE,
    looks_at=tuple(f"SlurmConfiguration/{key}" for key in SETTING_LISTS[:-1]),
)
def known_setting(resource: Resource) -> Iterator[Fault]:
    for level, at, name, value in applicable(list(settings_of(resource))):
        for finding in check_slurm_settings({name: value}, slurm_version=None, level=level):
            if finding.id == SETTING.id:
                yield Fault(
                    at=at,
                    got=finding.got,
                    allowed=finding.allowed,
                    cause=finding.cause,
                    fix=finding.fix,
                    severity=finding.severity,
                )


@template_rule(
    METRICS,
    severity=Severity.WARNING,
    cause="PCS disables the HTTP endpoint of the controller, which serves the metrics",
    fix="set CommunicationParameters to enable_http, and allow port 6817 from the scraper alone",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/slurm-metrics.html",
    on=(PCS_CLUSTER,),
    looks_at=("SlurmConfiguration/SlurmCustomSettings",),
)
def metrics_endpoint(resource: Resource) -> Iterator[Fault]:
    settings = own_settings_of(resource)
    if "MetricsType" not in settings:
        raise NotApplicable
    findings = check_slurm_settings(settings, slurm_version=None, level=SettingsLevel.CLUSTER)
    yield from faults_of(METRICS, findings, resource.get("SlurmConfiguration", "SlurmCustomSettings"))


@define_template_rule(
    "GPU-PCS-021",
    "a list of custom settings of PCS is not empty",
    source="awslabs/awsome-distributed-ai @ 95b939c, architectures/aws-pcs/assets/cluster.yaml: PCS rejects an empty "
    "list; the API states no least length (botocore 1.44.5), and another sample of AWS has one",
    severity=Severity.WARNING,
    cause="PCS rejects an empty list of settings, according to a sample of AWS",
    fix="leave the list out",
    url=_SETTINGS_PAGE,
    on=_EVERYWHERE,
    looks_at=tuple(f"SlurmConfiguration/{key}" for key in SETTING_LISTS),
)
def filled_lists(resource: Resource) -> Iterator[Fault]:
    configuration = resource.get("SlurmConfiguration")
    for value in applicable([one for key in SETTING_LISTS if (one := configuration.get(key)).exists]):
        if not value.items():
            yield Fault(at=value, got="an empty list", allowed="one setting or more, or no list")


@template_rule(
    TIMES,
    cause="PCS takes no such time",
    fix="leave it out, or choose a time in this range",
    url="https://docs.aws.amazon.com/pcs/latest/APIReference/API_ClusterSlurmConfigurationRequest.html",
    on=(PCS_CLUSTER, PCS_NODE_GROUP),
    looks_at=(
        "SlurmConfiguration/ScaleDownIdleTimeInSeconds",
        "SlurmConfiguration/Accounting/DefaultPurgeTimeInDays",
    ),
)
def times(resource: Resource) -> Iterator[Fault]:
    configuration = resource.get("SlurmConfiguration")
    idle = configuration.get("ScaleDownIdleTimeInSeconds")
    kept = configuration.get("Accounting", "DefaultPurgeTimeInDays")
    applicable([one for one in (idle, kept) if one.exists])
    of_group = resource.type == PCS_NODE_GROUP
    findings = check_times(
        scale_down_idle_seconds=None if of_group else idle.integer(),
        group_idle_seconds=idle.integer() if of_group else None,
    )
    yield from faults_of(TIMES, findings, idle, own_fix=True)
    yield from faults_of(TIMES, check_times(purge_after_days=kept.integer()), kept, own_fix=True)


def _record_findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    records, gres = gres_records_of(resource), gres_of(resource)
    at = resource.get("SlurmConfiguration", "GresCustomSettings")
    found = [(at, check_gres_records(records, slurm_version=None))] if records else []
    if gres is not None:
        found.append((gres, check_gres_agreement(gres.text() or "", records)))
    return applicable(found)


_records = SharedCheck(
    find=_record_findings,
    url=_GRES_PAGE,
    on=(PCS_NODE_GROUP,),
    looks_at=("SlurmConfiguration/SlurmCustomSettings: Gres", "SlurmConfiguration/GresCustomSettings"),
)

gres_record: TemplateRule = _records.rule(
    GRES_RECORD,
    cause="PCS refuses these records of gres.conf",
    fix="keep one record of GPUs: AutoDetect, or Name, Type and File",
)
gres_agreement: TemplateRule = _records.rule(
    GRES_AGREEMENT,
    cause="PCS refuses a resource of Gres that the records do not declare",
    fix="let both name the same resources, types and counts",
)
gres_form: TemplateRule = _records.rule(
    GRES_FORM,
    cause="Slurm cannot read this resource",
    fix="write name, type and count, such as gpu:1g.5gb:56",
)

_NODES = (
    "InstanceConfigs/*/InstanceType",
    "AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData: MIG_PARTITION, nvidia-smi mig -cgi",
)


@template_rule(
    DIFFERENT_LAYOUT,
    cause="Slurm drains a node that reports fewer GPUs or slices than Gres declares",
    fix="declare what the user data makes of the GPUs",
    url=_GRES_PAGE,
    on=(PCS_NODE_GROUP,),
    looks_at=("SlurmConfiguration/SlurmCustomSettings: Gres", *_NODES),
)
def declared_layout(resource: Resource) -> Iterator[Fault]:
    gres = applicable(gres_of(resource))
    kind, mig = kind_and_mig_of(resource)
    yield from faults_of(DIFFERENT_LAYOUT, check_gres(gres.text() or "", kind, mig), gres)


@template_rule(
    DECLARED_MIG,
    cause="Slurm does not know the slices of the nodes, and no job gets one",
    fix="set Gres in SlurmCustomSettings, and AutoDetect to nvml in GresCustomSettings",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/mig-configuration.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("SlurmConfiguration/SlurmCustomSettings: Gres", "SlurmConfiguration/GresCustomSettings", *_NODES),
)
def declared_slices(resource: Resource) -> Iterator[Fault]:
    mig = applicable(kind_and_mig_of(resource)[1])
    gres = gres_of(resource)
    findings = check_declared_mig(mig, None if gres is None else gres.text(), gres_records_of(resource))
    yield from faults_of(DECLARED_MIG, findings, resource.get("SlurmConfiguration"), own_fix=True)


@template_rule(
    SOCKETS,
    cause="the GPUs that a node detects do not fit its sockets, and Slurm drains it (INVALID_REG)",
    fix="set Sockets in SlurmCustomSettings of the node group, or run Slurm 26.05",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/hardware-topology.html",
    on=(PCS_NODE_GROUP,),
    looks_at=(
        "Scheduler/Version of the cluster",
        "SlurmConfiguration/SlurmCustomSettings",
        "SlurmConfiguration/GresCustomSettings",
    ),
)
def sockets(resource: Resource) -> Iterator[Fault]:
    settings, records = own_settings_of(resource), gres_records_of(resource)
    if "Parameters" not in settings and not any("AutoDetect" in one for one in records):
        raise NotApplicable
    version = None if "Sockets" in settings else slurm_version_of(resource).text()
    findings = check_sockets(settings, records, slurm_version=version)
    yield from faults_of(SOCKETS, findings, resource.get("SlurmConfiguration"), own_fix=True)


@template_rule(
    NODE_PROGRAMS,
    severity=Severity.WARNING,
    cause="nodes without the programs of Prolog and Epilog are drained at their first job",
    fix="make the programs in the user data, or put them into the image",
    url=_SETTINGS_PAGE,
    on=(PCS_NODE_GROUP,),
    looks_at=(
        "SlurmConfiguration/SlurmCustomSettings of the cluster: Prolog, Epilog",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData",
        "NodeLifecycleActions",
    ),
)
def node_programs(resource: Resource) -> Iterator[Fault]:
    named = resource.get("ClusterId")
    cluster = target_of(named, PCS_CLUSTER)
    if cluster is None:
        named.text()  # one that exists already is in no template
        raise NotApplicable
    settings = own_settings_of(cluster)
    applicable(programs_of(settings))
    if not _runs_jobs(resource):
        raise NotApplicable
    launch = launch_of_node_group(resource)
    given = launch.data.get("UserData")
    user_data = user_data_of(launch) if given.exists else None
    findings = check_node_programs(settings, "" if user_data is None else user_data.text)
    if findings and user_data is not None and not user_data.is_complete:
        raise given.undecidable("a part of this user data is known at deployment only")
    for _, stage, _ in scripts_of(resource):
        if findings:
            raise stage.undecidable("the scripts of this stage are not in the template")
    yield from faults_of(NODE_PROGRAMS, findings, resource.get("CustomLaunchTemplate"))


def _runs_jobs(group: Resource) -> bool:
    """Whether a queue has the group, or may have it: login nodes are in no queue, and run no prolog."""
    queues = group.case.resources(PCS_QUEUE)
    return not queues or any(
        group.is_target_of(one.get("ComputeNodeGroupId"))
        for queue in queues
        for one in queue.get("ComputeNodeGroupConfigurations").items()
    )
