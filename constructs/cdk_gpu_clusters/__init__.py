"""AWS CDK constructs for GPU clusters.

Names are loaded when they are first used, so that the facts and rules below this package can be imported without
CDK and without Node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdk_gpu_clusters._version import __version__

if TYPE_CHECKING:
    from cdk_gpu_clusters.capacity.capacity import Capacity
    from cdk_gpu_clusters.capacity.capacity_reservation import (
        CapacityReservation,
        CapacityReservationGroup,
        InstanceMatchCriteria,
    )
    from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
    from cdk_gpu_clusters.capacity.training_plan import TrainingPlan
    from cdk_gpu_clusters.catalogue.homes import (
        EfsThroughputMode,
        HomeService,
        OpenZfsCompression,
        OpenZfsDeploymentType,
        QuotaType,
    )
    from cdk_gpu_clusters.catalogue.lustre import LustreDeploymentType, LustreStorageType, LustreVersion
    from cdk_gpu_clusters.compute.alarms import AlarmTopic, FleetAlarms, NodeAlarms
    from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
    from cdk_gpu_clusters.compute.fleet import GpuFleet
    from cdk_gpu_clusters.compute.fleet_access import IGpuFleet
    from cdk_gpu_clusters.compute.fleet_mounts import MountableFileSystem
    from cdk_gpu_clusters.compute.fleet_props import (
        FleetProps,
        GpuFleetProps,
        HardwareProps,
        NodeProps,
        NodeSoftwareProps,
        NodeUserDataProps,
    )
    from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
    from cdk_gpu_clusters.compute.node_image import NodeImage
    from cdk_gpu_clusters.compute.node_role import NodeRole
    from cdk_gpu_clusters.compute.node_user_data import NodeUserData
    from cdk_gpu_clusters.compute.root_volume import RootVolume
    from cdk_gpu_clusters.errors import ConfigError
    from cdk_gpu_clusters.inference.inference_fleet import InferenceFleet, InferenceFleetProps
    from cdk_gpu_clusters.inference.load_balancer import InferenceLoadBalancer
    from cdk_gpu_clusters.inference.model_server import ModelServer, ModelWeights, ServerSecret
    from cdk_gpu_clusters.network.cluster_network import ClusterNetwork
    from cdk_gpu_clusters.network.efa_security_group import EfaSecurityGroup, EfaSelfRules
    from cdk_gpu_clusters.network.egress import NetworkEgress
    from cdk_gpu_clusters.network.endpoint_access import EndpointAccess
    from cdk_gpu_clusters.node.exporters import NodeExporters
    from cdk_gpu_clusters.node.kubernetes_node import EksCluster, NodeConfig, kubectl_part, node_health_rights
    from cdk_gpu_clusters.node.lifecycle_scripts import ExecutionPolicy, LifecycleScript, LifecycleStage, OnError
    from cdk_gpu_clusters.node.mig import FabricManagerOrder
    from cdk_gpu_clusters.node.ray import RayNodes
    from cdk_gpu_clusters.node.settings import FaultSeverity, NodeWatch, UserDataPart, WatchMode
    from cdk_gpu_clusters.node.slurm_settings import cluster_settings
    from cdk_gpu_clusters.node.software import NodeFile
    from cdk_gpu_clusters.node.storage import checkpoint_environment
    from cdk_gpu_clusters.node.users import PosixUser, UserDirectory, UserList, read_users
    from cdk_gpu_clusters.observability.alert_manager import alert_manager_configuration
    from cdk_gpu_clusters.observability.anomalies import CostAnomalyMonitor
    from cdk_gpu_clusters.observability.brake import FleetBrake
    from cdk_gpu_clusters.observability.budget import ClusterBudget
    from cdk_gpu_clusters.observability.collector import WorkspaceRoles
    from cdk_gpu_clusters.observability.dashboard import ClusterDashboard
    from cdk_gpu_clusters.observability.eks_scraper import EksMetricsScraper
    from cdk_gpu_clusters.observability.eks_targets import EKS_POD_TARGETS, eks_scrape_configuration
    from cdk_gpu_clusters.observability.exporter_panels import exporter_rows
    from cdk_gpu_clusters.observability.grafana_dashboard import grafana_dashboard
    from cdk_gpu_clusters.observability.grafana_workspace import GrafanaAuthentication, GrafanaWorkspace
    from cdk_gpu_clusters.observability.model_controllers import ArgoRollouts, Keda
    from cdk_gpu_clusters.observability.panels import (
        DashboardFileSystem,
        DashboardFleet,
        plan_prometheus_dashboard,
    )
    from cdk_gpu_clusters.observability.prometheus_rules import PrometheusRules, prometheus_rules
    from cdk_gpu_clusters.observability.scraper import MetricsScraper, ScrapedFleet, ScrapedNodeGroup
    from cdk_gpu_clusters.observability.targets import Exporter, scrape_configuration
    from cdk_gpu_clusters.observability.workspace import IMetricsWorkspace, MetricsWorkspace
    from cdk_gpu_clusters.orchestration.batch.compute_environment import (
        BatchComputeEnvironment,
        BatchComputeEnvironmentProps,
        IBatchComputeEnvironment,
    )
    from cdk_gpu_clusters.orchestration.batch.multi_node_job import BatchMultiNodeJob
    from cdk_gpu_clusters.orchestration.batch.queue import BatchJobQueue, IBatchJobQueue
    from cdk_gpu_clusters.orchestration.eks.add_ons import ContainerInsights
    from cdk_gpu_clusters.orchestration.eks.cluster import EksGpuCluster
    from cdk_gpu_clusters.orchestration.eks.cluster_autoscaler import ClusterAutoscaler
    from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
    from cdk_gpu_clusters.orchestration.eks.gateways import ExternalDns, LoadBalancerController
    from cdk_gpu_clusters.orchestration.eks.karpenter import IKarpenter, Karpenter
    from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
    from cdk_gpu_clusters.orchestration.eks.node_pool import EksGpuNodePool
    from cdk_gpu_clusters.orchestration.eks.node_role import EksNodeRole
    from cdk_gpu_clusters.orchestration.eks.nodes import EksGpuNodeGroupProps
    from cdk_gpu_clusters.orchestration.eks.software import KubernetesSoftware
    from cdk_gpu_clusters.orchestration.hyperpod.cluster import AccountingDatabase, HyperPodCluster
    from cdk_gpu_clusters.orchestration.hyperpod.cluster_base import IHyperPodCluster
    from cdk_gpu_clusters.orchestration.hyperpod.governance import (
        HyperPodSchedulerConfig,
        HyperPodTeamQuota,
        ResourceSharing,
    )
    from cdk_gpu_clusters.orchestration.hyperpod.instance_group import (
        DeepHealthCheck,
        HyperPodInstanceGroup,
        HyperPodInstanceGroupProps,
        HyperPodTaint,
        SlurmNodeType,
    )
    from cdk_gpu_clusters.orchestration.hyperpod.role import HyperPodRole
    from cdk_gpu_clusters.orchestration.parallelcluster.cluster import ParallelCluster, ParallelClusterProvider
    from cdk_gpu_clusters.orchestration.pcs.cluster import PcsCluster, PcsLog
    from cdk_gpu_clusters.orchestration.pcs.cluster_base import IPcsCluster
    from cdk_gpu_clusters.orchestration.pcs.login import PcsLoginNodes
    from cdk_gpu_clusters.orchestration.pcs.node_group import PcsNodeGroup, PcsNodeGroupProps
    from cdk_gpu_clusters.orchestration.pcs.node_role import PcsNodeRole
    from cdk_gpu_clusters.orchestration.pcs.queue import PcsQueue
    from cdk_gpu_clusters.rules.batch import BatchAllocationStrategy, BlockedReason
    from cdk_gpu_clusters.rules.data_repository import DataRepositoryEvent
    from cdk_gpu_clusters.rules.endpoints import NetworkFeature
    from cdk_gpu_clusters.rules.fleet import AlarmSettings
    from cdk_gpu_clusters.rules.gres import GresMode
    from cdk_gpu_clusters.rules.homes import EfsHomes, HomeQuota, OpenZfsHomes
    from cdk_gpu_clusters.rules.hyperpod import QuotaResource
    from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator
    from cdk_gpu_clusters.rules.kubernetes_labels import NodeTaint
    from cdk_gpu_clusters.rules.lustre import LustreSizing, MetadataMode, ReadCacheMode
    from cdk_gpu_clusters.rules.mig import MigLayout, MigStrategy
    from cdk_gpu_clusters.rules.model_servers import ServerSlots
    from cdk_gpu_clusters.rules.node_group import NodeRepair, RepairAction, RepairOverride
    from cdk_gpu_clusters.rules.pcs import ClusterSize
    from cdk_gpu_clusters.rules.placement import PlacementStrategy
    from cdk_gpu_clusters.rules.scrape import PodTarget, ScrapeTarget
    from cdk_gpu_clusters.storage.checkpoint_store import CheckpointStore
    from cdk_gpu_clusters.storage.cold_files import ColdFileRelease
    from cdk_gpu_clusters.storage.home_store import HomeStore
    from cdk_gpu_clusters.storage.home_store_base import IHomeStore
    from cdk_gpu_clusters.storage.lustre_store import LustreStore
    from cdk_gpu_clusters.storage.lustre_store_base import ILustreStore
    from cdk_gpu_clusters.template_rules.plugin import GpuClusterRules
else:
    _EXPORTS = {
        "AccountingDatabase": "orchestration.hyperpod.cluster",
        "AlarmSettings": "rules.fleet",
        "AlarmTopic": "compute.alarms",
        "ArgoRollouts": "observability.model_controllers",
        "BatchAllocationStrategy": "rules.batch",
        "BatchComputeEnvironment": "orchestration.batch.compute_environment",
        "BatchComputeEnvironmentProps": "orchestration.batch.compute_environment",
        "BatchJobQueue": "orchestration.batch.queue",
        "BatchMultiNodeJob": "orchestration.batch.multi_node_job",
        "BlockedReason": "rules.batch",
        "Capacity": "capacity.capacity",
        "CapacityReservation": "capacity.capacity_reservation",
        "CapacityReservationGroup": "capacity.capacity_reservation",
        "CheckpointStore": "storage.checkpoint_store",
        "ClusterAutoscaler": "orchestration.eks.cluster_autoscaler",
        "ClusterBudget": "observability.budget",
        "ClusterDashboard": "observability.dashboard",
        "ClusterNetwork": "network.cluster_network",
        "ClusterPlacementGroup": "capacity.placement_group",
        "ClusterSize": "rules.pcs",
        "ColdFileRelease": "storage.cold_files",
        "ConfigError": "errors",
        "ContainerInsights": "orchestration.eks.add_ons",
        "CostAnomalyMonitor": "observability.anomalies",
        "DashboardFileSystem": "observability.panels",
        "DashboardFleet": "observability.panels",
        "DataRepositoryEvent": "rules.data_repository",
        "DeepHealthCheck": "orchestration.hyperpod.instance_group",
        "EKS_POD_TARGETS": "observability.eks_targets",
        "EfaSecurityGroup": "network.efa_security_group",
        "EfaSelfRules": "network.efa_security_group",
        "EfsHomes": "rules.homes",
        "EfsThroughputMode": "catalogue.homes",
        "EksCluster": "node.kubernetes_node",
        "EksGpuCluster": "orchestration.eks.cluster",
        "EksGpuNodeGroup": "orchestration.eks.node_group",
        "EksGpuNodeGroupProps": "orchestration.eks.nodes",
        "EksGpuNodePool": "orchestration.eks.node_pool",
        "EksMetricsScraper": "observability.eks_scraper",
        "EksNodeRole": "orchestration.eks.node_role",
        "EndpointAccess": "network.endpoint_access",
        "ExecutionPolicy": "node.lifecycle_scripts",
        "Exporter": "observability.targets",
        "ExternalDns": "orchestration.eks.gateways",
        "FabricManagerOrder": "node.mig",
        "FaultSeverity": "node.settings",
        "FleetAlarms": "compute.alarms",
        "FleetBrake": "observability.brake",
        "FleetProps": "compute.fleet_props",
        "GpuClusterRules": "template_rules.plugin",
        "GpuFleet": "compute.fleet",
        "GpuFleetProps": "compute.fleet_props",
        "GpuLaunchTemplate": "compute.launch_template",
        "GrafanaAuthentication": "observability.grafana_workspace",
        "GrafanaWorkspace": "observability.grafana_workspace",
        "GresMode": "rules.gres",
        "HardwareProps": "compute.fleet_props",
        "HomeQuota": "rules.homes",
        "HomeService": "catalogue.homes",
        "HomeStore": "storage.home_store",
        "HyperPodCluster": "orchestration.hyperpod.cluster",
        "HyperPodInstanceGroup": "orchestration.hyperpod.instance_group",
        "HyperPodInstanceGroupProps": "orchestration.hyperpod.instance_group",
        "HyperPodRole": "orchestration.hyperpod.role",
        "HyperPodSchedulerConfig": "orchestration.hyperpod.governance",
        "HyperPodTaint": "orchestration.hyperpod.instance_group",
        "HyperPodTeamQuota": "orchestration.hyperpod.governance",
        "IBatchComputeEnvironment": "orchestration.batch.compute_environment",
        "IBatchJobQueue": "orchestration.batch.queue",
        "IEksGpuCluster": "orchestration.eks.cluster_base",
        "IGpuFleet": "compute.fleet_access",
        "IHomeStore": "storage.home_store_base",
        "IHyperPodCluster": "orchestration.hyperpod.cluster_base",
        "IKarpenter": "orchestration.eks.karpenter",
        "ILustreStore": "storage.lustre_store_base",
        "IMetricsWorkspace": "observability.workspace",
        "IPcsCluster": "orchestration.pcs.cluster_base",
        "InferenceFleet": "inference.inference_fleet",
        "InferenceFleetProps": "inference.inference_fleet",
        "InferenceLoadBalancer": "inference.load_balancer",
        "InstanceMatchCriteria": "capacity.capacity_reservation",
        "InterfacePolicy": "rules.interfaces",
        "Karpenter": "orchestration.eks.karpenter",
        "Keda": "observability.model_controllers",
        "KubernetesSoftware": "orchestration.eks.software",
        "LifecycleScript": "node.lifecycle_scripts",
        "LifecycleStage": "node.lifecycle_scripts",
        "LoadBalancerController": "orchestration.eks.gateways",
        "LustreDeploymentType": "catalogue.lustre",
        "LustreSizing": "rules.lustre",
        "LustreStorageType": "catalogue.lustre",
        "LustreStore": "storage.lustre_store",
        "LustreVersion": "catalogue.lustre",
        "MetadataMode": "rules.lustre",
        "MetricsScraper": "observability.scraper",
        "MetricsWorkspace": "observability.workspace",
        "MigLayout": "rules.mig",
        "MigStrategy": "rules.mig",
        "ModelServer": "inference.model_server",
        "ModelWeights": "inference.model_server",
        "MountableFileSystem": "compute.fleet_mounts",
        "NetworkEgress": "network.egress",
        "NetworkFeature": "rules.endpoints",
        "NodeAlarms": "compute.alarms",
        "NodeConfig": "node.kubernetes_node",
        "NodeExporters": "node.exporters",
        "NodeFile": "node.software",
        "NodeImage": "compute.node_image",
        "NodeProps": "compute.fleet_props",
        "NodeRepair": "rules.node_group",
        "NodeRole": "compute.node_role",
        "NodeSoftwareProps": "compute.fleet_props",
        "NodeTaint": "rules.kubernetes_labels",
        "NodeUserData": "compute.node_user_data",
        "NodeUserDataProps": "compute.fleet_props",
        "NodeWatch": "node.settings",
        "OnError": "node.lifecycle_scripts",
        "OpenZfsCompression": "catalogue.homes",
        "OpenZfsDeploymentType": "catalogue.homes",
        "OpenZfsHomes": "rules.homes",
        "Orchestrator": "rules.interfaces",
        "ParallelCluster": "orchestration.parallelcluster.cluster",
        "ParallelClusterProvider": "orchestration.parallelcluster.cluster",
        "PcsCluster": "orchestration.pcs.cluster",
        "PcsLog": "orchestration.pcs.cluster",
        "PcsLoginNodes": "orchestration.pcs.login",
        "PcsNodeGroup": "orchestration.pcs.node_group",
        "PcsNodeGroupProps": "orchestration.pcs.node_group",
        "PcsNodeRole": "orchestration.pcs.node_role",
        "PcsQueue": "orchestration.pcs.queue",
        "PlacementStrategy": "rules.placement",
        "PodTarget": "rules.scrape",
        "PosixUser": "node.users",
        "PrometheusRules": "observability.prometheus_rules",
        "QuotaResource": "rules.hyperpod",
        "QuotaType": "catalogue.homes",
        "RayNodes": "node.ray",
        "ReadCacheMode": "rules.lustre",
        "RepairAction": "rules.node_group",
        "RepairOverride": "rules.node_group",
        "ResourceSharing": "orchestration.hyperpod.governance",
        "RootVolume": "compute.root_volume",
        "ScrapeTarget": "rules.scrape",
        "ScrapedFleet": "observability.scraper",
        "ScrapedNodeGroup": "observability.scraper",
        "ServerSecret": "inference.model_server",
        "ServerSlots": "rules.model_servers",
        "SlurmNodeType": "orchestration.hyperpod.instance_group",
        "TrainingPlan": "capacity.training_plan",
        "UpdatePolicy": "compute.auto_scaling_group",
        "UserDataPart": "node.settings",
        "UserDirectory": "node.users",
        "UserList": "node.users",
        "WatchMode": "node.settings",
        "WorkspaceRoles": "observability.collector",
        "alert_manager_configuration": "observability.alert_manager",
        "checkpoint_environment": "node.storage",
        "cluster_settings": "node.slurm_settings",
        "eks_scrape_configuration": "observability.eks_targets",
        "exporter_rows": "observability.exporter_panels",
        "grafana_dashboard": "observability.grafana_dashboard",
        "kubectl_part": "node.kubernetes_node",
        "node_health_rights": "node.kubernetes_node",
        "plan_prometheus_dashboard": "observability.panels",
        "prometheus_rules": "observability.prometheus_rules",
        "read_users": "node.users",
        "scrape_configuration": "observability.targets",
    }

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _EXPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
        except ModuleNotFoundError as fault:
            if fault.name not in ("aws_cdk", "constructs", "jsii"):
                raise
            raise ImportError("constructs need CDK: pip install cdk-gpu-clusters") from None


__all__ = [
    "EKS_POD_TARGETS",
    "AccountingDatabase",
    "AlarmSettings",
    "AlarmTopic",
    "ArgoRollouts",
    "BatchAllocationStrategy",
    "BatchComputeEnvironment",
    "BatchComputeEnvironmentProps",
    "BatchJobQueue",
    "BatchMultiNodeJob",
    "BlockedReason",
    "Capacity",
    "CapacityReservation",
    "CapacityReservationGroup",
    "CheckpointStore",
    "ClusterAutoscaler",
    "ClusterBudget",
    "ClusterDashboard",
    "ClusterNetwork",
    "ClusterPlacementGroup",
    "ClusterSize",
    "ColdFileRelease",
    "ConfigError",
    "ContainerInsights",
    "CostAnomalyMonitor",
    "DashboardFileSystem",
    "DashboardFleet",
    "DataRepositoryEvent",
    "DeepHealthCheck",
    "EfaSecurityGroup",
    "EfaSelfRules",
    "EfsHomes",
    "EfsThroughputMode",
    "EksCluster",
    "EksGpuCluster",
    "EksGpuNodeGroup",
    "EksGpuNodeGroupProps",
    "EksGpuNodePool",
    "EksMetricsScraper",
    "EksNodeRole",
    "EndpointAccess",
    "ExecutionPolicy",
    "Exporter",
    "ExternalDns",
    "FabricManagerOrder",
    "FaultSeverity",
    "FleetAlarms",
    "FleetBrake",
    "FleetProps",
    "GpuClusterRules",
    "GpuFleet",
    "GpuFleetProps",
    "GpuLaunchTemplate",
    "GrafanaAuthentication",
    "GrafanaWorkspace",
    "GresMode",
    "HardwareProps",
    "HomeQuota",
    "HomeService",
    "HomeStore",
    "HyperPodCluster",
    "HyperPodInstanceGroup",
    "HyperPodInstanceGroupProps",
    "HyperPodRole",
    "HyperPodSchedulerConfig",
    "HyperPodTaint",
    "HyperPodTeamQuota",
    "IBatchComputeEnvironment",
    "IBatchJobQueue",
    "IEksGpuCluster",
    "IGpuFleet",
    "IHomeStore",
    "IHyperPodCluster",
    "IKarpenter",
    "ILustreStore",
    "IMetricsWorkspace",
    "IPcsCluster",
    "InferenceFleet",
    "InferenceFleetProps",
    "InferenceLoadBalancer",
    "InstanceMatchCriteria",
    "InterfacePolicy",
    "Karpenter",
    "Keda",
    "KubernetesSoftware",
    "LifecycleScript",
    "LifecycleStage",
    "LoadBalancerController",
    "LustreDeploymentType",
    "LustreSizing",
    "LustreStorageType",
    "LustreStore",
    "LustreVersion",
    "MetadataMode",
    "MetricsScraper",
    "MetricsWorkspace",
    "MigLayout",
    "MigStrategy",
    "ModelServer",
    "ModelWeights",
    "MountableFileSystem",
    "NetworkEgress",
    "NetworkFeature",
    "NodeAlarms",
    "NodeConfig",
    "NodeExporters",
    "NodeFile",
    "NodeImage",
    "NodeProps",
    "NodeRepair",
    "NodeRole",
    "NodeSoftwareProps",
    "NodeTaint",
    "NodeUserData",
    "NodeUserDataProps",
    "NodeWatch",
    "OnError",
    "OpenZfsCompression",
    "OpenZfsDeploymentType",
    "OpenZfsHomes",
    "Orchestrator",
    "ParallelCluster",
    "ParallelClusterProvider",
    "PcsCluster",
    "PcsLog",
    "PcsLoginNodes",
    "PcsNodeGroup",
    "PcsNodeGroupProps",
    "PcsNodeRole",
    "PcsQueue",
    "PlacementStrategy",
    "PodTarget",
    "PosixUser",
    "PrometheusRules",
    "QuotaResource",
    "QuotaType",
    "RayNodes",
    "ReadCacheMode",
    "RepairAction",
    "RepairOverride",
    "ResourceSharing",
    "RootVolume",
    "ScrapeTarget",
    "ScrapedFleet",
    "ScrapedNodeGroup",
    "ServerSecret",
    "ServerSlots",
    "SlurmNodeType",
    "TrainingPlan",
    "UpdatePolicy",
    "UserDataPart",
    "UserDirectory",
    "UserList",
    "WatchMode",
    "WorkspaceRoles",
    "__version__",
    "alert_manager_configuration",
    "checkpoint_environment",
    "cluster_settings",
    "eks_scrape_configuration",
    "exporter_rows",
    "grafana_dashboard",
    "kubectl_part",
    "node_health_rights",
    "plan_prometheus_dashboard",
    "prometheus_rules",
    "read_users",
    "scrape_configuration",
]
