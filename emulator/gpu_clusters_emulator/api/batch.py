"""The calls of AWS Batch about multi-node jobs and their environments.

Source: Batch API model (botocore 1.44.5), SubmitJob, DescribeJobs, ListJobs, CancelJob, TerminateJob, NodeOverrides and
DescribeComputeEnvironments; user guide, "Node groups" (the id of a node is `JOB#INDEX`). Times are milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cdk_gpu_clusters.catalogue import instance_types

from .. import batch_jobs
from ..batch_state import SUBMITTED, Job
from ..faults import ApiError
from ..permissions import private_address
from ..world import Json, Resource, Type, World
from .protocols import with_small_letters

#: Members of a submission without a model.
_EPOCH = datetime.fromtimestamp(0, UTC)
_NOT_EMULATED = ("arrayProperties", "dependsOn", "containerOverrides", "eksPropertiesOverride", "ecsPropertiesOverride")


def submit_job(world: World, params: Json) -> Json:
    for name in _NOT_EMULATED:
        if params.get(name):
            raise ApiError("NotEmulated", f"{name} is not emulated; multi-node jobs alone are")
    queue, definition = _queue(world, params["jobQueue"]), _definition(world, params["jobDefinition"])
    given = definition.properties
    if given["Type"] != "multinode":
        raise ApiError("NotEmulated", f"jobs of type {given['Type']} are not emulated")
    retry = params.get("retryStrategy") or with_small_letters(given.get("RetryStrategy", {}))
    timeout = params.get("timeout") or with_small_letters(given.get("Timeout", {}))
    digest, now = world.new_id("", f"{params['jobName']} job", 32), world.clock.now()
    job = Job(
        id="-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:])),
        name=params["jobName"],
        queue=queue.physical_id,
        definition=definition.physical_id,
        region=world.region,
        nodes=_nodes(given["NodeProperties"], params.get("nodeOverrides", {})),
        retry=retry,
        timeout=timedelta(seconds=timeout["attemptDurationSeconds"]) if timeout else None,
        tags=params.get("tags", {}),
        created_at=now,
        since=now,
    )
    world.batch.jobs[job.id] = job
    return {"jobArn": batch_jobs.arn_of(world, job), "jobName": job.name, "jobId": job.id}


def describe_jobs(world: World, params: Json) -> Json:
    """Jobs, and nodes of jobs; unknown ids are left out."""
    found = []
    for identifier in params["jobs"]:
        name, _, index = identifier.rpartition("/")[2].partition("#")
        job = world.batch.jobs.get(name)
        if job is not None and index:
            found.append(_node(world, job, int(index)))
        elif job is not None:
            nodes = {"nodeProperties": with_small_letters(job.nodes), "retryStrategy": job.retry}
            attempts = [_in_milliseconds(one) for one in job.attempts]
            found.append(_described(world, job) | nodes | {"attempts": attempts})
    return {"jobs": found}


def list_jobs(world: World, params: Json) -> Json:
    """The jobs of a queue, or the nodes of a job; those in RUNNING if no status is given."""
    given = [name for name in ("jobQueue", "arrayJobId", "multiNodeJobId") if params.get(name)]
    if len(given) != 1:
        raise ApiError("ClientException", "specify one of jobQueue, arrayJobId and multiNodeJobId")
    if params.get("filters") or given == ["arrayJobId"]:
        raise ApiError("NotEmulated", "filters and array jobs are not emulated")
    status = params.get("jobStatus", batch_jobs.RUNNING)
    if given == ["multiNodeJobId"]:
        job = _job(world, params["multiNodeJobId"])
        shown = [_node_summary(world, job, index) for index in range(job.count)]
    else:
        queue = _queue(world, params["jobQueue"]).physical_id
        jobs = [job for job in world.batch.jobs.values() if job.queue == queue]
        shown = [_summary(world, job) | {"nodeProperties": {"numNodes": job.count}} for job in jobs]
    return {"jobSummaryList": [one for one in shown if one["status"] == status]}


def cancel_job(world: World, params: Json) -> Json:
    """Cancel a job that has not started; the call does nothing about others."""
    job = _job(world, params["jobId"])
    if job.status in (SUBMITTED, batch_jobs.RUNNABLE):
        batch_jobs.end_job(world, job, params["reason"])
        batch_jobs.step(world)
    return {}


def terminate_job(world: World, params: Json) -> Json:
    job = _job(world, params["jobId"])
    if job.status not in (batch_jobs.SUCCEEDED, batch_jobs.FAILED):
        batch_jobs.end_job(world, job, params["reason"])
        batch_jobs.step(world)
    return {}


#: Of the properties of an environment: tags keep their spelling, and the other one is in no answer.
_NOT_SPELLED = ("Tags", "UpdateToLatestImageVersion")


def describe_compute_environments(world: World, params: Json) -> Json:
    """Environments by name or ARN, and all of them without names; unknown ones are left out."""
    wanted = {name.rpartition("/")[2] for name in params.get("computeEnvironments", ())}
    every = world.of_type(Type.COMPUTE_ENVIRONMENT)
    found = [one for one in every if not wanted or one.physical_id.rpartition("/")[2] in wanted]
    return {"computeEnvironments": [_environment(world, one) for one in found]}


def _environment(world: World, one: Resource) -> Json:
    resources, group = one.properties["ComputeResources"], world.groups.get(one.physical_id)
    kind = instance_types().get(resources["InstanceTypes"][0])
    spelled = {name: value for name, value in resources.items() if name not in _NOT_SPELLED}
    return {
        "computeEnvironmentName": one.physical_id.rpartition("/")[2],
        "computeEnvironmentArn": one.physical_id,
        "type": one.properties["Type"],
        "state": one.properties.get("State", "ENABLED"),
        "status": "VALID",
        "computeResources": {
            **with_small_letters(spelled),
            "tags": resources.get("Tags", {}),
            "desiredvCpus": (group.desired if group else 0) * (kind.vcpus if kind else 1),
        },
    }


def _nodes(given: Json, overrides: Json) -> Json:
    """The nodes of a submission: another number of them needs an open range that begins below it."""
    count = int(overrides["numNodes"] if "numNodes" in overrides else given["NumNodes"])
    if overrides.get("nodePropertyOverrides"):
        raise ApiError("NotEmulated", "nodePropertyOverrides are not emulated")
    ranges = [str(one["TargetNodes"]) for one in given["NodeRangeProperties"]]
    open_from = [int(one[:-1] or 0) for one in ranges if one.endswith(":")]
    if count != given["NumNodes"] and not any(start < count for start in open_from):
        raise ApiError("ClientException", f"{count} nodes need a range with an open end that begins below {count}")
    if given["MainNode"] >= count:
        raise ApiError("ClientException", f"the main node {given['MainNode']} is not below {count}")
    return {**given, "NumNodes": count}


def _job(world: World, identifier: str) -> Job:
    job = world.batch.jobs.get(identifier.rpartition("/")[2])
    if job is None:
        raise ApiError("ClientException", f"there is no job {identifier}")
    return job


def _queue(world: World, name: str) -> Resource:
    for found in world.of_type(Type.JOB_QUEUE):
        if name in (found.physical_id, found.physical_id.rpartition("/")[2], found.properties.get("JobQueueName")):
            return found
    raise ApiError("ClientException", f"there is no job queue {name}")


def _definition(world: World, name: str) -> Resource:
    for found in world.of_type(Type.JOB_DEFINITION):
        short = found.physical_id.rpartition("/")[2]
        if name in (found.physical_id, short, short.partition(":")[0]):
            return found
    raise ApiError("ClientException", f"there is no job definition {name}")


# How the service describes a job.


def _summary(world: World, job: Job) -> Json:
    return {
        "jobArn": batch_jobs.arn_of(world, job),
        "jobId": job.id,
        "jobName": job.name,
        "jobDefinition": job.definition,
        "isCancelled": job.is_cancelled,
        "isTerminated": job.is_terminated,
        **_state(job),
    }


def _state(job: Job) -> Json:
    times = {"createdAt": job.created_at, "startedAt": job.started_at, "stoppedAt": job.stopped_at}
    reason = {"statusReason": job.reason} if job.reason else {}
    return {"status": job.status, **reason, **_in_milliseconds(times)}


def _described(world: World, job: Job) -> Json:
    timeout = {} if job.timeout is None else {"timeout": {"attemptDurationSeconds": int(job.timeout.total_seconds())}}
    return _summary(world, job) | timeout | {"jobQueue": job.queue, "tags": job.tags}


def _node_summary(world: World, job: Job, index: int) -> Json:
    node = {"nodeIndex": index, "numNodes": job.count, "isMainNode": index == job.main_node}
    return _of_node(world, job, index, _summary(world, job)) | {"nodeProperties": node}


def _node(world: World, job: Job, index: int) -> Json:
    if not 0 <= index < job.count:
        raise ApiError("ClientException", f"{job.id} has {job.count} nodes")
    node = {"nodeIndex": index, "isMainNode": index == job.main_node}
    shown = _of_node(world, job, index, _described(world, job)) | {"nodeDetails": node}
    instances = batch_jobs.private_instances(world, job)
    instance = instances[index] if index < len(instances) else None
    container: Json = {"exitCode": job.exit_code} if index == job.main_node and job.exit_code is not None else {}
    if instance is not None:
        address = private_address(instance.id)
        container |= {"instanceType": instance.instance_type, "networkInterfaces": [{"privateIpv4Address": address}]}
    return shown | {"container": container}


def _of_node(world: World, job: Job, index: int, shown: Json) -> Json:
    names = {"jobId": f"{job.id}#{index}", "jobArn": f"{batch_jobs.arn_of(world, job)}#{index}"}
    return shown | names | {"status": batch_jobs.status_of_node(world, job, index)}


def _in_milliseconds(given: Json) -> Json:
    """Moments as the API has them, exact, so that their differences are; those that have not come are left out."""
    return {
        key: (value - _EPOCH) // timedelta(milliseconds=1) if isinstance(value, datetime) else value
        for key, value in given.items()
        if value is not None
    }
