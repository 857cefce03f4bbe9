"""A HyperPod cluster that is right for GPU nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import id_of_group, region_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.compute.fleet_network import id_of, select_subnets
from cdk_gpu_clusters.network.efa_security_group import ALL_TRAFFIC, EfaSecurityGroup, EfaSelfRules
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.hyperpod.cluster_base import IHyperPodCluster, ImportedHyperPodCluster
from cdk_gpu_clusters.orchestration.hyperpod.folder import LifecycleFolder
from cdk_gpu_clusters.orchestration.hyperpod.instance_group import (
    HyperPodInstanceGroup,
    HyperPodInstanceGroupProps,
    SlurmNodeType,
)
from cdk_gpu_clusters.orchestration.hyperpod.role import HyperPodRole, allow_folders, allow_key, allow_nodes
from cdk_gpu_clusters.rules.eks_cluster import group_exchanges_efa
from cdk_gpu_clusters.rules.fabric import EFA_OUT
from cdk_gpu_clusters.rules.hyperpod import (
    check_accounting,
    check_eks_of_hyperpod,
    check_hyperpod_name,
    check_hyperpod_network,
    check_node_recovery,
    check_slurm_nodes,
    check_tiered_checkpoints,
)

#: The successor of what controllers typically are, m5.12xlarge: awslabs/awsome-distributed-ai @ 95b939c,
#: 5.sagemaker-hyperpod/tools/devops-agent/docs/hyperpod-mental-model.md.
CONTROLLER_INSTANCE_TYPE = "m7i.12xlarge"
_CONTROLLER = "Controller"

_NEW_PROPERTY = AcceptedFinding(
    cause="`HyperPodCluster`: instance group with `image_release`",
    reason="ImageReleaseVersion is newer than the schemas that CDK 2.275 brings.",
    cloudformation=("F3002",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingDatabase:
    """A MySQL database of your own for Slurm's accounting, which outlives the controller.

    Attributes:
        endpoint: Its host name.
        secret: Secret with its user and password.
        port: Its port.
        name: Name of the schema; `slurm_acct_db_` and the id of the cluster if left out, so that several clusters may
            share a server.
    """

    endpoint: str
    secret: secretsmanager.ISecret
    port: int = 3306
    name: str | None = None


@jsii.implements(ec2.IConnectable)
class HyperPodCluster(IHyperPodCluster):
    """A cluster of Amazon SageMaker HyperPod, on Slurm or on your cluster of Amazon EKS.

    SageMaker launches the nodes in an account of its own, places them, lays out their network interfaces, and replaces
    those that fail. Nodes come by `add_instance_group`. Makes the cluster, an execution role, and a security group
    whose members exchange EFA traffic. On Slurm it also makes the controller.

    * SageMaker writes the partitions into `slurm.conf`: no file of provisioning parameters is needed. With continuous
      provisioning it merges them with what is there. Without, it refuses a deployment after edits of them
      (`SlurmConfigStrategy` Managed).
    * On Amazon EKS, install HyperPod's Helm chart before you deploy this cluster, in a stack of its own. The chart
      brings the device plugins of NVIDIA, Neuron and EFA: leave those of this library out.
    * Name, network and the cluster of Amazon EKS are fixed: a change replaces the cluster. Groups, their size and most
      of their options change in place.
    * A launch template, user data, a placement group, a Capacity Block or a reservation of EC2 is refused, with the
      nearest thing that HyperPod has.

    Sources: Amazon SageMaker AI developer guide; registry schema of AWS::SageMaker::Cluster (2026-10-20); botocore
    1.44.5, sagemaker service model: CreateCluster.

    Example:
        >>> from cdk_gpu_clusters import HyperPodCluster, TrainingPlan
        >>> cluster = HyperPodCluster(
        ...     stack, "HyperPod", vpc=vpc, vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet])
        ... )
        >>> trainers = cluster.add_instance_group(
        ...     "Trainers", instance_type="p5.48xlarge", node_count=16, partition="train",
        ...     capacity=TrainingPlan.from_arn("arn:aws:sagemaker:us-east-1:123456789012:training-plan/research"),
        ... )
        >>> trainers.group.instance_type
        'ml.p5.48xlarge'

    Attributes:
        vpc: Network.
        subnets: Subnets of groups that name none.
        security_groups: Groups of every node; on Amazon EKS also those of the cluster and of its present nodes.
        role: Execution role of groups that name none.
        controller: Group of the Slurm controller; None on Amazon EKS.
        is_continuous: Whether nodes are provisioned continuously.
        unique_name: How the names of its folders and log groups begin, known at synthesis.
        cfn_cluster: The CloudFormation resource, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        eks_cluster: IEksGpuCluster | None = None,
        cluster_name: str | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] = (),
        node_recovery: bool = True,
        continuous_provisioning: bool = True,
        controller_instance_type: str = CONTROLLER_INSTANCE_TYPE,
        accounting_database: AccountingDatabase | None = None,
        tiered_checkpoint_percent: int | None = None,
        role: iam.IRole | None = None,
    ) -> None:
        """Define the cluster.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network of the nodes; that of the cluster of Amazon EKS if left out. A change replaces the cluster.
            vpc_subnets: Subnets of groups that name none; the private ones if left out. With EFA a group is in one. A
                change replaces the cluster.
            eks_cluster: Cluster of Amazon EKS that the nodes join, with its security groups; Slurm if left out.
                Groups of its present nodes, and that of a cluster before Kubernetes 1.33, get the rules that EFA needs.
                A change replaces the cluster.
            cluster_name: Name, 1 to 63 letters, digits and hyphens; it follows from the path if left out. A change
                replaces the cluster.
            security_groups: Further groups of every node. Each gets the rules that EFA needs: HyperPod checks them all.
                A change replaces the cluster.
            node_recovery: Whether SageMaker reboots and replaces failed nodes.
            continuous_provisioning: Whether a group takes work before all its nodes are there, and SageMaker goes on to
                add them. Spot Instances, keys of volumes, least sizes and accounting databases need it. With False a
                group whose nodes do not all come fails. A cluster that has it keeps it.
            controller_instance_type: Slurm: type of the controller.
            accounting_database: Slurm: database for accounting; one on the controller, which ends with it, if left out.
                A cluster that has one of yours cannot go back.
            tiered_checkpoint_percent: Amazon EKS: share of each node's memory for SageMaker's tiered checkpoints, 20 to
                100; none if left out.
            role: Execution role of groups that name none; a new `HyperPodRole` if left out.

        Raises:
            ConfigError: GPU-HYP-013, -017, -019 and -029, all of them at once. GPU-HYP-007 and -024 are warnings.
        """
        super().__init__(scope, construct_id)
        self._is_eks: bool = eks_cluster is not None
        network = vpc or (None if eks_cluster is None else eks_cluster.vpc)
        if network is None:
            raise TypeError("HyperPodCluster() needs vpc, or eks_cluster")
        self.vpc: ec2.IVpc = network
        selected = select_subnets(network, vpc_subnets)
        self.subnets: Sequence[ec2.ISubnet] = selected.subnets
        self.eks_cluster_arn: str | None = None if eks_cluster is None else eks_cluster.cluster_arn
        name = cluster_name or cdk.Names.unique_resource_name(self, max_length=63, separator="-")
        self.is_continuous: bool = continuous_provisioning
        of_nodes = [] if eks_cluster is None else eks_cluster.node_security_groups
        of_eks = [] if eks_cluster is None else [eks_cluster.cluster_security_group, *of_nodes]
        kubernetes_version = None if eks_cluster is None else resolved_or_none(eks_cluster.kubernetes_version)
        known = resolved_or_none(name)
        report(
            self,
            ([] if known is None else check_hyperpod_name(known, path="cluster_name"))
            + check_hyperpod_network(group_count=1 + len(of_eks) + len(security_groups), subnet_count=len(self.subnets))
            + (
                []
                if eks_cluster is None
                else check_eks_of_hyperpod(
                    kubernetes_version=kubernetes_version,
                    is_public=selected.is_public,
                    # An imported cluster makes nothing that nodes wait for.
                    is_in_stack=bool(eks_cluster.node_prerequisites) and stack_of(eks_cluster) is stack_of(self),
                )
            )
            + check_node_recovery(is_automatic=node_recovery, path="node_recovery")
            + (
                []
                if accounting_database is None
                else check_accounting(is_eks=self._is_eks, is_continuous=continuous_provisioning)
            )
            + (
                []
                if tiered_checkpoint_percent is None
                else check_tiered_checkpoints(tiered_checkpoint_percent, is_eks=self._is_eks)
            ),
        )
        own = EfaSecurityGroup(self, "SecurityGroup", vpc=network, description="HyperPod nodes")
        self.security_groups: Sequence[ec2.ISecurityGroup] = [own, *of_eks, *security_groups]
        self._exchanging: list[ec2.ISecurityGroup] = []
        self.role: iam.IRole = role or HyperPodRole(self, "Role")
        # Dictionaries in camel case, which CDK passes on as given.
        self.cfn_cluster: sagemaker.CfnCluster = sagemaker.CfnCluster(
            self,
            "Resource",
            cluster_name=name,
            orchestrator=self._orchestrator(accounting_database),
            node_recovery="Automatic" if node_recovery else "None",
            node_provisioning_mode="Continuous" if continuous_provisioning else None,
            tiered_storage_config=None
            if tiered_checkpoint_percent is None
            else {"mode": "Enable", "instanceMemoryAllocationPercentage": tiered_checkpoint_percent},
            vpc_config={
                "subnets": [id_of(subnet) for subnet in self.subnets],
                "securityGroupIds": [id_of_group(group) for group in self.security_groups],
            },
        )
        # Names of log groups and folders begin with it; the name of the cluster may be a token.
        self.unique_name: str = cdk.Names.unique_resource_name(self, max_length=80, separator="-")
        policy = allow_nodes(
            self,
            self.role,
            subnets=self.subnets,
            security_groups=self.security_groups,
            eks_cluster_arn=self.eks_cluster_arn,
            name=self.unique_name,
        )
        self.cfn_cluster.node.add_dependency(own.self_rules, policy)
        if accounting_database is not None:
            accounting_database.secret.grant_read(policy)
        self._reads_folders: bool = False
        self._keys: list[kms.IKey] = []
        if eks_cluster is not None and eks_cluster.node_prerequisites:
            self.cfn_cluster.node.add_dependency(*eks_cluster.node_prerequisites)
        self._arn = self.cfn_cluster.attr_cluster_arn
        for group in (*security_groups, *of_nodes):
            self.exchange_efa(group)
        if eks_cluster is not None and kubernetes_version and not group_exchanges_efa(kubernetes_version):
            self.cfn_cluster.node.add_dependency(self._let_efa_out(eks_cluster.cluster_security_group))
        self._groups: list[HyperPodInstanceGroup] = []
        self._node_types: list[str] = []
        self.controller: HyperPodInstanceGroup | None = None
        if not self._is_eks:
            self.controller = self.add_instance_group(
                _CONTROLLER,
                instance_type=controller_instance_type,
                node_count=1,
                node_type=SlurmNodeType.CONTROLLER,
            )

    @staticmethod
    def from_cluster_arn(
        scope: Construct, construct_id: str, cluster_arn: str, *, is_eks: bool | None = None
    ) -> IHyperPodCluster:
        """Import a cluster, to give its teams quotas.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster_arn: Its ARN.
            is_eks: Whether it is on Amazon EKS; unknown if left out.
        """
        return ImportedHyperPodCluster(scope, construct_id, arn=cluster_arn, is_eks=is_eks)

    @property
    def is_eks(self) -> bool:
        """Whether it is on Amazon EKS."""
        return bool(self._is_eks)

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """The security group of the nodes, for CDK's `allow_...` methods."""
        return ec2.Connections(security_groups=[self.security_groups[0]])

    @property
    def session_command(self) -> str:
        """A shell line that opens a Systems Manager session on a node, whose id it takes as `NODE`.

        Source: Amazon SageMaker AI developer guide, "Access your SageMaker HyperPod cluster nodes": the target names
        the id of the cluster, the group and the node.
        """
        region, arn = region_of(self._stack), self.cluster_arn
        return (
            f'read -r GROUP NODE <<<"$(aws sagemaker list-cluster-nodes --region {region} --cluster-name {arn} '
            "--query 'ClusterNodeSummaries[0].[InstanceGroupName,InstanceId]' --output text)\"; "
            f'aws ssm start-session --region {region} --target "sagemaker-cluster:$(basename {arn})_$GROUP-$NODE"'
        )

    def add_instance_group(
        self,
        construct_id: str,
        *,
        instance_type: str | ec2.InstanceType,
        **options: Unpack[HyperPodInstanceGroupProps],
    ) -> HyperPodInstanceGroup:
        """Define a group of nodes.

        Args:
            construct_id: Id below the cluster.
            instance_type: Type of every node, such as `p5.48xlarge`.
            options: Those of `HyperPodInstanceGroupProps`; all but the size may be left out.

        Raises:
            ConfigError: As `HyperPodInstanceGroup`.
        """
        made = HyperPodInstanceGroup(self, construct_id, cluster=self, instance_type=instance_type, options=options)
        self._node_types.append((options.get("node_type") or SlurmNodeType.COMPUTE).value)
        report(made, check_slurm_nodes(self._node_types))
        self._groups.append(made)
        groups: list[Any] = [one.properties for one in self._groups]
        self.cfn_cluster.instance_groups = groups
        self.cfn_cluster.node.add_dependency(*made.needs)
        if "image_release" in options:
            _NEW_PROPERTY.at(self.cfn_cluster)
        return made

    def exchange_efa(self, security_group: ec2.ISecurityGroup) -> None:
        """Give a security group of nodes the rules that EFA needs, once: HyperPod checks every group of a node.

        Source: awslabs/awsome-distributed-ai issue 259.

        Args:
            security_group: The group.
        """
        if security_group in self._exchanging or isinstance(security_group, EfaSecurityGroup):
            return
        self._exchanging.append(security_group)
        rules = EfaSelfRules(self, f"SelfRules{len(self._exchanging)}", security_group=security_group)
        self.cfn_cluster.node.add_dependency(rules)

    def _let_efa_out(self, security_group: ec2.ISecurityGroup) -> ec2.CfnSecurityGroupEgress:
        """The rule that the group of an older cluster of Amazon EKS lacks. EC2 refuses the one for traffic in twice."""
        group_id = id_of_group(security_group)
        rule = ec2.CfnSecurityGroupEgress(
            self,
            "ClusterEgress",
            group_id=group_id,
            destination_security_group_id=group_id,
            ip_protocol=ALL_TRAFFIC,
            description=EFA_OUT,
        )
        # An update to 1.33 takes it out of the template, and the group needs it still.
        rule.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return rule

    def share_folders(self, folder: LifecycleFolder) -> None:
        """Let the role of the cluster read the folders with lifecycle scripts, once for all groups.

        Args:
            folder: Folder of a group.
        """
        if not self._reads_folders:
            self._reads_folders = True
            self.cfn_cluster.node.add_dependency(allow_folders(self, self.role, folder))

    def share_key(self, key: kms.IKey) -> None:
        """Let SageMaker encrypt volumes of nodes that have the role of the cluster with a key, once for each key.

        Args:
            key: Key of a group.
        """
        if key not in self._keys:
            self._keys.append(key)
            policy = allow_key(self, self.role, key, construct_id=f"VolumeKey{len(self._keys)}")
            self.cfn_cluster.node.add_dependency(policy)

    def _orchestrator(self, database: AccountingDatabase | None) -> dict[str, Any]:
        if self.eks_cluster_arn is not None:
            return {"eks": {"clusterArn": self.eks_cluster_arn}}
        accounting = (
            {}
            if database is None
            else {
                "accountingDatabase": {
                    "endpoint": database.endpoint,
                    "port": database.port,
                    **({} if database.name is None else {"name": database.name}),
                    "secretArn": database.secret.secret_arn,
                }
            }
        )
        # SageMaker refuses any strategy with continuous provisioning (SageMaker AI developer guide, "Continuous
        # provisioning for enhanced cluster operations with Slurm", read 2026-11).
        strategy = {} if self.is_continuous else {"slurmConfigStrategy": "Managed"}
        return {"slurm": {**strategy, **accounting}}
