"""Rules of files that are imported: what must hold before a cluster file can be made of one."""

from __future__ import annotations

from cdk_gpu_clusters.errors import define_rule

_COMMAND = "gpu-clusters import"

KIND = define_rule(
    "GPU-IMP-001",
    "a file to import is of a tool that the command reads",
    source=f"{_COMMAND}: AWS ParallelCluster 3, eksctl's ClusterConfig, eksctl.io/v1alpha5, and CreateCluster and the "
    "CLI of SageMaker HyperPod",
)
VALUE = define_rule(
    "GPU-IMP-002",
    "a value of a file to import has the type that its tool asks for",
    source="aws-parallelcluster 3.16.1, pcluster/schemas/cluster_schema.py; eksctl-io/eksctl @ 99984ad, "
    "pkg/apis/eksctl.io/v1alpha5/assets/schema.json; botocore 1.44.5, sagemaker service model: CreateCluster",
)
PLACEHOLDER = define_rule(
    "GPU-IMP-003", "a number or an instance type of a file to import is no placeholder", source=_COMMAND
)
NO_FLEET = define_rule(
    "GPU-IMP-004",
    "a file to import has nodes with accelerators",
    source=f"{_COMMAND}: fleets of the cluster file are nodes with GPUs or Neuron devices of the catalogue",
)
SCHEDULER = define_rule(
    "GPU-IMP-005",
    "a ParallelCluster file to import schedules with Slurm",
    source='AWS ParallelCluster user guide, "Scheduling section": slurm and awsbatch; AWS PCS runs Slurm',
)
SLURM_SETTING = define_rule(
    "GPU-IMP-006",
    "a custom Slurm setting of a file to import is one that AWS PCS takes",
    source='AWS PCS user guide, "Configuring custom Slurm settings in AWS PCS", in the catalogue as pcs.json',
)
DEPLOYED = define_rule(
    "GPU-IMP-008",
    "a launch template or Auto Scaling group to import exists, and may be read",
    source="EC2 API reference, DescribeLaunchTemplateVersions; EC2 Auto Scaling API reference, "
    "DescribeAutoScalingGroups",
)
NAME = define_rule(
    "GPU-IMP-007",
    "two groups of nodes to import have different names",
    source="slurm.conf(5), PartitionName; eksctl names stacks after node groups",
)
ORCHESTRATOR = define_rule(
    "GPU-IMP-009",
    "a file to import becomes a cluster of an orchestrator that its tool can be moved to",
    source=f"{_COMMAND}, --to: what the command can write for the tool",
)
TYPE = define_rule(
    "GPU-IMP-010",
    "a group of nodes to import states its instance type",
    source="AWS ParallelCluster user guide, Launch instances with Capacity Blocks (CB): InstanceType is optional with "
    "CapacityReservationId; aws-parallelcluster 3.16.1, SlurmComputeResourceSchema: instance_type_declaration; "
    "eksctl-io/eksctl @ 99984ad, pkg/cfn/builder/managed_nodegroup.go: validateLaunchTemplate; "
    "pkg/apis/eksctl.io/v1alpha5/types.go: InstanceSelector",
)
