"""One DNS record for each fleet, with the addresses of its nodes in service, and one for each controller of AWS PCS.

Nodes of an Auto Scaling group have no names that a configuration could list. AWS Cloud Map would give them one name,
but answers a query with eight of its instances at most, so that Prometheus would miss the others of a larger fleet. A
record of Route 53 with simple routing has all its values in each answer.

A state machine without code writes the record every three minutes from what the group has. It needs nothing on the
nodes and no permission of theirs, and a node that ends without a word disappears as well. Each run writes the full
record, so that one that fails or is late is made good by the next.

A template cannot name the address of a controller of AWS PCS either: CloudFormation returns the endpoints as a list of
objects. Compute nodes of AWS PCS are found by the tag that it gives them. No service reports when they have booted, so
that they are in the record from ten minutes after their launch on.

Sources: AWS Cloud Map API reference, DnsConfig, and Route 53 developer guide, "Multivalue answer routing" (eight);
Route 53 developer guide, "Simple routing" (all values) and "DNS constraints and behaviors"; Step Functions developer
guide, "Transforming data with JSONata"; Prometheus, discovery/dns/dns.go (a name without records has no targets; an
answer that is truncated is asked for again over TCP); AWS PCS user guide, "Finding compute node group instances in AWS
PCS" (the tag).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters._template import Resources, allow
from cdk_gpu_clusters.compute.reconcile import sdk_call
from cdk_gpu_clusters.compute.state_machine import StateMachine, task_state, when

#: With the seconds of `TTL_SECONDS` and of Prometheus' own refresh (30), less than the five minutes after which a node
#: that does not answer raises `NodeSilent`: a node that ended is no longer a target then.
PERIOD_MINUTES = 3
TTL_SECONDS = 30
#: How long nodes of AWS PCS may take to boot before the collector expects an answer.
BOOT_MINUTES = 10
NODE_GROUP_TAG = "aws:pcs:compute-node-group-id"
MACHINE = "Addresses/Machine"
# Interfaces have up to 2 KB of text, and a task returns at most 256 KiB.
_NODES_PER_CALL = 50
_TIMEOUT_SECONDS = 120
# EC2 API reference, DescribeTags: MaxResults.
_MOST_TAGS = 1000
_ENTERED = "$toMillis($states.context.State.EnteredTime)"
_ATTACHED = "$toMillis(Attachment.AttachTime)"
_CARD = "($exists(Attachment.NetworkCardIndex) ? Attachment.NetworkCardIndex : 0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What has a record; all may be tokens.

    Attributes:
        groups: Name of the Auto Scaling group of each fleet, by the fleet's DNS label.
        clusters: Id and ARN of each cluster of AWS PCS, by the controller's DNS label.
        node_groups: Id of each compute node group of AWS PCS, by its DNS label.
    """

    groups: Mapping[str, str]
    clusters: Mapping[str, tuple[str, str]]
    node_groups: Mapping[str, str]


def address_resources(
    named: Named, *, zone_name: str, zone_id: str, zone_arn: str, partition: str, account: str
) -> Resources:
    """The state machine that writes the records, and a schedule for each of them, by path below the scraper.

    Args:
        named: What has a record.
        zone_name: Name of the private hosted zone.
        zone_id: Its id; may be a token.
        zone_arn: Its ARN; may be a token.
        partition: Partition of the stack.
        account: Account of the stack.
    """
    machine = StateMachine(
        path=MACHINE,
        definition=definition(partition, asks_clusters=bool(named.clusters), asks_node_groups=bool(named.node_groups)),
        substitutions={"Zone": zone_id},
        permissions=[
            allow(zone_arn, "route53:ChangeResourceRecordSets", "route53:ListResourceRecordSets"),
            # None of them has a resource level (service authorization reference).
            allow("*", "autoscaling:DescribeAutoScalingGroups", "ec2:DescribeNetworkInterfaces"),
            *([allow("*", "ec2:DescribeTags")] if named.node_groups else []),
            *([allow([arn for _, arn in named.clusters.values()], "pcs:GetCluster")] if named.clusters else []),
        ],
        account=account,
    )
    asked = {label: {"group": group} for label, group in named.groups.items()}
    asked |= {label: {"cluster": cluster} for label, (cluster, _) in named.clusters.items()}
    asked |= {label: {"nodeGroup": node_group} for label, node_group in named.node_groups.items()}
    rules = {
        f"Addresses/{label}": machine.rule(
            f"Writes the addresses of {label}",
            f"rate({PERIOD_MINUTES} minutes)",
            Input=json.dumps({**what, "name": f"{label}.{zone_name}"}, separators=(",", ":")),
        )
        for label, what in asked.items()
    }
    return {**machine.resources(), **rules}


