"""Invariants of who reaches the nodes and what the nodes may do."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from matrix.cloud import Json, Place
from matrix.invariant import invariant
from matrix.nodes import Nodes

EFA_PAGE = 'AWS EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads on Amazon EC2"'
#: What CDK writes for "no rule", since a group without any lets everything out.
_NOWHERE = "255.255.255.255/32"
_ANYWHERE = ("0.0.0.0/0", "::/0")
#: Actions that AWS lets nobody restrict to a resource (Service Authorization Reference).
_WITHOUT_RESOURCE = re.compile(
    r"\w+:(Describe|List)\w+|ecr:GetAuthorizationToken|cloudwatch:PutMetricData|ssmmessages:\w+"
    r"|ssm:UpdateInstanceInformation"
)
#: AWS Systems Manager user guide, "Add Session Manager permissions to an existing IAM role".
_SESSION_ACTIONS = {
    "ssm:UpdateInstanceInformation",
    *(f"ssmmessages:{verb}{channel}Channel" for verb in ("Create", "Open") for channel in ("Control", "Data")),
}
PEERS = (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId"))


@invariant("efa-self-rules", f"{EFA_PAGE}; gardener-extension-provider-aws 1832 (0.0.0.0/0 does not cover EFA)")
def efa_self_rules(nodes: Nodes) -> Iterator[str]:
    """A group on the EFA interfaces lets all traffic in from itself and out to itself."""
    if not nodes.has_efa() or not nodes.security_groups:
        return
    if not any(_admits_itself(nodes, group) for group in _groups_of_every_efa(nodes)):
        yield "no group on all EFA interfaces allows all traffic from and to itself"


def _groups_of_every_efa(nodes: Nodes) -> set[Place]:
    of_each = [
        {nodes.cloud.find(nodes.stack, group) for group in interface.entry.get("Groups", ())}
        for interface in nodes.interfaces
        if interface.is_efa and interface.entry.get("Groups")
    ]
    return {place for place in set.intersection(*of_each) if place is not None}


def _admits_itself(nodes: Nodes, group: Place) -> bool:
    return all(
        any(
            rule["IpProtocol"] == "-1" and nodes.cloud.find(stack, rule.get(peer)) == group
            for stack, rule in nodes.rules(group, direction)
        )
        for direction, peer in PEERS
    )


@invariant("self-rules-apart", "CloudFormation, AWS::EC2::SecurityGroup: an inline self reference is circular")
def self_rules_apart(nodes: Nodes) -> Iterator[str]:
    """No security group refers to itself inside its own properties."""
    for group in nodes.security_groups:
        if nodes.mentions(group.stack, nodes.cloud.properties(group), group):
            yield f"{group.logical_id} refers to itself"


@invariant("no-rule-twice", "EC2 AuthorizeSecurityGroupIngress: InvalidPermission.Duplicate")
def no_rule_twice(nodes: Nodes) -> Iterator[str]:
    """EC2 refuses a rule that the group already has, wherever in the app it stands."""
    for group in [*nodes.security_groups, *nodes.file_servers]:
        for direction, peer in PEERS:
            rules = Counter(
                (
                    *(rule.get(field) for field in ("IpProtocol", "FromPort", "ToPort", "CidrIp")),
                    nodes.cloud.identity(stack, rule.get(peer)),
                )
                for stack, rule in nodes.rules(group, direction)
            )
            yield from (f"{rule} of {group}" for rule, count in rules.items() if count > 1)


@invariant("nobody-from-anywhere", "AWS Well-Architected, SEC05-BP02: nodes are reached through Systems Manager")
def nobody_from_anywhere(nodes: Nodes) -> Iterator[str]:
    """No group of the nodes lets anybody in from everywhere."""
    for group in nodes.security_groups:
        for _, rule in nodes.rules(group, "Ingress"):
            if {rule.get("CidrIp"), rule.get("CidrIpv6")} & set(_ANYWHERE):
                yield f"{group.logical_id} is open on {rule.get('FromPort', 'all ports')}"


@invariant("way-out", f"{EFA_PAGE}; nodes need Systems Manager, logs and images")
def way_out(nodes: Nodes) -> Iterator[str]:
    """The nodes' groups let IP traffic out: EFA's rule to itself alone would cut them off from every service."""
    rules = [rule for group in nodes.security_groups for _, rule in nodes.rules(group, "Egress")]
    if nodes.security_groups and not any(rule.get("CidrIp", _NOWHERE) != _NOWHERE for rule in rules):
        yield "no group lets IP traffic out"


@invariant("imdsv2-only", 'AWS EC2 user guide, "Instance metadata options"; EKS best practices guide, IAM: one hop')
def imdsv2_only(nodes: Nodes) -> Iterator[str]:
    """Instance metadata answers to tokens only, and no further than the instance: no pod gets its role."""
    options = nodes.data.get("MetadataOptions", {})
    if (options.get("HttpEndpoint"), options.get("HttpTokens")) != ("enabled", "required"):
        yield f"metadata {options}"
    if options.get("HttpPutResponseHopLimit") != 1:
        yield f"hop limit {options.get('HttpPutResponseHopLimit')}, not 1"


@invariant("sessions-not-keys", 'AWS Systems Manager user guide, "Session Manager": no SSH key, no open port')
def sessions_not_keys(nodes: Nodes) -> Iterator[str]:
    """There is no SSH key; nodes of a group have a role for EC2 alone that Systems Manager sessions need."""
    if "KeyName" in nodes.data:
        yield f"key pair {nodes.data['KeyName']}"
    if nodes.launcher is None:
        return
    if nodes.role is None:
        yield "no instance profile with a role"
        return
    role = nodes.cloud.properties(nodes.role)
    principals = [each.get("Principal") for each in role["AssumeRolePolicyDocument"]["Statement"]]
    if principals != [{"Service": "ec2.amazonaws.com"}]:
        yield f"the role trusts {principals}"
    allowed = {action for _, statement in nodes.statements(nodes.role) for action in statement["Action"]}
    if not allowed >= _SESSION_ACTIONS:
        yield f"no {sorted(_SESSION_ACTIONS - allowed)}"
    if "AmazonSSMManagedInstanceCore" in json.dumps(role.get("ManagedPolicyArns", [])):
        yield "it may read every parameter of the account"


def _names_group(resource: Json, group: Place) -> bool:
    """Whether a resource is the group by the name that CloudFormation makes: stack, logical id, and a suffix."""
    name = json.dumps(resource)
    return "autoScalingGroupName/" in name and f"-{group.logical_id}-*" in name


@invariant("least-privilege", "AWS IAM user guide, least privilege; a node completes hooks of its own group only")
def least_privilege(nodes: Nodes) -> Iterator[str]:
    """No policy of the nodes has a wildcard action on everything; they complete the hooks of their own group only."""
    if nodes.role is None or nodes.launcher is None:
        return
    completes = False
    for _, statement in nodes.statements(nodes.role):
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        changing = [each for each in actions if not _WITHOUT_RESOURCE.fullmatch(each)]
        if changing and statement["Resource"] == "*":
            yield f"{', '.join(changing)} on everything"
        if "autoscaling:CompleteLifecycleAction" in actions:
            completes |= nodes.group_place is not None and _names_group(statement["Resource"], nodes.group_place)
    if nodes.group is not None and not completes:
        yield "the nodes cannot complete the hooks of their group"
