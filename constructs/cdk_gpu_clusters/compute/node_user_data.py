"""The user data of nodes that another orchestrator launches: Amazon EKS, or AWS PCS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Unpack, cast

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, report
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.compute.fleet_mounts import check_stores
from cdk_gpu_clusters.compute.fleet_props import FleetProps, NodeUserDataProps, check_keywords
from cdk_gpu_clusters.compute.fleet_request import node_request, resolve_fleet
from cdk_gpu_clusters.compute.node_asset import NodeAsset, write_node
from cdk_gpu_clusters.compute.node_records import evidence_of, node_log_group
from cdk_gpu_clusters.compute.node_role import allow_node
from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.fleet.plan import Topic
from cdk_gpu_clusters.fleet.profile import PROFILES, ImageChoice, OrchestratorProfile
from cdk_gpu_clusters.node.kubernetes_node import CERTIFICATE_BYTES, NOT_EKS, NodeConfig, check_node_config
from cdk_gpu_clusters.node.settings import UserDataPart
from cdk_gpu_clusters.node.user_data import check_user_data
from cdk_gpu_clusters.rules.hyperpod import check_takes_template
from cdk_gpu_clusters.rules.interfaces import Orchestrator

_VERSION = re.compile(r"\d\d\.\d\d")

FLEETS_OWN = define_rule(
    "GPU-UD-009",
    "Nodes on plain EC2 get their user data from `GpuFleet`",
    source="their boot completes the lifecycle hooks of the fleet's own group",
)
SLURM_VERSION = define_rule(
    "GPU-PCS-001",
    "Nodes of AWS PCS know the version of Slurm, to drain themselves",
    source="awslabs/awsome-distributed-ai @ 95b939c, architectures/aws-pcs: images hold several versions, each in "
    "/opt/aws/pcs/scheduler/slurm-<version>",
)
PCS_PART = define_rule(
    "GPU-PCS-002",
    "AWS PCS merges user-data parts of the types that it documents",
    source='AWS PCS user guide, "Working with Amazon EC2 user data for AWS PCS" and its example of a boothook',
)
_PCS_PARTS = ("text/cloud-boothook", "text/cloud-config", "text/x-shellscript")


class NodeUserData(ClusterConstruct):
    """The user data of GPU nodes that Amazon EKS or AWS PCS launches, with the node software of a `GpuFleet`.

    A node that does not get through its boot checks never takes work: on EKS it does not start kubelet, under AWS PCS
    not slurmd. It completes no lifecycle hook. Give `text` to a `GpuLaunchTemplate` of the same orchestrator.

    Makes a log group, the software as an S3 asset (one for a stack), and a policy of the nodes' role. File systems in
    `mounts` must admit the nodes' security group (`store.allow_clients(group)`).

    Example:
        A node group that EKS manages; EKS adds what it needs to join:

        >>> role = NodeRole(stack, "EksRole")
        >>> eks_nodes = NodeUserData(
        ...     stack, "EksNodes", instance_type="p5.48xlarge", orchestrator=Orchestrator.EKS_MANAGED, role=role,
        ... )
        >>> template = GpuLaunchTemplate(
        ...     stack, "EksTemplate", instance_type="p5.48xlarge", orchestrator=Orchestrator.EKS_MANAGED,
        ...     fabric=existing_group, user_data=eks_nodes.text,
        ... )

        A compute node group of AWS PCS:

        >>> pcs_nodes = NodeUserData(
        ...     stack, "PcsNodes", instance_type="p5.48xlarge", orchestrator=Orchestrator.PCS, role=role,
        ...     slurm_version="25.11",
        ... )
        >>> template = GpuLaunchTemplate(
        ...     stack, "PcsTemplate", instance_type="p5.48xlarge", orchestrator=Orchestrator.PCS,
        ...     fabric=existing_group, subnet=gpu_subnet, user_data=pcs_nodes.text,
        ... )

    Attributes:
        text: The user data, before base64.
        log_group: Boot events of the nodes, one stream per instance.
        node_asset: Software of the nodes in S3.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        instance_type: str | ec2.InstanceType,
        orchestrator: Orchestrator,
        role: iam.IRole,
        **options: Unpack[NodeUserDataProps],
    ) -> None:
        """Define the user data.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            instance_type: Type of the nodes, such as `p5.48xlarge`.
            orchestrator: Who launches them: an EKS node group, managed or not, or AWS PCS.
            role: Role of the nodes. Gets a managed policy to fetch the software and to log. AWS PCS wants a name that
                begins with `AWSPCS`, or the path `/aws-pcs/`.
            options: Those of `NodeUserDataProps`; all may be left out. Capacity, EFA and layout of the interfaces are
                those of the launch template: nodes on a Capacity Block drain themselves before it ends.

        Raises:
            ConfigError: GPU-UD-001 to -009, GPU-EKS-001 to -005, GPU-PCS-001 and -002, GPU-MNT-001 to -003; faults of
                type, interfaces and MIG.
        """
        super().__init__(scope, construct_id)
        check_keywords(self, options, NodeUserDataProps)
        report(self, check_takes_template(orchestrator))
        profile = PROFILES[orchestrator]
        node_config, slurm_version = options.get("node_config"), options.get("slurm_version")
        requested = {"max_node_count": 1, **options}
        plan = resolve_fleet(
            self, profile=profile, instance_type=instance_type, options=cast("FleetProps", requested)
        ).plan
        report(self, plan.about(Topic.TYPE, Topic.INTERFACES))
        report(
            self,
            [
                *plan.about(Topic.EFA, Topic.MIG_WITH_EFA, Topic.MIG, Topic.TIMEOUTS),
                *_check_orchestrator(profile, node_config, slurm_version),
                *(check_pcs_parts(options.get("user_data_parts", ())) if orchestrator is Orchestrator.PCS else ()),
            ],
        )
        evidence = evidence_of(self, options)
        self.log_group: logs.ILogGroup = node_log_group(
            self,
            options.get("log_retention", logs.RetentionDays.ONE_MONTH),
            options.get("log_encryption_key"),
        )
        request = node_request(
            options,
            log_group_name=self.log_group.log_group_name,
            evidence_uri=None if evidence is None else evidence.uri,
            node_config=(node_config or NodeConfig()) if profile.has_node_config else None,
            slurm_version=slurm_version,
        )
        text, asset = write_node(self, plan, request)
        self.text: str = text
        self.node_asset: NodeAsset = asset
        check_stores(self, plan, options.get("mounts") or {})
        text = _with_certificate(self.text, node_config)
        # The launch template is not known. Nodes that get their cluster here have an image of their own.
        added = profile.added_user_data_bytes(own_image=node_config is not None and node_config.cluster is not None)
        report(self, check_user_data(text, added_bytes=added, not_secret=options.get("not_secret", ())))
        self.node_asset.read_policy.attach_to_role(role)
        allow_node(self, role, log_group=self.log_group, evidence=evidence)


