"""Faults in what jobs may reach, whose two halves are in stacks of their own in ours."""

from __future__ import annotations

from typing import Any

from recorded_templates import Json, copy_of
from rule_mutation import RuleMutation, first
from rule_mutations.cost import with_node

ROLE = "AWS::IAM::Role"
BUCKET = "AWS::S3::Bucket"
#: The one role of this stack is that of its nodes.
NODES = "eks-g5-dev/sandbox-fleet-dev"
CHECKPOINTS = "p5-lustre/llama-lustre-data-checkpoints"
CLOSED = "cluster_network/everything_on"
OBJECTS = {"Fn::Join": ["", [{"Fn::GetAtt": ["Checkpoints", "Arn"]}, "/*"]]}


def with_checkpoints(template: Json, *actions: str) -> Json:
    """The bucket of another stack, and what the role of the nodes may do with its objects."""
    bucket: Json = first(copy_of(CHECKPOINTS), BUCKET)
    template["Resources"]["Checkpoints"] = bucket
    statement: Any = {"Effect": "Allow", "Action": list(actions), "Resource": OBJECTS}
    policy = {"PolicyName": "checkpoints", "PolicyDocument": {"Version": "2012-10-17", "Statement": [statement]}}
    first(template, ROLE)["Properties"]["Policies"] = [policy]
    return bucket


def with_version_deletion(template: Json) -> None:
    bucket = with_checkpoints(template, "s3:GetObject", "s3:PutObject", "s3:DeleteObject*")
    template["Resources"]["Key"] = first(copy_of(CHECKPOINTS), "AWS::KMS::Key")
    rename_key(bucket)


def with_managed_encryption(template: Json) -> None:
    bucket = with_checkpoints(template, "s3:GetObject", "s3:PutObject", "s3:DeleteObject")
    del bucket["Properties"]["BucketEncryption"]


def rename_key(bucket: Json) -> None:
    [rule] = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] = {"Fn::GetAtt": ["Key", "Arn"]}


def with_open_endpoint(template: Json) -> None:
    with_node(template)
    endpoints = [one for one in template["Resources"].values() if one["Type"] == "AWS::EC2::VPCEndpoint"]
    del endpoints[0]["Properties"]["PolicyDocument"]


MUTATIONS = (
    RuleMutation(rule="GPU-IAM-004", template=NODES, change_template=with_version_deletion),
    RuleMutation(rule="GPU-KEY-002", template=NODES, change_template=with_managed_encryption),
    RuleMutation(rule="GPU-NET-146", template=CLOSED, change_template=with_open_endpoint),
)
