"""The fleets of an account that run jobs, found by the tags of their Auto Scaling groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import DOCUMENT_TAG, LOG_GROUP_TAG, PARAMETER_TAG

_TAGS = (DOCUMENT_TAG, LOG_GROUP_TAG, PARAMETER_TAG)
# The path of a fleet of a cluster file: the stack's name, which `stack_names.training_stack` makes, and `Fleet`.
_OF_CLUSTER_FILE = re.compile(r"(?P<cluster>.+)-fleet-(?P<fleet>[^/]+)/Fleet")


class NoFleetError(Exception):
    """No fleet, or more than one, has the name; the text lists those that exist."""


@dataclass(frozen=True, kw_only=True)
class JobFleet:
    """A fleet that runs jobs.

    Attributes:
        group: Name of its Auto Scaling group.
        path: Path of the construct in its app, or another name that its owner gave it.
        size: How many nodes its group is to have now.
        nodes: Lifecycle states of its nodes by instance id.
        instance_types: Types of its nodes.
        document: Document of Systems Manager that makes its nodes look for a job.
        parameter: Parameter that holds the newest request.
        log_group: Log group of its nodes.
    """

    group: str
    path: str
    size: int
    nodes: Mapping[str, str]
    instance_types: frozenset[str]
    document: str
    parameter: str
    log_group: str

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called, the shortest first."""
        found = _OF_CLUSTER_FILE.fullmatch(self.path)
        short = (found["fleet"], f"{found['cluster']}/{found['fleet']}") if found else (self.path.rpartition("/")[2],)
        return (*dict.fromkeys((*short, self.path, self.group)),)

    @property
    def in_service(self) -> list[str]:
        """Its nodes that are in service."""
        return [name for name, state in self.nodes.items() if state == "InService"]


def read_fleets(groups: Sequence[Mapping[str, Any]]) -> list[JobFleet]:
    """The fleets among Auto Scaling groups.

    Args:
        groups: As `DescribeAutoScalingGroups` describes them.
    """
    return list(_fleets(groups))


def _fleets(groups: Sequence[Mapping[str, Any]]) -> Iterator[JobFleet]:
    for group in groups:
        tags = {tag["Key"]: tag.get("Value", "") for tag in group.get("Tags", ())}
        if not all(tags.get(name) for name in _TAGS):
            continue
        instances = group.get("Instances", ())
        yield JobFleet(
            group=group["AutoScalingGroupName"],
            path=tags.get("Name") or group["AutoScalingGroupName"],
            size=group.get("DesiredCapacity", 0),
            nodes={one["InstanceId"]: one["LifecycleState"] for one in instances},
            instance_types=frozenset(one["InstanceType"] for one in instances if one.get("InstanceType")),
            document=tags[DOCUMENT_TAG],
            parameter=tags[PARAMETER_TAG],
            log_group=tags[LOG_GROUP_TAG],
        )


def choose_fleet(fleets: Sequence[JobFleet], name: str, *, region: str) -> JobFleet:
    """The fleet of a name: its key in the cluster file, its construct id or path, or its Auto Scaling group.

    Raises:
        NoFleetError: If no fleet, or more than one, has it.
    """
    found = [one for one in fleets if name in one.names]
    if len(found) == 1:
        return found[0]
    if found:
        longer = [one.names[1] if len(one.names) > 1 else one.group for one in found]
        several = ", ".join(sorted(longer if len(set(longer)) == len(found) else (one.group for one in found)))
        raise NoFleetError(f"{len(found)} fleets in {region} are called {name}; say which one: {several}")
    known = ", ".join(sorted(one.names[0] for one in fleets))
    if not known:
        raise NoFleetError(
            f"no fleet in {region} runs jobs. Is it deployed, in this account and Region? Fleets of model servers run "
            "none. Deploy a fleet again if an earlier version of this library deployed it"
        )
    raise NoFleetError(f"no fleet in {region} is called {name}; there are: {known}")
