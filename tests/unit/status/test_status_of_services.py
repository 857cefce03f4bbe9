"""What `status` reads of nodes that AWS Batch, SageMaker HyperPod and AWS ParallelCluster launch.

botocore's service models check every answer. The tags of ParallelCluster are those of its own source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.preflight import Account
from cdk_gpu_clusters_stacks.spec import load_cluster
from cdk_gpu_clusters_stacks.status import NodeState, Status, policy_for_status, read_status, status_text
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, NOW, reservation

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
BATCH, HYPERPOD, PARALLEL = (
    EXAMPLES / f"{name}.yaml" for name in ("batch-p5-capacity-block", "hyperpod-slurm-p5", "parallelcluster-p5")
)
ENVIRONMENT = f"arn:aws:batch:us-east-1:{ACCOUNT}:compute-environment/trainers"
CLUSTER = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:cluster/abcdefghijkl"
ABSENT = Refusal("ValidationError", "Stack with id x does not exist")
RESOURCES = {
    "llama-jobs-fleet-trainers": ("AWS::Batch::ComputeEnvironment", ENVIRONMENT),
    "llama-hyperpod-hyperpod": ("AWS::SageMaker::Cluster", CLUSTER),
    "foundation-parallelcluster": ("AWS::IAM::ManagedPolicy", "policy"),
}


def stack(asked: Mapping[str, Any]) -> Any:
    if asked["StackName"] not in RESOURCES:
        return ABSENT
    kind, name = RESOURCES[asked["StackName"]]
    row = {
        "LogicalResourceId": "Nodes",
        "PhysicalResourceId": name,
        "ResourceType": kind,
        "ResourceStatus": "CREATE_COMPLETE",
        "LastUpdatedTimestamp": NOW,
    }
    return {"StackResourceSummaries": [row]}


def instance(name: str, state: str = "running", **tags: str) -> dict[str, Any]:
    given = [{"Key": key.replace("__", ":").replace("_", "-"), "Value": value} for key, value in tags.items()]
    return {"InstanceId": name, "InstanceType": "p5.48xlarge", "State": {"Name": state}, "Tags": given}


def instances(*found: dict[str, Any]) -> Any:
    """What EC2 answers: the instances that have the tags of every filter."""

    def answer(asked: Mapping[str, Any]) -> Any:
        wanted = {
            one["Name"].removeprefix("tag:"): one["Values"]
            for one in asked.get("Filters", ())
            if one["Name"].startswith("tag:")
        }
        given = [one for one in found if _has(one, wanted)]
        return {"Reservations": [{"Instances": given}]}

    return answer


def _has(one: Mapping[str, Any], wanted: Mapping[str, list[str]]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in one["Tags"]}
    return all(tags.get(key) in values for key, values in wanted.items())


def environment(**changes: Any) -> dict[str, Any]:
    resources = {
        "type": "EC2",
        "minvCpus": 384,
        "maxvCpus": 3072,
        "desiredvCpus": 384,
        "instanceTypes": ["p5.48xlarge"],
        "subnets": [],
        **changes.pop("resources", {}),
    }
    one = {
        "computeEnvironmentName": "trainers",
        "computeEnvironmentArn": ENVIRONMENT,
        "state": "ENABLED",
        "status": "VALID",
        "computeResources": resources,
        **changes,
    }
    return {"computeEnvironments": [one]}


def group(name: str, count: int, **changes: Any) -> dict[str, Any]:
    return {"InstanceGroupName": name, "TargetCount": count, "CurrentCount": count, "Status": "InService", **changes}


def hyperpod(*groups: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"ClusterArn": CLUSTER, "ClusterStatus": "InService", "InstanceGroups": list(groups), **changes}


def summary(name: str, of: str, status: str = "Running", message: str = "") -> dict[str, Any]:
    return {
        "InstanceGroupName": of,
        "InstanceId": name,
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": NOW,
        "InstanceStatus": {"Status": status, **({"Message": message} if message else {})},
    }


def severities(**values: float) -> Any:
    """The last severity of nodes, if they are asked for by the path of their fleet."""

    def answer(asked: Mapping[str, Any]) -> Any:
        found = []
        for query in asked["MetricDataQueries"]:
            dimensions = {one["Name"]: one["Value"] for one in query["MetricStat"]["Metric"]["Dimensions"]}
            key = next(name for name, value in dimensions.items() if value.startswith("i-"))
            node, fleet = dimensions.pop(key), next(iter(dimensions.values()))
            if node.replace("-", "_") in values and fleet == FLEET:
                found.append({"Id": query["Id"], "Values": [values[node.replace("-", "_")]]})
        return {"MetricDataResults": found}

    return answer


#: How a node of AWS Batch names its fleet: as `tests/synth` has it of the alarms on the same metrics.
FLEET = "llama-jobs-fleet-trainers/Environment"
OF_BATCH = {"gpu_cluster": "llama-jobs", "Name": FLEET}


def aws(**answers: Any) -> FakeAws:
    return FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT},
            "cloudformation.list_stack_resources": stack,
            "cloudwatch.get_metric_data": severities(),
            "logs.filter_log_events": {"events": []},
            "ec2.describe_instances": instances(),
            "ec2.describe_capacity_reservations": {"CapacityReservations": [reservation("cr-0123456789abcdef0")]},
            "batch.describe_compute_environments": environment(),
            "sagemaker.describe_cluster": hyperpod(group("controller", 1), group("login", 1), group("trainers", 16)),
            "sagemaker.list_cluster_nodes": {"ClusterNodeSummaries": []},
        }
    ).but(**answers)


def read(file: Path, fake: FakeAws) -> Status:
    with Account(fake.clients, region="us-east-1") as account:
        return read_status(load_cluster(file), account, now=NOW)


def states(status: Status) -> dict[str, dict[str, str]]:
    return {fleet.name: {node.instance_id: node.state.value for node in fleet.nodes or ()} for fleet in status.fleets}


def test_nodes_of_batch_are_found_by_the_tags_of_their_template() -> None:
    mine, others = OF_BATCH, {**OF_BATCH, "gpu_cluster": "another"}
    found = instances(
        instance("i-1", **mine),
        instance("i-2", "pending", **mine),
        instance("i-3", "terminated", **mine),
        instance("i-4", **others),
        instance("i-5", **mine),
        instance("i-6", **mine),
    )
    fake = aws(ec2__describe_instances=found, cloudwatch__get_metric_data=severities(i_1=0, i_5=3))
    status = read(BATCH, fake)
    expected = {"i-1": "in service", "i-2": "booting", "i-5": "failing", "i-6": "running"}
    assert states(status) == {"training.fleets.trainers": expected}
    (fleet,) = status.fleets
    assert (fleet.least, fleet.most, fleet.problems) == (2, 16, [])
    assert "2 to 16 wanted: 1 in service, 1 booting, 1 running, 1 failing" in status_text(status, width=200)
    assert "aws batch list-jobs" in status.jobs_elsewhere
    asked = next(one.parameters for one in fake.asked if one.name == "batch.describe_compute_environments")
    assert asked == {"computeEnvironments": [ENVIRONMENT]}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (environment(status="INVALID", statusReason="no role"), "its compute environment is INVALID: no role"),
        (environment(state="DISABLED"), "is DISABLED"),
        ({"computeEnvironments": []}, f"the compute environment {ENVIRONMENT} does not exist"),
    ],
)
def test_faults_of_a_compute_environment_are_problems(answer: Any, problem: str) -> None:
    status = read(BATCH, aws(batch__describe_compute_environments=answer))
    assert [one for one in status.fleets[0].problems if problem in one]
    assert not status.is_well


STATES = {
    "Running": NodeState.IN_SERVICE,
    "Pending": NodeState.BOOTING,
    "DeepHealthCheckInProgress": NodeState.BOOTING,
    "SystemUpdating": NodeState.BOOTING,
    "ShuttingDown": NodeState.LEAVING,
    "Failure": NodeState.FAILING,
    "NotFound": NodeState.FAILING,
}


@pytest.mark.parametrize(("state", "shown"), STATES.items())
def test_every_state_of_a_node_of_hyperpod_is_known(state: str, shown: NodeState) -> None:
    status = read(
        HYPERPOD, aws(sagemaker__list_cluster_nodes={"ClusterNodeSummaries": [summary("i-1", "trainers", state)]})
    )
    assert states(status)["training.fleets.trainers"] == {"i-1": shown.value}


def test_the_states_of_hyperpod_are_those_of_its_service_model() -> None:
    model: Any = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    assert set(STATES) == set(model.shape_for("ClusterInstanceStatus").enum)


def test_nodes_of_hyperpod_are_those_of_its_instance_groups() -> None:
    nodes = [
        summary("i-1", "controller"),
        *(summary(f"i-{number}", "trainers") for number in range(2, 17)),
        summary("i-17", "trainers", "Failure", "GPU fell off the bus"),
    ]
    fake = aws(sagemaker__list_cluster_nodes={"ClusterNodeSummaries": nodes})
    status = read(HYPERPOD, fake)
    assert [(one.name, one.least, one.most, len(one.nodes or ())) for one in status.fleets] == [
        ("hyperpod.controller", 1, 1, 1),
        ("hyperpod.login", 1, 1, 0),
        ("training.fleets.trainers", 16, 16, 16),
    ]
    text = status_text(status, width=200)
    assert "1 wanted: 1 missing" in text
    assert "i-17 (Failure): SageMaker reports Failure: GPU fell off the bus" in text
    assert "squeue" in status.jobs_elsewhere
    assert {one.parameters["ClusterName"] for one in fake.asked if one.name.startswith("sagemaker.")} == {CLUSTER}


def test_faults_that_sagemaker_reports_are_problems() -> None:
    answer = hyperpod(
        group("controller", 1), group("trainers", 16, Status="Degraded"), FailureMessage="no subnet has an address"
    )
    status = read(HYPERPOD, aws(sagemaker__describe_cluster=answer))
    assert {one.name: one.problems for one in status.fleets} == {
        "hyperpod.controller": ["SageMaker reports of the cluster: no subnet has an address"],
        "training.fleets.trainers": ["SageMaker reports the instance group as Degraded"],
    }


def test_a_node_whose_boot_failed_is_a_problem_of_one_group_of_its_stack() -> None:
    record = {"state": "failed", "stage": "node", "reason": "no EFA", "instance_id": "i-9"}
    events = {"events": [{"message": json.dumps(record), "timestamp": 1, "eventId": "1", "logStreamName": "i-9"}]}

    def resources(asked: Mapping[str, Any]) -> Any:
        answer = stack(asked)
        if isinstance(answer, Refusal):
            return answer
        logs = {
            **answer["StackResourceSummaries"][0],
            "ResourceType": "AWS::Logs::LogGroup",
            "PhysicalResourceId": "logs",
        }
        return {"StackResourceSummaries": [*answer["StackResourceSummaries"], logs]}

    fake = aws(logs__filter_log_events=events, cloudformation__list_stack_resources=resources)
    problems = [one for fleet in read(HYPERPOD, fake).fleets for one in fleet.problems]
    assert problems == ["1 boot failed in the last hour: no EFA"]


@pytest.mark.parametrize("call", ["sagemaker.describe_cluster", "sagemaker.list_cluster_nodes"])
def test_what_sagemaker_does_not_answer_is_said(call: str) -> None:
    status = read(HYPERPOD, aws(**{call.replace(".", "__"): Refusal("AccessDeniedException")}))
    assert [one.permission for one in status.unread if one.call.startswith("sagemaker")]
    assert all(one.nodes is None for one in status.fleets)


MACHINES = (
    instance("i-1", parallelcluster__cluster_name="foundation", parallelcluster__node_type="HeadNode"),
    instance("i-2", parallelcluster__cluster_name="foundation", parallelcluster__node_type="LoginNode"),
    instance(
        "i-3",
        parallelcluster__cluster_name="foundation",
        parallelcluster__node_type="Compute",
        parallelcluster__queue_name="trainers",
    ),
    instance(
        "i-4",
        parallelcluster__cluster_name="another",
        parallelcluster__node_type="Compute",
        parallelcluster__queue_name="trainers",
    ),
)


def test_nodes_of_parallelcluster_are_found_by_its_tags() -> None:
    status = read(PARALLEL, aws(ec2__describe_instances=instances(*MACHINES)))
    assert {name: list(nodes) for name, nodes in states(status).items()} == {
        "training.fleets.trainers": ["i-3"],
        "parallelcluster.head_node": ["i-1"],
        "parallelcluster.login": ["i-2"],
    }
    assert [(one.least, one.most) for one in status.fleets] == [(16, 16), (1, 1), (1, 1)]
    assert "head node" in status.jobs_elsewhere


def test_before_pcluster_has_made_the_cluster_the_command_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "boto3_clients", lambda *_, **__: aws().clients)
    assert main(["status", str(PARALLEL)]) == 2
    says = " ".join(capsys.readouterr().err.split())
    assert "no fleet of foundation in us-east-1 is deployed" in says
    assert "pcluster create-cluster --cluster-name foundation" in says


@pytest.mark.parametrize(
    ("file", "actions"),
    [
        (BATCH, {"batch:DescribeComputeEnvironments"}),
        (HYPERPOD, {"sagemaker:DescribeCluster", "sagemaker:ListClusterNodes"}),
        (PARALLEL, set()),
    ],
)
def test_the_policy_has_what_was_asked(file: Path, actions: set[str]) -> None:
    given = set(policy_for_status(load_cluster(file))["Statement"][0]["Action"])
    services = ("batch:", "sagemaker:", "eks:", "pcs:", "ssm:")
    assert {one for one in given if one.startswith(services)} == actions
