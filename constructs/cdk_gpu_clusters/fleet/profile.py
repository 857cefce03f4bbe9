"""What each orchestrator takes, forbids and does by itself, as data: a new orchestrator is a new row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from cdk_gpu_clusters.catalogue.images import ImagePurpose, OperatingSystem
from cdk_gpu_clusters.node.kubernetes_node import ADDED_BY_EKS_BYTES
from cdk_gpu_clusters.node.user_data import ADDED_BY_BATCH_BYTES, ADDED_BY_PCS_BYTES
from cdk_gpu_clusters.rules.fleet import DEFAULT_SIZE_GIB
from cdk_gpu_clusters.rules.interfaces import Orchestrator


class ImageChoice(str, Enum):
    """Who chooses the machine image of the nodes.

    Attributes:
        LIBRARY: This library, from the catalogue, if you name none.
        ORCHESTRATOR: The service, if the launch template names none.
        REQUEST: You: nothing else names an image.
    """

    LIBRARY = "library"
    ORCHESTRATOR = "orchestrator"
    REQUEST = "request"


class GroupKind(str, Enum):
    """What makes the nodes of a fleet one group, launches them, and replaces them.

    Attributes:
        AUTO_SCALING_GROUP: An Auto Scaling group of this library.
        NODE_GROUP: A managed node group of Amazon EKS, which has an Auto Scaling group of its own.
        COMPUTE_NODE_GROUP: A compute node group of AWS PCS.
        SLURM_QUEUE: A queue of AWS ParallelCluster.
        COMPUTE_ENVIRONMENT: A compute environment of AWS Batch.
        INSTANCE_GROUP: An instance group of SageMaker HyperPod.
    """

    AUTO_SCALING_GROUP = "auto-scaling-group"
    NODE_GROUP = "node-group"
    COMPUTE_NODE_GROUP = "compute-node-group"
    SLURM_QUEUE = "slurm-queue"
    COMPUTE_ENVIRONMENT = "compute-environment"
    INSTANCE_GROUP = "instance-group"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorProfile:
    """What an orchestrator takes, forbids and does by itself.

    Which network interfaces it takes is in `rules.interfaces.plan_interfaces`.

    Attributes:
        orchestrator: The orchestrator.
        agent: Its name in the settings of a node: which service a node reports its health to.
        image: Who chooses the machine image.
        group: What makes the nodes one group.
        image_purpose: Which kind of image the library chooses.
        operating_system: Operating system of the image that the orchestrator chooses; None if unknown.
        launch_hook: Lifecycle hook that a node completes when it is ready; None if there is none.
        terminate_hook: Lifecycle hook that a node completes when it is drained; None if there is none.
        runs_model_servers: Whether model servers are part of the node; elsewhere they are pods or jobs. Their nodes
            spread over separate hardware.
        takes_subnet: Whether the launch template names the subnet.
        takes_spot: Whether the launch template asks for spot instances; elsewhere the service does.
        takes_instance_type: Whether the launch template always names the instance type; elsewhere it does so only for
            a Capacity Block.
        user_data_part_bytes: Size of the part that the orchestrator adds to the user data, as `added_user_data_bytes`
            decides.
        has_node_config: Whether nodeadm sets the node up, with its local disks.
        root_volume_gib: Size of the root volume if nothing else is requested.
        slurm_bin: Folder of Slurm's commands on the nodes, in which `{version}` is that of Slurm; None without Slurm.
        container_addresses: IPv4 addresses that a node takes for the interfaces of its jobs' containers.
        reserves_huge_pages: Whether the library reserves huge pages for EFA: on images without EFA's installer, which
            reserves them elsewhere.
    """

    orchestrator: Orchestrator
    agent: str
    image: ImageChoice
    group: GroupKind = GroupKind.AUTO_SCALING_GROUP
    image_purpose: ImagePurpose = ImagePurpose.EC2
    operating_system: OperatingSystem | None = None
    launch_hook: str | None = None
    terminate_hook: str | None = None
    runs_model_servers: bool = False
    takes_subnet: bool = False
    takes_spot: bool = True
    takes_instance_type: bool = True
    user_data_part_bytes: int = 0
    has_node_config: bool = False
    root_volume_gib: int = DEFAULT_SIZE_GIB
    slurm_bin: str | None = None
    container_addresses: int = 0
    reserves_huge_pages: bool = False

    def added_user_data_bytes(self, *, own_image: bool) -> int:
        """What the orchestrator adds to the user data before EC2 gets them: EKS with its own image, others always.

        Args:
            own_image: Whether the launch template names an image.
        """
        return 0 if own_image and self.image is ImageChoice.ORCHESTRATOR else self.user_data_part_bytes

    @property
    def has_hooks(self) -> bool:
        """Whether a lifecycle hook announces the end of a node, and waits for it."""
        return self.terminate_hook is not None

    @property
    def drains_itself(self) -> bool:
        """Whether nothing but a node drains it: the service ends its jobs with it."""
        return self.runs_slurm or self.joins_batch

    @property
    def joins_eks(self) -> bool:
        """Whether the nodes join a cluster of Amazon EKS, and work comes to them as pods."""
        return self.agent == "eks"

    @property
    def joins_slurm(self) -> bool:
        """Whether the nodes join a cluster of AWS PCS, and work comes to them as jobs of Slurm."""
        return self.group is GroupKind.COMPUTE_NODE_GROUP

    @property
    def runs_slurm(self) -> bool:
        """Whether work comes to the nodes as jobs of Slurm, of AWS PCS or of AWS ParallelCluster."""
        return self.group in (GroupKind.COMPUTE_NODE_GROUP, GroupKind.SLURM_QUEUE)

    @property
    def joins_batch(self) -> bool:
        """Whether AWS Batch launches the nodes, and work comes to them as containers of its jobs."""
        return self.group is GroupKind.COMPUTE_ENVIRONMENT

    @property
    def joins_hyperpod(self) -> bool:
        """Whether SageMaker HyperPod launches, places and replaces the nodes: it takes no launch template."""
        return self.group is GroupKind.INSTANCE_GROUP

    @property
    def has_node_group(self) -> bool:
        """Whether the nodes are a managed node group of Amazon EKS."""
        return self.group is GroupKind.NODE_GROUP

    @property
    def joins_parallelcluster(self) -> bool:
        """Whether AWS ParallelCluster launches the nodes, by its own configuration and in stacks of its own."""
        return self.group is GroupKind.SLURM_QUEUE

    @property
    def is_hyperpod_slurm(self) -> bool:
        """Whether SageMaker HyperPod makes a cluster of Slurm, with its controller and login nodes."""
        return self.orchestrator is Orchestrator.HYPERPOD_SLURM

    @property
    def uses_eks(self) -> bool:
        """Whether there is a cluster of Amazon EKS, which the nodes join by themselves or by SageMaker HyperPod."""
        return self.joins_eks or self.orchestrator is Orchestrator.HYPERPOD_EKS


EC2 = OrchestratorProfile(
    orchestrator=Orchestrator.EC2,
    agent="ec2",
    image=ImageChoice.LIBRARY,
    launch_hook="node-ready",
    terminate_hook="node-drain",
    runs_model_servers=True,
)
EKS_MANAGED = OrchestratorProfile(
    orchestrator=Orchestrator.EKS_MANAGED,
    agent="eks",
    image=ImageChoice.ORCHESTRATOR,
    group=GroupKind.NODE_GROUP,
    operating_system=OperatingSystem.AL2023,
    takes_spot=False,
    user_data_part_bytes=ADDED_BY_EKS_BYTES,
    has_node_config=True,
)
EKS_SELF_MANAGED = OrchestratorProfile(
    orchestrator=Orchestrator.EKS_SELF_MANAGED,
    agent="eks",
    image=ImageChoice.REQUEST,
    has_node_config=True,
)
PCS = OrchestratorProfile(
    orchestrator=Orchestrator.PCS,
    agent="pcs",
    image=ImageChoice.LIBRARY,
    group=GroupKind.COMPUTE_NODE_GROUP,
    image_purpose=ImagePurpose.PCS,
    user_data_part_bytes=ADDED_BY_PCS_BYTES,
    takes_subnet=True,
    takes_spot=False,
    takes_instance_type=False,
    # awslabs/awsome-distributed-ai @ 95b939c, architectures/aws-pcs/docs/OPERATIONS.md: the 75 GiB of the image are too
    # small for container images.
    root_volume_gib=300,
    # awslabs/awsome-distributed-ai @ 95b939c, architectures/aws-pcs/assets/pcs-ready-dlami-with-enroot-pyxis.yaml.
    slurm_bin="/opt/aws/pcs/scheduler/slurm-{version}/bin",
)
#: ParallelCluster writes the launch templates itself, and lays out the interfaces as `rules.parallelcluster`
#: has it. It is no row of `PROFILES`: no launch template is for it.
PARALLELCLUSTER = OrchestratorProfile(
    orchestrator=Orchestrator.EC2,
    agent="slurm",
    image=ImageChoice.ORCHESTRATOR,
    group=GroupKind.SLURM_QUEUE,
    operating_system=OperatingSystem.AL2023,
    # aws/aws-parallelcluster-cookbook @ f75d84c, aws-parallelcluster-slurm: node['cluster']['slurm']['install_dir'].
    slurm_bin="/opt/slurm/bin",
)
BATCH = OrchestratorProfile(
    orchestrator=Orchestrator.BATCH,
    agent="batch",
    image=ImageChoice.LIBRARY,
    group=GroupKind.COMPUTE_ENVIRONMENT,
    image_purpose=ImagePurpose.ECS,
    user_data_part_bytes=ADDED_BY_BATCH_BYTES,
    takes_spot=False,
    takes_instance_type=False,
    # AWS Batch user guide, "Compute environment considerations for MNP": each container has an interface of its own, in
    # the subnet of its host.
    container_addresses=1,
    # aws/amazon-ecs-ami @ a2532d3: the recipe installs no EFA software; the driver is the kernel's own.
    reserves_huge_pages=True,
)
HYPERPOD_EKS = OrchestratorProfile(
    orchestrator=Orchestrator.HYPERPOD_EKS,
    agent="hyperpod-eks",
    image=ImageChoice.ORCHESTRATOR,
    group=GroupKind.INSTANCE_GROUP,
    takes_spot=False,
    takes_instance_type=False,
)
HYPERPOD_SLURM = replace(HYPERPOD_EKS, orchestrator=Orchestrator.HYPERPOD_SLURM, agent="hyperpod-slurm")

PROFILES: Mapping[Orchestrator, OrchestratorProfile] = MappingProxyType(
    {
        profile.orchestrator: profile
        for profile in (EC2, EKS_MANAGED, EKS_SELF_MANAGED, PCS, BATCH, HYPERPOD_EKS, HYPERPOD_SLURM)
    }
)
