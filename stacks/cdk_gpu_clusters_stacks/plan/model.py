"""What a cluster file makes, as plain values: the model that `plan` prints and `report` draws.

Units stand in the names. What no rule and no source knows is None; the `unknown` of the same object then says why, by
the name of the field. Times are ISO 8601 texts in UTC. Everything here becomes JSON by `cli.output.as_json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdk_gpu_clusters.errors import Finding

from .cost_model import ClusterCost
from .fleet_model import FleetPlan
from .kubernetes_model import KubernetesPlan
from .network_model import NetworkPlan
from .store_model import StorePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """One CloudFormation stack of the cluster.

    Attributes:
        name: Name of the stack.
        kind: `network`, `data`, `fabric`, `link`, `kubernetes`, `software`, `capacity`, `fleet` or `inference`.
        of: What it is made for: the key of a store, a fabric or a fleet; empty for the network and the cluster of EKS.
            For a link the store.
        outlives: Whether its data stay when the stack is deleted.
        depends_on: Stacks that are deployed before it.
    """

    name: str
    kind: str
    of: str
    outlives: bool
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All fleets together, at their most nodes.

    Attributes:
        minimum_nodes, maximum_nodes: Nodes of all fleets.
        accelerators: Whole accelerators; a share of one counts as the devices that the system sees.
        accelerator_memory_gib: Memory of all accelerators in GiB.
        mig_slices: MIG slices.
        model_servers: Model servers.
    """

    minimum_nodes: int
    maximum_nodes: int
    accelerators: int
    accelerator_memory_gib: float
    mig_slices: int
    model_servers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What a cluster file makes.

    Attributes:
        name: Name of the cluster.
        region: AWS Region.
        account: AWS account id; None is that of the credentials at deployment.
        orchestrator: What runs jobs on the nodes.
        tags: Tags of every resource.
        network: The network with the use of its addresses.
        kubernetes: The cluster of Amazon EKS that the fleets join; None on plain EC2.
        fleets: Training fleets, then inference fleets, in the order of the file.
        stores: File systems and buckets, in the order of the file.
        stacks: The stacks, in an order in which they can be deployed.
        totals: All fleets together.
        cost: All costs together.
        notes: What is worth knowing about the cluster as a whole, in sentences.
        findings: Warnings and advice of the rules; their paths are keys of the file.
    """

    name: str
    region: str
    account: str | None
    orchestrator: str
    tags: Mapping[str, str] = field(default_factory=dict)
    network: NetworkPlan
    fleets: tuple[FleetPlan, ...]
    stores: tuple[StorePlan, ...]
    stacks: tuple[StackPlan, ...]
    totals: Totals
    cost: ClusterCost
    kubernetes: KubernetesPlan | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
