"""A managed collector: where it stands, what it scrapes, where metrics go, and who admits it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from aws_cdk import App, Environment, Fn, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_route53 as route53
from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters import (
    ClusterSize,
    ConfigError,
    Exporter,
    GpuFleet,
    MetricsScraper,
    MetricsWorkspace,
    NodeWatch,
    PcsCluster,
    ScrapedFleet,
    ScrapedNodeGroup,
    ScrapeTarget,
    WorkspaceRoles,
)
from cdk_gpu_clusters.rules.scrape import WITHOUT_SCRAPERS, check_configuration, check_place
from stack_fixtures import Site, SiteFactory, of_type, only

KIND = "AWS::APS::Scraper"
CONTROLLER = Exporter.SLURMCTLD.at(addresses=["10.0.0.9"])


def schema() -> dict[str, Any]:
    found: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-2", KIND).schema
    return found


def imported_fleet(site: Site, scope: Stack | None = None) -> Any:
    scope = scope or site.stack
    return GpuFleet.from_gpu_fleet_attributes(
        scope,
        "Imported",
        fleet_name="trainers",
        role=iam.Role.from_role_name(scope, "Role", "trainers"),
        security_groups=[ec2.SecurityGroup.from_security_group_id(scope, "Nodes", "sg-0123456789abcdef0")],
    )


def test_fixed_targets_need_no_zone_and_no_state_machine(site: Site) -> None:
    made = MetricsScraper(site.stack, "Scraper", vpc=site.vpc, targets=CONTROLLER)
    resources = site.resources()
    scraper = only(resources, KIND)
    ((group, _),) = of_type(resources, "AWS::EC2::SecurityGroup").items()
    assert made.zone is None
    assert {one["Type"] for one in resources.values()} == {KIND, "AWS::EC2::SecurityGroup", "AWS::Logs::LogGroup"}
    assert scraper["Source"] == {
        "VpcConfiguration": {
            "SubnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
            "SecurityGroupIds": [{"Fn::GetAtt": [group, "GroupId"]}],
        }
    }
    ((place, dataset),) = scraper["Destination"].items()
    assert place == "CloudWatchConfiguration"
    assert dataset["DatasetArn"]["Fn::Join"][1][-1] == ":dataset/default"
    assert scraper["ScrapeConfiguration"] == {"ConfigurationBlob": {"Fn::Base64": made.configuration}}
    logged = scraper["ScraperLoggingConfiguration"]["ScraperComponents"]
    assert {one["Type"] for one in logged} == set(schema()["definitions"]["ScraperComponentType"]["enum"])
    assert set(scraper) <= set(schema()["properties"])
    # What the docstring says of the source.
    assert schema()["createOnlyProperties"] == ["/properties/Source"]


def test_metrics_go_to_a_workspace_instead(site: Site) -> None:
    workspace = MetricsWorkspace(site.stack, "Metrics")
    MetricsScraper(site.stack, "Scraper", vpc=site.vpc, targets=CONTROLLER, workspace=workspace)
    resources = site.resources()
    (name,) = of_type(resources, "AWS::APS::Workspace")
    assert only(resources, KIND)["Destination"] == {"AmpConfiguration": {"WorkspaceArn": {"Fn::GetAtt": [name, "Arn"]}}}


def test_a_fleet_has_a_record_admits_the_collector_and_is_a_job_for_each_exporter(site: Site) -> None:
    fleet = GpuFleet(
        site.stack,
        "Trainers",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="g6.xlarge",
        node_count=2,
        watch=NodeWatch(metrics_port=9810),
    )
    made = MetricsScraper(
        site.stack,
        "Scraper",
        vpc=site.vpc,
        zone_name="lab.metrics.internal",
        fleets=[ScrapedFleet(name="trainers", fleet=fleet, exporters={Exporter.GPUNODE: 9810, Exporter.DCGM: 9500})],
    )
    resources = site.resources()
    jobs = {one["job_name"]: one for one in yaml.safe_load(made.configuration)["scrape_configs"]}
    found = {name: one["dns_sd_configs"] for name, one in jobs.items()}
    record = "trainers.lab.metrics.internal"
    assert found == {
        "gpunode": [{"names": [record], "type": "A", "port": 9810}],
        "dcgm": [{"names": [record], "type": "A", "port": 9500}],
    }
    # The watchdog's metrics have this label themselves.
    assert "relabel_configs" not in jobs["gpunode"]
    (rule,) = jobs["dcgm"]["relabel_configs"]
    assert (rule["target_label"], rule["replacement"]) == ("fleet", "Site/Trainers")
    ((own, _),) = [
        (key, one)
        for key, one in of_type(resources, "AWS::EC2::SecurityGroup").items()
        if one["Properties"]["GroupDescription"] == "Managed collector of metrics"
    ]
    rules = [one["Properties"] for one in of_type(resources, "AWS::EC2::SecurityGroupIngress").values()]
    admitted = [one for one in rules if one.get("SourceSecurityGroupId") == {"Fn::GetAtt": [own, "GroupId"]}]
    assert [(one["IpProtocol"], one["FromPort"], one["ToPort"]) for one in admitted] == [
        ("tcp", 9810, 9810),
        ("tcp", 9500, 9500),
    ]
    nodes = only(resources, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["NetworkInterfaces"][0]["Groups"]
    assert {str(one["GroupId"]) for one in admitted} <= {str(one) for one in nodes}
    ((zone_id, zone),) = of_type(resources, "AWS::Route53::HostedZone").items()
    assert (zone["Properties"]["Name"], zone["DeletionPolicy"]) == ("lab.metrics.internal.", "RetainExceptOnCreate")
    (machine,) = [
        one["Properties"]
        for one in of_type(resources, "AWS::StepFunctions::StateMachine").values()
        if "DNS record" in str(one["Properties"]["DefinitionString"])
    ]
    assert machine["DefinitionSubstitutions"] == {"Zone": {"Ref": zone_id}}
    ((group, _),) = of_type(resources, "AWS::AutoScaling::AutoScalingGroup").items()
    (schedule,) = [
        one["Properties"]
        for one in of_type(resources, "AWS::Events::Rule").values()
        if one["Properties"].get("ScheduleExpression") == "rate(3 minutes)"
    ]
    assert schedule["Targets"][0]["Input"] == {
        "Fn::Join": ["", ['{"group":"', {"Ref": group}, f'","name":"{record}"}}']]
    }


def test_a_fleet_of_another_stack_does_not_wait_for_the_collector(site: Site) -> None:
    """The rule that admits the collector is in its stack, as is everything that names both."""
    fleet = GpuFleet(
        site.stack, "Trainers", vpc=site.vpc, vpc_subnets=site.one_subnet, instance_type="g6.xlarge", node_count=1
    )
    other = Stack(site.app, "Monitoring")
    MetricsScraper(other, "Scraper", vpc=site.vpc, fleets=[ScrapedFleet(name="trainers", fleet=fleet)])
    site.app.synth()
    assert [stack.node.id for stack in other.dependencies] == ["Site"]
    assert site.stack.dependencies == []


def test_addresses_may_be_known_at_deployment_only(site: Site) -> None:
    address = Fn.import_value("controller")
    MetricsScraper(site.stack, "Scraper", vpc=site.vpc, targets=Exporter.RAY.at(addresses=[address]))
    written = only(site.resources(), KIND)["ScrapeConfiguration"]["ConfigurationBlob"]["Fn::Base64"]
    assert {"Fn::ImportValue": "controller"} in written["Fn::Join"][1]


def test_an_existing_zone_is_used_and_none_is_made(site: Site) -> None:
    zone = route53.PrivateHostedZone.from_hosted_zone_attributes(
        site.stack, "Zone", hosted_zone_id="Z0123456789", zone_name="example.internal"
    )
    made = MetricsScraper(
        site.stack,
        "Scraper",
        vpc=site.vpc,
        zone=zone,
        fleets=[ScrapedFleet(name="trainers", fleet=imported_fleet(site))],
    )
    assert made.dns_names == {"trainers": "trainers.example.internal"}
    assert "AWS::Route53::HostedZone" not in {one["Type"] for one in site.resources().values()}
    with pytest.raises(ValueError, match="zone_name"):
        MetricsScraper(site.stack, "B", vpc=site.vpc, zone=zone, zone_name="a.b", targets=CONTROLLER)


def test_the_zone_is_private(site: Site) -> None:
    """CloudFormation makes a zone with VPCs private."""
    fleets = [ScrapedFleet(name="trainers", fleet=imported_fleet(site))]
    MetricsScraper(site.stack, "Scraper", vpc=site.vpc, fleets=fleets)
    [vpc] = only(site.resources(), "AWS::Route53::HostedZone")["VPCs"]
    assert vpc["VPCId"] == site.vpc.vpc_id


def test_the_zone_has_a_name_of_its_own(site: Site) -> None:
    fleets = [ScrapedFleet(name="trainers", fleet=imported_fleet(site))]
    made = MetricsScraper(site.stack, "My Scraper", vpc=site.vpc, fleets=fleets)
    assert made.dns_names == {"trainers": "trainers.site-my-scraper.gpu-metrics.internal"}


@pytest.mark.parametrize(
    ("options", "rule", "words"),
    [
        ({"interval_seconds": 29}, "GPU-SCR-001", "interval"),
        ({"timeout_seconds": 61}, "GPU-SCR-001", "timeout"),
        ({"timeout_seconds": 0}, "GPU-SCR-001", "timeout"),
        ({"targets": []}, "GPU-SCR-002", "nothing to scrape"),
        ({"targets": [ScrapeTarget(job="", port=1, addresses=["a"])]}, "GPU-SCR-002", "no name"),
        ({"targets": [ScrapeTarget(job="a", port=0, addresses=["a"])]}, "GPU-SCR-002", "no port"),
        ({"targets": [ScrapeTarget(job="a", port=1, path="m", addresses=["a"])]}, "GPU-SCR-002", "path"),
        ({"targets": [ScrapeTarget(job="a", port=1)]}, "GPU-SCR-002", "neither"),
        ({"targets": [ScrapeTarget(job="a", port=1, dns_name="a.b", addresses=["a"])]}, "GPU-SCR-002", "both"),
        ({"targets": [ScrapeTarget(job="a", port=1, dns_name="a_b.c")]}, "GPU-SCR-002", "no DNS name"),
        ({"targets": [ScrapeTarget(job="a", port=1, addresses=["a"], labels={"__a": "b"})]}, "GPU-SCR-002", "label"),
        (
            {
                "targets": [
                    ScrapeTarget(job="a", port=1, addresses=["a"]),
                    ScrapeTarget(job="a", port=1, path="/b", addresses=["a"]),
                ]
            },
            "GPU-SCR-002",
            "two paths",
        ),
        ({"targets": Exporter.RAY.at(addresses=["a" * 300] * 900)}, "GPU-SCR-003", "refuses"),
    ],
)
def test_what_would_not_be_scraped_is_refused(site: Site, options: dict[str, Any], rule: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){rule}.*{words}"):
        MetricsScraper(site.stack, "Scraper", **{"vpc": site.vpc, "targets": CONTROLLER, **options})


def test_what_the_collector_takes_is_taken(site: Site) -> None:
    MetricsScraper(site.stack, "A", vpc=site.vpc, targets=CONTROLLER, interval_seconds=30, timeout_seconds=30)
    assert check_configuration("a" * 256 * 1024) == []


@pytest.mark.parametrize(
    ("zones", "is_refused"),
    [
        (["a"], True),
        (["a", "a"], True),
        (["a", "b"], False),
        (["a", None], False),
        ([None, None], False),
        (["a", "b", "a", "b", "a"], False),
        (["a", "b", "a", "b", "a", "b"], True),
    ],
)
def test_subnets_are_in_two_zones(zones: list[str | None], is_refused: bool) -> None:
    assert [one.id for one in check_place(zones, region=None)] == ["GPU-SCR-004"] * is_refused


def test_one_subnet_is_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-SCR-004"):
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, vpc_subnets=site.one_subnet, targets=CONTROLLER)


@pytest.mark.parametrize("name", ["", "Trainers", "a.b", "-a", "a" * 64])
def test_the_name_of_a_fleet_is_a_label(site: Site, name: str) -> None:
    fleets = [ScrapedFleet(name=name, fleet=imported_fleet(site))]
    with pytest.raises(ConfigError, match="GPU-SCR-006"):
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, fleets=fleets)


def test_two_fleets_have_two_names(site: Site) -> None:
    fleet = imported_fleet(site)
    fleets = [ScrapedFleet(name="a", fleet=fleet), ScrapedFleet(name="a", fleet=fleet)]
    with pytest.raises(ConfigError, match="another fleet has this name"):
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, fleets=fleets)


@pytest.mark.parametrize(("nodes", "is_refused"), [(200, False), (201, True)])
def test_a_record_has_room_for_200_nodes(site: Site, nodes: int, is_refused: bool) -> None:
    fleet = GpuFleet(
        site.stack,
        "Many",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="g6.xlarge",
        node_count=nodes,
    )
    fleets = [ScrapedFleet(name="many", fleet=fleet)]
    if not is_refused:
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, fleets=fleets)
        return
    with pytest.raises(ConfigError, match="GPU-SCR-006"):
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, fleets=fleets)


def test_regions_without_scrapers_are_those_of_the_registry() -> None:
    found = {name for name in REGIONS if KIND not in PROVIDER_SCHEMA_MANAGER.get_resource_types(name)}
    assert found == WITHOUT_SCRAPERS
    stack = Stack(App(), "Stack", env=Environment(account="111122223333", region="us-gov-west-1"))
    vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
    with pytest.raises(ConfigError, match="GPU-SCR-005"):
        MetricsScraper(stack, "Scraper", vpc=vpc, targets=CONTROLLER)


def test_a_controller_of_pcs_has_a_record_and_admits_the_collector(site: Site) -> None:
    cluster = PcsCluster(
        site.stack, "Slurm", vpc=site.vpc, subnet=site.vpc.private_subnets[0], size=ClusterSize.SMALL, metrics=True
    )
    made = MetricsScraper(
        site.stack, "Scraper", vpc=site.vpc, zone_name="lab.metrics.internal", slurm_clusters={"slurm": cluster}
    )
    resources = site.resources()
    jobs = yaml.safe_load(made.configuration)["scrape_configs"]
    assert {job["metrics_path"] for job in jobs} == {target.path for target in CONTROLLER}
    assert {one["names"][0] for job in jobs for one in job["dns_sd_configs"]} == {"slurm.lab.metrics.internal"}
    assert {rule["replacement"] for job in jobs for rule in job["relabel_configs"]} == {"slurm"}
    (rule,) = [
        one["Properties"]
        for one in of_type(resources, "AWS::EC2::SecurityGroupIngress").values()
        if one["Properties"].get("FromPort") == 6817
    ]
    assert rule["GroupId"] == only(resources, "AWS::PCS::Cluster")["Networking"]["SecurityGroupIds"][0]
    (statement,) = [
        one
        for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if "pcs:GetCluster" in one["Action"]
    ]
    assert "*" not in str(statement["Resource"])


def test_compute_nodes_have_a_record_each_and_one_rule_together(site: Site) -> None:
    group = ec2.SecurityGroup.from_security_group_id(site.stack, "Slurm", "sg-0123456789abcdef1")
    cluster = PcsCluster.from_pcs_cluster_attributes(
        site.stack, "Cluster", vpc=site.vpc, cluster_id="pcs_a", slurm_version="26.05", security_groups=[group]
    )
    made = MetricsScraper(
        site.stack,
        "Scraper",
        vpc=site.vpc,
        zone_name="lab.metrics.internal",
        fleets=[ScrapedFleet(name="plain", fleet=imported_fleet(site))],
        node_groups=[
            ScrapedNodeGroup(
                name=name,
                cluster=cluster,
                node_group_id=Fn.import_value(name),
                fleet_path=f"Site/{name}",
                exporters={Exporter.GPUNODE: 9810, Exporter.DCGM: port},
            )
            for name, port in (("trainers", 9400), ("batch", 9500))
        ],
    )
    resources = site.resources()
    assert set(made.dns_names) == {"plain", "trainers", "batch"}
    jobs = {one["job_name"]: one for one in yaml.safe_load(made.configuration)["scrape_configs"]}
    assert [rule["replacement"] for rule in jobs["dcgm"]["relabel_configs"]] == ["Site/trainers", "Site/batch"]
    rules = [one["Properties"] for one in of_type(resources, "AWS::EC2::SecurityGroupIngress").values()]
    assert [one["FromPort"] for one in rules if one["GroupId"] == "sg-0123456789abcdef1"] == [9810, 9400, 9500]
    (machine,) = of_type(resources, "AWS::StepFunctions::StateMachine").values()
    definition = str(machine["Properties"]["DefinitionString"])
    assert "aws:pcs:compute-node-group-id" in definition
    actions = str(of_type(resources, "AWS::IAM::ManagedPolicy"))
    assert "ec2:DescribeTags" in actions
    assert "pcs:GetCluster" not in actions


@pytest.mark.parametrize("nodes", [200, 201])
def test_a_record_has_room_for_200_compute_nodes(site: Site, nodes: int) -> None:
    cluster = PcsCluster(site.stack, "Slurm", vpc=site.vpc, subnet=site.vpc.private_subnets[0], size=ClusterSize.SMALL)
    group = ScrapedNodeGroup(name="a", cluster=cluster, node_group_id="pcs_b", fleet_path="b", max_node_count=nodes)
    if nodes == 200:
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, node_groups=[group])
        return
    with pytest.raises(ConfigError, match="GPU-SCR-006"):
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, node_groups=[group])


@pytest.mark.parametrize("name", ["slurm", "a"])
def test_a_controller_without_metrics_or_with_the_name_of_a_fleet_is_refused(site: Site, name: str) -> None:
    cluster = PcsCluster(
        site.stack,
        "Slurm",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        size=ClusterSize.SMALL,
        metrics=name == "a",
    )
    fleets = [ScrapedFleet(name="a", fleet=imported_fleet(site))]
    with pytest.raises(ConfigError, match="GPU-SCR-006" if name == "a" else "GPU-SCR-007"):
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, fleets=fleets, slurm_clusters={name: cluster})


def test_a_workspace_with_its_own_key_is_no_destination(site: Site) -> None:
    workspace = MetricsWorkspace(site.stack, "Metrics", encryption_key=kms.Key(site.stack, "Key"))
    with pytest.raises(ConfigError, match="GPU-SCR-008"):
        MetricsScraper(site.stack, "Scraper", vpc=site.vpc, targets=CONTROLLER, workspace=workspace)


SOURCE, TARGET = "arn:aws:iam::111122223333:role/Source", "arn:aws:iam::444455556666:role/Target"


@pytest.mark.parametrize(
    ("place", "roles", "rule"),
    [
        ("us-east-1:111122223333", None, None),
        ("us-east-1:444455556666", None, "GPU-SCR-011"),
        ("us-east-1:444455556666", WorkspaceRoles(source_role_arn=SOURCE, target_role_arn=TARGET), None),
        ("us-west-2:111122223333", None, "GPU-SCR-011"),
        ("us-west-2:444455556666", WorkspaceRoles(source_role_arn=SOURCE, target_role_arn=TARGET), "GPU-SCR-011"),
    ],
)
def test_a_workspace_of_another_account_takes_roles(
    make_site: SiteFactory, place: str, roles: WorkspaceRoles | None, rule: str | None
) -> None:
    site = make_site(env=Environment(account="111122223333", region="us-east-1"))
    arn = f"arn:aws:aps:{place}:workspace/ws-0123abcd"
    shared = MetricsWorkspace.from_metrics_workspace_attributes(site.stack, "Shared", workspace_arn=arn)
    options: dict[str, Any] = {"vpc": site.vpc, "targets": CONTROLLER, "workspace": shared, "workspace_roles": roles}
    if rule is not None:
        with pytest.raises(ConfigError, match=rule):
            MetricsScraper(site.stack, "Scraper", **options)
        return
    MetricsScraper(site.stack, "Scraper", **options)
    made = only(site.resources(), KIND)
    expected = None if roles is None else {"SourceRoleArn": SOURCE, "TargetRoleArn": TARGET}
    assert made.get("RoleConfiguration") == expected
    assert set(expected or {}) <= set(schema()["definitions"]["RoleConfiguration"]["properties"])


def test_roles_are_for_a_workspace_and_allow_one_with_a_key(site: Site) -> None:
    roles = WorkspaceRoles(source_role_arn=SOURCE, target_role_arn=SOURCE)
    workspace = MetricsWorkspace(site.stack, "Metrics", encryption_key=kms.Key(site.stack, "Key"))
    MetricsScraper(site.stack, "Scraper", vpc=site.vpc, targets=CONTROLLER, workspace=workspace, workspace_roles=roles)
    with pytest.raises(ValueError, match="workspace_roles"):
        MetricsScraper(site.stack, "Without", vpc=site.vpc, targets=CONTROLLER, workspace_roles=roles)


def test_a_zone_does_not_outlive_a_deployment_that_failed(site: Site) -> None:
    """A second try would find its name taken: it gets no record before the collector is there."""
    MetricsScraper(
        site.stack, "Scraper", vpc=site.vpc, fleets=[ScrapedFleet(name="trainers", fleet=imported_fleet(site))]
    )
    resources = site.resources()
    (zone,) = of_type(resources, "AWS::Route53::HostedZone").values()
    assert (zone["DeletionPolicy"], zone["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    ((scraper, _),) = of_type(resources, KIND).items()
    (rule,) = of_type(resources, "AWS::Events::Rule").values()
    assert scraper in rule["DependsOn"]


def test_a_key_of_the_app_lets_cloudwatch_logs_use_it(site: Site) -> None:
    """Without the statement CloudWatch Logs refuses to make the log groups."""
    key = kms.Key(site.stack, "Key")
    workspace = MetricsWorkspace(site.stack, "Metrics", log_encryption_key=key)
    fleets = [ScrapedFleet(name="trainers", fleet=imported_fleet(site))]
    MetricsScraper(site.stack, "Scraper", vpc=site.vpc, fleets=fleets, workspace=workspace, log_encryption_key=key)
    resources = site.resources()
    statements = only(resources, "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    services = [one["Principal"].get("Service") for one in statements]
    assert "logs." in str(services[-1])
    assert {"KmsKeyId" in one["Properties"] for one in of_type(resources, "AWS::Logs::LogGroup").values()} == {True}
