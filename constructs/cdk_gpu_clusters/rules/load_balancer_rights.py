"""What the AWS Load Balancer Controller may do in an account: less than the policy that its project publishes.

Source: kubernetes-sigs/aws-load-balancer-controller @ 11eb202 (v3.5.0), docs/install/iam_policy.json, which a test
compares action by action; the policies for China and GovCloud differ from it by the partition and the order alone.
Read 2026-11-27.

Left out of it: AWS WAF, AWS Shield and Amazon Cognito, which the chart here does not enable or no gateway here asks
for. Where the published policy allows an action on all resources, it is here for those of the account and the Region,
of the kinds that the service authorization reference has for it.
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
    "ec2:DescribeCoipPools",
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
# Of resources that it made itself, or makes.
_TAG = "elbv2.k8s.aws/cluster"
_OWN = {"Null": {f"aws:ResourceTag/{_TAG}": "false"}}
_NEW = {"Null": {f"aws:RequestTag/{_TAG}": "false"}}
_OWN_AND_STAYS = {"Null": {f"aws:RequestTag/{_TAG}": "true", f"aws:ResourceTag/{_TAG}": "false"}}


def load_balancer_statements(*, partition: str, region: str, account: str) -> list[Statement]:
    """The statements of the controller's policy. All values may be CDK tokens.

    Args:
        partition: Partition of the account.
        region: Region of the cluster.
        account: Account of the cluster.
    """
    iam, acm = f"arn:{partition}:iam::{account}", f"arn:{partition}:acm:{region}:{account}"
    return [
        _allow(
            ["iam:CreateServiceLinkedRole"],
            f"{iam}:role/aws-service-role/elasticloadbalancing.amazonaws.com/*",
            {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
        _allow(
            [
                *_DESCRIBED_OF_EC2,
                *_elb(*(f"Describe{one}" for one in _DESCRIBED_OF_BALANCERS)),
                "acm:ListCertificates",
                "iam:ListServerCertificates",
            ],
            "*",
        ),
        _allow(["acm:DescribeCertificate"], f"{acm}:certificate/*"),
        _allow(["iam:GetServerCertificate"], f"{iam}:server-certificate/*"),
        *_of_security_groups(f"arn:{partition}:ec2:{region}:{account}"),
        *_of_balancers(f"arn:{partition}:elasticloadbalancing:{region}:{account}"),
    ]


def _of_security_groups(ec2: str) -> list[Statement]:
    rules = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]
    groups, vpcs = f"{ec2}:security-group/*", f"{ec2}:vpc/*"
    of_rules = [groups, f"{ec2}:security-group-rule/*"]
    return [
        _allow(["ec2:GetSecurityGroupsForVpc"], vpcs),
        _allow(["ec2:GetCoipPoolUsage"], f"{ec2}:coip-pool/*"),
        _allow(rules, of_rules),
        _allow(["ec2:CreateSecurityGroup"], [groups, vpcs]),
        _allow(["ec2:CreateTags"], groups, {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}, **_NEW}),
        _allow(["ec2:CreateTags", "ec2:DeleteTags"], groups, _OWN_AND_STAYS),
        _allow([*rules, "ec2:DeleteSecurityGroup"], of_rules, _OWN),
    ]


def _of_balancers(elb: str) -> list[Statement]:
    balancers, targets = f"{elb}:loadbalancer/*", f"{elb}:targetgroup/*/*"
    listeners, rules = f"{elb}:listener/*", f"{elb}:listener-rule/*"
    tagged = [targets, *(f"{elb}:loadbalancer/{kind}/*/*" for kind in ("net", "app"))]
    tagged_listeners = [
        f"{elb}:{part}/{kind}/*/*/*" for part in ("listener", "listener-rule") for kind in ("net", "app")
    ]
    created = {"StringEquals": {"elasticloadbalancing:CreateAction": ["CreateTargetGroup", "CreateLoadBalancer"]}}
    return [
        _allow(_elb("CreateLoadBalancer", "CreateTargetGroup"), [balancers, targets], _NEW),
        _allow(_elb("CreateListener", "DeleteListener", "CreateRule", "DeleteRule"), [balancers, listeners, rules]),
        _allow(_elb("AddTags", "RemoveTags"), tagged, _OWN_AND_STAYS),
        _allow(_elb("AddTags", "RemoveTags"), tagged_listeners),
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
            [balancers, targets, listeners],
            _OWN,
        ),
        _allow(_elb("AddTags"), tagged, {**created, **_NEW}),
        _allow(_elb("RegisterTargets", "DeregisterTargets"), targets),
        _allow(
            _elb(
                "ModifyListener",
                "AddListenerCertificates",
                "RemoveListenerCertificates",
                "ModifyRule",
                "SetRulePriorities",
            ),
            [listeners, rules],
        ),
    ]


def _elb(*names: str) -> list[str]:
    return [f"elasticloadbalancing:{name}" for name in names]


def _allow(actions: list[str], resources: str | list[str], condition: dict[str, Any] | None = None) -> Statement:
    statement = {"Effect": "Allow", "Action": actions, "Resource": resources}
    return statement if condition is None else {**statement, "Condition": condition}
