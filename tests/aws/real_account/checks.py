"""The checks: one function for each doubt of the documentation, in scenarios that share a cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cdk_gpu_clusters.catalogue.images import image_parameters
from cdk_gpu_clusters.catalogue.prices import Market
from cdk_gpu_clusters_stacks.cost import read_account as read_costs
from cdk_gpu_clusters_stacks.cost.money import NOTHING
from cdk_gpu_clusters_stacks.doctor import examine
from cdk_gpu_clusters_stacks.failures import read_account
from cdk_gpu_clusters_stacks.importing import Place, import_account
from cdk_gpu_clusters_stacks.offers import CapacityRequest, search_market
from cdk_gpu_clusters_stacks.preflight import Account as PreflightAccount
from cdk_gpu_clusters_stacks.preflight import Outcome, run_preflight
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from cdk_gpu_clusters_stacks.status import read_status

from .plan import Part, Scenario
from .run import Failed, Run

_MINUTE = "%Y-%m-%dT%H:%MZ"

# Reads alone.

READ = Scenario(name="read", makes="nothing: it only reads", cluster=False)


@READ.check("docs/preflight.md", "docs/eks.md", minutes=5)
def preflight_gets_answers(run: Run) -> None:
    """Every read-only call of preflight is answered by AWS in the form that its reference states."""
    spec = load_cluster(run.write())
    with PreflightAccount(lambda service, _: run.client(service), region=run.account.region) as account:
        results = run_preflight(spec, account, now=datetime.now(UTC)).results
    unanswered = {
        f"{result.id}: {verdict.cause}"
        for result in results
        for verdict in result.verdicts
        if verdict.outcome is Outcome.CANNOT_TELL and not verdict.permission and run.account.is_real
    }
    assert not unanswered, "; ".join(sorted(unanswered))


@READ.check("docs/explain.md", minutes=5)
def explain_gets_answers(run: Run) -> None:
    """Calls of `gpu-clusters explain` that no stack is needed for are answered: CloudTrail, EC2 Fleets, missing stacks."""
    spec = load_cluster(run.write())
    with PreflightAccount(lambda service, _: run.client(service), region=run.account.region) as account:
        reading = read_account(spec, account, now=datetime.now(UTC), hours=24)
    unread = {f"{one.call}: {one.cause}" for one in reading.unread if not one.permission and run.account.is_real}
    assert not unread, "; ".join(sorted(unread))
    assert reading.absent, "stacks of a cluster that was never deployed are not reported as missing"


@READ.check("docs/cost.md", minutes=5)
def cost_gets_answers(run: Run) -> None:
    """Calls of `gpu-clusters cost --live` are answered: instances and reservations, not Cost Explorer, which bills."""
    spec = load_cluster(run.write())
    with PreflightAccount(lambda service, _: run.client(service), region=run.account.region) as account:
        live = read_costs(spec, account, now=datetime.now(UTC), bill=False)
    unread = {what: why for what, why in live.cannot_tell.items() if "not allowed" not in why}
    assert not unread, unread
    assert live.cannot_tell or live.per_hour == NOTHING, "a cluster that was never deployed has a cost"


@READ.check("docs/doctor.md", minutes=5)
def doctor_gets_answers(run: Run) -> None:
    """Calls of `gpu-clusters doctor` that no stack is needed for are answered: the stacks that are missing."""
    spec = load_cluster(run.write())
    with PreflightAccount(lambda service, _: run.client(service), region=run.account.region) as account:
        found = examine(spec, account)
    unread = {f"{one.call}: {one.cause}" for one in found.unread if not one.permission and run.account.is_real}
    assert not unread, "; ".join(sorted(unread))
    assert found.absent, "stacks of a cluster that was never deployed are not reported as missing"


@READ.check("docs/import.md", minutes=5)
def import_gets_answers(run: Run) -> None:
    """Calls of `gpu-clusters import` for what is deployed are answered: a group and a launch template that are missing."""
    names = {"group": "gpu-clusters-no-such-group"}, {"launch_template": "lt-0123456789abcdef0"}
    with PreflightAccount(lambda service, _: run.client(service), region=run.account.region) as account:
        found = [import_account(account, Place(name=""), target=Path("cluster.yaml"), **one) for one in names]
    unread = [str(one.findings[0]) for one in found if "not allowed" not in one.findings[0].cause]
    assert all("no such" in one or "there is no" in one or "does not exist" in one for one in unread), unread


@READ.check("docs/status.md", minutes=5)
def status_gets_answers(run: Run) -> None:
    """Calls of `gpu-clusters status` that no stack is needed for are answered: missing stacks, reservations, cost."""
    spec = load_cluster(run.write())
    with PreflightAccount(lambda service, _: run.client(service), region=run.account.region) as account:
        found = read_status(spec, account, now=datetime.now(UTC))
    unread = {f"{one.call}: {one.cause}" for one in found.unread if not one.permission and run.account.is_real}
    assert not unread, "; ".join(sorted(unread))
    assert found.absent, "stacks of a cluster that was never deployed are not reported as missing"


@READ.check("docs/command-line.md", minutes=5)
def capacity_is_searched(run: Run) -> None:
    """`gpu-clusters capacity search` gets offers, prices and placement scores."""
    request = CapacityRequest(instance_type="p5.48xlarge", count=1, hours=24)
    clients = lambda _: run.client("ec2")  # noqa: E731 - one Region, one client
    market = search_market(request, [run.account.region], clients, now=datetime.now(UTC))
    problems = [one for one in market.problems if one.action not in run.account.gaps]
    assert not problems, problems


@READ.check("docs/eks-software.md", minutes=5)
def images_exist(run: Run) -> None:
    """Every public parameter of the catalogue's images, those with EFA too, exists in the Region."""
    ssm = run.client("ssm")
    names = [one.parameter for one in image_parameters() if "{" not in one.parameter]
    missing = []
    for start in range(0, len(names), 10):
        missing += ssm.get_parameters(Names=names[start : start + 10])["InvalidParameters"]
    assert not missing or "ssm:GetParameters" in run.account.gaps, missing


