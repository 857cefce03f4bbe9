"""A cluster of AWS PCS, its queues and login nodes: what is said to the service, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Annotations, Match
from syrupy.assertion import SnapshotAssertion

from cdk_gpu_clusters import ClusterSize, ConfigError, PcsCluster, PcsLog, PcsLoginNodes, cluster_settings
from everything.fleets import ENVIRONMENTS
from everything.pcs import define_pcs
from slurm_clusters import CLUSTER_ID, existing_slurm, slurm_cluster, slurm_nodes
from stack_fixtures import Resources, Site, SiteFactory, of_type, only, readable

CLUSTER, GROUP, QUEUE = "AWS::PCS::Cluster", "AWS::PCS::ComputeNodeGroup", "AWS::PCS::Queue"


def settings(listed: list[dict[str, str]]) -> dict[str, str]:
    return {one["ParameterName"]: one["ParameterValue"] for one in listed}


def slurm_of(resources: Resources) -> dict[str, Any]:
    found: dict[str, Any] = only(resources, CLUSTER)["SlurmConfiguration"]
    return found


def test_a_small_cluster(site: Site, snapshot_json: SnapshotAssertion) -> None:
    slurm_cluster(site)
    assert {"Resources": readable(site.template()["Resources"])} == snapshot_json


def test_everything_on(app_factory: Any, snapshot_json: SnapshotAssertion) -> None:
    app = app_factory()
    stack = define_pcs(app, *ENVIRONMENTS["commercial"])
    template = app.synth().get_stack_by_name(stack.stack_name).template
    assert {"Resources": readable(template["Resources"])} == snapshot_json


def test_the_controller_and_its_nodes_share_a_group_in_which_all_traffic_goes(site: Site) -> None:
    slurm_cluster(site)
    resources = site.resources()
    [group] = of_type(resources, "AWS::EC2::SecurityGroup")
    own = {"Fn::GetAtt": [group, "GroupId"]}
    assert only(resources, CLUSTER)["Networking"] == {
        "SubnetIds": ["subnet-0123456789abcdef0"],
        "SecurityGroupIds": [own],
        "NetworkType": "IPV4",
    }
    way_in, way_out = (only(resources, f"AWS::EC2::SecurityGroup{way}") for way in ("Ingress", "Egress"))
    assert (way_in["IpProtocol"], way_in["SourceSecurityGroupId"]) == ("-1", own)
    assert (way_out["IpProtocol"], way_out["DestinationSecurityGroupId"]) == ("-1", own)


def test_ipv6_goes_out_too(site: Site) -> None:
    slurm_cluster(site, network_type="IPV6")
    resources = site.resources()
    out = [one["Properties"].get("CidrIpv6") for one in of_type(resources, "AWS::EC2::SecurityGroupEgress").values()]
    assert "::/0" in out
    assert only(resources, CLUSTER)["Networking"]["NetworkType"] == "IPV6"


def test_an_existing_group_is_used(site: Site) -> None:
    group = ec2.SecurityGroup.from_security_group_id(site.stack, "Given", "sg-0123456789abcdef0")
    cluster = slurm_cluster(site, security_group=group)
    assert list(cluster.security_groups) == [group]
    resources = site.resources()
    assert not of_type(resources, "AWS::EC2::SecurityGroup")
    assert only(resources, CLUSTER)["Networking"]["SecurityGroupIds"] == ["sg-0123456789abcdef0"]


def test_slurm_knows_the_prolog_and_the_epilog_of_the_nodes(site: Site) -> None:
    cluster = slurm_cluster(site, slurm_settings={"Prolog": "/opt/prolog.sh", "SchedulerParameters": "bf_continue"})
    said = settings(slurm_of(site.resources())["SlurmCustomSettings"])
    assert said == dict(cluster.slurm_settings)
    assert said["Prolog"] == "/opt/prolog.sh", "the user has the last word"
    assert said["Epilog"] == "/etc/gpu-cluster/epilog.d/*"
    assert said["SchedulerParameters"] == (
        "nohold_on_prolog_fail,requeue_on_resume_failure,enable_expedited_requeue,requeue_delay=5,bf_continue"
    )


def test_what_slurm_offers_is_switched_on(site: Site) -> None:
    slurm_cluster(
        site,
        slurm_rest=True,
        metrics=True,
        accounting_purge_days=30,
        scale_down_idle_time=cdk.Duration.minutes(5),
        slurm_settings={"CommunicationParameters": "keepaliveinterval=10"},
        slurmdbd_settings={"PrivateData": "jobs"},
        cgroup_settings={"ConstrainDevices": "yes"},
    )
    found = slurm_of(site.resources())
    assert found["Accounting"] == {"Mode": "STANDARD", "DefaultPurgeTimeInDays": 30}
    assert found["SlurmRest"] == {"Mode": "STANDARD"}
    assert found["ScaleDownIdleTimeInSeconds"] == 300
    assert settings(found["SlurmdbdCustomSettings"]) == {"PrivateData": "jobs"}
    assert settings(found["CgroupCustomSettings"]) == {"ConstrainDevices": "yes"}
    said = settings(found["SlurmCustomSettings"])
    assert said["MetricsType"] == "metrics/openmetrics"
    assert said["CommunicationParameters"] == "keepaliveinterval=10,enable_http"


def test_what_is_off_is_said_too(site: Site) -> None:
    slurm_cluster(site, accounting=False)
    found = slurm_of(site.resources())
    assert (found["Accounting"], found["SlurmRest"]) == ({"Mode": "NONE"}, {"Mode": "NONE"})
    assert "SlurmdbdCustomSettings" not in found, "PCS refuses empty lists"


def test_jobs_see_their_own_gpus_unless_the_user_opens_all(site: Site, make_site: SiteFactory) -> None:
    slurm_cluster(site, cgroup_settings={"ConstrainCores": "yes"})
    said = settings(slurm_of(site.resources())["CgroupCustomSettings"])
    assert said == {"ConstrainDevices": "yes", "ConstrainCores": "yes"}
    other = make_site()
    slurm_cluster(other, cgroup_settings={"ConstrainDevices": "no"})
    assert settings(slurm_of(other.resources())["CgroupCustomSettings"]) == {"ConstrainDevices": "no"}


def deliveries(resources: Resources) -> set[str]:
    return {one["Properties"]["LogType"] for one in of_type(resources, "AWS::Logs::DeliverySource").values()}


def test_all_logs_go_to_one_group_with_an_end(site: Site) -> None:
    slurm_cluster(site)
    resources = site.resources()
    assert deliveries(resources) == {"PCS_SCHEDULER_LOGS", "PCS_SCHEDULER_AUDIT_LOGS", "PCS_JOBCOMP_LOGS"}
    group = only(resources, "AWS::Logs::LogGroup")
    assert group["RetentionInDays"] == 90
    assert group["LogGroupName"].startswith("/aws/vendedlogs/pcs/")
    [destination] = of_type(resources, "AWS::Logs::DeliveryDestination")
    [log_group] = of_type(resources, "AWS::Logs::LogGroup")
    arn = {"Fn::GetAtt": [log_group, "Arn"]}
    assert only(resources, "AWS::Logs::DeliveryDestination")["DestinationResourceArn"] == arn
    sources = of_type(resources, "AWS::Logs::DeliverySource")
    names = [one["Properties"]["Name"] for one in sources.values()]
    assert len(set(names)) == 3
    assert max(map(len, names)) <= 60
    linked = [one["Properties"] for one in of_type(resources, "AWS::Logs::Delivery").values()]
    assert {one["DeliverySourceName"]["Ref"] for one in linked} == set(sources)
    assert {json.dumps(one["DeliveryDestinationArn"]) for one in linked} == {
        json.dumps({"Fn::GetAtt": [destination, "Arn"]})
    }


def test_logs_are_encrypted_with_a_key(site: Site) -> None:
    key = kms.Key(site.stack, "Key")
    slurm_cluster(site, log_encryption_key=key)
    assert "KmsKeyId" in only(site.resources(), "AWS::Logs::LogGroup")


def test_logs_can_be_chosen(make_site: SiteFactory) -> None:
    site = make_site()
    slurm_cluster(site, log_types=[PcsLog.JOB_COMPLETION])
    assert deliveries(site.resources()) == {"PCS_JOBCOMP_LOGS"}
    site = make_site()
    assert slurm_cluster(site, log_types=[]).log_group is None
    assert not of_type(site.resources(), "AWS::Logs::LogGroup")


def test_an_older_slurm_has_no_audit_logs_of_their_own(site: Site) -> None:
    slurm_cluster(site, slurm_version="25.05")
    assert deliveries(site.resources()) == {"PCS_SCHEDULER_LOGS", "PCS_JOBCOMP_LOGS"}


def test_clusters_of_a_stack_are_made_one_after_the_other(site: Site) -> None:
    """CreateCluster fails if there is one in state Creating (botocore, pcs)."""
    for name in ("First", "Second", "Third"):
        slurm_cluster(site, name)
    found = of_type(site.resources(), CLUSTER)
    first, second, third = (next(one for one in found if one.startswith(name)) for name in ("First", "Second", "Third"))
    assert first in found[second]["DependsOn"]
    assert second in found[third]["DependsOn"]
    assert not {first, second, third} & set(found[first]["DependsOn"])


def test_nodes_wait_for_the_rules_by_which_they_register(site: Site) -> None:
    slurm_cluster(site)
    resources = site.resources()
    [cluster] = of_type(resources, CLUSTER).values()
    kinds = {resources[one]["Type"] for one in cluster["DependsOn"]}
    assert kinds == {"AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"}


def test_log_deliveries_are_made_one_after_the_other(site: Site) -> None:
    """hashicorp/terraform-provider-aws issue 42194: a ConflictException otherwise."""
    slurm_cluster(site)
    found = of_type(site.resources(), "AWS::Logs::Delivery")
    waits = [[one for one in made.get("DependsOn", []) if one in found] for made in found.values()]
    assert sorted(map(len, waits)) == [0, 1, 1]


def test_a_name_follows_from_the_path(site: Site) -> None:
    slurm_cluster(site, "Research")
    name = only(site.resources(), CLUSTER)["Name"]
    assert name.startswith("Site-Research-")
    assert 3 <= len(name) <= 40


@pytest.mark.parametrize(
    ("options", "rule", "words"),
    [
        ({"slurm_version": "22.05"}, "GPU-PCS-017", "22.05"),
        ({"cluster_name": "1st"}, "GPU-PCS-018", "1st"),
        ({"slurm_version": "25.05", "metrics": True}, "GPU-PCS-019", "25.11"),
        ({"slurm_version": "24.11", "slurm_rest": True}, "GPU-PCS-019", "25.05"),
        ({"slurm_settings": {"Features": "gpu"}}, "GPU-PCS-020", "Features"),
        ({"accounting_purge_days": 0}, "GPU-PCS-022", "got 0"),
        (
            {"slurm_version": "25.05", "log_types": [PcsLog.SCHEDULER_AUDIT]},
            "GPU-PCS-063",
            "leave SCHEDULER_AUDIT out",
        ),
        ({"size": "HUGE"}, "GPU-ARG-001", "ClusterSize.SMALL"),
    ],
)
def test_what_pcs_would_refuse_is_refused_at_the_construct(
    site: Site, options: dict[str, Any], rule: str, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        slurm_cluster(site, **options)
    found = next(one for one in refused.value.findings if one.id == rule)
    assert found.path.startswith("Site/Slurm")
    assert words in str(found)


def test_all_faults_come_at_once(site: Site) -> None:
    with pytest.raises(ConfigError) as refused:
        slurm_cluster(site, cluster_name="x", slurm_version="25.05", metrics=True, accounting_purge_days=0)
    assert {one.id for one in refused.value.findings} >= {"GPU-PCS-018", "GPU-PCS-019", "GPU-PCS-022"}


def test_a_word_means_a_size(site: Site) -> None:
    assert slurm_cluster(site, size="medium").size is ClusterSize.MEDIUM


def test_tokens_are_carried_and_not_compared(site: Site) -> None:
    version = cdk.CfnParameter(site.stack, "Version").value_as_string
    name = cdk.CfnParameter(site.stack, "Name").value_as_string
    cluster = slurm_cluster(site, slurm_version=version, cluster_name=name, metrics=True)
    slurm_nodes(site, cluster=cluster)
    found = only(site.resources(), CLUSTER)
    assert (found["Scheduler"]["Version"], found["Name"]) == ({"Ref": "Version"}, {"Ref": "Name"})


def test_more_nodes_than_the_size_holds_are_refused(site: Site) -> None:
    cluster = slurm_cluster(site)
    cluster.add_gpu_node_group("Most", instance_type="g6.xlarge", node_count=31)
    cluster.add_login_nodes("Login")
    with pytest.raises(ConfigError, match=r"GPU-PCS-016: Site/Slurm/Over.*MEDIUM"):
        cluster.add_gpu_node_group("Over", instance_type="g6.xlarge", node_count=1)


def test_a_queue_names_its_groups_and_settings(site: Site) -> None:
    cluster = slurm_cluster(site)
    nodes = cluster.add_gpu_node_group("Nodes", instance_type="g6.xlarge", node_count=1)
    queue = cluster.add_queue("Small Jobs", node_groups=[nodes], slurm_settings={"MaxTime": "1:00:00"})
    assert queue.queue_name == "small-jobs"
    resources = site.resources()
    [made] = of_type(resources, GROUP)
    found = only(resources, QUEUE)
    assert found["Name"] == "small-jobs"
    assert found["ComputeNodeGroupConfigurations"] == [{"ComputeNodeGroupId": {"Fn::GetAtt": [made, "Id"]}}]
    assert settings(found["SlurmConfiguration"]["SlurmCustomSettings"]) == {"MaxTime": "1:00:00"}


def test_a_queue_without_settings_has_no_empty_list(site: Site) -> None:
    cluster = slurm_cluster(site)
    cluster.add_queue("train", node_groups=[])
    assert "SlurmConfiguration" not in only(site.resources(), QUEUE)


@pytest.mark.parametrize(
    ("options", "rule"),
    [({"queue_name": "q"}, "GPU-PCS-018"), ({"slurm_settings": {"Weight": "1"}}, "GPU-PCS-020")],
)
def test_a_queue_that_pcs_would_refuse_is_refused(site: Site, options: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=f"{rule}: Site/Slurm/train"):
        slurm_cluster(site).add_queue("train", node_groups=[], **options)


def test_login_nodes_are_small_private_and_in_no_queue(site: Site) -> None:
    slurm_cluster(site).add_login_nodes("Login")
    resources = site.resources()
    group, data = only(resources, GROUP), only(resources, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert group["InstanceConfigs"] == [{"InstanceType": "m7i.xlarge"}]
    assert group["ScalingConfiguration"] == {"MinInstanceCount": 1, "MaxInstanceCount": 1}
    [interface] = data["NetworkInterfaces"]
    assert interface["InterfaceType"] == "interface"
    assert interface["AssociatePublicIpAddress"] is False
    assert "KeyName" not in data
    assert not of_type(resources, QUEUE)
    closed = [
        one["Properties"].get("SecurityGroupIngress") for one in of_type(resources, "AWS::EC2::SecurityGroup").values()
    ]
    assert closed == [None, None], "nobody comes in from outside"


def test_login_nodes_that_fail_their_boot_checks_stay_reachable(site: Site) -> None:
    slurm_cluster(site).add_login_nodes("Login")
    stages = only(site.resources(), GROUP)["NodeLifecycleActions"]["Stages"]
    assert {script["OnError"] for stage in stages.values() for script in stage} == {"STOP_SEQUENCE"}


def test_login_nodes_take_ssh_from_whom_you_name(site: Site) -> None:
    key = ec2.KeyPair.from_key_pair_name(site.stack, "KeyPair", "ops")
    slurm_cluster(site).add_login_nodes("Login", key_pair=key, ssh_from=[ec2.Peer.ipv4("10.0.0.0/16")], node_count=2)
    resources = site.resources()
    data = only(resources, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert data["KeyName"] == "ops"
    [(name, group)] = [
        (name, one["Properties"])
        for name, one in of_type(resources, "AWS::EC2::SecurityGroup").items()
        if "SecurityGroupIngress" in one["Properties"]
    ]
    [rule] = group["SecurityGroupIngress"]
    assert (rule["CidrIp"], rule["FromPort"], rule["ToPort"]) == ("10.0.0.0/16", 22, 22)
    assert {"Fn::GetAtt": [name, "GroupId"]} in data["NetworkInterfaces"][0]["Groups"]


def test_sessions_are_granted_on_the_login_nodes_alone(site: Site) -> None:
    people = iam.Role(site.stack, "People", assumed_by=iam.AccountRootPrincipal())
    PcsLoginNodes(site.stack, "Login", cluster=existing_slurm(site)).grant_sessions(people)
    resources = site.resources()
    [group] = of_type(resources, GROUP)
    statements = only(resources, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    [starts] = [one for one in statements if "Condition" in one]
    assert starts["Action"] == "ssm:StartSession"
    assert starts["Condition"] == {
        "StringEquals": {"ssm:resourceTag/aws:pcs:compute-node-group-id": {"Fn::GetAtt": [group, "Id"]}}
    }


def test_reading_is_granted_on_the_cluster_and_what_is_in_it(site: Site) -> None:
    people = iam.Role(site.stack, "People", assumed_by=iam.AccountRootPrincipal())
    existing_slurm(site).grant_read(people)
    text = json.dumps(only(site.resources(), "AWS::IAM::Policy")["PolicyDocument"]["Statement"])
    assert f":cluster/{CLUSTER_ID}" in text
    assert f":cluster/{CLUSTER_ID}/queue/*" in text
    assert "pcs:GetComputeNodeGroup" in text
    assert "pcs:Update" not in text


def test_an_imported_cluster_is_described(site: Site) -> None:
    cluster = existing_slurm(site)
    assert cluster.auth_key_secret_name == f"pcs!slurm-secret-{CLUSTER_ID}"
    assert CLUSTER_ID in cluster.endpoints_command
    metric = cluster.metric_idle_capacity()
    assert (metric.namespace, metric.metric_name, metric.dimensions) == (
        "AWS/PCS",
        "IdleCapacity",
        {"ClusterId": CLUSTER_ID},
    )
    with pytest.raises(ConfigError, match=r"GPU-PCS-017: Site/Old"):
        PcsCluster.from_pcs_cluster_attributes(
            site.stack, "Old", vpc=site.vpc, cluster_id="pcs_x", slurm_version="23.11", security_groups=[]
        )


# Programs that every node must have, and the settings that name them.


class _GroupOfOthers:
    """A node group that someone else made."""

    node_group_id = "pcs_abc1234567"


def _warnings(site: Site, rule: str) -> int:
    return len(Annotations.from_stack(site.stack).find_warning("*", Match.string_like_regexp(rule)))


@pytest.mark.parametrize(
    ("settings", "lacks"),
    [
        (None, 0),
        ({}, len(cluster_settings())),
        (cluster_settings(), 0),
        (cluster_settings({"PrologFlags": "X11", "SchedulerParameters": "bf_continue"}), 0),
        (cluster_settings() | {"PrologFlags": "Contain"}, 1),
        (cluster_settings() | {"Prolog": "/opt/site/prolog.sh"}, 1),
    ],
)
def test_an_imported_cluster_says_what_its_settings_lack(
    site: Site, settings: dict[str, str] | None, lacks: int
) -> None:
    existing_slurm(site, slurm_settings=settings)
    assert _warnings(site, "GPU-PCS-069") == lacks


@pytest.mark.parametrize("is_new", [True, False])
def test_a_queue_with_nodes_of_others_says_what_they_must_have(site: Site, is_new: bool) -> None:
    cluster = slurm_cluster(site) if is_new else existing_slurm(site, slurm_settings=cluster_settings())
    nodes = slurm_nodes(site, cluster=cluster)
    cluster.add_queue("ours", node_groups=[nodes])
    assert _warnings(site, "GPU-PCS-068") == 0
    cluster.add_queue("shared", node_groups=[nodes, _GroupOfOthers()])
    assert _warnings(site, "GPU-PCS-068.*/etc/gpu-cluster") == 2


def test_a_queue_of_a_cluster_without_prologs_takes_nodes_of_others(site: Site) -> None:
    existing_slurm(site).add_queue("shared", node_groups=[_GroupOfOthers()])
    assert _warnings(site, "GPU-PCS-068") == 0
