"""How the user data of a launch splits its GPUs with MIG."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.template_rules.case import Value
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, user_data_of
from cdk_gpu_clusters.template_rules.rule import applicable

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
    value, text = user_data.value, user_data.text
    found = [Split(value, _partition(value, one[1]), one[0]) for one in _PARTITION.finditer(text)]
    found += [Split(value, _partition(value, one[1]), one[0]) for one in _CREATE.finditer(text)]
    found += [Split(value, (_devices(one[1]),), one[0]) for one in _PARTED.finditer(text)]
    if not found and (switch := _SWITCH.search(text)):
        found.append(Split(value, (), switch[0]))
    return applicable(found)


def _partition(value: Value, text: str) -> tuple[MigLayout, ...]:
    if text.startswith("$"):
        raise value.undecidable("the MIG layout is known at deployment only")
    return tuple(MigLayout(part) for part in text.split(";"))


def _devices(block: str) -> MigLayout:
    return MigLayout([name for name, count in _DEVICES.findall(block) for _ in range(int(count))])
