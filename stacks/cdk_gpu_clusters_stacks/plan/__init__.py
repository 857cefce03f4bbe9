"""What a cluster file makes, seen before it is paid for: the model of `plan` and `report`. Imports no CDK."""

from .against import compare_clusters
from .change_model import Change, Comparison, Effect
from .cluster import plan_cluster
from .cost_model import ClusterCost, FleetCost, PriceUsed, StoreCost, UsdRange
from .fleet_model import (
    CapacityPlan,
    FleetPlan,
    ImagePlan,
    LoadBalancerPlan,
    MountPlan,
    PlacementPlan,
    ServersPlan,
)
from .kubernetes_model import ChartPlan, KubernetesPlan, NodeGroupPlan, SystemNodesPlan
from .model import ClusterPlan, StackPlan, Totals
from .network_model import AddressUse, NetworkPlan, SubnetUse
from .node_model import (
    AcceleratorPlan,
    CardPlan,
    InterfacePlanned,
    LocalDisks,
    MigGpuSlices,
    MigSlice,
    NodeMig,
    NodeNetwork,
    NodePlan,
    RootVolumePlan,
)
from .store_model import CheckpointsPlan, LustrePlan, ReaderPlan, RepositoryPlan, StorePlan

__all__ = [
    "AcceleratorPlan",
    "AddressUse",
    "CapacityPlan",
    "CardPlan",
    "Change",
    "ChartPlan",
    "CheckpointsPlan",
    "ClusterCost",
    "ClusterPlan",
    "Comparison",
    "Effect",
    "FleetCost",
    "FleetPlan",
    "ImagePlan",
    "InterfacePlanned",
    "KubernetesPlan",
    "LoadBalancerPlan",
    "LocalDisks",
    "LustrePlan",
    "MigGpuSlices",
    "MigSlice",
    "MountPlan",
    "NetworkPlan",
    "NodeGroupPlan",
    "NodeMig",
    "NodeNetwork",
    "NodePlan",
    "PlacementPlan",
    "PriceUsed",
    "ReaderPlan",
    "RepositoryPlan",
    "RootVolumePlan",
    "ServersPlan",
    "StackPlan",
    "StoreCost",
    "StorePlan",
    "SubnetUse",
    "SystemNodesPlan",
    "Totals",
    "UsdRange",
    "compare_clusters",
    "plan_cluster",
]
