"""AWS Batch in the emulator: an environment, its queue and a job are made, changed in place or replaced, and deleted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template
from botocore.validate import ParamValidator

from cdk_cli import CdkCli, bootstrap
from cdk_gpu_clusters import BatchComputeEnvironment, BatchJobQueue, BatchMultiNodeJob, Capacity, RootVolume
from cdk_gpu_clusters.testing import DeployFailed, Emulator, InProcessEmulator
from gpu_clusters_emulator import fleets
from gpu_clusters_emulator.api import call
from gpu_clusters_emulator.service_shapes import service_model
from mutations import put

Json = dict[str, Any]
Stack = Callable[..., Json]

BLOCK, NEXT_BLOCK = "cr-0123456789abcdef0", "cr-0fedcba9876543210"
SUBNETS = {"subnet-0aaaaaaaaaaaaaaaa": "us-east-1a", "subnet-0bbbbbbbbbbbbbbbb": "us-east-1b"}
VPC = "vpc-0123456789abcdef0"
LIFE = {"starts_at": "2026-12-01T11:30Z", "ends_at": "2026-12-15T11:30Z"}
SEED: Json = {
    "now": "2026-11-22T08:00Z",
    "vpcs": [VPC],
    "subnets": SUBNETS,
    "reservations": [
        {
            "id": one,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 4,
            "kind": "capacity-block",
            **LIFE,
        }
        for one in (BLOCK, NEXT_BLOCK)
    ],
}
_BLOCK = {"capacity": Capacity.capacity_block(BLOCK, **LIFE)}
VARIANTS: dict[str, Json] = {
    "on demand": {},
    "larger disk": {"root_volume": RootVolume(size_gib=300)},
    "fewer nodes": {"max_node_count": 2},
    "a block": _BLOCK,
    "a block with a larger disk": {**_BLOCK, "root_volume": RootVolume(size_gib=300)},
    "the next block": {"capacity": Capacity.capacity_block(NEXT_BLOCK, **LIFE)},
}


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed=SEED) as made:
        yield made


def define(app: cdk.App, variant: str) -> cdk.Stack:
    """Trainers, their queue and a job, as the variant of that name has them."""
    made = cdk.Stack(app, "Training", env=cdk.Environment(account="123456789012", region="us-east-1"))
    vpc = ec2.Vpc.from_vpc_attributes(
        made,
        "Vpc",
        vpc_id=VPC,
        availability_zones=list(SUBNETS.values()),
        private_subnet_ids=list(SUBNETS),
        private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
    )
    options = {"min_node_count": 0, "max_node_count": 4, **VARIANTS[variant]}
    nodes = BatchComputeEnvironment(
        made,
        "Trainers",
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[vpc.private_subnets[0]]),
        instance_type="p5.48xlarge",
        **options,
    )
    queue = BatchJobQueue(made, "Queue", compute_environments=[nodes])
    job = BatchMultiNodeJob(made, "Job", compute_environment=nodes, node_count=2, image="example:1")
    for name, value in (
        ("Environment", nodes.compute_environment_arn),
        ("JobQueue", queue.job_queue_arn),
        ("JobDefinition", job.job_definition_arn),
    ):
        cdk.CfnOutput(made, f"{name}Arn", value=value).override_logical_id(name)
    return made


@pytest.fixture(scope="module")
def stack(app_factory: Any) -> Stack:
    """The template of a variant; each is synthesized once."""

    @cache
    def make(variant: str) -> Json:
        return dict(Template.from_stack(define(app_factory(), variant)).to_json())

    return make


def edited(template: Json, path: str, value: Any) -> Json:
    after = copy.deepcopy(template)
    [name] = [name for name, one in after["Resources"].items() if one["Type"] == path.partition(" ")[0]]
    put(f"Resources.{name}.Properties.{path.partition(' ')[2]}", value)(after)
    return after


def test_arns_have_the_forms_of_the_service(account: InProcessEmulator, stack: Stack) -> None:
    shown = account.deploy(stack("on demand"))
    above = "arn:aws:batch:us-east-1:123456789012:"
    assert shown["Environment"].startswith(f"{above}compute-environment/")
    assert shown["JobQueue"].startswith(f"{above}job-queue/")
    assert shown["JobDefinition"].startswith(f"{above}job-definition/")
    assert shown["JobDefinition"].endswith(":1")


@pytest.mark.parametrize("variant", ["larger disk", "fewer nodes"])
def test_an_update_keeps_the_environment(account: InProcessEmulator, stack: Stack, variant: str) -> None:
    before = account.deploy(stack("on demand"))
    assert account.deploy(stack(variant)) == before


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("a block", "a block with a larger disk"),
        ("a block", "the next block"),
        ("a block", "on demand"),
        ("on demand", "a block"),
    ],
)
def test_with_a_block_it_is_replaced_and_the_queue_moves(
    account: InProcessEmulator, stack: Stack, first: str, then: str
) -> None:
    before = account.deploy(stack(first))
    after = account.deploy(stack(then))
    assert after["Environment"] != before["Environment"]
    assert after["JobQueue"] == before["JobQueue"]
    [left] = account.resources("AWS::Batch::ComputeEnvironment")
    assert left["physical_id"] == after["Environment"], "the old one is deleted"


def test_the_stack_is_deleted_whole(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack("a block"))
    account.destroy()
    assert [one for one in account.resources() if one["type"].startswith("AWS::Batch::")] == []


def test_an_environment_with_best_fit_takes_no_update_in_place(account: InProcessEmulator, stack: Stack) -> None:
    """What the construct avoids: the service refuses it, and the deployment fails."""
    flag = "AWS::Batch::ComputeEnvironment ReplaceComputeEnvironment"
    account.deploy(edited(stack("a block"), flag, False))
    with pytest.raises(DeployFailed, match="BEST_FIT takes no change of LaunchTemplate"):
        account.deploy(edited(stack("the next block"), flag, False))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("AWS::Batch::ComputeEnvironment ComputeResources.InstanceTypes", ["p5.huge"], "no instance type"),
        ("AWS::Batch::ComputeEnvironment ComputeResources.MaxvCpus", 0, "maxvCpus"),
        ("AWS::Batch::ComputeEnvironment ComputeResources.Subnets", ["subnet-0123"], "does not exist"),
        (
            "AWS::Batch::ComputeEnvironment ComputeResources.LaunchTemplate.Version",
            "7",
            "no launch template .* with version 7",
        ),
        (
            "AWS::Batch::ComputeEnvironment ComputeResources.SecurityGroupIds",
            [f"sg-{n}" for n in range(6)],
            "at most 5",
        ),
        ("AWS::EC2::LaunchTemplate LaunchTemplateData.UserData", "ZWNobwo=", "MIME multi-part"),
        ("AWS::Batch::JobQueue ComputeEnvironmentOrder", [], "1 to 3 compute environments"),
        ("AWS::Batch::JobQueue JobStateTimeLimitActions.0.Reason", "ACTION_REQUIRED", "no action takes"),
        (
            "AWS::Batch::JobQueue JobStateTimeLimitActions.0.Reason",
            "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
            "no action takes",
        ),
        ("AWS::Batch::JobQueue JobStateTimeLimitActions.0.MaxTimeSeconds", 599, "599"),
        ("AWS::Batch::JobDefinition NodeProperties.MainNode", 2, "main node"),
        (
            "AWS::Batch::JobDefinition NodeProperties.NodeRangeProperties.0.TargetNodes",
            "0:0",
            "the ranges name 1 nodes",
        ),
    ],
)
def test_what_the_service_refuses(account: InProcessEmulator, stack: Stack, path: str, value: Any, words: str) -> None:
    with pytest.raises(DeployFailed, match=words):
        account.deploy(edited(stack("on demand"), path, value))


def test_groups_beside_network_interfaces_are_refused(account: InProcessEmulator, stack: Stack) -> None:
    """The groups of the interfaces, once more: words of the service in aws/aws-cdk issue 21577."""
    before = stack("on demand")
    [launch] = [one for one in before["Resources"].values() if one["Type"] == "AWS::EC2::LaunchTemplate"]
    groups = launch["Properties"]["LaunchTemplateData"]["NetworkInterfaces"][0]["Groups"]
    with pytest.raises(
        DeployFailed, match="Either compute environment Security Groups or Network Interfaces in Launch"
    ):
        account.deploy(edited(before, "AWS::Batch::ComputeEnvironment ComputeResources.SecurityGroupIds", groups))


# Jobs: what the emulator's clock makes of a submission. Each answer is parsed, and its members are held against the
# API model of botocore.


class Jobs:
    """The jobs of a stack that is deployed."""

    def __init__(self, account: InProcessEmulator, template: Json) -> None:
        self.account, self.outputs = account, account.deploy(template)
        self.batch = account.client("batch")

    def submit(self, name: str = "train", **given: Any) -> str:
        queue, definition = self.outputs["JobQueue"], self.outputs["JobDefinition"]
        return str(self.batch.submit_job(jobName=name, jobQueue=queue, jobDefinition=definition, **given)["jobId"])

    def after(self, minutes: float) -> None:
        now = datetime.fromisoformat(self.account.now)
        self.account.move_clock(now + timedelta(minutes=minutes))

    def job(self, identifier: str) -> Json:
        (found,) = self.batch.describe_jobs(jobs=[identifier])["jobs"]
        return dict(found)

    def nodes(self, identifier: str, status: str) -> list[str]:
        shown = self.batch.list_jobs(multiNodeJobId=identifier, jobStatus=status)["jobSummaryList"]
        return [one["jobId"].partition("#")[2] for one in shown]

    @property
    def instances(self) -> list[Any]:
        group = self.account.world.groups[self.outputs["Environment"]]
        return group.instances


@pytest.fixture
def jobs(account: InProcessEmulator, stack: Stack) -> Callable[..., Jobs]:
    return lambda variant="on demand": Jobs(account, stack(variant))


def test_a_job_brings_its_nodes_runs_and_leaves_none(jobs: Callable[..., Jobs]) -> None:
    here = jobs()
    assert here.instances == []
    one = here.submit()
    assert here.job(one)["status"] == "SUBMITTED"
    here.after(1)
    assert (here.job(one)["status"], len(here.instances)) == ("STARTING", 2)
    assert {instance.instance_type for instance in here.instances} == {"p5.48xlarge"}
    assert (here.nodes(one, "STARTING"), here.nodes(one, "RUNNABLE")) == (["0"], ["1"])
    here.after(6)
    assert here.nodes(one, "RUNNING") == ["0"], "other nodes start when the container of the main node runs"
    here.after(2)
    assert here.nodes(one, "RUNNING") == ["0", "1"]
    here.after(10)
    job = here.job(one)
    # Time also goes on by itself, a little.
    assert (job["status"], (job["stoppedAt"] - job["startedAt"]) // 1000) == ("SUCCEEDED", 600)
    assert here.job(f"{one}#0")["container"]["exitCode"] == 0
    assert len(here.instances) == 2
    here.after(20)
    assert here.instances == []


def test_answers_have_the_members_of_the_api_model(jobs: Callable[..., Jobs]) -> None:
    here = jobs()
    one = here.submit(timeout={"attemptDurationSeconds": 3600}, tags={"team": "nlp"})
    here.after(9)
    world = here.account.world
    shapes = service_model("batch")
    for operation, params in (
        ("DescribeJobs", {"jobs": [one, f"{one}#1"]}),
        ("ListJobs", {"multiNodeJobId": one}),
        ("ListJobs", {"jobQueue": here.outputs["JobQueue"]}),
        ("DescribeComputeEnvironments", {"computeEnvironments": [here.outputs["Environment"]]}),
    ):
        answer = call(world, "batch", operation, params)
        assert any(answer.values())
        report = ParamValidator().validate(answer, shapes.operation_model(operation).output_shape)
        assert not report.has_errors(), report.generate_report()


def test_an_environment_is_described_with_the_nodes_that_it_has(jobs: Callable[..., Jobs]) -> None:
    here = jobs()
    here.submit()
    here.after(9)
    [found] = call(here.account.world, "batch", "DescribeComputeEnvironments", {})["computeEnvironments"]
    assert found["computeEnvironmentArn"] == here.outputs["Environment"]
    sizes = {name: found["computeResources"][name] for name in ("minvCpus", "desiredvCpus", "maxvCpus")}
    assert sizes == {"minvCpus": 0, "desiredvCpus": 2 * 192, "maxvCpus": 4 * 192}


@pytest.mark.parametrize(
    ("attempts", "status", "count"),
    [
        ([{"exit_code": 1}], "FAILED", 1),
        ([{"exit_code": 75}, {"exit_code": 0}], "SUCCEEDED", 2),
    ],
)
def test_a_job_is_tried_again_for_the_causes_of_its_definition(
    account: InProcessEmulator, jobs: Callable[..., Jobs], attempts: list[Json], status: str, count: int
) -> None:
    """75 is how a container asks for another attempt: `gpu-peers`."""
    account.seed({"batch_jobs": {"train": attempts}})
    here = jobs()
    one = here.submit()
    here.after(60)
    job = here.job(one)
    assert (job["status"], len(job["attempts"])) == (status, count)
    assert job["attempts"][0]["container"]["exitCode"] == attempts[0]["exit_code"]


def test_a_job_without_its_main_instance_is_tried_again_on_another(jobs: Callable[..., Jobs]) -> None:
    here = jobs()
    one = here.submit()
    here.after(10)
    lost = here.instances[0].id
    fleets.lose(here.account.world, lost)
    here.after(1)
    job = here.job(one)
    assert job["status"] in {"STARTING", "RUNNABLE"}
    assert job["attempts"][0]["statusReason"] == f"Host EC2 (instance {lost}) terminated."


def test_a_timeout_ends_a_job_for_good(jobs: Callable[..., Jobs]) -> None:
    here = jobs()
    one = here.submit(timeout={"attemptDurationSeconds": 120})
    here.after(30)
    job = here.job(one)
    assert (job["status"], job["statusReason"]) == ("FAILED", "Job attempt duration exceeded timeout")


def test_a_job_without_capacity_blocks_its_queue_until_its_time_is_over(jobs: Callable[..., Jobs]) -> None:
    """The block begins on another day; the queue cancels for this reason."""
    here = jobs("a block")
    first, second = here.submit(), here.submit("next")
    here.after(2)
    assert here.job(first)["statusReason"].startswith("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
    assert "statusReason" not in here.job(second), "only the head of a queue is told why"
    blocked = [one for one in here.account.history()["events"] if one["detail-type"] == "Batch Job Queue Blocked"]
    assert [one["resources"] for one in blocked] == [[here.outputs["JobQueue"]]]
    here.after(24 * 60)
    job = here.job(first)
    assert (job["status"], job["isCancelled"]) == ("FAILED", True)
    assert job["statusReason"].endswith("due to reason: CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")


def test_a_job_starts_when_its_block_is_delivered(jobs: Callable[..., Jobs]) -> None:
    here = jobs("a block")
    here.account.move_clock("2026-12-01T11:25Z")
    one = here.submit()
    here.after(1)
    assert here.job(one)["status"] == "RUNNABLE"
    here.after(60)
    assert here.job(one)["status"] == "SUCCEEDED"


def test_more_nodes_than_an_environment_has_block_at_once(jobs: Callable[..., Jobs]) -> None:
    here = jobs("fewer nodes")
    one = here.submit(nodeOverrides={"numNodes": 3})
    here.after(1)
    job = here.job(one)
    assert job["nodeProperties"]["numNodes"] == 3
    assert job["statusReason"].startswith("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE")
    assert here.instances == []


def test_jobs_are_cancelled_before_they_start_and_terminated_after(jobs: Callable[..., Jobs]) -> None:
    here = jobs()
    first, second = here.submit(), here.submit("next")
    here.batch.cancel_job(jobId=second, reason="not now")
    assert here.job(second)["isCancelled"]
    here.after(10)
    here.batch.cancel_job(jobId=first, reason="not now")
    assert here.job(first)["status"] == "RUNNING", "a job that has started is not cancelled"
    here.batch.terminate_job(jobId=first, reason="enough")
    job = here.job(first)
    assert (job["status"], job["statusReason"], job["isTerminated"]) == ("FAILED", "enough", True)


@pytest.mark.parametrize(("minutes", "same"), [(120, True), (5, False)])
def test_an_update_lets_a_job_run_as_long_as_its_policy_says(
    account: InProcessEmulator, stack: Stack, minutes: int, same: bool
) -> None:
    account.seed({"batch_jobs": {"train": [{"minutes": 60}]}})
    path = "AWS::Batch::ComputeEnvironment UpdatePolicy.JobExecutionTimeoutMinutes"
    here = Jobs(account, edited(stack("on demand"), path, minutes))
    one = here.submit()
    here.after(10)
    before = {instance.id for instance in here.instances}
    assert account.deploy(edited(stack("larger disk"), path, minutes)) == here.outputs
    assert {instance.id for instance in here.instances} == before, "the job keeps its nodes"
    other = here.submit("next")
    here.after(4)
    assert len(here.instances) == 4, "new jobs go to new nodes"
    here.after(56 if same else 66)
    job = here.job(one)
    assert job["status"] == ("SUCCEEDED" if same else "RUNNING")
    assert [attempt["statusReason"][:8] for attempt in job["attempts"]] == ([""] if same else ["Host EC2"])
    assert here.job(other)["status"] == "SUCCEEDED"
    assert not before & {instance.id for instance in here.instances}


def test_a_stack_with_a_running_job_is_deleted_whole(jobs: Callable[..., Jobs]) -> None:
    here = jobs()
    one = here.submit()
    here.after(10)
    here.account.destroy()
    assert here.job(one)["status"] == "FAILED"
    assert here.account.world.groups == {}


def test_the_real_cdk_deploys_updates_in_place_and_destroys(
    new_account: Emulator, app_factory: Any, tmp_path: Path
) -> None:
    """Slow, since it is the one test in which the CDK CLI itself does so."""
    assemblies = []
    for variant in ("on demand", "larger disk"):
        app = app_factory()
        define(app, variant)
        assemblies.append(app.synth().directory)
    new_account.seed(SEED)
    call, environments = CdkCli(new_account, tmp_path), []
    bootstrap(new_account)
    for assembly in assemblies:
        call(assembly, "deploy", "--all", "--require-approval", "never")
        environments.append(new_account.resources("AWS::Batch::ComputeEnvironment"))
        assert _run_a_job(new_account) == ["STARTING", "SUCCEEDED"]
    assert [len(one) for one in environments] == [1, 1]
    assert environments[0][0]["physical_id"] == environments[1][0]["physical_id"]
    call(assemblies[1], "destroy", "--all", "--force")
    assert [one for one in new_account.resources() if one["type"].startswith("AWS::Batch::")] == []


def _run_a_job(account: Emulator) -> list[str]:
    """Submit a job of the stack, and tell its status as it starts and at its end."""
    batch, found = account.client("batch"), []
    (queue,), (definition,) = (account.resources(f"AWS::Batch::{kind}") for kind in ("JobQueue", "JobDefinition"))
    job = batch.submit_job(jobName="train", jobQueue=queue["physical_id"], jobDefinition=definition["physical_id"])[
        "jobId"
    ]
    for minutes in (1, 30):
        account.move_clock(datetime.fromisoformat(account.now) + timedelta(minutes=minutes))
        found += [one["status"] for one in batch.describe_jobs(jobs=[job])["jobs"]]
    return found
