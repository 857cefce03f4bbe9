"""The definition of a multi-node job of AWS Batch: one container on each of several nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_batch as batch
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, region_of, report
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.compute_environment import (
    RETRIED,
    ULIMITS,
    MultiNodeJobPlan,
    MultiNodeJobRequest,
    plan_multi_node_job,
)
from cdk_gpu_clusters.orchestration.batch.compute_environment import IBatchComputeEnvironment
from cdk_gpu_clusters.orchestration.batch.node_role import LOG_PREFIX
from cdk_gpu_clusters.rules.batch import check_variable_names
from cdk_gpu_clusters.rules.harmful_variables import check_variable
from cdk_gpu_clusters.rules.model_servers import check_container_image
from cdk_gpu_clusters.rules.secrets import OF_BATCH_JOB, check_container_secrets

#: What `gpu-peers` needs in a container, beside Python.
SOFTWARE_PATHS = ("/usr/local/lib/gpu-cluster", "/usr/local/bin/gpunode", "/usr/local/bin/gpu-peers")


class BatchMultiNodeJob(ClusterConstruct):
    """A multi-node job of AWS Batch: its job definition, with all that a node has for the one container on it.

    Each container gets all vCPUs, GPUs and EFA devices of its node, locked memory without a limit, shared memory, and
    the file systems of the nodes at the same paths. `gpu-peers` in it waits for all nodes and names them: the main node
    is rank 0. It needs Python 3.9 or later as `/usr/bin/python3` of the image, or the path in `GPU_CLUSTER_PYTHON`.

    A job starts again if its host ends, its image cannot be pulled, its container cannot start, or `gpu-peers` found
    too few nodes in time. Keep the output of `gpu-peers` in a variable, as in the example: `eval "$(gpu-peers)"` hides
    its status. The job ends if the program on the main node fails in another way. Batch does nothing if another node
    fails: let the program end then, as `torchrun` does.

    Submit it with another number of nodes by `nodeOverrides.numNodes`.

    Sources: AWS Batch user guide, "Multi-node parallel jobs" and "Elastic Fabric Adapter";
    awslabs/awsome-distributed-ai @ 95b939c, 1.architectures/3.aws-batch; CloudFormation registry schema of
    AWS::Batch::JobDefinition (2026-10-20).

    Example:
        >>> nodes = BatchComputeEnvironment(
        ...     stack, "JobNodes", vpc=vpc, vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet]),
        ...     instance_type="p5.48xlarge", min_node_count=0, max_node_count=4,
        ... )
        >>> job = BatchMultiNodeJob(
        ...     stack, "Llama", compute_environment=nodes, node_count=4,
        ...     image="123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1",
        ...     command=["bash", "-c", 'peers="$(gpu-peers --format torchrun)" && eval "$peers" && exec ./train'],
        ... )
        >>> job.plan.gpus, len(job.plan.devices)
        (8, 32)

    Attributes:
        plan: What the container of each node requests.
        cfn_job_definition: The job definition, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        compute_environment: IBatchComputeEnvironment,
        node_count: int,
        image: str,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        job_role: iam.IRole | None = None,
        memory_mib: int | None = None,
        shared_memory_mib: int | None = None,
        attempts: int = 3,
        timeout: cdk.Duration | None = None,
        scheduling_priority: int | None = None,
        not_secret: Sequence[str] = (),
    ) -> None:
        """Define the job.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            compute_environment: Where it runs: the type of its nodes, their EFA devices and their file systems are
                those of the job.
            node_count: Nodes of the job.
            image: Container image, with its registry.
            command: What each container runs; the command of the image if left out.
            environment: Variables of the containers, over those of NCCL that the type needs, such as
                `NCCL_SOCKET_IFNAME`; no secrets, because everybody who may describe the job reads them.
            job_role: Role of the containers; they cannot call AWS if left out.
            memory_mib: Memory of a container; half of the node's if left out.
            shared_memory_mib: Size of `/dev/shm`, a part of it; a quarter of it if left out.
            attempts: How often the job may start, 1 to 10; 3 if left out.
            timeout: How long an attempt of the job may last, all nodes together, 60 seconds or more; no end if left
                out.
            scheduling_priority: Priority in a queue with a scheduling policy; none if left out.
            not_secret: Names of variables and options, and values, that only look like secrets.

        Raises:
            ConfigError: GPU-BAT-017 to -019, GPU-BAT-025, GPU-INF-006, GPU-UD-002.
        """
        super().__init__(scope, construct_id)
        seconds = None if timeout is None else int(timeout.to_seconds())
        self.plan: MultiNodeJobPlan = plan_multi_node_job(
            compute_environment.instance_type,
            MultiNodeJobRequest(
                node_count=node_count,
                most_nodes=compute_environment.most_nodes,
                efa_count=compute_environment.efa_count,
                memory_mib=memory_mib,
                shared_memory_mib=shared_memory_mib,
                attempts=attempts,
                timeout_seconds=seconds,
            ),
        )
        variables = environment or {}
        report(self, [*self.plan.findings, *_check_container(image, variables, command, not_secret)])
        container = {
            **_container(self.plan, compute_environment, variables),
            "image": image,
            "instanceType": compute_environment.instance_type.name,
            **({"command": list(command)} if command else {}),
            **({"jobRoleArn": job_role.role_arn} if job_role else {}),
            **self._logging(compute_environment),
        }
        # Dictionaries in camel case, which CDK passes on as given.
        self.cfn_job_definition: batch.CfnJobDefinition = batch.CfnJobDefinition(
            self,
            "Resource",
            type="multinode",
            propagate_tags=True,
            scheduling_priority=scheduling_priority,
            node_properties={
                "mainNode": 0,
                "numNodes": node_count,
                # An open end: a submission may have another number of nodes.
                "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
            },
            retry_strategy={
                "attempts": attempts,
                "evaluateOnExit": [
                    *({"action": "RETRY", **cause} for cause in RETRIED),
                    {"action": "EXIT", "onReason": "*"},
                ],
            },
            timeout=None if seconds is None else {"attemptDurationSeconds": seconds},
        )

    @property
    def job_definition_arn(self) -> str:
        """ARN of the present revision, known at deployment."""
        return str(self.cfn_job_definition.ref)

    @property
    def any_revision_arn(self) -> str:
        """ARN of all revisions, for policies: a change makes another one."""
        name = cdk.Fn.select(0, cdk.Fn.split(":", cdk.Fn.select(1, cdk.Fn.split("/", self.job_definition_arn))))
        return arn_of(self, "batch", f"job-definition/{name}:*")

    def _logging(self, environment: IBatchComputeEnvironment) -> dict[str, Any]:
        group = environment.job_log_group
        if group is None:
            return {}
        options = {
            "awslogs-group": group.log_group_name,
            "awslogs-region": region_of(self._stack),
            "awslogs-stream-prefix": LOG_PREFIX,
        }
        return {"logConfiguration": {"logDriver": "awslogs", "options": options}}


