"""The security group of an EFA fabric."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, id_of_group
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.fabric import EFA_IN, EFA_OUT, check_fabric

ALL_TRAFFIC = "-1"

_WITHIN_THE_GROUP = AcceptedFinding(
    cause="`EfaSecurityGroup`, `EfaSelfRules`: ingress rule",
    reason="EFA needs all traffic within the group; the only peer of the rule is the group itself, no address.",
    nist_hipaa_pci=("EC2RestrictedCommonPorts",),
)


class EfaSelfRules(ClusterConstruct):
    """Two rules that let a security group exchange EFA traffic with itself: all traffic in, all traffic out.

    EFA traffic is not IP: no CIDR rule covers it, not even 0.0.0.0/0, so that the group itself must be the peer in
    both directions. They are resources of their own because an inline self reference is circular, and because CDK
    drops explicit egress rules from a group with `allow_all_outbound=True`.

    Source: AWS EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads on Amazon EC2"; aws/aws-cdk 38558.

    Example:
        >>> rules = EfaSelfRules(stack, "Rules", security_group=existing_group)
    """

    def __init__(self, scope: Construct, construct_id: str, *, security_group: ec2.ISecurityGroup) -> None:
        """Define the rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            security_group: The group, made here or imported.
        """
        super().__init__(scope, construct_id)
        group_id = id_of_group(security_group)
        self.ingress: ec2.CfnSecurityGroupIngress = ec2.CfnSecurityGroupIngress(
            self,
            "Ingress",
            group_id=group_id,
            source_security_group_id=group_id,
            ip_protocol=ALL_TRAFFIC,
            description=EFA_IN,
        )
        _WITHIN_THE_GROUP.at(self.ingress)
        self.egress: ec2.CfnSecurityGroupEgress = ec2.CfnSecurityGroupEgress(
            self,
            "Egress",
            group_id=group_id,
            destination_security_group_id=group_id,
            ip_protocol=ALL_TRAFFIC,
            description=EFA_OUT,
        )


class EfaSecurityGroup(ec2.SecurityGroup):
    """A security group whose members exchange EFA traffic, and reach the network as usual.

    Makes the group, a self ingress rule, a self egress rule, and ordinary egress to everywhere. It is an ordinary
    `ec2.SecurityGroup` (and `ec2.ISecurityGroup`) in every other respect: `connections`, `add_ingress_rule`.

    An existing group is imported with `ec2.SecurityGroup.from_security_group_id`; if it lacks the self rules, add
    them with `EfaSelfRules`.

    Example:
        >>> fabric = EfaSecurityGroup(stack, "Fabric", vpc=vpc)
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        description: str = "EFA fabric: members exchange all traffic",
        allow_all_outbound: bool = True,
    ) -> None:
        """Define the group.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network of the group; EFA traffic never leaves it.
            description: Shown in EC2. A change replaces the group.
            allow_all_outbound: Whether IP traffic may go anywhere. Without it nodes reach only what further egress
                rules name (Systems Manager, S3, package mirrors); the self egress rule stays either way.
        """
        super().__init__(scope, construct_id, vpc=vpc, description=description, allow_all_outbound=allow_all_outbound)
        self.self_rules: EfaSelfRules = EfaSelfRules(self, "SelfRules", security_group=self)
        self._types: list[InstanceType] = []

    def admit(self, instance_type: InstanceType) -> list[Finding]:
        """Note that nodes of a type join the fabric, and find types that cannot exchange EFA traffic with it.

        Args:
            instance_type: Type of the nodes.

        Returns:
            GPU-FAB-001 where P4d, P4de or DL1 meet other types; a warning where they meet each other.
        """
        self._types.append(instance_type)
        return check_fabric(self._types)
