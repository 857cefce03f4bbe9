"""What a changed key of the cluster file changes: declared at each key, and read by `plan --against`.

    flow_logs: Annotated[bool, makes(Resource.FLOW_LOG)] = Field(default=True, ...)

A model whose keys declare nothing is compared as one value, by the key that holds it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from pydantic.fields import FieldInfo

from ._base import SpecModel


class Resource(Enum):
    """A resource of a template, or several that change together, by its part in the cluster."""

    #: All stacks: they get other names, or another place.
    STACKS = auto()
    #: Tags of all resources of a stack.
    TAGS = auto()

    VPC = auto()
    FLEET_SUBNET = auto()
    ZONE_SUBNETS = auto()
    NAT_GATEWAY = auto()
    ENDPOINTS = auto()
    #: What the endpoints of a closed network carry.
    ENDPOINT_POLICIES = auto()
    #: Endpoints that some orchestrators, their software or a store need.
    MORE_ENDPOINTS = auto()
    FLOW_LOG = auto()

    FILE_SYSTEM = auto()
    #: File systems of home directories.
    OPENZFS = auto()
    EFS = auto()
    S3_LINK = auto()
    BUCKET = auto()
    DIRECTORY_BUCKET = auto()

    FABRIC_GROUP = auto()
    LINK_RULES = auto()

    CONTROL_PLANE = auto()
    ADMINS = auto()
    SYSTEM_NODES = auto()
    SYSTEM_TEMPLATE = auto()
    SOFTWARE = auto()
    #: Karpenter itself: its role, its queue of notices and its chart.
    KARPENTER = auto()
    #: Roles of what serves models in the cluster: of load balancers, of names, of their number and of new versions.
    BALANCER_ROLE = auto()
    NAMES_ROLE = auto()
    SCALER_ROLE = auto()
    CANARY_ROLE = auto()

    #: The cluster of AWS PCS, and what is in it beside the fleets.
    SLURM_CLUSTER = auto()
    LOGIN_NODES = auto()
    LOGIN_TEMPLATE = auto()
    LOGIN_SECURITY_GROUP = auto()
    LOGIN_MOUNT_RULES = auto()
    QUEUE = auto()
    #: The queue of a single fleet, in its stack.
    FLEET_QUEUE = auto()
    #: The configuration of AWS ParallelCluster, which is in a template only with the custom resource.
    CONFIGURATION = auto()
    #: The cluster of AWS ParallelCluster as a custom resource, and the stack of its function.
    CLUSTER_RESOURCE = auto()
    CLUSTER_PROVIDER = auto()

    #: The cluster of SageMaker HyperPod: what its instance groups share.
    HYPERPOD_CLUSTER = auto()

    RESERVATION = auto()
    RESERVED_PLACEMENT = auto()

    #: All that a fleet consists of: another orchestrator makes it anew.
    FLEET = auto()
    EC2_TEMPLATE = auto()
    EKS_TEMPLATE = auto()
    PCS_TEMPLATE = auto()
    BATCH_TEMPLATE = auto()
    AUTO_SCALING_GROUP = auto()
    NODE_GROUP = auto()
    #: What EKS cannot change of a node group: with another one it is another node group.
    NODE_GROUP_IDENTITY = auto()
    #: The objects of Karpenter in the place of a launch template and a node group.
    NODE_POOL = auto()
    COMPUTE_NODE_GROUP = auto()
    COMPUTE_ENVIRONMENT = auto()
    JOB_QUEUE = auto()
    JOB_DEFINITION = auto()
    #: The part of a HyperPod cluster that is a fleet, with its lifecycle script.
    INSTANCE_GROUP = auto()
    NODE_ROLE = auto()
    PLACEMENT_GROUP = auto()
    #: What grows a fleet when its block is delivered, and drains it before the end.
    BLOCK_FOLLOWER = auto()
    #: The resource group of a fleet with several blocks.
    BLOCK_GROUP = auto()
    RESERVATION_GROUP = auto()
    FLEET_SECURITY_GROUP = auto()
    MOUNT_RULES = auto()
    ALARMS = auto()
    ALARM_TOPIC = auto()
    ALARM_MUTE = auto()
    LAUNCH_STOP = auto()

    LOAD_BALANCER = auto()
    BALANCER_SECURITY_GROUP = auto()
    LISTENER = auto()
    TARGET_GROUP = auto()
    SCALING_POLICY = auto()
    ACCESS_LOGS = auto()

    DASHBOARD = auto()
    #: The collector of metrics, and what is made with it.
    SCRAPER = auto()
    SCRAPER_GROUP = auto()
    NODE_ADDRESSES = auto()
    METRICS_ZONE = auto()
    METRICS_WORKSPACE = auto()
    GRAFANA = auto()
    BUDGET = auto()
    BUDGET_TOPIC = auto()
    BUDGET_ADDRESSES = auto()
    BRAKE = auto()


#: The launch template of a fleet under any orchestrator.
TEMPLATES = (Resource.EC2_TEMPLATE, Resource.EKS_TEMPLATE, Resource.PCS_TEMPLATE, Resource.BATCH_TEMPLATE)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a key changes.

    Attributes:
        updates: Resources that change in place.
        replaces: Resources that are replaced.
        makes: Resources that the key adds and removes.
        with_key: Name of the key, beside this one or above it, by which a change of this one is compared and reported.
    """

    updates: frozenset[Resource] = frozenset()
    replaces: frozenset[Resource] = frozenset()
    makes: frozenset[Resource] = frozenset()
    with_key: str = ""

    def reaches(self, resource: Resource) -> bool:
        """Whether a resource is among those that the key changes."""
        return resource in self.updates | self.replaces | self.makes


