"""Names of the stacks of a cluster: each follows from the cluster's name and one key of the cluster file."""

from __future__ import annotations

import re


def network_stack(cluster: str) -> str:
    """Name of the stack with the network."""
    return f"{cluster}-network"


def data_stack(cluster: str, store: str) -> str:
    """Name of the stack with a store."""
    return f"{cluster}-data-{store}"


def fabric_stack(cluster: str, fabric: str) -> str:
    """Name of the stack with the security group of an EFA fabric."""
    return f"{cluster}-fabric-{fabric}"


def link_stack(cluster: str, store: str, fabric: str) -> str:
    """Name of the stack with the rules between a file system and a fabric."""
    return f"{cluster}-link-{store}-{fabric}"


def capacity_stack(cluster: str, fleet: str) -> str:
    """Name of the stack with a fleet's new reservation."""
    return f"{cluster}-capacity-{fleet}"


def training_stack(cluster: str, fleet: str) -> str:
    """Name of the stack with a training fleet."""
    return f"{cluster}-fleet-{fleet}"


def inference_stack(cluster: str, fleet: str) -> str:
    """Name of the stack with an inference fleet."""
    return f"{cluster}-inference-{fleet}"


def fleet_path(stack: str, kind: str, *, group_type: str) -> str:
    """Name of a fleet in the metrics of its nodes: the path of its construct.

    Args:
        stack: The stack of the fleet.
        kind: Kind of the stack: `fleet`, `inference` or `login`.
        group_type: Type of the resource that its nodes are a group of, such as `AWS::EKS::Nodegroup`.
    """
    if kind == "login":
        return f"{stack}/Login"
    if group_type == "AWS::Batch::ComputeEnvironment":
        return f"{stack}/Environment"
    if group_type != "AWS::AutoScaling::AutoScalingGroup":
        return f"{stack}/Nodes"
    return f"{stack}/Service/Fleet" if kind == "inference" else f"{stack}/Fleet"


def eks_stack(cluster: str) -> str:
    """Name of the stack with the cluster of Amazon EKS."""
    return f"{cluster}-eks"


def slurm_stack(cluster: str) -> str:
    """Name of the stack with the Slurm cluster of AWS PCS."""
    return f"{cluster}-slurm"


def hyperpod_stack(cluster: str) -> str:
    """Name of the stack with the cluster of SageMaker HyperPod and all its fleets."""
    return f"{cluster}-hyperpod"


def login_stack(cluster: str) -> str:
    """Name of the stack with the login nodes."""
    return f"{cluster}-login"


def parallelcluster_stack(cluster: str) -> str:
    """Name of the stack with what nodes of AWS ParallelCluster get from the file."""
    return f"{cluster}-parallelcluster"


def output_of(kind: str, fleet: str) -> str:
    """Name of an output for one of several fleets: of letters and digits, and another one for every name.

    Example:
        >>> output_of("NodeScript", "p5-train"), output_of("NodeScript", "p5train")
        ('NodeScriptP5DashTrain', 'NodeScriptP5train')
    """
    return kind + "Dash".join(part.capitalize() for part in fleet.split("-"))


def checkpoint_policy_output(fleet: str) -> str:
    """Name of the output with the policy by which nodes of a fleet use checkpoints."""
    return f"{output_of('CheckpointPolicy', fleet)}Arn"


def queue_stack(cluster: str, queue: str) -> str:
    """Name of the stack with a queue."""
    return f"{cluster}-queue-{queue}"


def monitoring_stack(cluster: str) -> str:
    """Name of the stack with the dashboard and the budget."""
    return f"{cluster}-monitoring"


def karpenter_stack(cluster: str) -> str:
    """Name of the stack with Karpenter."""
    return f"{cluster}-karpenter"


def serving_stack(cluster: str) -> str:
    """Name of the stack with the roles of what serves models in the cluster of Amazon EKS."""
    return f"{cluster}-serving"


def software_stack(cluster: str) -> str:
    """Name of the stack that installs software in the cluster of Amazon EKS."""
    return f"{cluster}-software"


def is_stack_of(cluster: str, name: str) -> bool:
    """Whether a stack has a name that the file of a cluster gives to one of its stacks.

    Example:
        >>> is_stack_of("llama", "llama-fleet-trainers"), is_stack_of("llama", "llama-train-network")
        (True, False)
    """
    return name.startswith(f"{cluster}-") and _NAME.fullmatch(name[len(cluster) + 1 :]) is not None


_NAME = re.compile(
    "network|eks|hyperpod|karpenter|slurm|parallelcluster|login|serving|software|monitoring|"
    "(data|fabric|link|capacity|fleet|inference|queue)-.+"
)
