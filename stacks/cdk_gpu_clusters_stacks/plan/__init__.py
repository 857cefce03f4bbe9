"""What a cluster file makes, seen before it is paid for: the model of `plan` and `report`. Imports no CDK."""

from ._dashboard import scraped_fleets, scraped_rows
from .changes import Change, Comparison, Effect, compare_clusters
from .cluster import plan_cluster
from .model import ClusterPlan

__all__ = [
    "Change",
    "ClusterPlan",
    "Comparison",
    "Effect",
    "compare_clusters",
    "plan_cluster",
    "scraped_fleets",
    "scraped_rows",
]
