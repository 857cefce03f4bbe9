"""AWS Batch at run time: multi-node jobs over the clock, and the instances of compute environments.

An environment launches instances for jobs in RUNNABLE, up to its most vCPUs, and ends those that are idle above its
fewest. A job waits for all of its instances. No container runs: the seed `batch_jobs` states how long jobs take and
with what exit codes they end, attempt by attempt.

Sources, stored copies of 2026: AWS Batch user guide, "Job states", "Job lifecycle for MNP jobs" (the main node starts
first, and its end ends the job; Batch does nothing about other nodes), "Automated job retries", "Job timeouts" (no
retry), "Jobs stuck in a RUNNABLE status" and its pages of reasons (their first words, `jobStateTimeLimitActions`),
"Perform infrastructure updates" (new jobs go to new instances, running ones go on up to `jobExecutionTimeoutMinutes`),
"Job queue blocked events"; Batch API model (botocore 1.44.5), CancelJob, TerminateJob, RetryStrategy, EvaluateOnExit
and ComputeScalingPolicy.

Made up within that: the time until a job is RUNNABLE, until containers run, and until idle instances end without a
`MinScaleDownDelayMinutes`. Readings: jobs of a queue start in their order; an environment counts the instances of an
old configuration towards its most; CloudFormation does not wait for them to end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from cdk_gpu_clusters.catalogue import instance_types

from . import events, fleets
from .batch_state import SUBMITTED, Job, Outcome
from .world import Group, Instance, Json, Resource, Type, World

RUNNABLE, STARTING, RUNNING = "RUNNABLE", "STARTING", "RUNNING"
SUCCEEDED, FAILED = "SUCCEEDED", "FAILED"
_ENDED = (SUCCEEDED, FAILED)
_ACTIVE = (STARTING, RUNNING)
_EVALUATION, _PULL, _IDLE = timedelta(seconds=30), timedelta(minutes=1), timedelta(minutes=10)
#: Reasons that block a queue, by their first words.
_CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
_TOO_MANY = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
_NO_TYPE = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
#: User guide, "Perform scaling updates": a scaling update replaces no instance.
_SCALING = frozenset({"MinvCpus", "MaxvCpus", "DesiredvCpus"})


# Compute environments.


def open_environment(world: World, environment: Resource) -> None:
    """Launch the fewest nodes of a new managed compute environment."""
    given = environment.properties.get("ComputeResources")
    if given is None:
        return
    least, most = _sizes(given)
    world.groups[environment.physical_id] = Group(
        name=environment.physical_id,
        minimum=least,
        maximum=most,
        desired=least,
        created_at=world.clock.now(),
        given=_launched_by(given),
    )
    environment.settings["Launched"] = given
    fleets.settle(world)


def change_environment(world: World, environment: Resource) -> None:
    """Update an environment in place: its sizes, or also its instances, which go when their jobs have ended."""
    given, group = environment.properties.get("ComputeResources"), world.groups.get(environment.physical_id)
    if given is None or group is None:
        return
    before, environment.settings["Launched"] = environment.settings["Launched"], given
    group.minimum, group.maximum = _sizes(given)
    group.given = _launched_by(given)
    if any(before.get(name) != given.get(name) for name in (before.keys() | given.keys()) - _SCALING):
        policy = environment.properties.get("UpdatePolicy", {})
        at_once = str(policy.get("TerminateJobsOnUpdate", False)).lower() == "true"
        minutes = 0 if at_once else int(policy.get("JobExecutionTimeoutMinutes", 30))
        end = world.clock.now() + timedelta(minutes=minutes)
        world.batch.replaced_at |= {one.id: end for one in group.instances if one.id not in world.batch.replaced_at}
    step(world)


def close_environment(world: World, environment: Resource) -> None:
    """End the instances of an environment; its queues are gone, and their jobs with them."""
    world.groups.pop(environment.physical_id, None)


def close_queue(world: World, queue: Resource) -> None:
    """End the jobs of a queue (API model, DeleteJobQueue)."""
    for job in _jobs(world):
        if job.queue == queue.physical_id and job.status not in _ENDED:
            end_job(world, job, "Job queue deleted")
    step(world)


def _launched_by(given: Json) -> Json:
    """In the properties of an Auto Scaling group."""
    tags = {**given.get("Tags", {}), "AWSBatchServiceTag": "batch"}
    return {
        "VPCZoneIdentifier": given["Subnets"],
        "LaunchTemplate": given.get("LaunchTemplate"),
        "InstanceType": given.get("InstanceTypes", [""])[0],
        "Tags": [{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
    }


def _sizes(given: Json) -> tuple[int, int]:
    """Fewest and most nodes: Batch counts vCPUs, and never exceeds the most."""
    known = instance_types().get(given.get("InstanceTypes", [""])[0])
    vcpus = known.vcpus if known else 1
    return -(-int(given.get("MinvCpus", 0)) // vcpus), int(given["MaxvCpus"]) // vcpus


# Jobs over the clock.


def next_moment(world: World) -> datetime | None:
    """When something happens next to a job or to an instance of an environment; None for never."""
    now = world.clock.now()
    moments = [moment for job in _jobs(world) for moment in _moments(world, job)]
    moments += [moment for group in _groups(world) for _, moment in _ends_of_instances(world, group)]
    return max(min(moments), now) if moments else None


def step(world: World) -> None:
    """Do everything that is due now."""
    is_changed = True
    while is_changed:
        is_changed = sum(_advance(world, job) for job in _jobs(world)) > 0
        is_changed |= sum(_shrink(world, group) for group in _groups(world)) > 0
    _grow(world)


def end_job(world: World, job: Job, reason: str) -> None:
    """Cancel a job that waits, or terminate one that has started: it fails, and is not tried again."""
    job.is_terminated, job.is_cancelled = job.status in _ACTIVE, job.status not in _ACTIVE
    _leave_instances(world, job)
    _turn(world, job, FAILED, reason)


def status_of_node(world: World, job: Job, index: int) -> str:
    """Status of one node: others than the main node start when its container runs."""
    if index == job.main_node or job.status not in _ACTIVE:
        return job.status
    if job.status == STARTING or job.started_at is None:
        return RUNNABLE
    if _instance(world, job, index) is None:
        return FAILED
    return RUNNING if world.clock.now() >= job.started_at + _PULL else STARTING


def private_instances(world: World, job: Job) -> list[Instance | None]:
    """The instances of a job's nodes, in their order; None for one that is gone."""
    return [_instance(world, job, index) for index in range(len(job.instances))]


