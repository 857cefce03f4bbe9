"""What node groups of Amazon EKS and AWS PCS share: a session, what sizes them to their capacity, and their alarms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import aws_cdk as cdk

from cdk_gpu_clusters._accepted import SILENT_ALARM, UNDELIVERED, AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import define, partition_of, path_in_stack, path_of, region_of, report, stack_of
from cdk_gpu_clusters._template import Resources, logical_id
from cdk_gpu_clusters.compute.alarms import NodeAlarms, alarm_names, node_alarms
from cdk_gpu_clusters.compute.fleet_access import LaunchedFleet
from cdk_gpu_clusters.compute.fleet_request import ResolvedFleet
from cdk_gpu_clusters.compute.metrics import NodeMetrics
from cdk_gpu_clusters.compute.node_records import PLAIN_LOGS
from cdk_gpu_clusters.compute.reconcile import (
    GroupCalls,
    Reconcile,
    followed_ids,
    missing_nodes_alarm,
    reconcile_alarms,
)
from cdk_gpu_clusters.compute.state_machine import shared_resources, undelivered_alarm
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.capacity import CapacityWindow
from cdk_gpu_clusters.rules.fleet import AlarmSettings, check_alarms


class ServiceNodeGroup(LaunchedFleet, NodeMetrics):
    """Nodes that a service of AWS launches from a launch template, into a group of its own."""

    @property
    def fleet_path(self) -> str:
        """Path of the group in the app: its name in the metrics of its nodes."""
        return path_of(self)

    @property
    def session_command(self) -> str:
        """A shell line that opens a Systems Manager session on the first node."""
        region = region_of(stack_of(self))
        filters = " ".join(f"Name=tag:{name},Values={value}" for name, value in self._instance_tags.items())
        instance = (
            f"aws ec2 describe-instances --region {region} --filters {filters} "
            "Name=instance-state-name,Values=running "
            "--query 'Reservations[0].Instances[0].InstanceId' --output text"
        )
        return f'aws ssm start-session --region {region} --target "$({instance})"'

    @property
    def _instance_tags(self) -> Mapping[str, str]:
        """Tags that the service gives the instances of this group, and no others."""
        raise NotImplementedError

    def _reconcile(
        self,
        fleet: ResolvedFleet,
        calls: GroupCalls,
        group: cdk.CfnResource,
        *,
        windows: Sequence[CapacityWindow],
        raises_alarms: bool,
        log_key_arn: str | None,
        after_stack: bool = False,
    ) -> Resources:
        """What keeps the group filled while its capacity lasts, and empties it in time.

        Args:
            fleet: The fleet, whose capacity is reserved or ends.
            calls: The calls of the service.
            group: The group.
            windows: When the group has nodes.
            raises_alarms: Whether there are alarms.
            log_key_arn: Key of the logs; None without one.
            after_stack: Whether a run follows at the end of a deployment, and not when the group is ready.
        """
        plan, stack = fleet.plan, stack_of(self)
        made = Reconcile(
            calls=calls,
            group=group.ref,
            group_id=group.logical_id,
            windows=windows,
            keeps_size=True,
            is_paid=plan.terms.kind.is_reserved,
            fewest=plan.fewest,
            block_group=None,
            reservation_ids=followed_ids(fleet.capacity.terms),
            launch_alarm=None,
            partition=partition_of(stack),
            account=stack.account,
            region=stack.region,
            after_stack=after_stack,
        )
        machine = made.resources()
        shared = shared_resources(machine, name=logical_id(path_in_stack(self)), log_key_arn=log_key_arn)
        if not raises_alarms:
            return {**machine, **shared}
        missing = (
            missing_nodes_alarm(group.ref, ready_timeout_seconds=plan.ready_timeout_seconds) if plan.keeps_size else {}
        )
        return {**machine, **shared, **reconcile_alarms(), **undelivered_alarm(), **missing}

    def _watch(
        self,
        plan: FleetPlan,
        settings: AlarmSettings | None,
        reconcile: Resources,
        group: cdk.CfnResource,
        *,
        accepted: AcceptedFinding,
        group_arns: str,
        before: Collection[str],
    ) -> NodeAlarms | None:
        """Define what sizes the group, and the alarms of its nodes. The launches are the service's own.

        Args:
            plan: What was decided about the fleet.
            settings: Settings of the alarms; None for no alarms.
            reconcile: What sizes the group; empty for nothing.
            group: The group.
            accepted: The finding of policy packs that the policy of the state machine causes.
            group_arns: The group, by the pattern in that policy.
            before: Paths of the resources that must exist before the group.

        Returns:
            The alarms; None if there are none.
        """
        resources = {**reconcile, **self._node_alarms(plan, settings)}
        if not resources:
            return None
        defined = define(self, resources)
        findings = SILENT_ALARM.with_details()
        if reconcile:
            findings += (
                UNDELIVERED.with_details()
                + PLAIN_LOGS.with_details()
                + accepted.with_details("Resource::*", named_resource(self, group_arns))
            )
            group.node.add_dependency(*(defined.resource(path) for path in before))
        findings.at(defined.scope)
        return None if settings is None else NodeAlarms(alarm_names(resources), lambda: defined)

    def _raise_alarms(self, plan: FleetPlan, settings: AlarmSettings | None) -> NodeAlarms | None:
        """Define the alarms of nodes of which nothing here sets the number.

        Args:
            plan: What was decided about the fleet.
            settings: Settings of the alarms; None for no alarms.
        """
        resources = self._node_alarms(plan, settings)
        if not resources:
            return None
        defined = define(self, resources)
        SILENT_ALARM.with_details().at(defined.scope)
        return NodeAlarms(alarm_names(resources), lambda: defined)

    def _node_alarms(self, plan: FleetPlan, settings: AlarmSettings | None) -> Resources:
        if settings is None:
            return {}
        report(self, check_alarms(settings, ready_timeout_seconds=plan.ready_timeout_seconds))
        accelerator = plan.instance_type.accelerator
        has_gpus = accelerator is not None and accelerator.kind == "gpu"
        return node_alarms(path_of(self), settings, has_gpus=has_gpus)
