"""Clusters of AWS PCS in the emulator: made, read back, changed, replaced, called by nodes and state machines, deleted."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from mutations import put
from plain_fleet import allow, policy, role
from plain_pcs import attribute, cluster_properties, node_role, pcs_cluster, queue_properties

Json = dict[str, Any]

BLOCK = "cr-0fedcba9876543210"
SEED: Json = {
    "now": "2026-11-21T08:00Z",
    "reservations": [
        {
            "id": BLOCK,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 4,
            "kind": "capacity-block",
            "starts_at": "2026-12-01T11:30Z",
            "ends_at": "2026-12-08T11:30Z",
        }
    ],
}
DATA = "Template.Properties.LaunchTemplateData"
NODES, CLUSTER = "Nodes.Properties", "Cluster.Properties"


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed=SEED) as made:
        yield made


def edited(*changes: tuple[str, Any], template: Json | None = None) -> Json:
    after = copy.deepcopy(template or pcs_cluster())
    for path, value in changes:
        put(f"Resources.{path}", value)(after)
    return after


def node_ids(account: InProcessEmulator, group: str) -> set[str]:
    filters = [{"Name": "tag:aws:pcs:compute-node-group-id", "Values": [group]}]
    found = account.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return {one["InstanceId"] for each in found for one in each["Instances"]}


def group_of(account: InProcessEmulator, shown: dict[str, str]) -> Json:
    found: Json = account.client("pcs").get_compute_node_group(
        clusterIdentifier=shown["Cluster"], computeNodeGroupIdentifier=shown["Nodes"]
    )["computeNodeGroup"]
    return found


def minutes_of(account: InProcessEmulator, start: str) -> float:
    seconds = datetime.fromisoformat(account.now) - datetime.fromisoformat(start)
    return seconds.total_seconds() / 60


def test_references_have_the_forms_of_cloudformation(account: InProcessEmulator) -> None:
    shown = account.deploy(pcs_cluster())
    cluster, nodes = shown["Cluster"], shown["Nodes"]
    arn = f"arn:aws:pcs:us-east-1:123456789012:cluster/{cluster}"
    assert cluster.startswith("pcs_")
    assert shown["ClusterRef"] == arn, "the primary identifier of the registry schema"
    assert shown["NodesRef"] == f"{arn}/computenodegroup/{nodes}"
    assert shown["Status"] == "ACTIVE", "CloudFormation waits for it"


def test_creation_takes_time_on_the_clock(account: InProcessEmulator) -> None:
    before = account.now
    account.deploy(pcs_cluster())
    assert 15 <= minutes_of(account, before) <= 60


def test_pcs_tells_what_the_template_says(account: InProcessEmulator) -> None:
    slurm = {
        "Accounting": {"Mode": "STANDARD", "DefaultPurgeTimeInDays": 30},
        "SlurmRest": {"Mode": "STANDARD"},
        "SlurmCustomSettings": [{"ParameterName": "MetricsType", "ParameterValue": "metrics/openmetrics"}],
    }
    shown = account.deploy(
        edited((f"{CLUSTER}.SlurmConfiguration", slurm), (f"{CLUSTER}.Name", "train"), (f"{CLUSTER}.Tags", {"a": "b"}))
    )
    client = account.client("pcs")
    cluster = client.get_cluster(clusterIdentifier="train")["cluster"]
    assert (cluster["id"], cluster["status"], cluster["size"]) == (shown["Cluster"], "ACTIVE", "SMALL")
    assert cluster["scheduler"] == {"type": "SLURM", "version": "25.11"}
    assert {one["type"]: one["port"] for one in cluster["endpoints"]} == {
        "SLURMCTLD": "6817", "SLURMDBD": "6819", "SLURMRESTD": "6820"
    }  # fmt: skip
    assert cluster["slurmConfiguration"]["accounting"] == {"mode": "STANDARD", "defaultPurgeTimeInDays": 30}
    assert client.list_tags_for_resource(resourceArn=cluster["arn"])["tags"] == {"a": "b"}
    (group,) = client.list_compute_node_groups(clusterIdentifier="train")["computeNodeGroups"]
    assert (group["id"], group["status"], group["clusterId"]) == (shown["Nodes"], "ACTIVE", shown["Cluster"])
    described = group_of(account, shown)
    assert described["purchaseOption"] == "ONDEMAND"
    assert described["scalingConfiguration"] == {"minInstanceCount": 2, "maxInstanceCount": 2}
    (queue,) = client.list_queues(clusterIdentifier="train")["queues"]
    found = client.get_queue(clusterIdentifier="train", queueIdentifier=queue["name"])["queue"]
    assert found["computeNodeGroupConfigurations"] == [{"computeNodeGroupId": shown["Nodes"]}]
    with pytest.raises(client.exceptions.ResourceNotFoundException, match="there is no cluster gone"):
        client.get_cluster(clusterIdentifier="gone")


def test_the_keys_of_a_cluster_are_in_secrets_manager(account: InProcessEmulator) -> None:
    slurm = {"SlurmRest": {"Mode": "STANDARD"}}
    shown = account.deploy(edited((f"{CLUSTER}.SlurmConfiguration", slurm)))
    found = account.client("pcs").get_cluster(clusterIdentifier=shown["Cluster"])["cluster"]["slurmConfiguration"]
    key, secrets = found["authKey"], account.client("secretsmanager")
    assert f":secret:pcs!slurm-secret-{shown['Cluster']}-" in key["secretArn"]
    assert secrets.get_secret_value(SecretId=key["secretArn"], VersionId=key["secretVersion"])["SecretString"]
    assert found["jwtAuth"]["jwtKey"]["secretArn"] != key["secretArn"]
    tagged = secrets.list_secrets(Filters=[{"Key": "tag-value", "Values": [shown["Cluster"]]}])["SecretList"]
    assert len(tagged) == 2
    service_role = account.client("iam").get_role(RoleName="AWSServiceRoleForPCS")["Role"]
    assert service_role["Path"] == "/aws-service-role/pcs.amazonaws.com/"
    account.destroy()
    assert secrets.list_secrets()["SecretList"] == []


def test_nodes_have_the_tags_and_the_role_of_their_group(account: InProcessEmulator) -> None:
    shown = account.deploy(pcs_cluster())
    nodes = node_ids(account, shown["Nodes"])
    assert len(nodes) == 2
    (reservation, _) = account.client("ec2").describe_instances(InstanceIds=list(nodes))["Reservations"]
    tags = {one["Key"]: one["Value"] for one in reservation["Instances"][0]["Tags"]}
    assert tags == {"aws:pcs:cluster-id": shown["Cluster"], "aws:pcs:compute-node-group-id": shown["Nodes"]}
    node = account.node_client(next(iter(nodes)), "pcs")
    registered = node.register_compute_node_group_instance(clusterIdentifier=shown["Cluster"], bootstrapId="first")
    assert registered["endpoints"][0]["port"] == "6817"
    with pytest.raises(node.exceptions.ClientError, match="not authorized to perform: pcs:GetCluster"):
        node.get_cluster(clusterIdentifier=shown["Cluster"])
    names = {one["LaunchTemplateName"] for one in account.client("ec2").describe_launch_templates()["LaunchTemplates"]}
    assert f"pcs-{shown['Nodes']}-do-not-delete" in names, "the guide's name of the derived template"
    assert account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []


def test_an_instance_that_is_gone_is_launched_again(account: InProcessEmulator) -> None:
    shown = account.deploy(pcs_cluster())
    before = node_ids(account, shown["Nodes"])
    lost = min(before)
    account.client("ec2").terminate_instances(InstanceIds=[lost])
    after = node_ids(account, shown["Nodes"])
    assert len(after) == 2
    assert after & before == before - {lost}


def test_a_cluster_is_updated_in_place(account: InProcessEmulator) -> None:
    """A newer version of Slurm, settings and accounting keep every id and every node."""
    before = account.deploy(edited((f"{CLUSTER}.Scheduler.Version", "25.05")))
    nodes = node_ids(account, before["Nodes"])
    slurm = {
        "ScaleDownIdleTimeInSeconds": 300,
        "SlurmCustomSettings": [{"ParameterName": "Prolog", "ParameterValue": "/opt/prolog.sh"}],
        "Accounting": {"Mode": "STANDARD"},
    }
    for changes in ((f"{CLUSTER}.Scheduler.Version", "25.11"), (f"{CLUSTER}.SlurmConfiguration", slurm)):
        assert account.deploy(edited(changes)) == before
        assert node_ids(account, before["Nodes"]) == nodes
    cluster = account.client("pcs").get_cluster(clusterIdentifier=before["Cluster"])["cluster"]
    assert cluster["scheduler"]["version"] == "25.11"
    assert [one["type"] for one in cluster["endpoints"]] == ["SLURMCTLD", "SLURMDBD"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("25.11", "25.05"),  # never back
        ("24.11", "24.05"),
        ("25.11", "25.12"),  # there is none
    ],
)
def test_a_version_goes_forward_only(account: InProcessEmulator, first: str, second: str) -> None:
    account.deploy(edited((f"{CLUSTER}.Scheduler.Version", first)))
    with pytest.raises(DeployFailed, match="pcs-version"):
        account.deploy(edited((f"{CLUSTER}.Scheduler.Version", second)))
    (cluster,) = account.client("pcs").list_clusters()["clusters"]
    assert cluster["status"] == "ACTIVE"
    found = account.client("pcs").get_cluster(clusterIdentifier=cluster["id"])["cluster"]
    assert found["scheduler"]["version"] == first, "CloudFormation rolled it back"


def test_a_group_grows_and_shrinks_without_touching_its_nodes(account: InProcessEmulator) -> None:
    before = account.deploy(pcs_cluster())
    nodes = node_ids(account, before["Nodes"])
    larger = {"MinInstanceCount": 4, "MaxInstanceCount": 4}
    assert account.deploy(edited((f"{NODES}.ScalingConfiguration", larger))) == before
    grown = node_ids(account, before["Nodes"])
    assert len(grown) == 4
    assert nodes < grown
    account.deploy(edited((f"{NODES}.ScalingConfiguration", {"MinInstanceCount": 0, "MaxInstanceCount": 4})))
    assert node_ids(account, before["Nodes"]) == grown, "idle nodes are kept for ten minutes"
    account.move_clock(minutes_later(account, 6))
    assert node_ids(account, before["Nodes"]) == set(), "an elastic group has the nodes of its jobs alone"


SCRIPT = {"Name": "verify", "ScriptSource": {"ScriptLocation": "https://example.com/verify.sh"}}
ACTIONS: Json = {"Stages": {"NodeBootstrapped": [SCRIPT]}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{NODES}.AmiId", "ami-0fedcba9876543210"),
        (f"{DATA}.KeyName", "operators"),  # a new version of the template
        (f"{NODES}.NodeLifecycleActions", ACTIONS),
        (f"{NODES}.SlurmConfiguration", {"SlurmCustomSettings": [{"ParameterName": "Weight", "ParameterValue": "5"}]}),
    ],
)
def test_another_configuration_replaces_every_node(account: InProcessEmulator, path: str, value: Any) -> None:
    before = account.deploy(pcs_cluster())
    nodes = node_ids(account, before["Nodes"])
    assert account.deploy(edited((path, value))) == before, "the group itself stays"
    replaced = node_ids(account, before["Nodes"])
    assert len(replaced) == 2
    assert not replaced & nodes


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{NODES}.SpotOptions", {"AllocationStrategy": "lowest-price"}),
        (f"{NODES}.SlurmConfiguration", {"ScaleDownIdleTimeInSeconds": 60}),
        (f"{NODES}.Tags", {"team": "speech"}),
        ("Queue.Properties.SlurmConfiguration.SlurmCustomSettings", [{"ParameterName": "Default", "ParameterValue": "YES"}]),
    ],
)  # fmt: skip
def test_what_no_node_sees_replaces_no_node(account: InProcessEmulator, path: str, value: Any) -> None:
    before = account.deploy(pcs_cluster())
    nodes = node_ids(account, before["Nodes"])
    assert account.deploy(edited((path, value))) == before
    assert node_ids(account, before["Nodes"]) == nodes


def test_another_instance_type_makes_another_group(account: InProcessEmulator) -> None:
    before = account.deploy(pcs_cluster())
    after = account.deploy(edited((f"{NODES}.InstanceConfigs", [{"InstanceType": "g6.2xlarge"}])))
    assert after["Nodes"] != before["Nodes"]
    assert after["Cluster"] == before["Cluster"]
    assert after["Queue"] == before["Queue"], "the queue changes its groups in place"
    assert node_ids(account, before["Nodes"]) == set()
    assert len(node_ids(account, after["Nodes"])) == 2
    (group,) = account.client("pcs").list_compute_node_groups(clusterIdentifier=after["Cluster"])["computeNodeGroups"]
    assert group["id"] == after["Nodes"]


def test_both_groups_of_a_replacement_fit_the_cluster(account: InProcessEmulator) -> None:
    """The new group is made before the old one goes: 20 and 20 nodes are more than 32."""
    sizes = {"MinInstanceCount": 20, "MaxInstanceCount": 20}
    first = edited((f"{NODES}.ScalingConfiguration", sizes))
    account.deploy(first)
    with pytest.raises(DeployFailed, match=r"make 40 nodes, and a cluster of size SMALL has at most 32"):
        account.deploy(edited((f"{NODES}.InstanceConfigs", [{"InstanceType": "g6.2xlarge"}]), template=first))


def test_a_named_group_cannot_be_replaced(account: InProcessEmulator) -> None:
    named = edited((f"{NODES}.Name", "train"))
    account.deploy(named)
    with pytest.raises(DeployFailed, match="compute node group train already exists in the cluster"):
        account.deploy(edited((f"{NODES}.InstanceConfigs", [{"InstanceType": "g6.2xlarge"}]), template=named))


def test_another_size_makes_another_cluster_with_everything_in_it(account: InProcessEmulator) -> None:
    before = account.deploy(pcs_cluster())
    after = account.deploy(edited((f"{CLUSTER}.Size", "MEDIUM")))
    assert not {before[name] for name in ("Cluster", "Nodes", "Queue")} & set(after.values())
    (cluster,) = account.client("pcs").list_clusters()["clusters"]
    assert cluster["id"] == after["Cluster"]


def second(**more: Any) -> Json:
    return {"Type": "AWS::PCS::Cluster", "Properties": cluster_properties(), **more}


def test_two_clusters_side_by_side_are_one_too_many(account: InProcessEmulator) -> None:
    with pytest.raises(DeployFailed, match="ServiceQuotaExceededException: there is already a cluster in a Creating"):
        account.deploy(pcs_cluster(Second=second()))
    assert account.client("pcs").list_clusters()["clusters"] == []


@pytest.mark.parametrize("through", ["Cluster", "Queue"])
def test_clusters_one_after_another_are_made(account: InProcessEmulator, through: str) -> None:
    account.deploy(pcs_cluster(Second=second(DependsOn=[through])))
    assert len(account.client("pcs").list_clusters()["clusters"]) == 2


def test_a_later_stack_or_update_makes_another_cluster(account: InProcessEmulator) -> None:
    account.deploy(pcs_cluster())
    account.deploy(pcs_cluster(Second=second()))
    account.deploy(pcs_cluster(), stack_name="another")
    assert len(account.client("pcs").list_clusters()["clusters"]) == 3


def test_a_cluster_that_somebody_else_creates_counts(account: InProcessEmulator) -> None:
    seeded = {"version": "25.11", "subnet": "subnet-0aaaaaaaaaaaaaaaa", "security_groups": [], "status": "CREATING"}
    account.seed({"pcs_clusters": {"other": seeded}})
    with pytest.raises(DeployFailed, match="in a Creating state: other"):
        account.deploy(pcs_cluster())
    (listed,) = account.client("pcs").list_clusters()["clusters"]
    assert (listed["name"], listed["status"]) == ("other", "CREATING")


def test_groups_join_a_cluster_that_is_there_already(account: InProcessEmulator) -> None:
    seeded = {"version": "25.11", "subnet": "subnet-0aaaaaaaaaaaaaaaa", "security_groups": ["sg-0123456789abcdef0"]}
    account.seed({"pcs_clusters": {"shared": seeded}, "subnets": {"subnet-0aaaaaaaaaaaaaaaa": "us-east-1a"}})
    given = pcs_cluster()
    del given["Resources"]["Cluster"], given["Outputs"]
    for name in ("Nodes", "Queue"):
        given["Resources"][name]["Properties"]["ClusterId"] = "shared"
    account.deploy(given)
    (group,) = account.client("pcs").list_compute_node_groups(clusterIdentifier="shared")["computeNodeGroups"]
    assert group["status"] == "ACTIVE"


def test_a_stack_is_destroyed_in_its_order(account: InProcessEmulator) -> None:
    shown = account.deploy(pcs_cluster())
    client = account.client("pcs")
    with pytest.raises(client.exceptions.ConflictException, match="still has queues or compute node groups"):
        client.delete_cluster(clusterIdentifier=shown["Cluster"])
    with pytest.raises(client.exceptions.ConflictException, match="queues still have the compute node group"):
        client.delete_compute_node_group(clusterIdentifier=shown["Cluster"], computeNodeGroupIdentifier=shown["Nodes"])
    account.destroy()
    assert client.list_clusters()["clusters"] == []
    assert account.resources() == []


def test_a_queue_that_goes_takes_the_nodes_of_its_groups(account: InProcessEmulator) -> None:
    """API model, DeleteQueue; static nodes come again."""
    shown = account.deploy(pcs_cluster(Other={"Type": "AWS::PCS::Queue", "Properties": queue_properties(Name="other")}))
    client, nodes = account.client("pcs"), node_ids(account, shown["Nodes"])
    client.delete_queue(clusterIdentifier=shown["Cluster"], queueIdentifier="other")
    assert node_ids(account, shown["Nodes"]) == nodes, "another queue has the group"
    client.delete_queue(clusterIdentifier=shown["Cluster"], queueIdentifier=shown["Queue"])
    assert not node_ids(account, shown["Nodes"]) & nodes


# A Capacity Block under a group: nothing before its start, everything within it, nothing from 30 minutes before its end.


def on_block(most: int = 4, **more: Any) -> Json:
    target = {"CapacityReservationTarget": {"CapacityReservationId": BLOCK}}
    return edited(
        (f"{DATA}.InstanceType", "p5.48xlarge"),
        (f"{DATA}.InstanceMarketOptions", {"MarketType": "capacity-block"}),
        (f"{DATA}.CapacityReservationSpecification", target),
        (f"{NODES}.InstanceConfigs", [{"InstanceType": "p5.48xlarge"}]),
        (f"{NODES}.PurchaseOption", "CAPACITY_BLOCK"),
        (f"{NODES}.ScalingConfiguration", {"MinInstanceCount": most, "MaxInstanceCount": most}),
        template=pcs_cluster(**more),
    )


def test_nodes_of_a_block_come_and_go_with_it(account: InProcessEmulator) -> None:
    shown = account.deploy(on_block())
    found = group_of(account, shown)
    assert (found["status"], node_ids(account, shown["Nodes"])) == ("ACTIVE", set())
    assert "is scheduled" in found["errorInfo"][0]["message"]
    account.move_clock("2026-12-01T11:31Z")
    assert len(node_ids(account, shown["Nodes"])) == 4
    assert group_of(account, shown)["errorInfo"] == []
    account.move_clock("2026-12-08T10:59Z")
    assert len(node_ids(account, shown["Nodes"])) == 4
    account.move_clock("2026-12-08T11:01Z")
    assert node_ids(account, shown["Nodes"]) == set(), "EC2 ends them 30 minutes before the block"
    account.destroy()


MACHINE = {
    "StartAt": "Grow",
    "States": {
        "Grow": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:pcs:updateComputeNodeGroup",
            "Parameters": {
                "ClusterIdentifier": "${Cluster}",
                "ComputeNodeGroupIdentifier": "${Nodes}",
                "ScalingConfiguration": {"MinInstanceCount.$": "$.detail.nodes", "MaxInstanceCount": 4},
            },
            "Retry": [{"ErrorEquals": ["Pcs.ConflictException"], "IntervalSeconds": 60, "MaxAttempts": 9}],
            "Next": "Wait",
        },
        "Wait": {"Type": "Wait", "Seconds": 60, "Next": "Look"},
        "Look": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:pcs:getComputeNodeGroup",
            "Parameters": {"ClusterIdentifier": "${Cluster}", "ComputeNodeGroupIdentifier": "${Nodes}"},
            "ResultSelector": {"status.$": "$.ComputeNodeGroup.Status"},
            "Next": "Ready",
        },
        "Ready": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.status", "StringEquals": "ACTIVE", "Next": "Done"}],
            "Default": "Wait",
        },
        "Done": {"Type": "Succeed"},
    },
}


#: AWS PCS user guide, "Minimum permissions for AWS PCS", UpdateComputeNodeGroup and Capacity Blocks.
LOOKS = (
    *(f"ec2:Describe{one}" for one in ("Vpcs", "Subnets", "SecurityGroups", "LaunchTemplates", "InstanceTypes")),
    *(f"ec2:Describe{one}" for one in ("LaunchTemplateVersions", "InstanceTypeOfferings", "CapacityReservations")),
    *("ec2:DescribeCapacityBlocks", "ec2:DescribeCapacityBlockStatus", "iam:GetInstanceProfile"),
)
VIA = {"StringEquals": {"aws:CalledViaLast": "pcs.amazonaws.com"}}
PASSED = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


def sized(*statements: Json) -> Json:
    """The template on a block, with a state machine that sizes the group and waits for it.

    Args:
        statements: What its role may do besides the calls of PCS.
    """
    substitutions = {"Cluster": attribute("Cluster"), "Nodes": attribute("Nodes")}
    machine = {
        "RoleArn": attribute("Actor", "Arn"),
        "DefinitionString": json.dumps(MACHINE),
        "DefinitionSubstitutions": substitutions,
    }
    targets = [{"Id": "it", "Arn": {"Ref": "Machine"}, "RoleArn": attribute("Starter", "Arn")}]
    rule = {"EventPattern": {"source": ["test"]}, "Targets": targets}
    acting = ("pcs:GetComputeNodeGroup", "pcs:UpdateComputeNodeGroup")
    given = on_block(
        Machine={"Type": "AWS::StepFunctions::StateMachine", "Properties": machine},
        Rule={"Type": "AWS::Events::Rule", "Properties": rule},
        Actor=role("states.amazonaws.com"),
        Act=policy("Actor", allow(attribute("Nodes", "Arn"), *acting), *statements),
        Starter=role("events.amazonaws.com"),
        Start=policy("Starter", allow({"Ref": "Machine"}, "states:StartExecution")),
    )
    put("Resources.Nodes.Properties.ScalingConfiguration.MinInstanceCount", 0)(given)
    return given


def test_a_state_machine_sizes_a_group_and_waits_for_it(account: InProcessEmulator) -> None:
    launches = allow("*", "ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateTags", Condition=VIA)
    passes = allow(attribute("Role", "Arn"), "iam:PassRole", Condition=PASSED)
    shown = account.deploy(sized(allow("*", *LOOKS), launches, passes))
    account.move_clock("2026-12-01T11:31Z")
    assert node_ids(account, shown["Nodes"]) == set()
    for nodes in (4, 0):
        account.emit({"source": "test", "detail-type": "size", "detail": {"nodes": nodes}})
        assert len(node_ids(account, shown["Nodes"])) == 4, "the second update ends no node before it is idle for long"
        assert group_of(account, shown)["scalingConfiguration"]["minInstanceCount"] == nodes
    grown, shrunk = account.history()["executions"]
    assert (grown["status"], shrunk["status"]) == ("SUCCEEDED", "SUCCEEDED")
    assert grown["states"].count("Look") == 5, "an update takes five minutes"
    assert shrunk["retries"] == ["Pcs.ConflictException"] * 3, "the clock rests: the first update is still under way"
    account.emit({"source": "test", "detail-type": "size", "detail": {"nodes": 3}})
    assert account.history()["executions"][-1]["error"] == "Pcs.ValidationException", "static or dynamic, no mix"


@pytest.mark.parametrize(
    ("statements", "action"),
    [
        ([], "ec2:DescribeVpcs"),
        ([allow("*", *LOOKS)], "ec2:RunInstances"),
        ([allow("*", *LOOKS, "ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateTags")], "iam:PassRole"),
    ],
)
def test_pcs_launches_in_the_name_of_its_caller(
    account: InProcessEmulator, statements: list[Json], action: str
) -> None:
    shown = account.deploy(sized(*statements))
    account.move_clock("2026-12-01T11:31Z")
    account.emit({"source": "test", "detail-type": "size", "detail": {"nodes": 4}})
    assert account.history()["executions"][-1]["status"] == "FAILED"
    assert account.history()["denied"][-1]["action"] == action
    assert node_ids(account, shown["Nodes"]) == set()


def test_the_api_takes_sizes_and_refuses_the_rest_by_name(account: InProcessEmulator) -> None:
    shown = account.deploy(pcs_cluster())
    client = account.client("pcs")
    names = {"clusterIdentifier": shown["Cluster"], "computeNodeGroupIdentifier": shown["Nodes"]}
    sizes = {"minInstanceCount": 3, "maxInstanceCount": 3}
    changed = client.update_compute_node_group(**names, scalingConfiguration=sizes)["computeNodeGroup"]
    assert (changed["status"], changed["scalingConfiguration"]) == ("UPDATING", sizes)
    assert len(node_ids(account, shown["Nodes"])) == 3
    with pytest.raises(client.exceptions.ConflictException, match="is in state UPDATING"):
        client.update_compute_node_group(**names, scalingConfiguration=sizes)
    with pytest.raises(client.exceptions.ServiceQuotaExceededException, match="make 40 nodes"):
        client.update_compute_node_group(**names, scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 40})
    with pytest.raises(client.exceptions.ClientError, match="no call changes this here: amiId"):
        client.update_compute_node_group(**names, amiId="ami-0fedcba9876543210")
    with pytest.raises(client.exceptions.ClientError, match="no model answers pcs:CreateCluster"):
        client.create_cluster(
            clusterName="abc",
            scheduler={"type": "SLURM", "version": "25.11"},
            size="SMALL",
            networking={"subnetIds": ["subnet-0aaaaaaaaaaaaaaaa"]},
        )
    with pytest.raises(DeployFailed, match="ConflictException"):
        account.deploy(edited((f"{NODES}.AmiId", "ami-0fedcba9876543210")))
    account.move_clock(minutes_later(account, 6))
    account.deploy(edited((f"{NODES}.AmiId", "ami-0fedcba9876543210")))
    assert len(node_ids(account, shown["Nodes"])) == 2, (
        "CloudFormation sends the sizes of the template with every update"
    )


def minutes_later(account: InProcessEmulator, minutes: int) -> str:
    return (datetime.fromisoformat(account.now) + timedelta(minutes=minutes)).isoformat()


# Scripts of node lifecycle actions: the real object of the emulated S3, by the role of the node.


CONTENT = b"#!/bin/bash\nexit 0\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def scripts(**source: Any) -> Json:
    given = {"ScriptLocation": {"Fn::Sub": "s3://${Bucket}/verify.sh"}, **source}
    on_error = given.pop("OnError", "TERMINATE")
    script = {"Name": "verify", "ScriptSource": given, "OnError": on_error, "ExecutionPolicy": "EVERY_BOOT"}
    return edited((f"{NODES}.NodeLifecycleActions", {"Stages": {"NodeBootstrapped": [script]}}), template=stored())


def stored() -> Json:
    """The template with a bucket for scripts."""
    return pcs_cluster(Bucket={"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"})


def store(account: InProcessEmulator) -> None:
    account.deploy(stored())
    (bucket,) = account.resources("AWS::S3::Bucket")
    account.client("s3").put_object(Bucket=bucket["physical_id"], Key="verify.sh", Body=CONTENT)


def test_a_script_with_the_right_checksum_is_taken(account: InProcessEmulator) -> None:
    store(account)
    shown = account.deploy(scripts(Checksum=DIGEST.upper()))
    (script,) = group_of(account, shown)["nodeLifecycleActions"]["stages"]["nodeBootstrapped"]
    assert script["onError"] == "TERMINATE"
    assert account.history()["lost"] == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"Checksum": "0" * 64}, f"its checksum is {DIGEST}"),
        ({"ScriptLocation": {"Fn::Sub": "s3://${Bucket}/gone.sh"}}, "there is no object"),
        ({"S3VersionId": "3sL4kqtJlcpXroDTDmJ"}, "no policy of .* allows s3:GetObjectVersion"),
    ],
)
def test_a_script_that_no_node_can_run_is_refused(account: InProcessEmulator, source: Json, message: str) -> None:
    store(account)
    with pytest.raises(DeployFailed, match=message):
        account.deploy(scripts(**source))


def test_what_may_fail_is_lost_and_the_node_stays(account: InProcessEmulator) -> None:
    store(account)
    account.deploy(scripts(Checksum="0" * 64, OnError="CONTINUE"))
    assert "its checksum is" in account.history()["lost"][0]["error"]


def test_a_role_that_may_not_download_ends_every_node(account: InProcessEmulator) -> None:
    store(account)
    given = scripts()
    given["Resources"]["Role"] = node_role(Policies=[])
    given["Resources"]["Allowed"] = policy("Role", allow("*", "pcs:RegisterComputeNodeGroupInstance"))
    given["Resources"]["Nodes"]["DependsOn"] = ["Itself", "Allowed"]
    with pytest.raises(DeployFailed, match="allows s3:GetObject on s3://"):
        account.deploy(given)


# What comes too late: CloudFormation orders nothing that has no dependency.


def test_permissions_come_before_the_nodes(account: InProcessEmulator) -> None:
    given = pcs_cluster(
        Role=node_role(Policies=[]), Allowed=policy("Role", allow("*", "pcs:RegisterComputeNodeGroupInstance"))
    )
    with pytest.raises(DeployFailed, match="nodes cannot register: no policy of"):
        account.deploy(given)
    account.destroy()
    given["Resources"]["Nodes"]["DependsOn"] = ["Itself", "Allowed"]
    account.deploy(given)


def test_rules_of_the_group_come_before_the_nodes(account: InProcessEmulator) -> None:
    given = pcs_cluster()
    del given["Resources"]["Nodes"]["DependsOn"]
    with pytest.raises(DeployFailed, match=r"admit none of .* on port 6817 now"):
        account.deploy(given)


# Delivery of a cluster's logs.


def delivered(*kinds: str, chained: bool = True) -> Json:
    more: Json = {
        "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/pcs"}},
        "Destination": {
            "Type": "AWS::Logs::DeliveryDestination",
            "Properties": {"Name": "to-logs", "DestinationResourceArn": attribute("Logs", "Arn")},
        },
    }
    before = ""
    for kind in kinds:
        name = kind.title().replace("_", "")
        source = {"Name": kind.lower(), "ResourceArn": attribute("Cluster", "Arn"), "LogType": kind}
        more[f"{name}Source"] = {"Type": "AWS::Logs::DeliverySource", "Properties": source}
        ends = {
            "DeliverySourceName": {"Ref": f"{name}Source"},
            "DeliveryDestinationArn": attribute("Destination", "Arn"),
        }
        more[f"{name}Delivery"] = {"Type": "AWS::Logs::Delivery", "Properties": ends}
        if before and chained:
            more[f"{name}Delivery"]["DependsOn"] = [before]
        before = f"{name}Delivery"
    return pcs_cluster(**more)


BOTH = ("PCS_SCHEDULER_LOGS", "PCS_JOBCOMP_LOGS")


def test_logs_of_a_cluster_are_delivered(account: InProcessEmulator) -> None:
    account.deploy(delivered(*BOTH))
    sources = account.resources("AWS::Logs::DeliverySource")
    assert {one["attributes"]["Service"] for one in sources} == {"pcs"}
    assert sources[0]["attributes"]["Arn"].startswith("arn:aws:logs:us-east-1:123456789012:delivery-source:pcs_")
    assert len(account.resources("AWS::Logs::Delivery")) == 2
    account.destroy()
    assert account.resources() == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (delivered(*BOTH, chained=False), "Requested resource is currently being updated"),
        (delivered("PCS_LOGS"), "for PCS, the valid values are PCS_SCHEDULER_LOGS"),
        (
            edited((f"{CLUSTER}.Scheduler.Version", "25.05"), template=delivered("PCS_SCHEDULER_AUDIT_LOGS")),
            "PCS_SCHEDULER_AUDIT_LOGS needs Slurm 25.11",
        ),
    ],
)
def test_deliveries_that_fail(account: InProcessEmulator, given: Json, message: str) -> None:
    with pytest.raises(DeployFailed, match=message):
        account.deploy(given)


def test_a_source_keeps_its_cluster(account: InProcessEmulator) -> None:
    """aws-cloudformation/cloudformation-coverage-roadmap issue 2513: a replaced cluster needs a source of another name."""
    account.deploy(delivered("PCS_SCHEDULER_LOGS"))
    with pytest.raises(DeployFailed, match="Update to existing Delivery Source with new ResourceId is not allowed"):
        account.deploy(edited((f"{CLUSTER}.Size", "MEDIUM"), template=delivered("PCS_SCHEDULER_LOGS")))