def _jobs(world: World) -> list[Job]:
    """The jobs of the Region, oldest first."""
    return [job for job in world.batch.jobs.values() if job.region == world.region]


def _groups(world: World) -> list[Group]:
    environments = world.of_type(Type.COMPUTE_ENVIRONMENT)
    return [world.groups[one.physical_id] for one in environments if one.physical_id in world.groups]


def _instance(world: World, job: Job, index: int) -> Instance | None:
    group = world.groups.get(job.environment)
    found = group.instances if group and index < len(job.instances) else ()
    return next((one for one in found if one.id == job.instances[index]), None)


def _moments(world: World, job: Job) -> Iterator[datetime]:
    """When a job comes into its next status."""
    if job.status == SUBMITTED:
        yield job.since + _EVALUATION
    elif job.status == RUNNABLE and _is_head(world, job):
        if _room(world, job) is not None:
            yield world.clock.now()
        limit = _time_limit(world, job)
        if job.blocked_since is not None and limit is not None:
            yield job.blocked_since + limit
    elif job.status in _ACTIVE and _instance(world, job, job.main_node) is None:
        yield world.clock.now()
    elif job.status == STARTING:
        yield _runs_at(world, job)
    elif job.status == RUNNING and job.started_at is not None:
        yield job.started_at + _outcome(world, job).lasts
        if job.timeout is not None:
            yield job.started_at + job.timeout


def _runs_at(world: World, job: Job) -> datetime:
    """When the main container runs: its instances have booted, and the image is there."""
    launched = [one.launched for one in private_instances(world, job) if one is not None]
    return max(job.since, *(one + world.program.boot for one in launched)) + _PULL


def _advance(world: World, job: Job) -> bool:
    """Bring a job into its next status, if that is due."""
    if not any(moment <= world.clock.now() for moment in _moments(world, job)):
        return False
    if job.status == SUBMITTED:
        _turn(world, job, RUNNABLE)
        _grow(world)
    elif job.status == RUNNABLE:
        _place_or_cancel(world, job)
    elif _instance(world, job, job.main_node) is None:
        _attempt_failed(world, job, f"Host EC2 (instance {job.instances[job.main_node]}) terminated.")
    elif job.status == STARTING:
        job.started_at = world.clock.now()
        _turn(world, job, RUNNING)
    else:
        _finish(world, job)
    return True


