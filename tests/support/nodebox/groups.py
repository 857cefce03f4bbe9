"""Groups of one node that are not a fleet's: self-managed ones of Amazon EKS, and of AWS PCS, with what that brings."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import GpuLaunchTemplate, NodeImage, NodeRole, NodeUserData, Orchestrator
from nodebox.cloud import Build
from nodebox.image import remove_from_below
from nodebox.node import Node
from stack_fixtures import Site


def group(orchestrator: Orchestrator, instance_type: str, **options: Any) -> Build:
    """Adds a group of one node to a site; options go to `NodeUserData`.

    Its hook keeps the instance where the tests find it; no node completes it.
    """

    def build(site: Site) -> NodeUserData:
        role = NodeRole(site.stack, "Role")
        nodes = NodeUserData(
            site.stack,
            "Nodes",
            **{
                "instance_type": instance_type,
                "orchestrator": orchestrator,
                "role": role,
                "efa": False,
                "scratch": False,
                **options,
            },
        )
        template = GpuLaunchTemplate(
            site.stack,
            "Template",
            instance_type=instance_type,
            efa=False,
            image=NodeImage.from_id("ami-0123456789abcdef0"),
            instance_profile=iam.InstanceProfile(site.stack, "Profile", role=role),
            security_groups=[ec2.SecurityGroup(site.stack, "Group", vpc=site.vpc)],
            user_data=nodes.text,
        )
        autoscaling.CfnAutoScalingGroup(
            site.stack,
            "Group1",
            min_size="1",
            max_size="1",
            vpc_zone_identifier=["subnet-0123456789abcdef0"],
            launch_template={
                "launchTemplateId": template.launch_template_id,
                "version": template.latest_version_number,
            },
            lifecycle_hook_specification_list=[
                {
                    "lifecycleHookName": "wait",
                    "lifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
                    "heartbeatTimeout": 7200,
                }
            ],
        )
        return nodes

    return build


def make_pcs(node: Node) -> None:
    """Take from a node that is off what an image of AWS PCS has not: slurmd is enabled only by PCS itself."""
    requested = node.disk / "etc/systemd/system/multi-user.target.wants/slurmd.service"
    remove_from_below(requested)


def seen_by(node: Node, daemon: str) -> list[str]:
    """What a daemon found at each of its starts."""
    return [entry.text for entry in node.journal() if entry.text.startswith(f"{daemon} sees ")]
