"""`batch`: the queues and jobs of AWS Batch, with `orchestrator: batch`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cdk_gpu_clusters.rules.batch import LONGEST_WAIT_SECONDS, SHORTEST_WAIT_SECONDS

from ._base import AsTuple, Line, Name, SpecModel, Text
from .changes import Resource, updates


class BatchJobSpec(SpecModel):
    """The multi-node job of a training fleet: one container on each node, which gets all of it."""

    image: Text | None = Field(
        default=None,
        description="Container image, with its registry. Default: AWS's image with PyTorch, EFA and NCCL, for x86_64.",
        examples=["123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"],
    )
    command: Annotated[tuple[Line, ...], AsTuple] = Field(
        default=(),
        description="What each container runs. Default: with `image`, the command of the image; else all processes add "
        "up their numbers once, which tests the network.",
        examples=[["bash", "/opt/train.sh"]],
    )
    nodes: int | None = Field(
        default=None, description="Nodes of the job; a submission may name others. Default: all of the fleet."
    )
    memory_mib: int | None = Field(default=None, description="Memory of a container. Default: half of the node's.")
    shared_memory_mib: int | None = Field(
        default=None, description="Size of /dev/shm, a part of that memory. Default: a quarter of it."
    )
    attempts: int = Field(
        default=3,
        description="How often the job may start. It starts again if the host of its main node ends or a "
        "container cannot start, and not if another node fails.",
    )
    timeout_minutes: int | None = Field(
        default=None, ge=1, description="Minutes after which AWS Batch ends an attempt. Default: no end."
    )


class BatchSpec(SpecModel):
    """What the job queues of the fleets have in common, and the jobs of fleets by name."""

    jobs: Annotated[dict[Name, BatchJobSpec], updates(Resource.JOB_DEFINITION)] = Field(
        default={},
        description="Name of a training fleet -> its job. A fleet that is not named has a job with all defaults.",
    )
    blocked_minutes: Annotated[int | None, updates(Resource.JOB_QUEUE)] = Field(
        default=None,
        ge=SHORTEST_WAIT_SECONDS // 60,
        le=LONGEST_WAIT_SECONDS // 60,
        description="Minutes after which AWS Batch cancels a job that waits for capacity at the head of its queue. "
        "Default: 24 hours; on a Capacity Block it waits without end.",
    )
    job_minutes_on_update: Annotated[int | None, updates(Resource.COMPUTE_ENVIRONMENT)] = Field(
        default=None,
        ge=1,
        le=7200,
        description="Minutes that jobs go on when an update replaces their nodes. Default: 5 days. On a Capacity Block "
        "an update ends jobs.",
    )
    scale_down_idle_minutes: Annotated[int | None, updates(Resource.COMPUTE_ENVIRONMENT)] = Field(
        default=None,
        ge=20,
        le=10_080,
        description="Minutes after which an idle node ends. Default: as AWS Batch decides.",
    )
