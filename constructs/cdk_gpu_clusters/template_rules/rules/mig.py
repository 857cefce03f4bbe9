"""GPUs that are split with MIG."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Rule, Severity, define_rule
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
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, Launch, launch_of, user_data_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, template_rule

_QUOTE = r"\\*[\"']?"
# The text of /etc/default/mig, of AWS's own example and of our nodes: layouts of GPUs between semicolons.
_PARTITION = re.compile(rf"MIG_PARTITION={_QUOTE}([0-9A-Za-z.+,;-]+|\$\{{)")
_CREATE = re.compile(r"nvidia-smi mig\b[^\n;|&]*?\s-cgi\s+[\"']?([0-9A-Za-z.+,-]+|\$)")
# The block of NVIDIA/mig-parted's configuration file, one profile and its number a line.
_PARTED = re.compile(r"mig-devices:[ \t]*\n((?:[ \t]+[\"']?[0-9][0-9A-Za-z.+-]*[\"']?:[ \t]*[0-9]+[ \t]*(?:\n|$))+)")
_DEVICES = re.compile(r"([0-9][0-9A-Za-z.+-]*)[\"']?:[ \t]*([0-9]+)")
_SWITCH = re.compile(r"nvidia-smi\b[^\n;|&]*?\s(-mig|--multi-instance-gpu=?)\s*1\b")


@dataclass(frozen=True, slots=True)
class Split:
    """One place that sets how GPUs are split.

    Attributes:
        value: The value that holds it.
        layouts: One for all GPUs, or one for each; none if MIG is only switched on.
        written: As it is written.
    """

    value: Value
    layouts: tuple[MigLayout, ...]
    written: str


def splits_of(launch: Launch) -> list[Split]:
    """The MIG splits in the user data of a launch.

    Raises:
        NotApplicable: If it has none.
        Undecidable: If the template holds nothing of the user data, or a layout is known at deployment only.
    """
    user_data = user_data_of(launch)
    if user_data is None:
        raise NotApplicable
    value, text = user_data.value, user_data.text
    found = [Split(value, _partition(value, one[1]), one[0]) for one in _PARTITION.finditer(text)]
    found += [Split(value, _partition(value, one[1]), one[0]) for one in _CREATE.finditer(text)]
    found += [Split(value, (_devices(one[1]),), one[0]) for one in _PARTED.finditer(text)]
    if not found and (switch := _SWITCH.search(text)):
        found.append(Split(value, (), switch[0]))
    if not found:
        raise NotApplicable
    return found


def findings_of(launch: Launch) -> list[tuple[Split, Finding]]:
    """What is wrong with each split on each type that is launched.

    Raises:
        NotApplicable: If user data does not split GPUs.
        Undecidable: If a type or a layout is not known.
    """
    splits = splits_of(launch)
    records = [record for _, record in launch.records()]
    return [(split, finding) for split in splits for record in records for finding in _check(record, split)]


def _check(record: InstanceType, split: Split) -> Sequence[Finding]:
    """Findings of one split; where MIG is only switched on, whether the GPU has it."""
    layouts = split.layouts or (MigLayout.whole_gpu(),)
    return check_mig(record, layouts[0] if len(layouts) == 1 else layouts)


def _partition(value: Value, text: str) -> tuple[MigLayout, ...]:
    if text.startswith("$"):
        raise value.undecidable("the MIG layout is known at deployment only")
    return tuple(MigLayout(part) for part in text.split(";"))


def _devices(block: str) -> MigLayout:
    return MigLayout([name for name, count in _DEVICES.findall(block) for _ in range(int(count))])


_LAYOUT = (
    "LaunchTemplateData/UserData: MIG_PARTITION, nvidia-smi mig -cgi, mig-devices of mig-parted",
    "LaunchTemplateData/InstanceType",
    "instance types of the resources that use the launch template",
)
_URL = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"


def _layout_faults(resource: Resource, rule: Rule) -> Iterator[Fault]:
    """The faults that a rule of `rules.mig` finds in the MIG layouts of a launch."""
    for split, finding in resource.once(_layout_findings):
        if finding.id == rule.id:
            got = finding.got or ", ".join(map(str, split.layouts))
            yield Fault(at=split.value, got=got, allowed=finding.allowed, cause=finding.cause)


def _layout_findings(resource: Resource) -> list[tuple[Split, Finding]]:
    return findings_of(launch_of(resource))


@template_rule(
    NOT_CAPABLE,
    severity=Severity.ERROR,
    cause="the driver refuses to split a GPU without MIG, and the node never gets its slices",
    fix="choose a type whose GPU has MIG, or leave MIG out",
    url=_URL,
    on=LAUNCHES,
    looks_at=_LAYOUT,
)
def capable_gpu(resource: Resource) -> Iterator[Fault]:
    """GPUs are split that can be split."""
    return _layout_faults(resource, NOT_CAPABLE)


@template_rule(
    UNKNOWN_PROFILE,
    severity=Severity.ERROR,
    cause="the driver refuses a profile that the GPU does not have",
    fix="use the profiles of this GPU; their names differ between GPUs",
    url=_URL,
    on=LAUNCHES,
    looks_at=_LAYOUT,
)
def known_profile(resource: Resource) -> Iterator[Fault]:
    """A layout names profiles of its GPU."""
    return _layout_faults(resource, UNKNOWN_PROFILE)


@template_rule(
    DOES_NOT_FIT,
    severity=Severity.ERROR,
    cause="the driver makes only some of the instances, and the node has fewer slices than jobs request",
    fix="use a layout that fits the GPU",
    url=_URL,
    on=LAUNCHES,
    looks_at=_LAYOUT,
)
def layout_fits(resource: Resource) -> Iterator[Fault]:
    """The profiles of a layout fit side by side."""
    return _layout_faults(resource, DOES_NOT_FIT)


@template_rule(
    LAYOUT_COUNT,
    severity=Severity.ERROR,
    cause="the number of layouts is neither one nor the number of GPUs of a node",
    fix="give one layout, or as many as the node has GPUs",
    url=_URL,
    on=LAUNCHES,
    looks_at=_LAYOUT,
)
def layout_count(resource: Resource) -> Iterator[Fault]:
    """There is one layout for all GPUs of a node, or one for each."""
    return _layout_faults(resource, LAYOUT_COUNT)


@template_rule(
    MEDIA_ENGINES,
    severity=Severity.ERROR,
    cause="the driver refuses a second instance with the media extensions",
    fix="give +me to one instance of a GPU",
    url=_URL,
    on=LAUNCHES,
    looks_at=_LAYOUT,
)
def media_engines(resource: Resource) -> Iterator[Fault]:
    """One instance of a GPU has the media extensions."""
    return _layout_faults(resource, MEDIA_ENGINES)


@template_rule(
    WITH_EFA,
    severity=Severity.ERROR,
    cause="a process uses one MIG instance only, without peer-to-peer over NVLink: collectives cannot run",
    fix="leave the EFA interfaces out if the nodes serve or share GPUs; leave MIG out if they train together",
    url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
    ),
)
def apart_from_efa(resource: Resource) -> Iterator[Fault]:
    """Nodes that split their GPUs do not train over EFA."""
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


@template_rule(
    define_rule(
        "GPU-MIG-010",
        "GPUs are split again at every boot",
        source="NVIDIA MIG User Guide, editions 580 to 620 (2026-10): instances do not persist over a reboot",
    ),
    severity=Severity.WARNING,
    cause="user data runs at the first boot only: after a reboot the GPUs have no instances, and jobs find none",
    fix="make the instances in a systemd unit that starts after the driver, or in bootcmd",
    url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
)
def every_boot(resource: Resource) -> Iterator[Fault]:
    """GPUs are split again at every boot."""
    launch = launch_of(resource)
    splits_of(launch)
    user_data = user_data_of(launch)
    if user_data is None:
        raise NotApplicable
    created = _CREATED.search(user_data.text)
    if created and not _AGAIN.search(user_data.text):
        yield Fault(at=user_data.value, got=created[0], allowed="a systemd unit, or bootcmd")


_LABEL = "nvidia.com/mig.config"

_ALL = re.compile(r"all-([0-9]g\.[0-9]+gb(?:\+me|\.me)?)")

_WHOLE = ("all-enabled", "all-balanced")


@template_rule(
    define_rule(
        "GPU-MIG-011",
        "the MIG configuration in the label nvidia.com/mig.config exists for the GPU",
        source="NVIDIA/mig-parted v0.15.0, config-default; NVIDIA GPU Operator guide, MIG manager",
    ),
    severity=Severity.ERROR,
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
    """The MIG configuration that a label asks for is one of the GPU."""
    labels = list(_labels(resource))
    if not labels:
        raise NotApplicable
    for label, records in labels:
        layout = _layout(label)
        for record in records if layout else ():
            for finding in check_mig(record, layout or ()):
                if finding.id in (NOT_CAPABLE.id, UNKNOWN_PROFILE.id):
                    got = f"{label.text()} on {record.name}"
                    yield Fault(at=label, got=got, allowed=finding.allowed, cause=finding.cause)


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


def _layout(label: Value) -> MigLayout | None:
    """What a configuration of mig-parted's own asks of a GPU; None where MIG is off."""
    name = label.text() or ""
    if name == "all-disabled":
        return None
    if name in _WHOLE:
        return MigLayout.whole_gpu()
    found = _ALL.fullmatch(name)
    if found is None:
        raise label.undecidable("this is no configuration of mig-parted's own")
    return MigLayout([found[1].replace(".me", "+me")])