def _place_or_cancel(world: World, job: Job) -> None:
    place = _room(world, job)
    if place is None:
        end_job(world, job, f"Canceled by JobStateTimeLimit action due to reason: {_word(job.reason)}")
        return
    group, free = place
    job.environment, job.instances = group.name, [one.id for one in free[: job.count]]
    job.blocked_since = None
    _turn(world, job, STARTING)


def _finish(world: World, job: Job) -> None:
    outcome, now = _outcome(world, job), world.clock.now()
    if job.started_at is not None and now < job.started_at + outcome.lasts:
        _leave_instances(world, job)
        _turn(world, job, FAILED, "Job attempt duration exceeded timeout")
        return
    job.exit_code, job.container_reason = outcome.exit_code, outcome.reason
    if outcome.exit_code == 0 and not outcome.reason:
        _end_attempt(world, job, "")
        _turn(world, job, SUCCEEDED)
    else:
        _attempt_failed(world, job, "Essential container in task exited")


def _attempt_failed(world: World, job: Job, reason: str) -> None:
    """Try a job again, or let it fail."""
    code = "" if job.exit_code is None else str(job.exit_code)
    ends = {"onStatusReason": reason, "onReason": job.container_reason, "onExitCode": code}
    _end_attempt(world, job, reason)
    again = len(job.attempts) < int(job.retry.get("attempts", 1)) and _is_retried(job.retry, ends)
    if again:
        job.instances, job.environment = [], ""
        job.started_at = job.exit_code = None
        job.container_reason = ""
    _turn(world, job, RUNNABLE if again else FAILED, reason)


def _is_retried(retry: Json, ends: Json) -> bool:
    """The action of the first condition that fits; without one the job is tried again (API model, RetryStrategy)."""
    for one in retry.get("evaluateOnExit", ()):
        if all(_fits(one[key], ends[key]) for key in ends if key in one):
            return str(one["action"]).upper() == "RETRY"
    return True


