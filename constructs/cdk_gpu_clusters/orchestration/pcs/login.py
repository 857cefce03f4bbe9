"""The nodes on which people log in to a Slurm cluster of AWS PCS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import arn_of, partition_of, region_of, stack_of
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.compute.fleet_jobs import grant_statements
from cdk_gpu_clusters.node.lifecycle_scripts import LifecycleScript, OnError
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.orchestration.pcs.node_group import PcsNodeGroup, PcsNodeGroupProps, SlurmCluster

#: A type without accelerators on which a few people edit, compile and submit: four vCPUs and 16 GiB. This library's
#: choice; its architecture is that of most GPU types.
LOGIN_INSTANCE_TYPE = "m7i.xlarge"

_SESSIONS = AcceptedFinding(
    cause="Roles: what `PcsLoginNodes.grant_sessions` adds",
    reason="AWS PCS launches the nodes, and a condition limits sessions to those with the tag of the group; a session "
    "is named after the user who opens it.",
    aws_solutions=("IAM5",),
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)


class PcsLoginNodes(PcsNodeGroup):
    """Nodes without accelerators on which people log in, edit, and submit jobs.

    A compute node group that is in no queue, which is how AWS PCS has login nodes: Slurm's commands work there, and no
    job runs. The nodes are in a private subnet without a public address. People reach them by Systems Manager sessions
    (`session_command`, `grant_sessions`), and by SSH only if you allow it.

    Mount here what the compute nodes mount, such as home directories. Nothing else of a node outlives it: a deployment
    with another image or other scripts replaces the nodes, and ends the sessions on them.

    Sources: AWS PCS user guide, "AWS PCS login nodes" and "Updating an AWS PCS compute node group"; botocore 1.44.5,
    pcs service model: CreateComputeNodeGroup.

    Example:
        >>> cluster = PcsCluster.from_pcs_cluster_attributes(
        ...     stack, "SlurmOfLogin", vpc=vpc, cluster_id="pcs_abc123def4", slurm_version="26.05",
        ...     security_groups=[existing_group],
        ... )
        >>> login = PcsLoginNodes(stack, "PcsLogin", cluster=cluster)
        >>> grant = login.grant_sessions(iam.Role.from_role_name(stack, "Researchers", "researchers"))
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: SlurmCluster,
        instance_type: str | ec2.InstanceType = LOGIN_INSTANCE_TYPE,
        key_pair: ec2.IKeyPair | None = None,
        ssh_from: Sequence[ec2.IPeer] = (),
        **options: Unpack[PcsNodeGroupProps],
    ) -> None:
        """Define the nodes.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster: a `PcsCluster`, or an imported one.
            instance_type: Type of the nodes; m7i.xlarge if left out. A change replaces the group.
            key_pair: Key with which the image's own user logs in by SSH; no key if left out.
            ssh_from: Who may connect to port 22, such as `[ec2.Peer.ipv4("10.0.0.0/16")]`; no one if left out. SSH
                through a Systems Manager session needs no such rule.
            options: Those of `PcsNodeGroupProps`; all may be left out. There is one node, without EFA, unless they say
                otherwise.

        Raises:
            ConfigError: As `PcsNodeGroup`.
        """
        if not {"node_count", "min_node_count", "max_node_count"} & options.keys():
            options["node_count"] = 1
        options.setdefault("efa", False)
        self._ssh_from = tuple(ssh_from)
        super().__init__(scope, construct_id, cluster=cluster, instance_type=instance_type, **options)
        if key_pair is not None:
            self.launch_template.cfn_launch_template.add_property_override(
                "LaunchTemplateData.KeyName", key_pair.key_pair_name
            )

    def _own_groups(self, vpc: ec2.IVpc) -> list[ec2.ISecurityGroup]:
        if not self._ssh_from:
            return []
        group = ec2.SecurityGroup(self, "Ssh", vpc=vpc, description="SSH to login nodes", allow_all_outbound=False)
        for peer in self._ssh_from:
            group.add_ingress_rule(peer, ec2.Port.tcp(22), "SSH to login nodes")
        return [group]

    def _scripts(self, settings: NodeSettings) -> tuple[LifecycleScript, ...]:
        """A node that fails its boot checks stays: people log in to see why, and no job runs there."""
        return tuple(replace(one, on_error=OnError.STOP_SEQUENCE) for one in super()._scripts(settings))

    def grant_sessions(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone open Systems Manager sessions on these nodes, also for SSH, and end their own.

        A session begins as the user `ssm-user`, who may become root. Give people accounts of their own, and Run As of
        Session Manager, where they must not.

        Source: Systems Manager user guide, "Sample IAM policies for Session Manager" and "Additional sample IAM
        policies for Session Manager".

        Args:
            grantee: A role, a user or a group.
        """
        stack = stack_of(self)
        partition, region = partition_of(stack), region_of(stack)
        documents = [
            arn_of(self, "ssm", "document/SSM-SessionManagerRunShell"),
            f"arn:{partition}:ssm:{region}::document/AWS-StartSSHSession",
        ]
        statements: list[dict[str, Any]] = [
            {
                "Action": ["ssm:StartSession"],
                "Resource": arn_of(self, "ec2", "instance/*"),
                "Condition": {"StringEquals": {"ssm:resourceTag/aws:pcs:compute-node-group-id": self.node_group_id}},
            },
            {"Action": ["ssm:StartSession"], "Resource": documents},
            {
                "Action": ["ssm:ResumeSession", "ssm:TerminateSession"],
                "Resource": arn_of(self, "ssm", "session/${aws:userid}-*"),
            },
        ]
        return grant_statements(grantee, statements, accepted=_SESSIONS)
