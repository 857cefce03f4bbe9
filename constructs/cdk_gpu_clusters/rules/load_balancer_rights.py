"""What the AWS Load Balancer Controller may do in an account, as the project itself publishes it.

Source: kubernetes-sigs/aws-load-balancer-controller @ 11eb202 (v3.5.0), docs/install/iam_policy.json, which a test
compares statement by statement; the policies for China and GovCloud differ from it by the partition and the order
alone. Read 2026-11-27.
"""

from __future__ import annotations

from typing import Any

Statement = dict[str, Any]

_DESCRIBED_OF_EC2 = (
    "ec2:DescribeAccountAttributes",
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeVpcs",
    "ec2:DescribeVpcPeeringConnections",
    "ec2:DescribeSubnets",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeTags",
    "ec2:GetCoipPoolUsage",
    "ec2:DescribeCoipPools",
    "ec2:GetSecurityGroupsForVpc",
    "ec2:DescribeIpamPools",
    "ec2:DescribeRouteTables",
)
_DESCRIBED_OF_BALANCERS = (
    "LoadBalancers",
    "LoadBalancerAttributes",
    "Listeners",
    "ListenerCertificates",
    "SSLPolicies",
    "Rules",
    "TargetGroups",
    "TargetGroupAttributes",
    "TargetHealth",
    "Tags",
    "TrustStores",
    "ListenerAttributes",
    "CapacityReservation",
)
_OF_OTHER_SERVICES = (
    "cognito-idp:DescribeUserPoolClient",
    "acm:ListCertificates",
    "acm:DescribeCertificate",
    "iam:ListServerCertificates",
    "iam:GetServerCertificate",
    *(
        f"{service}:{one}"
        for service in ("waf-regional", "wafv2")
        for one in ("GetWebACL", "GetWebACLForResource", "AssociateWebACL", "DisassociateWebACL")
    ),
    "shield:GetSubscriptionState",
    "shield:DescribeProtection",
    "shield:CreateProtection",
    "shield:DeleteProtection",
)
# Of resources that it made itself, or makes.
_TAG = "elbv2.k8s.aws/cluster"
_OWN = {"Null": {f"aws:ResourceTag/{_TAG}": "false"}}
_NEW = {"Null": {f"aws:RequestTag/{_TAG}": "false"}}
_OWN_AND_STAYS = {"Null": {f"aws:RequestTag/{_TAG}": "true", f"aws:ResourceTag/{_TAG}": "false"}}


def load_balancer_statements(*, partition: str) -> list[Statement]:
    """The statements of the controller's policy.

    Args:
        partition: Partition of the account; may be a CDK token.
    """
    groups = f"arn:{partition}:ec2:*:*:security-group/*"
    balancers = f"arn:{partition}:elasticloadbalancing:*:*"
    targets = f"{balancers}:targetgroup/*/*"
    tagged = [targets, *(f"{balancers}:loadbalancer/{kind}/*/*" for kind in ("net", "app"))]
    listeners = [
        f"{balancers}:{part}/{kind}/*/*/*" for part in ("listener", "listener-rule") for kind in ("net", "app")
    ]
    return [
        _allow(
            ["iam:CreateServiceLinkedRole"],
            "*",
            {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
        _allow([*_DESCRIBED_OF_EC2, *_elb(*(f"Describe{one}" for one in _DESCRIBED_OF_BALANCERS))], "*"),
        _allow(list(_OF_OTHER_SERVICES), "*"),
        *_of_security_groups(groups),
        _allow(_elb("CreateLoadBalancer", "CreateTargetGroup"), "*", _NEW),
        _allow(_elb("CreateListener", "DeleteListener", "CreateRule", "DeleteRule"), "*"),
        _allow(_elb("AddTags", "RemoveTags"), tagged, _OWN_AND_STAYS),
        _allow(_elb("AddTags", "RemoveTags"), listeners),
        _allow(
            _elb(
                "ModifyLoadBalancerAttributes",
                "SetIpAddressType",
                "SetSecurityGroups",
                "SetSubnets",
                "DeleteLoadBalancer",
                "ModifyTargetGroup",
                "ModifyTargetGroupAttributes",
                "DeleteTargetGroup",
                "ModifyListenerAttributes",
                "ModifyCapacityReservation",
                "ModifyIpPools",
            ),
            "*",
            _OWN,
        ),
        _allow(
            _elb("AddTags"),
            tagged,
            {
                "StringEquals": {"elasticloadbalancing:CreateAction": ["CreateTargetGroup", "CreateLoadBalancer"]},
                **_NEW,
            },
        ),
        _allow(_elb("RegisterTargets", "DeregisterTargets"), targets),
        _allow(
            _elb(
                "SetWebAcl",
                "ModifyListener",
                "AddListenerCertificates",
                "RemoveListenerCertificates",
                "ModifyRule",
                "SetRulePriorities",
            ),
            "*",
        ),
    ]


def _of_security_groups(groups: str) -> list[Statement]:
    rules = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]
    return [
        _allow(rules, "*"),
        _allow(["ec2:CreateSecurityGroup"], "*"),
        _allow(["ec2:CreateTags"], groups, {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}, **_NEW}),
        _allow(["ec2:CreateTags", "ec2:DeleteTags"], groups, _OWN_AND_STAYS),
        _allow([*rules, "ec2:DeleteSecurityGroup"], "*", _OWN),
    ]


def _elb(*names: str) -> list[str]:
    return [f"elasticloadbalancing:{name}" for name in names]


def _allow(actions: list[str], resources: str | list[str], condition: dict[str, Any] | None = None) -> Statement:
    statement = {"Effect": "Allow", "Action": actions, "Resource": resources}
    return statement if condition is None else {**statement, "Condition": condition}
