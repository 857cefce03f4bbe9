"""`gpu-clusters status` over deployed clusters: states made by hand, each of them shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cdk_cli import deploy_cluster
from cdk_gpu_clusters.testing import Emulator
from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.report_page import status_html
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster
from cdk_gpu_clusters_stacks.spec.monitoring import BudgetSpec, MetricsSpec, MonitoringSpec
from cdk_gpu_clusters_stacks.status import Fleet, NodeState, Status, read_status, status_text
from pages import run_by

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BLOCK = "cr-0123456789abcdef0"
SEED: dict[str, Any] = {
    "now": "2026-12-02T08:00Z",
    "reservations": [
        {
            "id": BLOCK,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 16,
            "kind": "capacity-block",
            "starts_at": "2026-12-01T11:30Z",
            "ends_at": "2026-12-15T11:30Z",
        }
    ],
}
MONITORING = MonitoringSpec(dashboard=True, budget=BudgetSpec(usd_per_month=900_000, emails=("ops@example.org",)))
METRICS = {"ec2": MetricsSpec(destination="workspace", retention_days=400, exporters=("dcgm",))}
CASES = {"ec2": "p5-capacity-block.yaml", "eks": "eks-p4d-mig.yaml", "pcs": "pcs-p4d-mig.yaml"}


class Deployed:
    """A cluster in an emulated account, and its state."""

    def __init__(self, emulator: Emulator, spec: ClusterSpec) -> None:
        self.emulator, self._spec = emulator, spec
        self._clients: dict[str, Any] = {}
        #: The time of all readings, once it is set: the emulator's clock goes on.
        self.at: datetime | None = None

    def client(self, service: str, region: str = "") -> Any:
        if service not in self._clients:
            settings = self.emulator.settings
            make: Any = boto3.client
            self._clients[service] = make(
                service,
                endpoint_url=settings["AWS_ENDPOINT_URL"],
                region_name=region or self._spec.region,
                aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
                config=Config(max_pool_connections=24),
            )
        return self._clients[service]

    @property
    def now(self) -> datetime:
        return self.at or datetime.fromisoformat(self.emulator.now)

    def status(self) -> Status:
        with preflight.Account(self.client, region=self._spec.region) as account:
            return read_status(self._spec, account, now=self.now)

    def fleet(self, ending: str) -> Fleet:
        return next(one for one in self.status().fleets if one.name.endswith(ending))

    def instances(self, group: str) -> list[str]:
        found = self.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        return sorted(one["InstanceId"] for one in found["AutoScalingGroups"][0]["Instances"])

    def report_severity(self, fleet: str, instance: str, severity: int, ago: timedelta = timedelta(minutes=1)) -> None:
        """What the watchdog of a node sends."""
        dimensions = [{"Name": "Fleet", "Value": fleet}, {"Name": "InstanceId", "Value": instance}]
        datum = {"MetricName": "NodeSeverity", "Dimensions": dimensions, "Value": severity}
        self.client("cloudwatch").put_metric_data(
            Namespace="GpuCluster", MetricData=[{**datum, "Timestamp": self.now - ago}]
        )

    def raise_alarm(self, name: str) -> str:
        found = self.client("cloudwatch").describe_alarms()["MetricAlarms"]
        alarm = next(one["AlarmName"] for one in found if name in one["AlarmName"])
        self.client("cloudwatch").set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="by hand")
        return str(alarm)


Deploy = Callable[[str], Deployed]


@pytest.fixture(scope="module")
def deploy(app_factory: Any) -> Iterator[Deploy]:
    """Deploys a case when it is first asked for."""
    made: dict[str, Deployed] = {}

    def run(case: str) -> Deployed:
        if case not in made:
            monitoring = MONITORING.model_copy(update={"metrics": METRICS.get(case)})
            spec = load_cluster(EXAMPLES / CASES[case]).model_copy(update={"monitoring": monitoring})
            emulator = Emulator()
            emulator.start()
            made[case] = Deployed(emulator, spec)
            emulator.seed(SEED)
            deploy_cluster(emulator, spec, app_factory)
        return made[case]

    yield run
    for one in made.values():
        one.emulator.stop()


def lines_of(status: Status, width: int = 110) -> list[str]:
    return status_text(status, width=width).splitlines()


# EC2: a fleet on a block, as somebody finds it three hours before the end.

FLEET, PATH = "trainers", "llama-train-fleet-trainers/Fleet"
BOOT = {"state": "failed", "stage": "node", "reason": "gpus: 7 of 8 GPUs answer", "fix": "replace the node"}
JOB = "20261215-080000-a1b2"


@pytest.fixture(scope="module")
def night(deploy: Deploy) -> Deployed:
    """All states at once: fourteen well nodes, one to replace, one that boots and has failed once, a job, an alarm."""
    deployed = deploy("ec2")
    emulator, group = deployed.emulator, deployed.fleet(FLEET).group
    emulator.make_nodes_ready()
    emulator.move_clock("2026-12-15T08:30Z")
    gone, sick, *well = deployed.instances(group)
    deployed.client("ec2").terminate_instances(InstanceIds=[gone])
    emulator.move_clock("2026-12-15T08:35Z")
    deployed.at = datetime(2026, 12, 15, 8, 35, tzinfo=UTC)
    (booting,) = set(deployed.instances(group)) - {sick, *well}
    for instance in well:
        deployed.report_severity(PATH, instance, 0)
    deployed.report_severity(PATH, well[0], 2)
    deployed.report_severity(PATH, sick, 5)
    deployed.report_severity(PATH, booting, 5, ago=timedelta(hours=2))  # too old to say anything about now
    request(deployed, group)
    log(deployed, group, booting)
    deployed.raise_alarm("UnhealthyNode")
    return deployed


def tags_of(deployed: Deployed, group: str) -> dict[str, str]:
    found = deployed.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[group])
    return {one["Key"]: one["Value"] for one in found["AutoScalingGroups"][0]["Tags"]}


def request(deployed: Deployed, group: str) -> None:
    """A job of two nodes that are both ready."""
    tags, logs = tags_of(deployed, group), deployed.client("logs")
    value = {"version": 1, "job_id": JOB, "command": ["python", "train.py"], "nodes": 2}
    deployed.client("ssm").put_parameter(
        Name=tags["gpu-clusters:job-parameter"], Value=json.dumps(value), Type="String", Overwrite=True
    )
    for number in (1, 2):
        name = f"jobs/{JOB}/attempt/0001/ready/-/i-0{number}/10.0.0.{number}"
        logs.create_log_stream(logGroupName=tags["gpu-clusters:log-group"], logStreamName=name)


def log(deployed: Deployed, group: str, instance: str) -> None:
    """The record of a failed boot, as gpunode writes it."""
    where = {"logGroupName": tags_of(deployed, group)["gpu-clusters:log-group"], "logStreamName": instance}
    record = json.dumps({**BOOT, "instance_id": instance, "time": f"{deployed.now:%Y-%m-%dT%H:%M:%SZ}"})
    deployed.client("logs").create_log_stream(**where)
    moment = int(deployed.now.timestamp() * 1000) - 60_000
    deployed.client("logs").put_log_events(**where, logEvents=[{"timestamp": moment, "message": record}])


def test_nodes_by_state_with_why_they_fail(night: Deployed) -> None:
    fleet = night.fleet(FLEET)
    assert (fleet.least, fleet.most, fleet.missing) == (16, 16, 0)
    assert (fleet.count(NodeState.IN_SERVICE), fleet.count(NodeState.FAILING)) == (14, 2)
    reasons = {one.lifecycle: one.reason for one in fleet.nodes or () if one.state is NodeState.FAILING}
    assert reasons == {
        "InService": "its watchdog asks for: replace",
        "Pending:Wait": "its boot failed: gpus: 7 of 8 GPUs answer",
    }
    assert "  nodes        16 wanted: 14 in service, 2 failing" in lines_of(night.status())
    assert "  watchdog     13 ok, 1 monitor, 1 replace, 1 without a value" in lines_of(night.status())


def test_the_job_that_runs(night: Deployed) -> None:
    (job,) = night.fleet(FLEET).jobs or []
    assert (job.job_id, job.state, job.nodes, job.command) == (JOB, "attempt 1", 2, "python train.py")


def test_the_clock_of_the_block(night: Deployed) -> None:
    (capacity,) = night.status().capacity
    assert (capacity.reservation_id, capacity.state, capacity.count) == (BLOCK, "active", 16)
    assert (capacity.drain_at, capacity.ends_at) == ("2026-12-15T10:50Z", "2026-12-15T11:30Z")
    shown = "\n".join(lines_of(night.status(), width=200))
    assert "drains in 2 h 15 min (2026-12-15T10:50Z), ends in 2 h 55 min (2026-12-15T11:30Z)" in shown


def test_the_alarm_that_is_raised(night: Deployed) -> None:
    (alarm,) = night.status().alarms or []
    assert alarm.what.startswith("FleetAlarmsUnhealthyNode")
    assert (alarm.about, alarm.reason) == ("training.fleets.trainers", "by hand")
    assert not night.status().is_well


def test_nothing_is_unread_and_nothing_is_changed(night: Deployed) -> None:
    before = night.emulator.history()["denied"], night.instances(night.fleet(FLEET).group)
    status = night.status()
    assert (status.unread, status.absent) == ([], [])
    assert (night.emulator.history()["denied"], night.instances(night.fleet(FLEET).group)) == before


def test_a_page_has_every_node(night: Deployed) -> None:
    status = night.status()
    page = status_html(status)
    for node in status.fleets[0].nodes or ():
        assert f">{node.instance_id}<" in page
    assert "<script" not in page


def test_the_page_of_the_docs_shows_what_the_command_prints(night: Deployed) -> None:
    (block,) = run_by(__file__)
    assert without_ids("\n".join(lines_of(night.status()))) == without_ids(block.text)


def without_ids(text: str) -> str:
    """A text with one id and one time for all that the emulator makes up, whatever the lines are."""
    return re.sub(r"(?<=-)[0-9a-f]{17}\b|(?<=[a-z])[0-9A-F]{8}\b|(?<=since )\S+Z", "x", " ".join(text.split()))


# EKS and PCS: EC2 runs nodes, and the watchdog tells whether their boot has ended.


@pytest.mark.parametrize(
    ("case", "ending", "path", "elsewhere"),
    [
        ("eks", "inference.fleets.slices", "upscale-inference-slices/Nodes", "Kubernetes"),
        ("pcs", "training.fleets.slices", "slices-fleet-slices/Nodes", "Slurm"),
    ],
)
def test_nodes_of_a_node_group(deploy: Deploy, case: str, ending: str, path: str, elsewhere: str) -> None:
    deployed = deploy(case)
    fleet = deployed.fleet(ending)
    assert (fleet.least, fleet.most) == (2, 2)
    first, second = (one.instance_id for one in fleet.nodes or ())
    assert (fleet.count(NodeState.RUNNING), fleet.jobs) == (2, None)

    deployed.report_severity(path, first, 0)
    deployed.report_severity(path, second, 4)
    alarm = deployed.raise_alarm("Idle")

    status, fleet = deployed.status(), deployed.fleet(ending)
    assert [one.state for one in fleet.nodes or ()] == [NodeState.IN_SERVICE, NodeState.FAILING]
    assert [one.name for one in status.alarms or ()] == [alarm]
    assert elsewhere in status.jobs_elsewhere
    assert (status.unread, status.absent) == ([], [])
    assert status.usd_per_day is not None


def test_a_suspended_launch_is_a_problem(deploy: Deploy) -> None:
    deployed = deploy("ec2")
    group = deployed.fleet(FLEET).group
    scaling = deployed.client("autoscaling")
    scaling.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])
    assert any("Launch" in one for one in deployed.fleet(FLEET).problems)
    scaling.resume_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])
    assert deployed.fleet(FLEET).problems == []


# What `monitoring` of the file made.


def test_the_deployed_dashboard_names_the_group_of_the_fleet(deploy: Deploy) -> None:
    deployed = deploy("ec2")
    outputs = {
        output["OutputKey"]: output["OutputValue"]
        for name in ("llama-train-monitoring", "llama-train-fleet-trainers")
        for output in deployed.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]["Outputs"]
    }
    body = deployed.client("cloudwatch").get_dashboard(DashboardName=outputs["DashboardName"])["DashboardBody"]
    groups = {
        metric[3]
        for widget in json.loads(body)["widgets"]
        for metric in widget["properties"].get("metrics", [])
        if metric[0] == "AWS/AutoScaling"
    }
    assert groups == {outputs["FleetName"]}


def test_the_collector_and_the_workspace_are_deployed(deploy: Deploy) -> None:
    """Their properties are those of the registry schemas, and each waits for what it names."""
    client = deploy("ec2").client("cloudformation")
    resources = client.describe_stack_resources(StackName="llama-train-monitoring")["StackResources"]
    made = {one["ResourceType"]: one["ResourceStatus"] for one in resources}
    wanted = ("AWS::APS::Scraper", "AWS::APS::Workspace", "AWS::APS::RuleGroupsNamespace", "AWS::Route53::HostedZone")
    assert {kind: made.get(kind) for kind in wanted} == dict.fromkeys(wanted, "CREATE_COMPLETE")
