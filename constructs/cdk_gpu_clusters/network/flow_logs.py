"""Flow logs of a VPC in CloudWatch Logs, with a role of their own."""

from __future__ import annotations

from aws_cdk import ArnFormat, CfnTag
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, path_of, stack_of

_OWN_KEY = AcceptedFinding(
    cause="`ClusterNetwork`: log group of the flow logs, without `flow_log_encryption_key`",
    reason="CloudWatch Logs encrypts every log group; flow_log_encryption_key gives it a customer key.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


class VpcFlowLogs(ClusterConstruct):
    """Records of the accepted and rejected traffic of a VPC.

    Makes a log group, a role that only VPC Flow Logs of this account and Region can assume and that can write
    only into that group, and the flow log. The group outlives the stack
    (`flow_log_group.apply_removal_policy` changes that); its records expire.

    EFA traffic bypasses the operating system; whether flow logs record it is unverified, so do not count on
    it.

    Source: Amazon VPC user guide, "IAM role for publishing flow logs to CloudWatch Logs".
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        retention: logs.RetentionDays,
        encryption_key: kms.IKey | None = None,
    ) -> None:
        """Define the flow log.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc_id: The VPC.
            retention: How long records are kept.
            encryption_key: Key of the log group; its policy must let CloudWatch Logs use it. By default the
                service's own key.
        """
        super().__init__(scope, construct_id)
        self.log_group: logs.ILogGroup = logs.LogGroup(
            self, "Group", retention=retention, encryption_key=encryption_key
        )
        if encryption_key is None:
            _OWN_KEY.at(self.log_group)
        self.role: iam.Role = iam.Role(self, "Role", assumed_by=self._flow_logs_principal())
        # A managed policy: the packs of NIST, HIPAA and PCI accept no inline ones.
        write = iam.ManagedPolicy(
            self,
            "Write",
            roles=[self.role],
            statements=[
                iam.PolicyStatement(
                    actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                    resources=[self.log_group.log_group_arn],
                )
            ],
        )
        self.cfn_flow_log: ec2.CfnFlowLog = ec2.CfnFlowLog(
            self,
            "Resource",
            resource_id=vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=self.log_group.log_group_name,
            deliver_logs_permission_arn=self.role.role_arn,
            tags=[CfnTag(key="Name", value=path_of(self))],
        )
        self.cfn_flow_log.node.add_dependency(write)

    def _flow_logs_principal(self) -> iam.IPrincipal:
        stack = stack_of(self)
        flow_logs = stack.format_arn(
            service="ec2",
            resource="vpc-flow-log",
            resource_name="*",
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
        return iam.ServicePrincipal(
            "vpc-flow-logs.amazonaws.com",
            conditions={
                "StringEquals": {"aws:SourceAccount": stack.account},
                "ArnLike": {"aws:SourceArn": flow_logs},
            },
        )
