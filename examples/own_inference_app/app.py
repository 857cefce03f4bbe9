"""An app of your own: a chat service in an existing VPC, its weights and its token, and alarms for an operator.

cdk synth --app "python examples/own_inference_app/app.py"
"""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sns as sns
from constructs import Construct

from cdk_gpu_clusters import InferenceFleet, ModelServer, ModelWeights, ServerSecret, ServerSlots


class Chat(cdk.Stack):
    """Two to six g6e nodes with one vLLM server each, which two zones share."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=["us-east-1a", "us-east-1b"],
            private_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
            private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
        )
        weights = s3.Bucket.from_bucket_name(self, "Weights", "my-models")
        token = secretsmanager.Secret.from_secret_name_v2(self, "Token", "chat/api-key")
        self._topic = sns.Topic.from_topic_arn(self, "OnCall", self.format_arn(service="sns", resource="on-call"))
        website = ec2.SecurityGroup.from_security_group_id(self, "Website", "sg-0123456789abcdef0")
        chat = InferenceFleet(
            self,
            "Chat",
            vpc=vpc,
            instance_type="g6e.12xlarge",
            min_node_count=2,
            max_node_count=6,
            slots=ServerSlots.tensor_parallel(4),
            server=ModelServer(
                image="vllm/vllm-openai:v0.11.0",
                command=["--model", "/scratch/llama", "--tensor-parallel-size", "4"],
                weights=ModelWeights.from_bucket(weights, "llama/", path="/scratch/llama"),
                secrets={"VLLM_API_KEY": ServerSecret.from_secret(token)},
            ),
            certificate=acm.Certificate.from_certificate_arn(
                self,
                "Certificate",
                self.format_arn(service="acm", resource="certificate", resource_name="chat"),
            ),
            clients=[website],
            requests_per_minute_per_node=120,
        )
        self._wake(
            "TooFewNodes",
            chat.metric_healthy_nodes(),
            threshold=2,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            # No node, no value.
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )
        self._wake("ServerErrors", chat.metric_server_errors(), threshold=10)
        cdk.CfnOutput(self, "Url", value=chat.url)
        cdk.CfnOutput(self, "Session", value=chat.fleet.session_command)

    def _wake(self, name: str, metric: cloudwatch.IMetric, **options: Any) -> None:
        """Tell the subscribers of the topic when five minutes were bad."""
        alarm = cloudwatch.Alarm(self, name, metric=metric, evaluation_periods=1, **options)
        alarm.add_alarm_action(actions.SnsAction(self._topic))


app = cdk.App()
Chat(app, "Chat")
app.synth()