# EC2 user guide, "Monitor Capacity Blocks using EventBridge": its two editions have other names for the two events.
_BLOCK_EVENTS = (
    "Capacity Block Reservation Delivered",
    "Capacity Block Delivered",
    "Capacity Block Reservation Expiration Warning",
    "Capacity Block Expiration Warning",
)


@READ.check("docs/capacity.md", minutes=5)
def block_events_match(run: Run) -> None:
    """EventBridge matches a Capacity Block's events, by all names that EC2's guide has, to the rules of a fleet."""
    day = datetime.now(UTC) + timedelta(days=30)
    template = run.template(
        "block", "fleet-workers", start=f"{day:{_MINUTE}}", end=f"{day + timedelta(days=2):{_MINUTE}}"
    )
    rules = [one["Properties"] for one in template["Resources"].values() if one["Type"] == "AWS::Events::Rule"]
    patterns = [one["EventPattern"] for one in rules if one.get("EventPattern", {}).get("source") == ["aws.ec2"]]
    events = run.client("events")
    for kind in _BLOCK_EVENTS:
        event = {
            "version": "0",
            "id": "0b1a2c3d-0000-1111-2222-333344445555",
            "account": run.client("sts").get_caller_identity()["Account"],
            "source": "aws.ec2",
            "detail-type": kind,
            "time": f"{day:%Y-%m-%dT%H:%M:%SZ}",
            "region": run.account.region,
            "resources": [],
            "detail": {
                "capacity-reservation-id": "cr-0123456789abcdef0",
                "end-date": f"{day + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}",
            },
        }
        text = json.dumps(event)
        matched = [events.test_event_pattern(EventPattern=json.dumps(one), Event=text)["Result"] for one in patterns]
        assert any(matched), f"no rule matches {kind}"


# The life of a node.

NODE = Scenario(
    name="node",
    makes="a network and a training fleet of one g6.xlarge; its node is replaced twice",
    parts=(Part(subject="g6.xlarge", count=2),),
)
_FLEET = ("fleet", "node")


