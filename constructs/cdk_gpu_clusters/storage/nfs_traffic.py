"""Security-group rules between the servers of an NFS file system and its clients."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, define, id_of_group
from cdk_gpu_clusters._template import Resources
from cdk_gpu_clusters.catalogue.homes import HomeService, nfs_ports


class NfsTraffic(ClusterConstruct):
    """Lets the members of one security group mount the NFS file systems of another, and nothing else.

    Security groups are stateful, and the servers start no connection: rules into the servers and out of the clients
    are enough. Every rule is a resource of its own, since CDK drops explicit egress rules from a group with
    `allow_all_outbound=True`.

    Source: FSx for OpenZFS user guide, "File system access control with Amazon VPC"; Amazon EFS user guide, "Security
    considerations for network access".

    Example:
        >>> from cdk_gpu_clusters.catalogue.homes import HomeService
        >>> servers = ec2.SecurityGroup(stack, "Servers", vpc=vpc, allow_all_outbound=False)
        >>> traffic = NfsTraffic(stack, "Traffic", servers=servers, clients=existing_group, service=HomeService.EFS)
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        servers: ec2.ISecurityGroup,
        clients: ec2.ISecurityGroup,
        service: HomeService,
    ) -> None:
        """Define the rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            servers: Group of the file system.
            clients: Group of the nodes.
            service: The service, whose ports are opened.
        """
        super().__init__(scope, construct_id)
        servers_id, clients_id = id_of_group(servers), id_of_group(clients)
        rules: Resources = {}
        for ports in nfs_ports(service):
            what = f"NFS: {ports.protocol.upper()} {ports.first}" + (
                "" if ports.first == ports.last else f"-{ports.last}"
            )
            opened = {"IpProtocol": ports.protocol, "FromPort": ports.first, "ToPort": ports.last}
            key = f"{ports.protocol.title()}{ports.first}"
            rules[f"ServersIn{key}"] = {
                "Type": "AWS::EC2::SecurityGroupIngress",
                "Properties": {
                    "GroupId": servers_id,
                    "SourceSecurityGroupId": clients_id,
                    **opened,
                    "Description": f"{what} from clients",
                },
            }
            rules[f"ClientsOut{key}"] = {
                "Type": "AWS::EC2::SecurityGroupEgress",
                "Properties": {
                    "GroupId": clients_id,
                    "DestinationSecurityGroupId": servers_id,
                    **opened,
                    "Description": f"{what} to the file system",
                },
            }
        define(self, rules)