def _check_container(
    image: str, variables: Mapping[str, str], command: Sequence[str], not_secret: Sequence[str]
) -> list[Finding]:
    """Find what is wrong with what the user gives a container; texts that only the deployment knows are left out."""
    return [
        *(() if cdk.Token.is_unresolved(image) else check_container_image(image)),
        *check_variable_names(variables),
        *check_container_secrets(variables, command, not_secret=not_secret, fix=OF_BATCH_JOB),
        *(
            one
            for name, value in variables.items()
            for one in check_variable(name, value, path="environment", in_task=True)
        ),
    ]


def _container(
    plan: MultiNodeJobPlan, environment: IBatchComputeEnvironment, variables: Mapping[str, str]
) -> dict[str, Any]:
    """What a container has of its node."""
    requested = {"VCPU": plan.vcpus, "MEMORY": plan.memory_mib, **({"GPU": plan.gpus} if plan.gpus else {})}
    paths = [(path, False) for path in environment.mount_points]
    own = {"GPU_SLOTS": str(plan.gpus or 1), **plan.variables}
    if environment.has_node_software:
        paths += [(path, True) for path in SOFTWARE_PATHS]
    linux: dict[str, Any] = {"sharedMemorySize": plan.shared_memory_mib}
    if plan.devices:
        permissions = ["READ", "WRITE", "MKNOD"]
        linux["devices"] = [
            {"hostPath": path, "containerPath": path, "permissions": permissions} for path in plan.devices
        ]
    mounted: dict[str, Any] = {}
    if paths:
        names = [f"volume-{number}" for number in range(len(paths))]
        mounted = {
            "volumes": [
                {"name": name, "host": {"sourcePath": path}} for name, (path, _) in zip(names, paths, strict=True)
            ],
            "mountPoints": [
                {"sourceVolume": name, "containerPath": path, "readOnly": read_only}
                for name, (path, read_only) in zip(names, paths, strict=True)
            ],
        }
    return {
        "resourceRequirements": [{"type": kind, "value": str(value)} for kind, value in requested.items()],
        "environment": [{"name": name, "value": value} for name, value in {**own, **variables}.items()],
        "ulimits": [{"name": name, "softLimit": limit, "hardLimit": limit} for name, limit in ULIMITS.items()],
        "linuxParameters": linux,
        **mounted,
    }