def _check_orchestrator(
    profile: OrchestratorProfile, node_config: NodeConfig | None, slurm_version: str | None
) -> Iterator[Finding]:
    if profile.launch_hook:
        yield FLEETS_OWN.finding(
            cause="nothing would complete the launch of these nodes",
            got=f"orchestrator {profile.orchestrator.value}",
            allowed=", ".join(
                one.value for one, other in PROFILES.items() if not (other.launch_hook or one.is_hyperpod)
            ),
            fix="make a GpuFleet",
        )
    if profile.has_node_config:
        bootstrapped = profile.image is ImageChoice.ORCHESTRATOR
        yield from check_node_config(node_config or NodeConfig(), bootstrapped=bootstrapped)
    elif node_config is not None:
        yield NOT_EKS.finding(
            cause="nothing would read it",
            got=f"node_config with orchestrator {profile.orchestrator.value}",
            path="node_config",
        )
    if profile.orchestrator is Orchestrator.PCS and not (slurm_version and _VERSION.fullmatch(slurm_version)):
        yield SLURM_VERSION.finding(
            cause="a node that is not well could not drain itself",
            got=slurm_version or "no slurm_version",
            allowed="such as 25.11",
            fix="pass the cluster's slurm_version",
            path="slurm_version",
            severity=Severity.ERROR if slurm_version else Severity.WARNING,
        )


def check_pcs_parts(parts: Sequence[UserDataPart]) -> list[Finding]:
    """Find parts of user data that AWS PCS does not document.

    Args:
        parts: The user's parts.
    """
    return [
        PCS_PART.finding(
            cause="AWS PCS does not say what it does with this part",
            got=part.content_type,
            allowed=", ".join(_PCS_PARTS),
            path=f"user_data_parts[{index}]",
        )
        for index, part in enumerate(parts)
        if part.content_type not in _PCS_PARTS
    ]


def _with_certificate(text: str, config: NodeConfig | None) -> str:
    """The user data with room for the certificate authority, which is longer than tokens mostly are."""
    if config is None or config.cluster is None:
        return text
    return text.replace(config.cluster.certificate_authority, "A" * CERTIFICATE_BYTES)
