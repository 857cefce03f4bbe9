"""Faults that cost money."""

from __future__ import annotations

from recorded_templates import Json, copy_of
from rule_mutation import RuleMutation, without

TEMPLATE = "AWS::EC2::LaunchTemplate"
NODE = "g6-dev-node/dev-fleet-dev"


def without_tags(template: Json) -> None:
    for resource in template["Resources"].values():
        if resource["Type"] == TEMPLATE:
            del resource["Properties"]["LaunchTemplateData"]["TagSpecifications"]
        if resource["Type"] == "AWS::AutoScaling::AutoScalingGroup":
            del resource["Properties"]["Tags"]


drop_endpoint = without("AWS::EC2::VPCEndpoint", lambda properties: properties.get("VpcEndpointType") == "Gateway")


def with_node(template: Json) -> None:
    """Our network stands in a stack of its own: a template with a GPU node, too, says what the network is for."""
    template["Resources"]["Nodes"] = next(
        resource for resource in copy_of(NODE)["Resources"].values() if resource["Type"] == TEMPLATE
    )
    nodes = template["Resources"]["Nodes"]["Properties"]["LaunchTemplateData"]
    template["Resources"]["Nodes"]["Properties"]["LaunchTemplateData"] = {
        key: nodes[key] for key in ("InstanceType", "MetadataOptions", "TagSpecifications")
    }


def with_nodes_and_no_endpoint(template: Json) -> None:
    drop_endpoint(template)
    with_node(template)


MUTATIONS = (
    RuleMutation(rule="GPU-COST-001", template=NODE, change_template=without_tags),
    RuleMutation(rule="GPU-COST-003", template="cluster_network/minimal", change_template=with_nodes_and_no_endpoint),
)
