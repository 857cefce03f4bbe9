"""AWS Batch: compute environment, job queue and multi-node job, as templates and before moto."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from moto import mock_aws

from cdk_gpu_clusters import (
    BatchComputeEnvironment,
    BatchJobQueue,
    BatchMultiNodeJob,
    BlockedReason,
    Capacity,
    ConfigError,
    MigLayout,
    UpdatePolicy,
)
from stack_fixtures import Resources, Site, of_type, only
from user_data import user_data

ENVIRONMENT, QUEUE, JOB = (f"AWS::Batch::{name}" for name in ("ComputeEnvironment", "JobQueue", "JobDefinition"))
TEMPLATE = "AWS::EC2::LaunchTemplate"
ENDS = "2026-12-15T11:30Z"
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", ends_at=ENDS)
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"
REASONS = [one.value for one in BlockedReason]


class Store:
    """A file system of FSx for Lustre that exists already."""

    dns_name, mount_name = "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "abcdefgh"


def nodes(site: Site, name: str = "Trainers", **options: Any) -> BatchComputeEnvironment:
    """An environment in one subnet; two p5 on a block unless the options say otherwise."""
    given = {
        "instance_type": "p5.48xlarge",
        "node_count": 2,
        "vpc_subnets": site.one_subnet,
        "capacity": BLOCK,
        **options,
    }
    return BatchComputeEnvironment(site.stack, name, vpc=site.vpc, **given)


@pytest.fixture(scope="module")
def made(app_factory: Any) -> Site:
    """A block with a file system, its queue, and a job on both nodes."""
    site = Site(app_factory(), cdk.Environment(account="123456789012", region="us-east-1"))
    environment = nodes(site, mounts={"/fsx": Store()})
    queue = BatchJobQueue(site.stack, "Training", compute_environments=[environment])
    role = iam.Role(site.stack, "JobRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    job = BatchMultiNodeJob(
        site.stack,
        "Llama",
        compute_environment=environment,
        node_count=2,
        image=IMAGE,
        command=["bash", "-c", 'eval "$(gpu-peers --format torchrun)"'],
        environment={"EPOCHS": "3"},
        job_role=role,
        timeout=cdk.Duration.days(5),
    )
    submitter = iam.Role(site.stack, "Submitter", assumed_by=iam.AccountRootPrincipal())
    queue.grant_submit(submitter, jobs=[job])
    queue.add_topic(sns.Topic(site.stack, "Topic"))
    return site


@pytest.fixture(scope="module")
def resources(made: Site) -> Resources:
    return made.resources()


def test_an_environment_on_a_block_has_exactly_its_vcpus(resources: Resources) -> None:
    environment, data = only(resources, ENVIRONMENT), only(resources, TEMPLATE)["LaunchTemplateData"]
    [template] = of_type(resources, TEMPLATE)
    compute = environment["ComputeResources"]
    assert compute["LaunchTemplate"] == {
        "LaunchTemplateId": {"Ref": template},
        "Version": {"Fn::GetAtt": [template, "LatestVersionNumber"]},
    }
    assert {key: compute[key] for key in ("Type", "AllocationStrategy", "MinvCpus", "MaxvCpus", "InstanceTypes")} == {
        "Type": "EC2",
        "AllocationStrategy": "BEST_FIT",
        "MinvCpus": 0,
        "MaxvCpus": 384,
        "InstanceTypes": ["p5.48xlarge"],
    }
    assert "DesiredvCpus" not in compute, "Batch sets them, and refuses to lower them"
    assert "PlacementGroup" not in compute
    assert "ServiceRole" not in environment, "only the service-linked role updates instances"
    # CloudFormation template reference: true with BEST_FIT, whose instances Batch does not replace; no name then.
    assert environment["ReplaceComputeEnvironment"] is True
    assert "ComputeEnvironmentName" not in environment
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}
    assert data["CapacityReservationSpecification"] == target
    # AWS Batch user guide, launch templates: these are ignored, or the environment has them.
    assert not {"IamInstanceProfile", "SecurityGroupIds", "Placement"} & data.keys()
    assert [one["InterfaceType"] for one in data["NetworkInterfaces"]] == ["efa"] * 32
    # AWS Batch refuses groups beside the interfaces of a template (aws/aws-cdk issue 21577).
    assert "SecurityGroupIds" not in compute
    assert all(one["Groups"] for one in data["NetworkInterfaces"])


def test_the_nodes_keep_the_agent_back_and_jobs_from_their_role(resources: Resources) -> None:
    text = user_data(resources)
    assert "GPU_ORCHESTRATOR=batch" in text
    assert "GPU_DRAIN_AT=2026-12-15T10:50:00Z" in text
    assert "vm.nr_hugepages = 5128" in text
    assert "systemctl enable gpu-node-boot" in text.partition("text/x-shellscript")[0]
    image = only(resources, TEMPLATE)["LaunchTemplateData"]["ImageId"]
    assert "ecsoptimizedamiamazonlinux2023gpu" in json.dumps(image)


def statements_of_nodes(resources: Resources) -> list[dict[str, Any]]:
    """What the policy of the nodes allows."""
    [policy] = [one for name, one in of_type(resources, "AWS::IAM::ManagedPolicy").items() if "NodePermissions" in name]
    found: list[dict[str, Any]] = policy["Properties"]["PolicyDocument"]["Statement"]
    return found


def test_nodes_may_write_the_log_streams_of_jobs(resources: Resources) -> None:
    """No container starts whose stream cannot be made (aws/aws-cdk issue 25675)."""
    container = only(resources, JOB)["NodeProperties"]["NodeRangeProperties"][0]["Container"]
    assert "ExecutionRoleArn" not in container, "so that the log driver has the rights of the node"
    options = container["LogConfiguration"]["Options"]
    # PREFIX/CONTAINER/TASK (Amazon ECS developer guide, "Send Amazon ECS logs to CloudWatch").
    stream = f"{options['awslogs-stream-prefix']}/default/0123456789abcdef0123456789abcdef"
    for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
        places = [
            one for it in statements_of_nodes(resources) if action in it["Action"] for one in listed(it["Resource"])
        ]
        matching = [
            parts
            for parts in (place["Fn::Join"][1] for place in places)
            if options["awslogs-group"] in parts and fnmatchcase(f":log-stream:{stream}", parts[-1])
        ]
        assert len(matching) == 1, action


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_the_agent_may_register_with_tags_and_tag_nothing_else(resources: Resources) -> None:
    [statement] = [one for one in statements_of_nodes(resources) if "ecs:TagResource" in one["Action"]]
    assert statement["Condition"] == {"StringEquals": {"ecs:CreateAction": "RegisterContainerInstance"}}
    assert statement["Resource"].endswith(":container-instance/*")


def test_the_reasons_of_a_blocked_job_are_those_of_the_cdk() -> None:
    """aws-cdk-lib has the list of the AWS Batch user guide, too."""
    assert {one.name for one in BlockedReason} == {one.name for one in batch.JobStateTimeLimitActionsReason}


def test_a_queue_cancels_by_every_reason_and_tells(resources: Resources) -> None:
    queue, [name] = only(resources, QUEUE), of_type(resources, QUEUE)
    actions = queue["JobStateTimeLimitActions"]
    assert [one["Reason"] for one in actions] == REASONS
    assert {(one["Action"], one["State"]) for one in actions} == {("CANCEL", "RUNNABLE")}
    assert [one["MaxTimeSeconds"] for one in actions] == [86_400, 3_600, 3_600]
    rule, [rule_name] = only(resources, "AWS::Events::Rule"), of_type(resources, "AWS::Events::Rule")
    assert rule["EventPattern"] == {
        "source": ["aws.batch"],
        "detail-type": ["Batch Job Queue Blocked"],
        "resources": [{"Ref": name}],
    }
    [alarm] = [
        one["Properties"]
        for one in of_type(resources, "AWS::CloudWatch::Alarm").values()
        if one["Properties"]["Namespace"] == "AWS/Events"
    ]
    assert alarm["Dimensions"] == [{"Name": "RuleName", "Value": {"Ref": rule_name}}]
    assert len(alarm["AlarmActions"]) == 1


def test_a_job_has_all_of_its_nodes(resources: Resources) -> None:
    job = only(resources, JOB)
    [group] = job["NodeProperties"]["NodeRangeProperties"]
    assert (job["Type"], job["NodeProperties"]["NumNodes"], group["TargetNodes"]) == ("multinode", 2, "0:")
    container = group["Container"]
    assert container["InstanceType"] == "p5.48xlarge"
    asked = {one["Type"]: one["Value"] for one in container["ResourceRequirements"]}
    assert asked == {"VCPU": "192", "MEMORY": "1048576", "GPU": "8"}
    devices = container["LinuxParameters"]["Devices"]
    assert [one["HostPath"] for one in devices] == [f"/dev/infiniband/uverbs{number}" for number in range(32)]
    assert all(one["ContainerPath"] == one["HostPath"] for one in devices)
    assert container["LinuxParameters"]["SharedMemorySize"] == 262_144
    assert {"Name": "memlock", "SoftLimit": -1, "HardLimit": -1} in container["Ulimits"]
    assert {one["Name"]: one["Value"] for one in container["Environment"]} == {
        "GPU_SLOTS": "8",
        "FI_PROVIDER": "efa",
        "NCCL_SOCKET_IFNAME": "^lo,docker,ecs",
        "EPOCHS": "3",
    }
    mounted = {one["ContainerPath"]: one["ReadOnly"] for one in container["MountPoints"]}
    assert mounted == {
        "/fsx": False,
        "/scratch": False,
        "/usr/local/lib/gpu-cluster": True,
        "/usr/local/bin/gpunode": True,
        "/usr/local/bin/gpu-peers": True,
    }
    assert job["Timeout"] == {"AttemptDurationSeconds": 432_000}
    retries = job["RetryStrategy"]
    assert retries["Attempts"] == 3
    assert retries["EvaluateOnExit"] == [
        {"Action": "RETRY", "OnStatusReason": "Host EC2*"},
        {"Action": "RETRY", "OnReason": "AGENT*"},
        {"Action": "RETRY", "OnStatusReason": "Task failed to start*"},
        {"Action": "RETRY", "OnExitCode": "75"},
        {"Action": "EXIT", "OnReason": "*"},
    ]


def test_a_submitter_reaches_this_queue_and_this_job(resources: Resources) -> None:
    [statement] = [
        one
        for policy in of_type(resources, "AWS::IAM::Policy").values()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if one["Action"] == "batch:SubmitJob"
    ]
    [queue] = of_type(resources, QUEUE)
    assert {"Ref": queue} in statement["Resource"]
    assert len(statement["Resource"]) == 2


def as_api(value: Any) -> Any:
    """Properties of CloudFormation as the API of AWS Batch has them: the same names in camel case."""
    if isinstance(value, dict):
        return {f"{key[0].lower()}{key[1:]}": as_api(one) for key, one in value.items()}
    return [as_api(one) for one in value] if isinstance(value, list) else value


@contextmanager
def moto_with(template: dict[str, Any]) -> Iterator[Any]:
    """moto's AWS Batch with the resources of AWS Batch of a template.

    Environment and queue come by CloudFormation. moto's resource of a job definition knows no multi-node jobs: that one
    comes by the API, whose model botocore checks.
    """
    kept = {name: one for name, one in template["Resources"].items() if one["Type"] in (ENVIRONMENT, QUEUE)}
    [job] = [as_api(one["Properties"]) for one in template["Resources"].values() if one["Type"] == JOB]
    with mock_aws():
        client = {
            name: boto3.client(name, region_name="us-east-1") for name in ("ec2", "iam", "logs", "cloudformation")
        }
        vpc = client["ec2"].create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = client["ec2"].create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        group = client["ec2"].create_security_group(VpcId=vpc, GroupName="g", Description="g")["GroupId"]
        made = client["ec2"].create_launch_template(
            LaunchTemplateName="t", LaunchTemplateData={"InstanceType": "p5.48xlarge"}
        )["LaunchTemplate"]["LaunchTemplateId"]
        profile = client["iam"].create_instance_profile(InstanceProfileName="p")["InstanceProfile"]["Arn"]
        role = client["iam"].create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        for one in kept.values():
            one.pop("DependsOn", None)
            if one["Type"] == ENVIRONMENT:
                one["Properties"]["ComputeResources"] |= {
                    "Subnets": [subnet],
                    "SecurityGroupIds": [group],
                    "InstanceRole": profile,
                    "LaunchTemplate": {"LaunchTemplateId": made, "Version": "1"},
                }
                # moto asks for a role where the service takes its service-linked role, and for security groups, which
                # the service refuses beside the interfaces of a launch template.
                one["Properties"] |= {"ServiceRole": role, "ComputeEnvironmentName": "trainers"}
            if one["Type"] == QUEUE:
                one["Properties"]["JobQueueName"] = "training"
        client["cloudformation"].create_stack(StackName="batch", TemplateBody=json.dumps({"Resources": kept}))
        service = boto3.client("batch", region_name="us-east-1")
        container = job["nodeProperties"]["nodeRangeProperties"][0]["container"]
        container |= {"jobRoleArn": role}
        container["logConfiguration"]["options"]["awslogs-group"] = "nodes"
        service.register_job_definition(jobDefinitionName="llama", **job)
        yield service


def test_moto_takes_the_stack(made: Site) -> None:
    with moto_with(json.loads(json.dumps(made.template()))) as service:
        [environment] = service.describe_compute_environments()["computeEnvironments"]
        assert (environment["state"], environment["status"]) == ("ENABLED", "VALID")
        assert environment["computeResources"]["maxvCpus"] == 384
        [queue] = service.describe_job_queues()["jobQueues"]
        assert queue["computeEnvironmentOrder"][0]["computeEnvironment"] == environment["computeEnvironmentArn"]
        [job] = service.describe_job_definitions()["jobDefinitions"]
        assert (job["type"], job["status"]) == ("multinode", "ACTIVE")


def test_on_demand_is_updated_in_place_and_placed_close(site: Site) -> None:
    cdk.Tags.of(site.app).add("team", "speech")
    made = nodes(
        site,
        capacity=None,
        node_count=None,
        min_node_count=0,
        max_node_count=4,
        scale_down_delay=cdk.Duration.minutes(30),
        job_timeout_on_update=cdk.Duration.hours(1),
    )
    environment = only(site.resources(), ENVIRONMENT)
    compute = environment["ComputeResources"]
    assert environment["ReplaceComputeEnvironment"] is False
    assert environment["UpdatePolicy"] == {"JobExecutionTimeoutMinutes": 60, "TerminateJobsOnUpdate": False}
    assert (compute["AllocationStrategy"], compute["MinvCpus"], compute["MaxvCpus"]) == ("BEST_FIT_PROGRESSIVE", 0, 768)
    assert compute["UpdateToLatestImageVersion"] is True
    assert "Tags" not in environment, "a changed tag would replace it"
    assert '"speech"' in json.dumps(only(site.resources(), TEMPLATE))
    assert compute["ScalingPolicy"] == {"MinScaleDownDelayMinutes": 30}
    [placement] = of_type(site.resources(), "AWS::EC2::PlacementGroup")
    assert placement in json.dumps(compute["PlacementGroup"])
    assert made.fleet_path == "Site/Trainers"


def test_nodes_without_efa_still_reach_each_other(site: Site) -> None:
    made = nodes(site, instance_type="g6.12xlarge", efa=False, capacity=None)
    job = BatchMultiNodeJob(site.stack, "Job", compute_environment=made, node_count=2, image=IMAGE)
    assert made.fabric in made.launch_template.security_groups
    assert job.plan.devices == ()
    container = only(site.resources(), JOB)["NodeProperties"]["NodeRangeProperties"][0]["Container"]
    assert "Devices" not in container["LinuxParameters"]
    assert "Command" not in container


def test_an_imported_environment_gives_its_devices_and_paths(site: Site) -> None:
    existing = BatchComputeEnvironment.from_batch_compute_environment_attributes(
        site.stack,
        "Existing",
        compute_environment_arn="arn:aws:batch:us-east-1:123456789012:compute-environment/train",
        instance_type="p4d.24xlarge",
        efa_count=4,
        mount_points=["/fsx"],
    )
    BatchMultiNodeJob(site.stack, "Job", compute_environment=existing, node_count=64, image=IMAGE)
    BatchJobQueue(site.stack, "Queue", compute_environments=[existing])
    container = only(site.resources(), JOB)["NodeProperties"]["NodeRangeProperties"][0]["Container"]
    assert len(container["LinuxParameters"]["Devices"]) == 4
    assert [one["ContainerPath"] for one in container["MountPoints"]] == ["/fsx"]
    assert "LogConfiguration" not in container


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"capacity": Capacity.spot()}, {"GPU-BAT-010"}),
        ({"instance_type": "p4d.24xlarge", "efa": False, "mig": MigLayout("1g.5gb")}, {"GPU-BAT-011"}),
        ({"update_policy": UpdatePolicy.NEVER_REPLACE}, {"GPU-BAT-022"}),
        ({"instance_type": "trn1.32xlarge"}, {"GPU-BAT-020"}),
        ({"interface_policy": "minimum-ip"}, {"GPU-BAT-009"}),
    ],
)
def test_what_batch_does_not_run_is_refused(site: Site, options: dict[str, Any], found: set[str]) -> None:
    with pytest.raises(ConfigError) as fault:
        nodes(site, **options)
    assert found <= {one.id for one in fault.value.findings}


def test_limits_of_a_queue_and_sizes_of_a_job_are_checked(site: Site) -> None:
    environment = nodes(site)
    soon = {BlockedReason.JOB_RESOURCE_REQUIREMENT: cdk.Duration.minutes(5)}
    with pytest.raises(ConfigError, match="GPU-BAT-016"):
        BatchJobQueue(site.stack, "Soon", compute_environments=[environment], blocked_limits=soon)
    with pytest.raises(ConfigError, match="GPU-BAT-017"):
        BatchMultiNodeJob(site.stack, "Large", compute_environment=environment, node_count=3, image=IMAGE)
    open_end = {BlockedReason.INSUFFICIENT_INSTANCE_CAPACITY: None}
    queue = BatchJobQueue(site.stack, "Open", compute_environments=[environment], blocked_limits=open_end)
    assert isinstance(queue.cfn_job_queue.job_state_time_limit_actions, list)
    assert len(queue.cfn_job_queue.job_state_time_limit_actions) == 2


def test_a_variable_of_the_user_wins(site: Site) -> None:
    own = {"NCCL_SOCKET_IFNAME": "eth0"}
    made = nodes(site, instance_type="g6.12xlarge", efa=False, capacity=None)
    BatchMultiNodeJob(site.stack, "Job", compute_environment=made, node_count=2, image=IMAGE, environment=own)
    container = only(site.resources(), JOB)["NodeProperties"]["NodeRangeProperties"][0]["Container"]
    variables = [(one["Name"], one["Value"]) for one in container["Environment"]]
    assert sorted(variables) == [("GPU_SLOTS", "4"), ("NCCL_SHM_USE_CUDA_MEMCPY", "1"), ("NCCL_SOCKET_IFNAME", "eth0")]


def test_what_a_container_is_started_with_is_checked(site: Site) -> None:
    made = nodes(site)
    token = f"hf_{'abcdefghijklmnopqrstuvwxyzABCDEFGH'}"
    given: dict[str, Any] = {
        "image": "https://example.com/train:1",
        "environment": {"AWS_BATCH_JOB_NODE_INDEX": "0", "HF_TOKEN": token},
        "command": ["train", "--token", token],
    }
    with pytest.raises(ConfigError) as fault:
        BatchMultiNodeJob(site.stack, "Job", compute_environment=made, node_count=2, **given)
    assert sorted((one.id, one.path.removeprefix("Site/Job")) for one in fault.value.findings) == [
        ("GPU-BAT-025", ".environment.AWS_BATCH_JOB_NODE_INDEX"),
        ("GPU-INF-006", ""),
        ("GPU-UD-002", ".command[2]"),
        ("GPU-UD-002", ".environment.HF_TOKEN"),
    ]


def test_what_slows_a_container_down_is_a_warning(site: Site) -> None:
    made = nodes(site)
    BatchMultiNodeJob(
        site.stack, "Job", compute_environment=made, node_count=2, image="example.com/train:latest",
        environment={"NCCL_PROTO": "simple", "MODE": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}, not_secret=["MODE"],
    )  # fmt: skip
    texts = [str(one.data) for one in site.stack.node.find_child("Job").node.metadata]
    assert [re.findall(r"GPU-[A-Z]+-\d{3}", text)[:1] for text in texts] == [["GPU-INF-007"], ["GPU-UD-004"]]


def test_a_network_whose_default_group_the_app_empties_is_refused(app_factory: Any) -> None:
    stack = cdk.Stack(app_factory(), "Own", env=cdk.Environment(account="123456789012", region="us-east-1"))
    options: dict[str, Any] = {"instance_type": "p5.48xlarge", "min_node_count": 0, "max_node_count": 2}
    closed = ec2.Vpc(stack, "Closed", max_azs=1, restrict_default_security_group=True)
    with pytest.raises(ConfigError, match=r"GPU-BAT-024[\s\S]*restrict_default_security_group=False"):
        BatchComputeEnvironment(stack, "Refused", vpc=closed, **options)
    left = ec2.Vpc(stack, "Left", max_azs=1, restrict_default_security_group=False)
    BatchComputeEnvironment(stack, "Trainers", vpc=left, **options)
