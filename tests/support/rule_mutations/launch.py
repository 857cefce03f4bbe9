"""Faults in launch templates."""

from __future__ import annotations

from mutations import Mutation, put
from recorded_templates import Json
from rule_mutation import RuleMutation, first

TEMPLATE = "AWS::EC2::LaunchTemplate"
EVERYTHING = "everywhere/everything_on"
SPOT = "p5en-spot/finetune-fleet-trainers"
ONE_NODE = "g6-dev-node/dev-fleet-dev"
X86 = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
ARM = "/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-{}/latest/ami-id"


def image(template: Json, instance_type: str, parameter: str) -> None:
    """Nodes of another type, without EFA, from another image."""
    launch = first(template, TEMPLATE)["Properties"]["LaunchTemplateData"]
    launch.update(InstanceType=instance_type, NetworkInterfaces=launch["NetworkInterfaces"][:1])
    template["Parameters"][launch["ImageId"]["Ref"]]["Default"] = parameter


def with_image(rule: str, instance_type: str, parameter: str, *, also: tuple[str, ...] = ()) -> RuleMutation:
    """The image of another type."""
    return RuleMutation(
        rule=rule,
        template=ONE_NODE,
        change_template=lambda template: image(template, instance_type, parameter),
        also=also,
    )


def in_user_data(line: str) -> Mutation:
    """Give the node a script that has a line."""
    return put("LaunchTemplateData.UserData", {"Fn::Base64": f"#!/bin/sh\n{line}\n"})


def opened(template: Json) -> None:
    """The group of a node admits everybody."""
    group = first(
        template, "AWS::EC2::SecurityGroup", lambda properties: properties["GroupDescription"].startswith("GPU nodes")
    )
    group["Properties"]["SecurityGroupIngress"] = [
        {"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
    ]


MUTATIONS = (
    with_image("GPU-AMI-003", "g7.4xlarge", X86),
    with_image("GPU-AMI-005", "g6.xlarge", ARM.format("amazon-linux-2023")),
    with_image("GPU-AMI-006", "g6.xlarge", "/aws/service/neuron/dlami/base/amazon-linux-2023/latest/image_id"),
    with_image("GPU-AMI-007", "p6e-gb200.36xlarge", ARM.format("ubuntu-22.04"), also=("GPU-CAP-005",)),
    RuleMutation(rule="GPU-LT-014", template=EVERYTHING, change_template=opened),
    RuleMutation(rule="GPU-UD-001", template=SPOT, at=TEMPLATE, change=in_user_data("x" * 17_000)),
)