def _only_node(run: Run, stack: str, *, other_than: str = "") -> str:
    """The id of a fleet's one node in service, once it is not another one."""

    def look() -> str | None:
        nodes = run.in_service(stack)
        return nodes[0] if len(nodes) == 1 and nodes[0] != other_than else None

    return run.until(f"one node in service in {stack}", look)


@NODE.check(
    "docs/node-software.md",
    "docs/decisions/0007-node-software-from-s3.md",
    "docs/decisions/0004-weak-references-between-stacks.md",
    minutes=30,
)
def first_deploy(run: Run) -> None:
    """A node of a new cluster boots, passes its checks and completes its hook: order of permissions, routes and
    cloud-init, the node's software on a GPU, references between stacks."""
    run.deploy()
    _only_node(run, run.stack(*_FLEET))


@NODE.check("docs/node-software.md", minutes=5)
def node_writes_its_own_stream(run: Run) -> None:
    """A node logs to the stream that its role allows it alone: IAM knows the address of the instance that calls."""
    stack = run.stack(*_FLEET)
    node = _only_node(run, stack)
    wanted = f"{node}/{run.account.address_of(node)}"

    def is_there() -> bool:
        groups = run.resources(stack, "AWS::Logs::LogGroup")
        asked = [{"logGroupName": group, "logStreamNamePrefix": f"{node}/"} for group in groups]
        answers = [run.client("logs").describe_log_streams(**one)["logStreams"] for one in asked]
        return wanted in [stream["logStreamName"] for answer in answers for stream in answer]

    run.until(f"the log stream {wanted}", is_there)


@NODE.check("docs/reliability.md", minutes=30)
def update_replaces_the_node(run: Run) -> None:
    """A change of the launch template replaces the node, and its successor becomes ready."""
    before = _only_node(run, run.stack(*_FLEET))
    run.deploy(size_gib="120")
    _only_node(run, run.stack(*_FLEET), other_than=before)


@NODE.check("docs/node-health.md", minutes=25)
def failed_node_is_replaced(run: Run) -> None:
    """A node that an operator reports as unhealthy drains and is replaced."""
    before = _only_node(run, run.stack(*_FLEET))
    run.client("autoscaling").set_instance_health(
        InstanceId=before, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False
    )
    _only_node(run, run.stack(*_FLEET), other_than=before)


class _Drain:
    """How long the nodes of a fleet wait in their terminating hook."""

    def __init__(self, run: Run, stack: str) -> None:
        self._run = run
        self._name = run.group(stack)["AutoScalingGroupName"]
        hooks = run.client("autoscaling").describe_lifecycle_hooks(AutoScalingGroupName=self._name)["LifecycleHooks"]
        leaving = [one for one in hooks if one["LifecycleTransition"] == "autoscaling:EC2_INSTANCE_TERMINATING"]
        self._longest_allowed = min(one["HeartbeatTimeout"] for one in leaving) - 2 * run.account.pause_seconds
        self._since: dict[str, float] = {}

    def is_over(self) -> bool:
        """Look at the nodes, and say whether all are gone.

        Raises:
            Failed: If one waited until its hook's time-out, as a node that may not complete it does.
        """
        asked = {"AutoScalingGroupNames": [self._name]}
        groups = self._run.client("autoscaling").describe_auto_scaling_groups(**asked)["AutoScalingGroups"]
        nodes = [node for group in groups for node in group["Instances"]]
        now = self._run.account.seconds()
        for node in nodes:
            if node["LifecycleState"] == "Terminating:Wait":
                waited = now - self._since.setdefault(node["InstanceId"], now)
                if waited > self._longest_allowed:
                    raise Failed(f"{node['InstanceId']} drains for {waited:.0f} seconds, until its hook times out")
        return not nodes


@NODE.check("docs/reliability.md", minutes=15)
def drain_ends_before_its_deadline(run: Run) -> None:
    """A node that leaves completes its terminating hook by its own permission, and not by the hook's time-out."""
    stack = run.stack(*_FLEET)
    drain = _Drain(run, stack)
    run.resize(stack, 0)
    run.until(f"{stack} is empty", drain.is_over)


