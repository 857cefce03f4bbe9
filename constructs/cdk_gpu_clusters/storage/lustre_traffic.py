"""Security-group rules between the servers of an FSx for Lustre file system and its clients."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, define, id_of_group
from cdk_gpu_clusters._template import Resources
from cdk_gpu_clusters.catalogue.lustre import lustre_ports

_ALL_TRAFFIC = "-1"

_BETWEEN_TWO_GROUPS = AcceptedFinding(
    cause="`LustreTraffic`: rules for file systems with EFA",
    reason="EFA traffic needs all traffic between two groups; no address is let in.",
    nist_hipaa_pci=("EC2RestrictedCommonPorts",),
)


class LustreTraffic(ClusterConstruct):
    """Lets two security groups exchange Lustre traffic, in both directions.

    Servers call clients back, so that both ends need ingress and egress: TCP 988 and 1018-1023. With EFA all traffic,
    and always with the group itself as peer: EFA traffic is not IP, and no CIDR rule covers it. Every rule is a
    resource of its own, since CDK drops explicit egress rules from a group with `allow_all_outbound=True`.

    Source: FSx for Lustre user guide, "File system access control with Amazon VPC" and "Working with EFA-enabled file
    systems" (stored copies of 2026).

    Example:
        >>> servers = ec2.SecurityGroup(stack, "Servers", vpc=vpc, allow_all_outbound=False)
        >>> traffic = LustreTraffic(stack, "Traffic", servers=servers, peer=existing_group, efa=False)
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        servers: ec2.ISecurityGroup,
        peer: ec2.ISecurityGroup,
        efa: bool,
        retain: bool = False,
    ) -> None:
        """Define the rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            servers: Group of the file system.
            peer: Group of clients, or the file system's own group for traffic among its servers.
            efa: Whether they exchange EFA traffic.
            retain: Whether the rules stay when the stack is deleted.
        """
        super().__init__(scope, construct_id)
        among = servers is peer
        # A file system is unusable without the rules among its servers, so that these stay with it.
        policy = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"} if retain else {}
        rules = _pair("Servers", servers, peer, efa=efa, name="other servers" if among else "clients")
        if not among:
            rules |= _pair("Clients", peer, servers, efa=efa, name="the file system")
        defined = define(self, {path: {**rule, **policy} for path, rule in rules.items()})
        if efa:
            _BETWEEN_TWO_GROUPS.at(defined.scope)


def _pair(key: str, group: ec2.ISecurityGroup, peer: ec2.ISecurityGroup, *, efa: bool, name: str) -> Resources:
    """One rule in and one rule out for each range of ports, on `group`."""
    group_id, peer_id = id_of_group(group), id_of_group(peer)
    rules: Resources = {}
    ranges = ((None, None),) if efa else lustre_ports()
    for first, last in ranges:
        what = "Lustre over EFA: all traffic" if efa else f"Lustre: TCP {first}-{last}"
        suffix = "All" if efa else str(first)
        ports = {"IpProtocol": _ALL_TRAFFIC if efa else "tcp", "FromPort": first, "ToPort": last}
        rules[f"{key}In{suffix}"] = {
            "Type": "AWS::EC2::SecurityGroupIngress",
            "Properties": {
                "GroupId": group_id,
                "SourceSecurityGroupId": peer_id,
                **ports,
                "Description": f"{what} from {name}",
            },
        }
        rules[f"{key}Out{suffix}"] = {
            "Type": "AWS::EC2::SecurityGroupEgress",
            "Properties": {
                "GroupId": group_id,
                "DestinationSecurityGroupId": peer_id,
                **ports,
                "Description": f"{what} to {name}",
            },
        }
    return rules
