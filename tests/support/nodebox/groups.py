"""Groups of one node that are not a fleet's: of Amazon EKS, and of AWS PCS, with what those bring."""

from __future__ import annotations

import os
import stat
from typing import Any

from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import GpuLaunchTemplate, NodeImage, NodeRole, NodeUserData, Orchestrator
from nodebox.cloud import Build
from nodebox.node import Node
from sites import Site

_UNITS = "/etc/systemd/system"
_DAEMON = """[Unit]
Description={name}

[Service]
ExecStartPre=/usr/local/libexec/witness %p
ExecStart=/usr/bin/sleep infinity
"""
# As awslabs/amazon-eks-ami @ 81fec2e has them, with what their programs do to other units.
_NODEADM_RUN = """[Unit]
Description=EKS Nodeadm Run
After=cloud-final.service

[Service]
Type=oneshot
ExecStart=/usr/bin/systemctl restart containerd.service
ExecStart=/usr/bin/systemctl restart kubelet.service

[Install]
WantedBy=multi-user.target
"""
_KMOD_LOAD = """[Unit]
Description=Loading NVIDIA kernel modules
After=network-online.target
Wants=network-online.target
Before=nvidia-fabricmanager.service nvidia-persistenced.service

[Service]
Type=oneshot
ExecStart=/usr/bin/true
RemainAfterExit=true

[Install]
WantedBy=multi-user.target
"""


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


def make_eks(node: Node) -> None:
    """Give a node that is off the units of an EKS image."""
    for name in ("containerd", "kubelet"):
        node.write(f"{_UNITS}/{name}.service", _DAEMON.format(name=name))
    for name, text in (("nodeadm-run", _NODEADM_RUN), ("nvidia-kmod-load", _KMOD_LOAD)):
        node.write(f"{_UNITS}/{name}.service", text)
        wish = node.disk / f"etc/systemd/system/multi-user.target.wants/{name}.service"
        wish.parent.mkdir(parents=True, exist_ok=True)
        wish.symlink_to(f"../{name}.service")


def make_pcs(node: Node) -> None:
    """Take from a node that is off what an image of AWS PCS has not: slurmd is enabled only by PCS itself."""
    wish = node.disk / "etc/systemd/system/multi-user.target.wants/slurmd.service"
    wish.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(wish, stat.S_IFCHR, os.makedev(0, 0))  # to overlayfs, a file that is gone


def seen_by(node: Node, daemon: str) -> list[str]:
    """What a daemon found at each of its starts."""
    return [entry.text for entry in node.journal() if entry.text.startswith(f"{daemon} sees ")]