#: A key that changes no template by itself.
NO_CHANGE = Changes()


def updates(*resources: Resource) -> Changes:
    """Declare resources that a key changes in place."""
    return Changes(updates=frozenset(resources))


def replaces(*resources: Resource) -> Changes:
    """Declare resources that a changed key replaces."""
    return Changes(replaces=frozenset(resources))


def makes(*resources: Resource) -> Changes:
    """Declare resources that a key adds and removes."""
    return Changes(makes=frozenset(resources))


def changes_with(key: str) -> Changes:
    """Declare that a change of this key is compared and reported by another key, beside this one or above it."""
    return Changes(with_key=key)


@dataclass(frozen=True, slots=True)
class ChangingKey:
    """A key of a cluster file, such as `training.fleets.trainers.mounts`, its value, and what it changes."""

    key: str
    value: object
    changes: Changes


def changes_of(field: FieldInfo) -> Changes | None:
    """What a field declares; None if it declares nothing."""
    declared = [one for one in field.metadata if isinstance(one, Changes)]
    if not declared:
        return None
    return Changes(
        updates=frozenset[Resource]().union(*(one.updates for one in declared)),
        replaces=frozenset[Resource]().union(*(one.replaces for one in declared)),
        makes=frozenset[Resource]().union(*(one.makes for one in declared)),
        with_key=declared[0].with_key,
    )


def changing_keys(model: SpecModel, entries: Container[str], key: str = "") -> Iterator[ChangingKey]:
    """The keys of a cluster file, or of a part of it, that change something.

    Args:
        entries: Names of the fleets and stores to look into.
    """
    for name, field in type(model).model_fields.items():
        made, value = changes_of(field), getattr(model, name)
        path = f"{key}.{name}" if key else name
        if made is None or made.with_key:
            continue
        yield ChangingKey(path, value, made)
        if isinstance(value, SpecModel):
            yield from changing_keys(value, entries, path)
        elif isinstance(value, Mapping):
            for entry, part in value.items():
                if isinstance(part, SpecModel) and entry in entries:
                    yield from changing_keys(part, entries, f"{path}.{entry}")
