"""What Karpenter needs of an account: rights, a queue of EC2's notices, and the access of its nodes."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, partition_of, region_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters.kubernetes.software import ChartRelease, ImageMirror
from cdk_gpu_clusters.kubernetes.software.node_scaling import KARPENTER_ACCOUNT, KARPENTER_NAMESPACE, karpenter_chart
from cdk_gpu_clusters.orchestration.eks.add_ons import pod_principal
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.software import KubernetesSoftware
from cdk_gpu_clusters.rules.karpenter import unknown_cluster_name
from cdk_gpu_clusters.rules.karpenter_rights import controller_statements, pass_role_statement

# aws/karpenter-provider-aws @ 1d92708, cloudformation.yaml: rules by their ids there, and the time that a notice waits.
# Left out is ScheduledChange, of AWS Health: Karpenter would drain a node as soon as maintenance is announced for a
# later day (see rules/karpenter_rights.py).
NOTICES = {
    "SpotInterruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "Rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChange": ("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruption": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
_NOTICE_SECONDS = 300
_KEY_ACTIONS = (
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)

_RIGHTS = AcceptedFinding(
    cause="`Karpenter`: policies of its controller",
    reason="It makes instances and launch templates, whose ids are unknown before; conditions limit it to those with "
    "the tags of its cluster and its pools. Descriptions and prices have no resource level.",
    aws_solutions=("IAM5",),
)
_QUEUE = AcceptedFinding(
    cause="`Karpenter`: queue of notices",
    reason="A notice that is not read in five minutes is of no use in another queue.",
    aws_solutions=("SQS3",),
    serverless=("SQSRedrivePolicy",),
)
_RULES = AcceptedFinding(
    cause="`Karpenter`: rules of its notices",
    reason="A notice that does not reach the queue is of no use later: EC2 ends the instance meanwhile.",
    serverless=("EventBusDLQ",),
)


class IKarpenter(ClusterConstruct):
    """Karpenter in a cluster: a `Karpenter`, or that of another stack.

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster, Karpenter
        >>> cluster = EksGpuCluster(stack, "Shared", vpc=two_zone_vpc)
        >>> known = Karpenter.from_karpenter_attributes(
        ...     stack, "SharedKarpenter", cluster=cluster, role_name="karpenter"
        ... )
        >>> entry = known.admit(iam.Role(stack, "SharedNodes", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com")))

    Attributes:
        cluster: The cluster.
        role: Role of its controller.
    """

    role: iam.IRole

    def __init__(self, scope: Construct, construct_id: str, *, cluster: IEksGpuCluster) -> None:
        """Define the construct; whoever makes it sets its role."""
        super().__init__(scope, construct_id)
        self.cluster: IEksGpuCluster = cluster
        self._admitted: dict[str, eks.CfnAccessEntry] = {}
        self._pass_role: iam.PolicyStatement | None = None
        self._use_keys: iam.PolicyStatement | None = None

    def admit(self, role: iam.IRole) -> eks.CfnAccessEntry:
        """Let Karpenter launch nodes with a role, and let these join the cluster.

        Source: Amazon EKS user guide, "Create access entries": type EC2_LINUX for nodes that EKS does not manage.

        Args:
            role: Role of the nodes.

        Returns:
            The access entry of the role, which has to exist before the first node.
        """
        known = cdk.Names.node_unique_id(role.node)
        if known not in self._admitted:
            self._admitted[known] = eks.CfnAccessEntry(
                self,
                f"Nodes{known}",
                cluster_name=self.cluster.cluster_name,
                principal_arn=role.role_arn,
                type="EC2_LINUX",
            )
            self._let_pass(role.role_arn)
        return self._admitted[known]

    def let_use_key(self, key: kms.IKey) -> None:
        """Let Karpenter launch nodes whose volumes a customer key encrypts; the key must trust policies of its account.

        Source: Amazon EBS user guide, "Requirements for Amazon EBS encryption": permissions for users.

        Args:
            key: The key.
        """
        if self._use_keys is None:
            self._use_keys = iam.PolicyStatement(actions=list(_KEY_ACTIONS))
            iam.ManagedPolicy(self, "VolumeKeys", statements=[self._use_keys], roles=[self.role])
        self._use_keys.add_resources(key.key_arn)

    def _let_pass(self, role_arn: str) -> None:
        if self._pass_role is not None:
            self._pass_role.add_resources(role_arn)
            return
        self._pass_role = iam.PolicyStatement.from_json(pass_role_statement([role_arn]))
        iam.ManagedPolicy(self, "PassRole", statements=[self._pass_role], roles=[self.role])


class Karpenter(IKarpenter):
    """What Karpenter needs of an account, as its own CloudFormation template has it, and its chart.

    Makes the role of its controller, which the pods of its service account take by EKS Pod Identity; a queue for
    EC2's notices of interruptions, rebalancing and state changes, with their rules; and an access entry for each role
    of its nodes. `install` installs the chart.

    It is allowed what the template of Karpenter 1.14.1 allows, but for changes of instance profiles, because node
    classes of this library name one, for zonal shifts, which its chart does not enable, and for the status of instances
    and scheduled changes, by which it would end nodes with jobs.

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster, Karpenter, KubernetesSoftware
        >>> cluster = EksGpuCluster(stack, "Scaling", vpc=two_zone_vpc)
        >>> karpenter = Karpenter(stack, "Karpenter", cluster=cluster)
        >>> chart = karpenter.install(KubernetesSoftware(stack, "ScalingSoftware", cluster=cluster))

    Attributes:
        cluster: The cluster.
        role: Role of its controller.
        queue: Queue of EC2's notices.
        release: Its chart, for who installs it otherwise: a pod that starts before this construct is complete has no
            role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        is_isolated: bool = False,
        mirror: ImageMirror | None = None,
    ) -> None:
        """Define role, queue and rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster, whose name synthesis has to know.
            is_isolated: Whether its pods reach AWS by VPC endpoints alone. It then asks for no prices.
            mirror: Registries of a closed network, which hold copies of chart and image.

        Raises:
            ConfigError: GPU-EKS-066.
        """
        super().__init__(scope, construct_id, cluster=cluster)
        name = cluster.literal_name
        if name is None:
            report(self, [unknown_cluster_name()])
        self.queue: sqs.Queue = sqs.Queue(
            self,
            "Queue",
            retention_period=cdk.Duration.seconds(_NOTICE_SECONDS),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        _QUEUE.at(self.queue)
        for rule, (source, kind) in NOTICES.items():
            pattern = events.EventPattern(source=[source], detail_type=[kind])
            _RULES.at(events.Rule(self, rule, event_pattern=pattern, targets=[targets.SqsQueue(self.queue)]))
        self.role: iam.Role = iam.Role(
            self,
            "Role",
            assumed_by=pod_principal(cluster, namespace=KARPENTER_NAMESPACE, service_account=KARPENTER_ACCOUNT),
        )
        self._allow(str(name))
        eks.CfnPodIdentityAssociation(
            self,
            "PodIdentity",
            cluster_name=cluster.cluster_name,
            namespace=KARPENTER_NAMESPACE,
            service_account=KARPENTER_ACCOUNT,
            role_arn=self.role.role_arn,
        )
        self.release: ChartRelease = karpenter_chart(
            cluster_name=cluster.cluster_name,
            interruption_queue=self.queue.queue_name,
            is_isolated=is_isolated,
            mirror=mirror,
            region=resolved_or_none(region_of(stack_of(self))),
        )

    def install(self, software: KubernetesSoftware) -> eks.HelmChart:
        """Install the chart, after its role, its queue and the association of both with its pods.

        EKS gives a pod its role as the pod is made: pods that were there before stay without one.

        Args:
            software: What installs it.
        """
        return software.install(self.release, after=[self])

    @staticmethod
    def from_karpenter_attributes(
        scope: Construct, construct_id: str, *, cluster: IEksGpuCluster, role_name: str
    ) -> IKarpenter:
        """Import the Karpenter of another stack, to define nodes that it launches.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            role_name: Name of the role of its controller; may be a CDK token.
        """
        found = IKarpenter(scope, construct_id, cluster=cluster)
        found.role = iam.Role.from_role_name(found, "Role", role_name)
        return found

    def _allow(self, cluster_name: str) -> None:
        stack = stack_of(self)
        statements = controller_statements(
            partition=partition_of(stack),
            region=region_of(stack),
            account=stack.account,
            cluster_name=cluster_name,
            queue_arn=self.queue.queue_arn,
        )
        # A managed policy has at most 6,144 characters (IAM user guide, "IAM and AWS STS quotas").
        launches = [one for one in statements if one["Sid"].startswith("AllowScoped")]
        parts = {"Launches": launches, "Reads": [one for one in statements if one not in launches]}
        for name, part in parts.items():
            document = iam.PolicyDocument.from_json({"Version": "2012-10-17", "Statement": part})
            policy = iam.ManagedPolicy(self, name, document=document, roles=[self.role])
            wide = {
                one
                for statement in part
                for one in (
                    [statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"]
                )
                if one.endswith("*")
            }
            _RIGHTS.at(policy, *(named_resource(policy, one) for one in sorted(wide)))
