"""`parallelcluster`: the Slurm cluster of AWS ParallelCluster, with `orchestrator: parallelcluster`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, StringConstraints

from cdk_gpu_clusters.catalogue import Architecture
from cdk_gpu_clusters.catalogue.parallelcluster import PARALLELCLUSTER_VERSION

from ._base import Name, SpecModel, Text
from .changes import Resource, makes, updates
from .eks import RoleArn
from .network import Cidr
from .pcs import QueueSpec, Settings

VolumeId = Annotated[str, StringConstraints(pattern=r"^fsvol-[0-9a-f]{17}$")]
ParallelClusterVersion = Annotated[str, StringConstraints(pattern=r"^3\.[0-9]+\.[0-9]+$")]

#: Types of the head node and of login nodes by architecture: this library's choice, of four and of two vCPUs.
HEAD_TYPES: Mapping[Architecture, str] = {Architecture.X86_64: "m7i.xlarge", Architecture.ARM64: "m7g.xlarge"}
LOGIN_TYPES: Mapping[Architecture, str] = {Architecture.X86_64: "m7i.large", Architecture.ARM64: "m7g.large"}

#: No stack has what these keys say: pcluster reads it from the configuration.
_WRITTEN = updates(Resource.CONFIGURATION)


class HeadNodeSpec(SpecModel):
    """The node with Slurm's controller."""

    instance_type: Text | None = Field(
        default=None,
        description="EC2 instance type, of the architecture of the fleets. Default: `m7i.xlarge`, or `m7g.xlarge` for "
        "fleets with Arm processors. ParallelCluster cannot change it.",
        examples=["m7i.2xlarge"],
    )
    ssh_key_name: Text | None = Field(
        default=None,
        description="EC2 key pair of the default user. Default: none; sessions come through Systems Manager.",
    )
    ssh_cidr: Cidr | None = Field(
        default=None,
        description="IPv4 range inside the network that may reach SSH of the head node and of login nodes. "
        "Default: none.",
    )


class LoginPoolSpec(SpecModel):
    """The small nodes on which people submit jobs. ParallelCluster puts a load balancer before them."""

    nodes: int = Field(
        default=0, ge=0, description="Number of login nodes. Default: none, and people work on the head node."
    )
    instance_type: Text | None = Field(
        default=None,
        description="EC2 instance type, without accelerators. Default: `m7i.large`, or `m7g.large` for fleets with Arm "
        "processors.",
    )


class CustomResourceSpec(SpecModel):
    """The cluster as a resource of the stacks, which AWS's custom resource makes."""

    role_arn: Annotated[RoleArn | None, updates(Resource.CLUSTER_PROVIDER)] = Field(
        default=None,
        description="Role of the function that makes, updates and deletes the cluster, with all rights that AWS's "
        "template would give it. Default: AWS's template makes one, which may administer the roles of clusters.",
        examples=["arn:aws:iam::111122223333:role/cluster-operators"],
    )
    version: Annotated[ParallelClusterVersion, updates(Resource.CLUSTER_PROVIDER)] = Field(
        default=PARALLELCLUSTER_VERSION,
        description="Version of the function, which makes and updates clusters of this version only. Default: the one "
        "for which this release writes configurations. State it to keep a cluster with a later release.",
        examples=["3.16.1"],
    )
    delete_with_stack: Annotated[bool, updates(Resource.CLUSTER_RESOURCE)] = Field(
        default=False,
        description="Whether the cluster goes with its resource, with all nodes and jobs, and with a creation that "
        "fails. By default it is kept, and `pcluster delete-cluster` deletes it.",
    )


class ParallelClusterSpec(SpecModel):
    """The Slurm cluster, which `gpu-clusters export --to pcluster` describes to the program `pcluster`."""

    custom_resource: Annotated[
        CustomResourceSpec | None, makes(Resource.CLUSTER_PROVIDER, Resource.CLUSTER_RESOURCE)
    ] = Field(
        default=None,
        description="The deployment makes the cluster, by AWS's custom resource: `{}` for its defaults. Default: "
        "`pcluster` makes it.",
        examples=[{}],
    )
    head_node: Annotated[HeadNodeSpec, _WRITTEN] = Field(default=HeadNodeSpec(), description="The head node.")
    login: Annotated[LoginPoolSpec, _WRITTEN] = Field(default=LoginPoolSpec(), description="The login nodes.")
    slurm_settings: Annotated[Settings, _WRITTEN] = Field(
        default={},
        description="Settings of the cluster in slurm.conf, by name, over those of the library.",
        examples=[{"SchedulerParameters": "bf_continue"}],
    )
    scale_down_idle_minutes: Annotated[int | None, _WRITTEN] = Field(
        default=None, ge=1, description="Minutes after which an idle node of an elastic fleet ends. Default: 10."
    )
    node_settings: Annotated[dict[Name, Settings], _WRITTEN] = Field(
        default={},
        description="Settings of the nodes of a fleet in slurm.conf: name of the fleet -> settings by name, over those "
        "of the library. `Weight` is their priority in ParallelCluster.",
        examples=[{"spot": {"Weight": "1"}}],
    )
    queues: Annotated[dict[Name, QueueSpec], _WRITTEN] = Field(
        default={},
        description="Partitions over the nodes of fleets, by name. Each fleet has a queue of its name beside them.",
    )
    volumes: Annotated[dict[Name, VolumeId], _WRITTEN] = Field(
        default={},
        description="Volumes of stores on FSx for OpenZFS that exist already, which ParallelCluster mounts by the id: "
        "name of the store -> volume, as `aws fsx describe-volumes` shows it.",
        examples=[{"home": "fsvol-0123456789abcdef0"}],
    )
