"""GPUs that are split with MIG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.hyperpod import hyperpod_mig_configurations
from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.mig import (
    DOES_NOT_FIT,
    LAYOUT_COUNT,
    MEDIA_ENGINES,
    NOT_CAPABLE,
    UNKNOWN_PROFILE,
    WITH_EFA,
    MigLayout,
    check_mig,
    check_mig_with_efa,
)
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.groups import (
    EKS_NODE_GROUP,
    HYPERPOD,
    hyperpod_record_of,
    instance_groups,
    records_of,
)
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of, user_data_of
from cdk_gpu_clusters.template_rules.lookups.mig import Split, splits_of
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    SharedCheck,
    TemplateRule,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)


def _layout_findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    """What is wrong with each split on each type that is launched."""
    launch = launch_of(resource)
    splits = splits_of(launch)
    records = [record for _, record in launch.records()]
    return [(split.value, _findings(record, split)) for split in splits for record in records]


def _findings(record: InstanceType, split: Split) -> list[Finding]:
    """Findings of one split; where MIG is only switched on, whether the GPU has it."""
    layouts = split.layouts or (MigLayout.whole_gpu(),)
    found = check_mig(record, layouts[0] if len(layouts) == 1 else layouts)
    return [replace(one, got=one.got or ", ".join(map(str, split.layouts))) for one in found]


_layout = SharedCheck(
    find=_layout_findings,
    url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData: MIG_PARTITION, nvidia-smi mig -cgi, mig-devices of mig-parted",
        "LaunchTemplateData/InstanceType",
        "instance types of the resources that use the launch template",
    ),
    own_fix=True,
)

capable_gpu: TemplateRule = _layout.rule(
    NOT_CAPABLE,
    cause="the driver refuses to split a GPU without MIG, and the node never gets its slices",
    fix="choose a type whose GPU has MIG, or leave MIG out",
)
known_profile: TemplateRule = _layout.rule(
    UNKNOWN_PROFILE,
    cause="the driver refuses a profile that the GPU does not have",
    fix="use the profiles of this GPU; their names differ between GPUs",
)
layout_fits: TemplateRule = _layout.rule(
    DOES_NOT_FIT,
    cause="the driver makes only some of the instances, and the node has fewer slices than jobs request",
    fix="use a layout that fits the GPU",
)
layout_count: TemplateRule = _layout.rule(
    LAYOUT_COUNT,
    cause="the number of layouts is neither one nor the number of GPUs of a node",
    fix="give one layout, or as many as the node has GPUs",
)
media_engines: TemplateRule = _layout.rule(
    MEDIA_ENGINES,
    cause="the driver refuses a second instance with the media extensions",
    fix="give +me to one instance of a GPU",
)


@template_rule(
    WITH_EFA,
    cause="a process uses one MIG instance only, without peer-to-peer over NVLink: collectives cannot run",
    fix="leave the EFA interfaces out if the nodes serve or share GPUs; leave MIG out if they train together",
    url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData", "LaunchTemplateData/NetworkInterfaces/*/InterfaceType"),
)
def apart_from_efa(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    for split in splits_of(launch):
        if not all(layout.is_whole_gpu for layout in split.layouts) or not split.layouts:
            for _, record in launch.records():
                for _ in check_mig_with_efa(record, split.layouts, efa=launch.has_efa()):
                    got = f"{record.name} with EFA and {split.written}"
                    yield Fault(at=split.value, got=got, allowed="EFA or MIG")


# What runs again: a unit, or a part of user data of every boot.
_AGAIN = re.compile(r"/etc/systemd/|bootcmd:|boothook|scripts-user, *always|@reboot|mig-parted|mig-manager")

_CREATED = re.compile(r"nvidia-smi mig\b[^\n]*-cgi")


@define_template_rule(
    "GPU-MIG-010",
    "GPUs are split again at every boot",
    source="NVIDIA MIG User Guide, editions 580 to 620 (2026-10): instances do not persist over a reboot",
    severity=Severity.WARNING,
    cause="user data runs at the first boot only: after a reboot the GPUs have no instances, and jobs find none",
    fix="make the instances in a systemd unit that starts after the driver, or in bootcmd",
    url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
)
def every_boot(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    splits_of(launch)
    user_data = user_data_of(launch)
    created = _CREATED.search(user_data.text)
    if created and not _AGAIN.search(user_data.text):
        yield Fault(at=user_data.value, got=created[0], allowed="a systemd unit, or bootcmd")


_LABEL = "nvidia.com/mig.config"

_ALL = re.compile(r"all-([0-9]g\.[0-9]+gb(?:\+me|\.me)?)")


@define_template_rule(
    "GPU-MIG-011",
    "the MIG configuration in the label nvidia.com/mig.config exists for the GPU",
    source="NVIDIA/mig-parted v0.15.0, config-default; NVIDIA GPU Operator guide, MIG manager",
    cause="the MIG manager sets the label nvidia.com/mig.config.state to failed, and the node has no slices",
    fix="use a configuration with a profile of this GPU",
    url="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html",
    on=(EKS_NODE_GROUP, HYPERPOD),
    looks_at=(
        "AWS::EKS::Nodegroup/Labels",
        "AWS::SageMaker::Cluster/InstanceGroups/*/KubernetesConfig/Labels",
        "instance types of the nodes",
    ),
)
def labelled_nodes(resource: Resource) -> Iterator[Fault]:
    for label, records in applicable(list(_labels(resource))):
        layout = _layout_named(label, is_hyperpod=resource.type == HYPERPOD)
        for record in records if layout else ():
            findings, got = check_mig(record, layout or ()), f"{label.text()} on {record.name}"
            for rule in (NOT_CAPABLE, UNKNOWN_PROFILE):
                yield from faults_of(rule, findings, label, got=got, own_fix=True)


def _labels(resource: Resource) -> Iterator[tuple[Value, list[InstanceType]]]:
    """Each label that asks for a configuration, with the types of the nodes that carry it."""
    if resource.type == EKS_NODE_GROUP:
        label = resource.get("Labels", _LABEL)
        if label.exists:
            yield label, [record for _, record in records_of(resource)]
        return
    for group in instance_groups(resource):
        label = group.get("KubernetesConfig", "Labels", _LABEL)
        if label.exists:
            record = hyperpod_record_of(group.get("InstanceType"))
            if record is None:
                raise group.get("InstanceType").undecidable("the catalogue does not know this type")
            yield label, [record]


def _layout_named(label: Value, *, is_hyperpod: bool) -> MigLayout | None:
    """What a configuration of mig-parted's own, or of HyperPod's chart, asks of a GPU; None where MIG is off."""
    name = label.text() or ""
    devices = hyperpod_mig_configurations().get(name) if is_hyperpod else None
    if devices is not None:
        return MigLayout([profile for profile, count in devices.items() for _ in range(count)])
    if name == "all-disabled":
        return None
    if name in ("all-enabled", "all-balanced"):
        return MigLayout.whole_gpu()
    found = _ALL.fullmatch(name)
    if found is None:
        raise label.undecidable("this is no configuration of mig-parted's own")
    return MigLayout([found[1].replace(".me", "+me")])
