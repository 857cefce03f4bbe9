"""How the nodes of a launch, or of a node group, are to split their GPUs with MIG, as far as a template says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.mig import MigLayout, check_mig
from cdk_gpu_clusters.template_rules.case import Value
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, user_data_of
from cdk_gpu_clusters.template_rules.rule import NotApplicable

_QUOTE = r"\\*[\"']?"
# The text of /etc/default/mig, of AWS's own example and of our nodes: layouts of GPUs between semicolons.
_PARTITION = re.compile(rf"MIG_PARTITION={_QUOTE}([0-9A-Za-z.+,;-]+|\$\{{)")
_CREATE = re.compile(r"nvidia-smi mig\b[^\n;|&]*?\s-cgi\s+[\"']?([0-9A-Za-z.+,-]+|\$)")
# The block of NVIDIA/mig-parted's configuration file, one profile and its number a line.
_PARTED = re.compile(
    r"mig-devices:[ \t]*\n((?:[ \t]+[\"']?[0-9][0-9A-Za-z.+-]*[\"']?:[ \t]*[0-9]+[ \t]*(?:\n|$))+)"
)
_DEVICES = re.compile(r"([0-9][0-9A-Za-z.+-]*)[\"']?:[ \t]*([0-9]+)")
_SWITCH = re.compile(r"nvidia-smi\b[^\n;|&]*?\s(-mig|--multi-instance-gpu=?)\s*1\b")


@dataclass(frozen=True, slots=True)
class Split:
    """One place that says how GPUs are split.

    Attributes:
        value: Where it stands.
        layouts: One for all GPUs, or one for each; none where MIG is switched on and nothing more is said.
        told: As it is written.
    """

    value: Value
    layouts: tuple[MigLayout, ...]
    told: str


def splits_of(launch: Launch) -> list[Split]:
    """What the user data of a launch says about MIG.

    Raises:
        NotApplicable: If it says nothing.
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
        NotApplicable: If user data says nothing about MIG.
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
