"""What must hold for clusters of EKS: cdk-nag's rules for EKS do not see those of CDK's `aws_eks_v2`."""

from __future__ import annotations

import json

from security.checks import Check, Json

_LOGS = {"api", "audit", "authenticator", "controllerManager", "scheduler"}


def _endpoint(resource: Json) -> bool:
    network = resource["Properties"]["ResourcesVpcConfig"]
    blocks = network.get("PublicAccessCidrs", [])
    is_public = network["EndpointPublicAccess"]
    named = bool(blocks) and not any(str(block).endswith("/0") for block in blocks)
    return network["EndpointPrivateAccess"] is True and (is_public is False or named)


def _logs(resource: Json) -> bool:
    types = resource["Properties"]["Logging"]["ClusterLogging"]["EnabledTypes"]
    return {one["Type"] for one in types} == _LOGS


def _secrets(resource: Json) -> bool:
    [one] = resource["Properties"]["EncryptionConfig"]
    return bool(one["Provider"]["KeyArn"]) and one["Resources"] == ["secrets"]


def _access(resource: Json) -> bool:
    return bool(
        resource["Properties"]["AccessConfig"]
        == {"AuthenticationMode": "API", "BootstrapClusterCreatorAdminPermissions": False}
    )


def _node_group(resource: Json) -> bool:
    properties = resource["Properties"]
    return "RemoteAccess" not in properties and "Id" in properties["LaunchTemplate"]


def _role_of_pods(resource: Json) -> bool:
    for statement in resource["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
        if statement["Principal"].get("Service") == "pods.eks.amazonaws.com":
            asked = statement.get("Condition", {}).get("StringEquals", {})
            names = {key.removeprefix("aws:RequestTag/") for key in asked}
            wanted = {"eks-cluster-arn", "kubernetes-namespace", "kubernetes-service-account"}
            if names != wanted or "*" in json.dumps(asked):
                return False
    return True


def _network_policies(resource: Json) -> bool:
    properties = resource["Properties"]
    if properties["AddonName"] != "vpc-cni":
        return True
    return bool(json.loads(properties.get("ConfigurationValues", "{}")).get("enableNetworkPolicy") == "true")


_CLUSTER, _NETWORK = "AWS::EKS::Cluster", "Properties.ResourcesVpcConfig"
_TRUST = "Properties.AssumeRolePolicyDocument.Statement.0"
_PODS = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "pods.eks.amazonaws.com"}}

KUBERNETES = (
    Check(
        "the API server is reached from inside, and from named networks at most",
        _CLUSTER,
        _endpoint,
        (
            (f"{_NETWORK}.EndpointPrivateAccess", False),
            (
                _NETWORK,
                {"EndpointPrivateAccess": True, "EndpointPublicAccess": True, "PublicAccessCidrs": []},
            ),
            (
                _NETWORK,
                {
                    "EndpointPrivateAccess": True,
                    "EndpointPublicAccess": True,
                    "PublicAccessCidrs": ["203.0.113.0/24", "0.0.0.0/0"],
                },
            ),
        ),
    ),
    Check(
        "the control plane writes all of its logs",
        _CLUSTER,
        _logs,
        (("Properties.Logging.ClusterLogging.EnabledTypes", [{"Type": "api"}]),),
    ),
    Check(
        "secrets are encrypted with a key",
        _CLUSTER,
        _secrets,
        (
            ("Properties.EncryptionConfig.0.Provider.KeyArn", ""),
            ("Properties.EncryptionConfig.0.Resources", []),
        ),
    ),
    Check(
        "access is given by entries, and to nobody by the way",
        _CLUSTER,
        _access,
        (
            ("Properties.AccessConfig.AuthenticationMode", "API_AND_CONFIG_MAP"),
            ("Properties.AccessConfig.BootstrapClusterCreatorAdminPermissions", True),
        ),
    ),
    Check(
        "network policies are enforced",
        "AWS::EKS::Addon",
        _network_policies,
        (("Properties", {"AddonName": "vpc-cni", "ConfigurationValues": '{"env": {}}'}),),
    ),
    Check(
        "nodes have a launch template of ours and no SSH",
        "AWS::EKS::Nodegroup",
        _node_group,
        (
            ("Properties.RemoteAccess", {"Ec2SshKey": "mine"}),
            ("Properties.LaunchTemplate", {"Name": "theirs"}),
        ),
    ),
    Check(
        "pods take a role for one service account of one cluster",
        "AWS::IAM::Role",
        _role_of_pods,
        (
            (_TRUST, _PODS),
            (
                _TRUST,
                {
                    **_PODS,
                    "Condition": {"StringEquals": {"aws:RequestTag/kubernetes-namespace": "kube-system"}},
                },
            ),
        ),
    ),
)