@NODE.check("docs/reliability.md", minutes=25)
def destroy_drains(run: Run) -> None:
    """During `cdk destroy` a node in service keeps the permissions of its drain until it is gone."""
    stack = run.stack(*_FLEET)
    run.resize(stack, 1)
    _only_node(run, stack)
    run.cdk("destroy", "--all", "--force", meanwhile=_Drain(run, stack).is_over)
    left = run.client("cloudformation").describe_stacks()["Stacks"]
    assert not [one["StackName"] for one in left if one["StackName"].startswith(run.name)]


# Reserved capacity.

RESERVATION = Scenario(
    name="reservation",
    makes="an On-Demand Capacity Reservation of two g6.8xlarge in a placement group, and its fleet",
    parts=(Part(subject="g6.8xlarge", count=2),),
)


@RESERVATION.check("docs/capacity.md", minutes=20)
def reservation_in_a_placement_group(run: Run) -> None:
    """A stack's function makes a reservation inside the placement group of its fleet, and it becomes active."""
    end = datetime.now(UTC) + timedelta(hours=6)
    stack = run.stack("capacity", "pair")
    run.deploy(stack, end=f"{end:{_MINUTE}}")

    def active() -> bool:
        found = run.client("ec2").describe_capacity_reservations()["CapacityReservations"]
        ours = [one for one in found if run.name in one.get("PlacementGroupArn", "")]
        if any(one["State"] == "failed" for one in ours):
            raise Failed(f"the reservation failed: {ours}")
        return any(one["State"] == "active" for one in ours)

    run.until("an active reservation in a placement group", active)


@RESERVATION.check("docs/capacity.md", minutes=30)
def state_machine_fills_the_reservation(run: Run) -> None:
    """The rules of a fleet start its state machine, which reads and sizes the group by its own role, until the nodes
    that are paid for are in service."""
    run.deploy()
    stack = run.stack("fleet", "pair")
    machines = run.resources(stack, "AWS::StepFunctions::StateMachine")

    def ended() -> list[str]:
        """Executions of all machines; one that an alarm starts has none."""
        return [status for one in machines for status in run.account.executions_of(one) if status != "RUNNING"]

    found = run.until("the end of an execution", ended)
    assert set(found) == {"SUCCEEDED"}, found
    run.until("two nodes in service", lambda: len(run.in_service(stack)) == 2)


# Model servers.

INFERENCE = Scenario(
    name="inference",
    makes="one g6.xlarge with a web server in a container, and an internal load balancer",
    parts=(Part(subject="g6.xlarge", count=2),),
)
NEURON = Scenario(
    name="neuron",
    makes="the same on one inf2.xlarge",
    parts=(Part(subject="inf2.xlarge", count=2),),
)
_WEB = ("inference", "web")


def _target_states(run: Run, stack: str) -> list[str]:
    balancing = run.client("elbv2")
    return [
        one["TargetHealth"]["State"]
        for arn in run.resources(stack, "AWS::ElasticLoadBalancingV2::TargetGroup")
        for one in balancing.describe_target_health(TargetGroupArn=arn)["TargetHealthDescriptions"]
    ]


def _serves(run: Run) -> None:
    run.deploy()
    run.until("a healthy target", lambda: _target_states(run, run.stack(*_WEB)) == ["healthy"])


@INFERENCE.check("docs/inference.md", minutes=40)
def server_becomes_a_target(run: Run) -> None:
    """Amazon Linux installs HAProxy and Docker, a server starts, and the load balancer finds the node healthy."""
    _serves(run)


@INFERENCE.check("docs/inference.md", minutes=25)
def scale_in_deregisters_first(run: Run) -> None:
    """A server that leaves is deregistered before its node drains: no healthy target is on a node that terminates."""
    stack = run.stack(*_WEB)
    run.resize(stack, 0)

    def gone() -> bool:
        leaving = [one["LifecycleState"] for one in run.group(stack)["Instances"]]
        wrong = "Terminating:Wait" in leaving and _target_states(run, stack) == ["healthy"]
        if wrong:
            raise Failed("a node drains while the load balancer sends it requests")
        return not leaving

    run.until(f"{stack} is empty", gone)


