"""Run with ParallelCluster: the network interfaces that it writes for each type in a JSON list from stdin.

A type has its name, whether EFA is on, the most EFA interfaces, and the cards with the most interfaces of each. The
classes of the CDK, which only hold values here, are replaced, so that no Node starts.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

for name in ("aws_cdk", "aws_cdk.aws_ec2", "aws_cdk.aws_iam", "aws_cdk.aws_logs", "aws_cdk.core", "constructs"):
    sys.modules[name] = MagicMock()

from pcluster.templates import queues_stack  # noqa: E402 - after the classes of the CDK

queues_stack.ec2.CfnLaunchTemplate.NetworkInterfaceProperty = SimpleNamespace


def interfaces(kind: dict[str, Any]) -> list[list[Any]]:
    """Card, device and type of each interface; ENA is None."""
    cards = [
        SimpleNamespace(network_card_index=lambda index=index: index, maximum_network_interfaces=lambda most=most: most)
        for index, most in kind["cards"]
    ]
    queue = SimpleNamespace(networking=SimpleNamespace(assign_public_ip=None, subnet_ids=["subnet"]))
    resource = SimpleNamespace(
        instance_types=[kind["name"]],
        efa=SimpleNamespace(enabled=kind["efa"]),
        network_cards_list=cards,
        max_efa_interfaces=kind["max_efa"],
        max_network_cards=len(cards),
    )
    made = queues_stack.add_network_interfaces(queue, resource, ["sg"])
    return [[one.network_card_index, one.device_index, one.interface_type] for one in made]


json.dump([interfaces(kind) for kind in json.load(sys.stdin)], sys.stdout)
