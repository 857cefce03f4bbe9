"""Faults in how GPUs are split."""

from __future__ import annotations

from collections.abc import Callable

from recorded_templates import Json
from rule_mutation import RuleMutation, first

TEMPLATE = "AWS::EC2::LaunchTemplate"
#: Of p5.48xlarge, whose GPUs are split in three ways.
MIXED = "p5-mixed-mig/embeddings-inference-mixed"
EVERYTHING = "everywhere/everything_on"


def launch_data(template: Json) -> Json:
    data: Json = first(template, TEMPLATE)["Properties"]["LaunchTemplateData"]
    return data


def in_user_data(old: str, new: str) -> Callable[[Json], None]:
    """Another text in the user data."""

    def change(template: Json) -> None:
        parts = launch_data(template)["UserData"]["Fn::Base64"]["Fn::Join"][1]
        parts[:] = [part.replace(old, new) if isinstance(part, str) else part for part in parts]

    return change


def with_user_data(template: Json, script: str) -> None:
    launch_data(template)["UserData"] = {"Fn::Base64": f"#!/bin/sh\n{script}\n"}


def on_l40s(template: Json) -> None:
    launch_data(template)["InstanceType"] = "g6e.48xlarge"


def once_only(template: Json) -> None:
    with_user_data(template, "nvidia-smi -mig 1\nnvidia-smi mig -cgi 4g.40gb,3g.40gb -C")


def split_and_trained(template: Json) -> None:
    with_user_data(template, 'echo MIG_PARTITION="7g.80gb" >/etc/default/mig')


MUTATIONS = (
    RuleMutation(rule="GPU-MIG-001", template=MIXED, change_template=on_l40s),
    RuleMutation(rule="GPU-MIG-002", template=MIXED, change_template=in_user_data("7g.80gb", "7g.40gb")),
    RuleMutation(
        rule="GPU-MIG-003", template=MIXED, change_template=in_user_data("4g.40gb,3g.40gb", "4g.40gb,4g.40gb")
    ),
    RuleMutation(rule="GPU-MIG-004", template=MIXED, change_template=in_user_data(";7g.80gb;7g.80gb", ";7g.80gb")),
    RuleMutation(
        rule="GPU-MIG-005",
        template=MIXED,
        change_template=in_user_data("4g.40gb,3g.40gb", "1g.10gb+me,1g.10gb+me"),
    ),
    RuleMutation(rule="GPU-MIG-006", template=EVERYTHING, change_template=split_and_trained),
    RuleMutation(rule="GPU-MIG-010", template=MIXED, change_template=once_only),
)