def _fits(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _end_attempt(world: World, job: Job, reason: str) -> None:
    """Put down an attempt; its containers end with it."""
    container: Json = {"exitCode": job.exit_code} if job.exit_code is not None else {}
    container |= {"reason": job.container_reason} if job.container_reason else {}
    started = {"startedAt": job.started_at} if job.started_at else {}
    job.attempts.append({"container": container, **started, "stoppedAt": world.clock.now(), "statusReason": reason})
    _leave_instances(world, job)


def _leave_instances(world: World, job: Job) -> None:
    world.batch.idle_since |= dict.fromkeys(job.instances, world.clock.now())


def _turn(world: World, job: Job, status: str, reason: str = "") -> None:
    job.status, job.reason, job.since = status, reason, world.clock.now()
    if status in _ENDED:
        job.stopped_at = world.clock.now()
    _tell(world, job, "Batch Job State Change", arn_of(world, job))


def _tell(world: World, job: Job, kind: str, subject: str) -> None:
    """User guide, "Job state change events" and "Job queue blocked events": the detail is the job."""
    detail = {"jobId": job.id, "jobName": job.name, "jobQueue": job.queue, "status": job.status}
    detail |= {"statusReason": job.reason} if job.reason else {}
    events.emit(world, {"source": "aws.batch", "detail-type": kind, "resources": [subject], "detail": detail})


def arn_of(world: World, job: Job) -> str:
    """The ARN of a job."""
    return world.arn("batch", f"job/{job.id}", job.region)


def _outcome(world: World, job: Job) -> Outcome:
    known = world.batch.outcomes.get(job.name) or (Outcome(),)
    return known[min(len(job.attempts), len(known) - 1)]


# Queues: who is next, where it fits, and what blocks it.


def _is_head(world: World, job: Job) -> bool:
    waiting = [one for one in _jobs(world) if one.queue == job.queue and one.status == RUNNABLE]
    return waiting[0] is job


def _environments(world: World, job: Job) -> list[Resource]:
    """The compute environments of a job's queue, in their order."""
    order = world.properties_of(Type.JOB_QUEUE, job.queue).get("ComputeEnvironmentOrder", [])
    named = [one["ComputeEnvironment"] for one in sorted(order, key=lambda one: int(one["Order"]))]
    found = (world.find(Type.COMPUTE_ENVIRONMENT, arn) for arn in named)
    return [one for one in found if one is not None and one.physical_id in world.groups]


def _fitting(world: World, job: Job) -> tuple[list[Group], str]:
    """The environments that can ever have the nodes of a job, and why there is none."""
    wanted = {name for one in job.nodes["NodeRangeProperties"] for name in _types(one)}
    found = _environments(world, job)
    found = [one for one in found if not wanted or wanted & set(one.properties["ComputeResources"]["InstanceTypes"])]
    if not found:
        return (
            [],
            f"{_NO_TYPE} - The job resource requirement (instance type) is higher than that can be met by the CE(s)",
        )
    groups = [world.groups[one.physical_id] for one in found if world.groups[one.physical_id].maximum >= job.count]
    return (
        groups,
        "" if groups else f"{_TOO_MANY} - CE(s) associated with the job queue cannot meet the CPU requirement",
    )


def _types(one: Json) -> list[str]:
    return [*one.get("InstanceTypes", []), *filter(None, [one.get("Container", {}).get("InstanceType")])]


def _free(world: World, group: Group) -> list[Instance]:
    """The instances that no job has, and that take new ones."""
    taken = _taken(world)
    return [one for one in group.instances if one.id not in taken and one.id not in world.batch.replaced_at]


def _taken(world: World) -> set[str]:
    return {name for job in world.batch.jobs.values() if job.status in _ACTIVE for name in job.instances}


def _room(world: World, job: Job) -> tuple[Group, list[Instance]] | None:
    for group in _fitting(world, job)[0]:
        free = _free(world, group)
        if len(free) >= job.count:
            return group, free
    return None


def _time_limit(world: World, job: Job) -> timedelta | None:
    actions = world.properties_of(Type.JOB_QUEUE, job.queue).get("JobStateTimeLimitActions", [])
    found = (one for one in actions if one["Reason"] == _word(job.reason))
    return next((timedelta(seconds=int(one["MaxTimeSeconds"])) for one in found), None)


def _word(reason: str) -> str:
    return reason.partition(" - ")[0]


def _grow(world: World) -> None:
    """Launch instances for the jobs that wait, and say what blocks the head of a queue."""
    for group in _groups(world):
        waiting = [one for one in _jobs(world) if one.status == RUNNABLE and group in _fitting(world, one)[0][:1]]
        busy = len(group.instances) - len(_free(world, group))
        wanted = busy + sum(one.count for one in waiting)
        group.desired = max(len(group.instances), group.minimum, min(group.maximum, wanted))
    fleets.settle(world)
    for job in _jobs(world):
        if job.status == RUNNABLE and _is_head(world, job):
            _block(world, job)


def _block(world: World, job: Job) -> None:
    groups, reason = _fitting(world, job)
    if groups and _room(world, job) is None and len(groups[0].instances) < groups[0].desired:
        name = str((groups[0].given or {})["InstanceType"])
        reason = f"{_CAPACITY} - Service cannot fulfill the capacity requested for instance type [{name}]"
    if reason and reason != job.reason:
        job.reason, job.blocked_since = reason, world.clock.now()
        _tell(world, job, "Batch Job Queue Blocked", job.queue)


# The end of instances: idle ones above the fewest, and those of an old configuration.


def _ends_of_instances(world: World, group: Group) -> Iterator[tuple[Instance, datetime]]:
    taken, spare = _taken(world), len(group.instances) - group.minimum
    delay = _delay(world, group)
    for one in group.instances:
        replaced = world.batch.replaced_at.get(one.id)
        if replaced is not None:
            yield one, replaced if one.id in taken else world.clock.now()
        elif one.id not in taken and spare > 0 and not _is_awaited(world, group):
            spare -= 1
            yield one, world.batch.idle_since.get(one.id, one.launched + world.program.boot) + delay


def _is_awaited(world: World, group: Group) -> bool:
    return any(one.status == RUNNABLE and group in _fitting(world, one)[0] for one in _jobs(world))


def _delay(world: World, group: Group) -> timedelta:
    """API model, ComputeScalingPolicy: at least so long; 0 or none leaves it to Batch."""
    given = world.properties_of(Type.COMPUTE_ENVIRONMENT, group.name).get("ComputeResources", {})
    minutes = int(given.get("ScalingPolicy", {}).get("MinScaleDownDelayMinutes", 0))
    return timedelta(minutes=minutes) if minutes else _IDLE


def _shrink(world: World, group: Group) -> bool:
    """End the instances whose time has come."""
    due = [one for one, moment in _ends_of_instances(world, group) if moment <= world.clock.now()]
    for one in due:
        group.instances.remove(one)
        reason = "its configuration was updated" if one.id in world.batch.replaced_at else "it was idle"
        group.note(world, "Successful", f"Terminating EC2 instance: {one.id}", reason)
    if due:
        group.desired = max(group.minimum, len(group.instances))
        fleets.settle(world)
    return bool(due)
