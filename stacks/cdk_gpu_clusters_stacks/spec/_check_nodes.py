"""Checks of the software and the GPUs of a fleet's nodes: machine image and MIG layout."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.images import check_image, choose_image
from cdk_gpu_clusters.rules.mig import LAYOUT_COUNT, WITH_EFA, check_mig_driver, check_mig_with_efa
from cdk_gpu_clusters.rules.node_group import choose_ami_type

from ._document import Key
from ._fault import Fault, faults_at
from ._fleet_view import FleetView
from .image import ImageByOs

_LIST_FIX = (
    "write one text for all GPUs, its profiles separated by commas, or a list with a text for each GPU; "
    "off leaves a GPU whole"
)
_EFA_ALLOWED = "mig with efa: false, or EFA with whole GPUs"
_EFA_FIX = "write efa: false if the nodes serve or share GPUs; remove mig if they train together"
_INDEX = re.compile(r"mig\[(\d+)\]")


def check_machine_image(view: FleetView) -> list[Fault]:
    """Find a type that the image does not go with; what is in an image of the user's own is not known."""
    if view.on_eks:
        return faults_at((*view.key, "instance_type"), choose_ami_type(view.type)[1])
    image = view.spec.image
    if image is not None and not isinstance(image, ImageByOs):
        return []
    key = (*view.key, "image", "os") if image else (*view.key, "instance_type")
    try:
        row = choose_image(view.type, operating_system=image.os if image else None)
    except ConfigError as fault:
        return faults_at(key, fault.findings)
    return faults_at(key, check_image(view.type, row))


def check_layout(view: FleetView) -> list[Fault]:
    """Find a MIG layout that the GPUs cannot have."""
    return mig_faults(view, view.mig_findings)


def check_driver(view: FleetView) -> list[Fault]:
    """Find an image whose driver is too old for the layout, or is not known."""
    if view.mig is None:
        return []
    return mig_faults(view, check_mig_driver(view.mig.gpu.model, view.mig.minimum_driver, view.image_row))


def check_layout_with_efa(view: FleetView) -> list[Fault]:
    """Find a fleet whose GPUs are split although its nodes exchange EFA traffic."""
    return mig_faults(view, check_mig_with_efa(view.type, view.spec.mig_layouts, efa=view.uses_efa))


def mig_faults(view: FleetView, findings: Iterable[Finding]) -> list[Fault]:
    """Place findings at the text of the layout that each is about."""
    faults: list[Fault] = []
    for finding in findings:
        index = _INDEX.fullmatch(finding.path)
        key: Key = (*view.key, "mig", int(index[1])) if index else (*view.key, "mig")
        faults += faults_at(key, [replace(_in_words_of_the_file(finding), path="")])
    return faults


def _in_words_of_the_file(finding: Finding) -> Finding:
    if finding.id == LAYOUT_COUNT.id:
        return replace(finding, fix=_LIST_FIX)
    if finding.id == WITH_EFA.id:
        return replace(finding, allowed=_EFA_ALLOWED, fix=_EFA_FIX)
    return finding