@NEURON.check("docs/inference.md", "docs/cookbook.md", minutes=40)
def docker_on_neuron(run: Run) -> None:
    """Docker starts a server on AWS's Neuron image."""
    _serves(run)


# Amazon EKS.

EKS = Scenario(
    name="eks",
    makes="a cluster of Amazon EKS, its system nodes, and a node group of one g6.xlarge",
    parts=(
        Part(subject="g6.xlarge", count=2),
        Part(subject="m7i.large", count=3),
        Part(subject="eks standard support", market=Market.CONTROL_PLANE, unit="cluster-hour"),
    ),
)


@EKS.check("docs/node-software.md", "docs/eks.md", minutes=60)
def node_joins_eks(run: Run) -> None:
    """A node group becomes active: EKS merges our user data with its own, and the node passes its checks and joins."""
    run.deploy()
    eks = run.client("eks")
    (cluster,) = run.resources(run.stack("eks"), "AWS::EKS::Cluster")

    def healthy() -> bool:
        groups = eks.list_nodegroups(clusterName=cluster)["nodegroups"]
        found = [eks.describe_nodegroup(clusterName=cluster, nodegroupName=one)["nodegroup"] for one in groups]
        issues = [issue for one in found for issue in one.get("health", {}).get("issues", ())]
        if issues:
            raise Failed(f"health issues: {issues}")
        return bool(found) and all(one["status"] == "ACTIVE" for one in found)

    run.until("active node groups", healthy)


@EKS.check("docs/eks.md", minutes=25)
def own_size_outlives_an_update(run: Run) -> None:
    """A deployment that changes other properties of a node group leaves the size that an operator set."""
    eks = run.client("eks")
    (cluster,) = run.resources(run.stack("eks"), "AWS::EKS::Cluster")
    (name,) = [one for one in eks.list_nodegroups(clusterName=cluster)["nodegroups"] if "system" not in one.lower()]

    def group() -> dict[str, Any]:
        return dict(eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"])

    eks.update_nodegroup_config(clusterName=cluster, nodegroupName=name, scalingConfig={"minSize": 0, "desiredSize": 0})
    run.until(
        "an updated node group", lambda: group()["status"] == "ACTIVE" and not group()["scalingConfig"]["desiredSize"]
    )
    run.deploy(step="2")
    assert group()["scalingConfig"]["desiredSize"] == 0, "CloudFormation wrote the size of the template back"


# Stores.

STORE = Scenario(
    name="store",
    makes="a file system of 1,200 GiB and a bucket for checkpoints, without nodes",
    parts=(
        Part(subject="fsx-lustre PERSISTENT_2 SSD 125 MBps/TiB", count=1200, market=Market.STORAGE, unit="GB-month"),
    ),
)


@STORE.check("docs/storage.md", minutes=45)
def store_outlives_its_stack(run: Run) -> None:
    """A file system is made. Its stack refuses to be deleted, and leaves it when it may be."""
    run.deploy()
    fsx = run.client("fsx")

    def ours() -> list[str]:
        found = fsx.describe_file_systems()["FileSystems"]
        tag = {"Key": "gpu-cluster", "Value": run.name}
        return [one["FileSystemId"] for one in found if tag in one.get("Tags", ()) and one["Lifecycle"] == "AVAILABLE"]

    before = run.until("an available file system", ours)
    stack = run.stack("data", "corpus")
    run.cdk("destroy", run.stack("fleet", "node"), "--exclusively", "--force")
    try:
        run.cdk("destroy", stack, "--exclusively", "--force")
    except Failed as refused:
        if "TerminationProtection" not in str(refused):
            raise
    else:
        raise Failed(f"{stack} is not protected from deletion")
    run.client("cloudformation").update_termination_protection(StackName=stack, EnableTerminationProtection=False)
    run.cdk("destroy", stack, "--exclusively", "--force")
    assert ours() == before


SCENARIOS = (READ, NODE, RESERVATION, INFERENCE, NEURON, EKS, STORE)