def definition(partition: str, *, asks_clusters: bool = False, asks_node_groups: bool = False) -> dict[str, Any]:
    """The state machine in the Amazon States Language; `${Zone}` is filled in.

    Args:
        partition: Partition of the stack.
        asks_clusters: Whether controllers of AWS PCS have records, too.
        asks_node_groups: Whether compute nodes of AWS PCS have records, too.
    """
    ways: dict[str, str] = {
        **({"Ask": "$exists($states.input.cluster)"} if asks_clusters else {}),
        **({"Tagged": "$exists($states.input.nodeGroup)"} if asks_node_groups else {}),
    }
    look = {
        "Resource": sdk_call(partition, "autoscaling", "describeAutoScalingGroups"),
        "Arguments": {"AutoScalingGroupNames": "{% [$states.input.group] %}"},
    }
    nodes = "$states.result.AutoScalingGroups[0].Instances[LifecycleState = 'InService'].InstanceId"
    find = {
        "Resource": sdk_call(partition, "route53", "listResourceRecordSets"),
        "Arguments": {
            "HostedZoneId": "${Zone}",
            "StartRecordName": "{% $name %}",
            "StartRecordType": "A",
            "MaxItems": "1",
        },
    }
    record = {
        "Name": "{% $name %}",
        "Type": "A",
        "Ttl": TTL_SECONDS,
        "ResourceRecords": "{% [$addresses.{'Value': $}] %}",
    }
    return {
        "Comment": "Writes the addresses of the nodes of a fleet into its DNS record",
        "QueryLanguage": "JSONata",
        "StartAt": "Which" if ways else "Look",
        "TimeoutSeconds": _TIMEOUT_SECONDS,
        "States": {
            **({"Which": _which(ways)} if ways else {}),
            **({"Ask": _ask(partition)} if asks_clusters else {}),
            **({"Tagged": _tagged(partition)} if asks_node_groups else {}),
            "Look": {
                **task_state(look, next_state="Describe"),
                "Assign": {
                    "name": "{% $states.input.name %}",
                    "nodes": f"{{% [{nodes}] %}}",
                    **({"before": f"{{% {_ENTERED} %}}"} if asks_node_groups else {}),
                },
            },
            "Describe": _describe(partition, "" if not asks_node_groups else f"[{_ATTACHED} <= $before]"),
            "IsAny": _choice("$count($addresses) > 0", "Write", "Find"),
            "Write": task_state(_change(partition, "UPSERT", record), next_state="Done"),
            # A record without values cannot be written.
            "Find": {
                **task_state(find, next_state="IsThere"),
                "Assign": {
                    "found": "{% [$states.result.ResourceRecordSets[Name = $name & '.' and Type = 'A']] %}",
                },
            },
            "IsThere": _choice("$count($found) > 0", "Remove", "Done"),
            "Remove": task_state(_change(partition, "DELETE", "{% $found[0] %}"), next_state="Done"),
            "Done": {"Type": "Succeed"},
        },
    }


def _which(ways: Mapping[str, str]) -> dict[str, Any]:
    choices = [when(condition, state) for state, condition in ways.items()]
    return {"Type": "Choice", "Choices": choices, "Default": "Look"}


def _ask(partition: str) -> dict[str, Any]:
    """The state that finds the address of a controller."""
    ask = {
        "Resource": sdk_call(partition, "pcs", "getCluster"),
        "Arguments": {"ClusterIdentifier": "{% $states.input.cluster %}"},
    }
    controller = "$states.result.Cluster.Endpoints[Type = 'SLURMCTLD'].PrivateIpAddress"
    found = {"name": "{% $states.input.name %}", "addresses": f"{{% [{controller}] %}}"}
    return {**task_state(ask, next_state="IsAny"), "Assign": found}


def _tagged(partition: str) -> dict[str, Any]:
    """The state that finds the nodes of a compute node group. Ended instances keep their tags, but no interface."""
    find = {
        "Resource": sdk_call(partition, "ec2", "describeTags"),
        "Arguments": {
            "Filters": [
                {"Name": "resource-type", "Values": ["instance"]},
                {"Name": "key", "Values": [NODE_GROUP_TAG]},
                {"Name": "value", "Values": "{% [$states.input.nodeGroup] %}"},
            ],
            "MaxResults": _MOST_TAGS,
        },
    }
    found = {
        "name": "{% $states.input.name %}",
        "nodes": "{% [$states.result.Tags.ResourceId] %}",
        "before": f"{{% {_ENTERED} - {BOOT_MINUTES * 60_000} %}}",
    }
    return {**task_state(find, next_state="Describe"), "Assign": found}


def _describe(partition: str, condition: str) -> dict[str, Any]:
    """The state that finds the address of each node: that of its first interface, if a condition holds for it."""
    chosen = f"$states.input * {_NODES_PER_CALL} <= $at and $at < ($states.input + 1) * {_NODES_PER_CALL}"
    describe = {
        "Resource": sdk_call(partition, "ec2", "describeNetworkInterfaces"),
        "Arguments": {
            "Filters": [
                {
                    "Name": "attachment.instance-id",
                    "Values": f"{{% [$filter($nodes, function($id, $at) {{ {chosen} }})] %}}",
                },
                {"Name": "attachment.device-index", "Values": ["0"]},
            ]
        },
    }
    addresses = f"[$states.result.NetworkInterfaces[{_CARD} = 0]{condition}.PrivateIpAddress]"
    return {
        "Type": "Map",
        "Items": f"{{% [0..$ceil($count($nodes) / {_NODES_PER_CALL}) - 1] %}}",
        "MaxConcurrency": 4,
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "INLINE"},
            "StartAt": "DescribeSome",
            "States": {"DescribeSome": {**task_state(describe), "Output": f"{{% {addresses} %}}"}},
        },
        "Assign": {"addresses": "{% [$sort($reduce($states.result, $append, []))] %}"},
        "Next": "IsAny",
    }


def _change(partition: str, action: str, record: Any) -> dict[str, Any]:
    change = {"Action": action, "ResourceRecordSet": record}
    return {
        "Resource": sdk_call(partition, "route53", "changeResourceRecordSets"),
        "Arguments": {"HostedZoneId": "${Zone}", "ChangeBatch": {"Changes": [change]}},
    }


def _choice(condition: str, then: str, otherwise: str) -> dict[str, Any]:
    return {"Type": "Choice", "Choices": [when(condition, then)], "Default": otherwise}
