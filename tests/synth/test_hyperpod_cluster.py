"""A HyperPod cluster on Slurm and on Amazon EKS: what is said to the service, and what is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Annotations, Match
from botocore.validate import ParamValidator
from cfnlint import ManualArgs, lint
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER
from moto import mock_aws

from cdk_gpu_clusters import (
    AccountingDatabase,
    Capacity,
    ConfigError,
    EksGpuCluster,
    GpuLaunchTemplate,
    HyperPodCluster,
    HyperPodRole,
    LustreStore,
    MigLayout,
    Orchestrator,
    QuotaResource,
    SlurmNodeType,
    TrainingPlan,
)
from cdk_gpu_clusters.template_rules.engine import judge, not_compliant
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.template import Template
from everything.hyperpod import PLAN, VOLUME_KEY, hyperpod_on_eks, hyperpod_on_slurm, slurm_of_hyperpod
from node_groups import CLUSTER_GROUP, existing_cluster
from stack_fixtures import Resources, Site, of_type, only

CLUSTER = "AWS::SageMaker::Cluster"


@dataclass
class Made:
    """A cluster with its template."""

    cluster: HyperPodCluster
    resources: Resources

    @property
    def properties(self) -> dict[str, Any]:
        return only(self.resources, CLUSTER)

    @property
    def groups(self) -> dict[str, dict[str, Any]]:
        return {group["InstanceGroupName"]: group for group in self.properties["InstanceGroups"]}


@pytest.fixture(scope="module")
def on_slurm(app_factory: Any) -> Made:
    """A Slurm cluster with every option, synthesized once."""
    site = Site(app_factory(), None)
    return Made(hyperpod_on_slurm(site), site.resources())


@pytest.fixture(scope="module")
def on_eks(app_factory: Any) -> Made:
    """A cluster on Amazon EKS with MIG, quotas and priorities, synthesized once."""
    site = Site(app_factory(), None)
    return Made(hyperpod_on_eks(site), site.resources())


def test_slurm_has_a_controller_and_no_strategy_with_continuous_provisioning(on_slurm: Made) -> None:
    properties = on_slurm.properties
    assert properties["ClusterName"] == "research"
    assert (properties["NodeRecovery"], properties["NodeProvisioningMode"]) == ("Automatic", "Continuous")
    slurm_of = properties["Orchestrator"]["Slurm"]
    assert "SlurmConfigStrategy" not in slurm_of
    assert "Name" not in slurm_of["AccountingDatabase"], "by default the id of the cluster is in it"
    assert (slurm_of["AccountingDatabase"]["Endpoint"], slurm_of["AccountingDatabase"]["Port"]) == (
        "db.example.com",
        3306,
    )
    controller = on_slurm.groups["controller"]
    assert (controller["SlurmConfig"], controller["InstanceCount"]) == ({"NodeType": "Controller"}, 1)
    assert "LifeCycleConfig" not in controller, "nodes without accelerators get the set-up of HyperPod alone"


def test_a_group_says_all_that_was_asked_for(on_slurm: Made) -> None:
    group = on_slurm.groups["trainers"]
    assert (group["InstanceType"], group["InstanceCount"], group["MinInstanceCount"]) == ("ml.p5.48xlarge", 4, 2)
    assert group["TrainingPlanArn"] == PLAN.arn
    assert group["NetworkInterface"] == {"InterfaceType": "efa-only"}
    assert group["OnStartDeepHealthChecks"] == ["InstanceStress", "InstanceConnectivity"]
    assert group["SlurmConfig"] == {"NodeType": "Compute", "PartitionNames": ["train"]}
    volume, lustre, homes = group["InstanceStorageConfigs"]
    assert volume == {"EbsVolumeConfig": {"VolumeSizeInGB": 500, "VolumeKmsKeyId": VOLUME_KEY}}
    assert (lustre["FsxLustreConfig"]["MountName"], lustre["FsxLustreConfig"]["MountPath"]) == ("abcdefgh", "/fsx")
    assert homes["FsxOpenZfsConfig"]["MountPath"] == "/home"
    assert group["LifeCycleConfig"]["OnInitComplete"] == "setup.sh"
    spot = on_slurm.groups["spot"]
    assert spot["SlurmConfig"] == {"NodeType": "Compute", "PartitionNames": ["spot"]}
    assert on_slurm.groups["login"]["SlurmConfig"] == {"NodeType": "Login"}
    assert spot["CapacityRequirements"] == {"Spot": {}}
    assert spot["NetworkInterface"] == {"InterfaceType": "efa"}
    assert "OverrideVpcConfig" not in spot
    assert spot["LifeCycleConfig"] != group["LifeCycleConfig"], "each group has the settings of its own nodes"


def test_every_group_of_a_node_exchanges_efa_traffic(on_slurm: Made) -> None:
    groups = on_slurm.groups["trainers"]["OverrideVpcConfig"]["SecurityGroupIds"]
    assert len(groups) == 3
    for way, peer in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        rules = of_type(on_slurm.resources, f"AWS::EC2::SecurityGroup{way}").values()
        with_itself = [
            one["Properties"]["GroupId"]
            for one in rules
            if one["Properties"]["IpProtocol"] == "-1" and one["Properties"].get(peer) == one["Properties"]["GroupId"]
        ]
        assert all(group in with_itself for group in groups)


def test_nothing_starts_before_its_permissions_and_rules(on_slurm: Made) -> None:
    [needs] = [one["DependsOn"] for one in of_type(on_slurm.resources, CLUSTER).values()]
    policies = [
        *of_type(on_slurm.resources, "AWS::IAM::ManagedPolicy"),
        *of_type(on_slurm.resources, "AWS::IAM::Policy"),
    ]
    assert set(policies) <= set(needs)
    assert sum("SelfRules" in one for one in needs) == 6


def test_the_role_reads_the_scripts_of_its_cluster_alone(on_slurm: Made) -> None:
    uri = json.dumps(on_slurm.groups["trainers"]["LifeCycleConfig"]["SourceS3Uri"])
    policy = next(
        one["Properties"]["PolicyDocument"]["Statement"]
        for name, one in of_type(on_slurm.resources, "AWS::IAM::ManagedPolicy").items()
        if "ReadScripts" in name
    )
    read, listed = policy
    folder = f"hyperpod-{on_slurm.cluster.unique_name}/"
    assert folder in uri
    assert json.dumps(read["Resource"]).endswith(f'/{folder}*"]]}}')
    assert listed["Condition"] == {"StringLike": {"s3:prefix": [f"{folder}*"]}}
    actions = {
        action
        for one in of_type(on_slurm.resources, "AWS::IAM::ManagedPolicy").values()
        for statement in one["Properties"]["PolicyDocument"]["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    assert not [one for one in actions if one.startswith(("ecr:", "eks", "ec2:Assign", "ec2:Attach"))], "those of EKS"


def test_sagemaker_encrypts_volumes_with_the_key(on_slurm: Made, site: Site) -> None:
    """The permissions that the schema of CloudFormation has for a key, in the role that the guide names."""
    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", CLUSTER).schema["handlers"]
    needed = {one for one in handlers["create"]["permissions"] if one.startswith("kms:")}
    assert _actions_on(on_slurm.resources, VOLUME_KEY) == {"HyperPodRole": needed}
    key = kms.Key.from_key_arn(site.stack, "Key", VOLUME_KEY)
    cluster = slurm_of_hyperpod(site)
    shared: dict[str, Any] = {"instance_type": "p5.48xlarge", "node_count": 2, "volume_gib": 500, "volume_key": key}
    cluster.add_instance_group("One", **shared)
    cluster.add_instance_group("Two", **shared)
    cluster.add_instance_group("Three", **shared, role=HyperPodRole(site.stack, "Own"))
    assert _actions_on(site.resources(), VOLUME_KEY) == {"HyperPodRole": needed, "Own": needed}


def _actions_on(resources: Resources, key: str) -> dict[str, set[str]]:
    """What policies allow on a key, by the role; each role has them once."""
    found: dict[str, set[str]] = {}
    for one in of_type(resources, "AWS::IAM::ManagedPolicy").values():
        statements = [row for row in one["Properties"]["PolicyDocument"]["Statement"] if row["Resource"] == key]
        if statements:
            [role] = one["Properties"]["Roles"]
            name = role["Ref"][:-8]
            assert name not in found
            found[name] = {row["Action"] for row in statements}
    return found


def test_split_gpus_are_a_label(on_eks: Made) -> None:
    properties = on_eks.properties
    assert "Eks" in properties["Orchestrator"]
    assert properties["TieredStorageConfig"] == {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 20}
    group = on_eks.groups["slices"]
    assert group["KubernetesConfig"] == {
        "Labels": {"nvidia.com/mig.config": "mixed-1-3g.20gb-1-4g.20gb", "team": "vision"},
        "Taints": [{"Key": "nvidia.com/gpu", "Value": "present", "Effect": "NoSchedule"}],
    }
    assert "SlurmConfig" not in group
    assert group["LifeCycleConfig"]["OnCreate"] == "setup.sh"
    assert "OnInitComplete" not in group["LifeCycleConfig"]
    assert "NetworkInterface" not in group
    assert group["ImageReleaseVersion"] == "1.2.3"
    assert "sg-0123456789abcdef0" in properties["VpcConfig"]["SecurityGroupIds"]


def test_every_group_on_eks_has_a_script(on_eks: Made) -> None:
    """SageMaker AI developer guide: LifeCycleConfig is optional on Slurm alone."""
    scripts = {name: group["LifeCycleConfig"] for name, group in on_eks.groups.items()}
    assert set(scripts) == {"slices", "servers", "bare"}
    assert all(one["OnCreate"] == "setup.sh" for one in scripts.values())
    assert scripts["servers"] == scripts["bare"] != scripts["slices"], "one folder for all that have nothing to do"


def test_teams_have_quotas_and_priorities(on_eks: Made) -> None:
    quota = only(on_eks.resources, "AWS::SageMaker::ComputeQuota")
    assert quota["ComputeQuotaTarget"] == {"TeamName": "vision", "FairShareWeight": 40}
    assert quota["ComputeQuotaConfig"]["ComputeQuotaResources"] == [
        {"InstanceType": "ml.p5.48xlarge", "Accelerators": 16},
        {"InstanceType": "ml.p4d.24xlarge", "AcceleratorPartition": {"Type": "mig-3g.20gb", "Count": 4}},
    ]
    config = only(on_eks.resources, "AWS::SageMaker::ClusterSchedulerConfig")["SchedulerConfig"]
    assert config["PriorityClasses"] == [{"Name": "training", "Weight": 80}, {"Name": "research", "Weight": 20}]


@pytest.mark.parametrize("made", ["on_slurm", "on_eks"])
def test_the_schema_and_the_own_rules_hold(made: str, request: pytest.FixtureRequest) -> None:
    """CloudFormation's own schema, by cfn-lint; and the rules over templates."""
    template = {"Resources": request.getfixturevalue(made).resources}
    assert lint(json.dumps(template), config=ManualArgs(regions=["us-east-1"])) == []
    verdicts = not_compliant(judge(Template.of(template, region="us-east-1"), every_rule()))
    assert [f"{one.rule.id} at {one.path}: {one.message}" for one in verdicts] == []


@pytest.mark.parametrize("made", ["on_slurm", "on_eks"])
def test_the_api_takes_the_cluster(made: str, request: pytest.FixtureRequest) -> None:
    """Every property is one of CreateCluster in the published model, with a value that it takes."""
    shape = boto3.client("sagemaker", region_name="us-east-1").meta.service_model.operation_model("CreateCluster")
    report = ParamValidator().validate(_literal(request.getfixturevalue(made).properties), shape.input_shape)
    assert report.generate_report() == ""


def test_moto_makes_the_cluster(on_eks: Made) -> None:
    """With assets in a bucket whose name begins with sagemaker-: moto takes no other one."""
    text = json.dumps(_literal(on_eks.properties)).replace("s3://cdk-hnb659fds-", "s3://sagemaker-")
    text = text.replace("ml.m7i.xlarge", "ml.m5.xlarge")  # moto has the types of 2024
    properties = json.loads(text)
    with mock_aws():
        client = boto3.client("sagemaker", region_name="us-east-1")
        arn = client.create_cluster(**properties)["ClusterArn"]
        assert client.describe_cluster(ClusterName=arn)["ClusterName"] == properties["ClusterName"]
        nodes = client.list_cluster_nodes(ClusterName=arn)["ClusterNodeSummaries"]
        assert {node["InstanceGroupName"] for node in nodes} == set(on_eks.groups)


def _literal(value: Any) -> Any:
    """A property with texts in the place of functions, as CloudFormation sends it."""
    if isinstance(value, list):
        return [_literal(one) for one in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"Fn::GetAtt": [_, "Arn"]}:
            return "arn:aws:iam::123456789012:role/hyperpod"
        case {"Fn::GetAtt": _}:
            return "sg-0123456789abcdef9"
        case {"Ref": str(name)}:
            return {"AWS::Region": "us-east-1", "AWS::AccountId": "123456789012", "AWS::Partition": "aws"}.get(
                name, "amazonaws.com"
            )
        case {"Fn::Sub": str(text)}:
            return text.replace("${AWS::AccountId}", "123456789012").replace("${AWS::Region}", "us-east-1")
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(_literal(part) for part in parts)
    return {name: _literal(one) for name, one in value.items()}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"capacity": Capacity.from_reservation_id("cr-0123456789abcdef0")}, {"GPU-HYP-010"}),
        (
            {"capacity": Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2027-01-01T11:30Z")},
            {"GPU-HYP-010"},
        ),
        ({"placement_group": None, "user_data_parts": [], "launch_template": "lt"}, {"GPU-HYP-011"}),
        ({"capacity": TrainingPlan.from_arn("arn:aws:other")}, {"GPU-HYP-012"}),
        ({"node_count": 7_000}, {"GPU-HYP-013"}),
        ({"labels": {"a": "b"}}, {"GPU-HYP-014"}),
        ({"node_type": SlurmNodeType.CONTROLLER}, {"GPU-HYP-014"}),
        ({"volume_gib": 0}, {"GPU-HYP-015"}),
        ({"efa": False, "mig": MigLayout(["3g.40gb", "4g.40gb"])}, {"GPU-HYP-016"}),
        ({"setup_script": f"echo {cdk.Aws.REGION}"}, {"GPU-HYP-023"}),
        ({"instance_type": "trn2u.48xlarge"}, {"GPU-HYP-001"}),
        ({"vpc_subnets": ec2.SubnetSelection(one_per_az=True)}, {"GPU-FAB-003", "GPU-FAB-004"}),
    ],
)
def test_what_hyperpod_refuses_is_refused_here(site: Site, options: dict[str, Any], found: set[str]) -> None:
    cluster = slurm_of_hyperpod(site)
    given = {"instance_type": "p5.48xlarge", "node_count": 2, **options}
    with pytest.raises(ConfigError) as refused:
        cluster.add_instance_group("Trainers", **given)
    assert {one.id for one in refused.value.findings} == found
    assert all(one.path.startswith("Site/HyperPod/Trainers") for one in refused.value.findings)
    assert all(one.fix or one.allowed for one in refused.value.findings)


def test_no_launch_template_is_for_hyperpod(site: Site) -> None:
    with pytest.raises(ConfigError, match=r"GPU-HYP-011.*add_instance_group"):
        GpuLaunchTemplate(site.stack, "Template", instance_type="p5.48xlarge", orchestrator=Orchestrator.HYPERPOD_SLURM)


def test_a_cluster_needs_a_network(site: Site) -> None:
    with pytest.raises(TypeError, match="vpc, or eks_cluster"):
        HyperPodCluster(site.stack, "HyperPod")


def test_nodes_that_are_not_recovered_are_a_warning(site: Site) -> None:
    slurm_of_hyperpod(site, node_recovery=False)
    warnings = Annotations.from_stack(site.stack).find_warning("*", Match.string_like_regexp("GPU-HYP-007"))
    assert len(warnings) == 1


def test_a_database_needs_continuous_provisioning(site: Site) -> None:
    secret = secretsmanager.Secret.from_secret_name_v2(site.stack, "Secret", "slurm-accounting")
    database = AccountingDatabase(endpoint="db.example.com", secret=secret)
    with pytest.raises(ConfigError, match="GPU-HYP-019"):
        slurm_of_hyperpod(site, accounting_database=database, continuous_provisioning=False)


def test_slurm_is_managed_without_continuous_provisioning(site: Site) -> None:
    slurm_of_hyperpod(site, continuous_provisioning=False)
    properties = only(site.resources(), CLUSTER)
    assert properties["Orchestrator"] == {"Slurm": {"SlurmConfigStrategy": "Managed"}}
    assert "NodeProvisioningMode" not in properties


def _rules_of(resources: Resources, group: str) -> list[str]:
    """The rules by which an existing group exchanges all traffic with itself."""
    kinds = {"SourceSecurityGroupId": "Ingress", "DestinationSecurityGroupId": "Egress"}
    return [
        kind
        for peer, kind in kinds.items()
        for one in of_type(resources, f"AWS::EC2::SecurityGroup{kind}").values()
        if one["Properties"]["GroupId"] == group == one["Properties"][peer] and one["Properties"]["IpProtocol"] == "-1"
    ]


@pytest.mark.parametrize(("version", "rules"), [("1.32", ["Egress"]), ("1.33", [])])
def test_nodes_join_every_group_of_the_nodes_of_eks_and_exchange_efa_in_them(
    site: Site, version: str, rules: list[str]
) -> None:
    """EKS lets EFA traffic of its own group out since 1.33, and in always: EC2 refuses a rule twice."""
    of_cluster, of_nodes = CLUSTER_GROUP, "sg-0bbbbbbbbbbbbbbbb"
    kubernetes = existing_cluster(site, kubernetes_version=version, node_security_group_ids=[of_nodes])
    HyperPodCluster(site.stack, "Pods", eks_cluster=kubernetes)
    resources = site.resources()
    cluster = only(resources, CLUSTER)
    assert cluster["VpcConfig"]["SecurityGroupIds"][1:] == [of_cluster, of_nodes]
    assert _rules_of(resources, of_nodes) == ["Ingress", "Egress"]
    assert _rules_of(resources, of_cluster) == rules
    [hyperpod] = of_type(resources, CLUSTER).values()
    for name, one in of_type(resources, "AWS::EC2::SecurityGroupEgress").items():
        assert name in hyperpod["DependsOn"]
        # Without the rule, running nodes of a cluster that becomes newer would lose it.
        is_kept = one["Properties"]["GroupId"] == of_cluster
        assert one.get("DeletionPolicy") == ("RetainExceptOnCreate" if is_kept else None)


@pytest.mark.parametrize("is_in_stack", [True, False])
def test_the_chart_is_installed_between_two_stacks(site: Site, *, is_in_stack: bool) -> None:
    kubernetes = EksGpuCluster(site.stack, "Kubernetes", vpc=site.vpc)
    stack = site.stack if is_in_stack else cdk.Stack(site.app, "HyperPod")
    HyperPodCluster(stack, "Pods", eks_cluster=kubernetes)
    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("GPU-HYP-024.*Helm chart"))
    assert len(found) == is_in_stack


def test_tiered_checkpoints_are_for_eks(site: Site) -> None:
    with pytest.raises(ConfigError, match=r"GPU-HYP-029.*leave tiered_checkpoint_percent out"):
        slurm_of_hyperpod(site, tiered_checkpoint_percent=20)


def test_nodes_of_eks_mount_nothing(site: Site) -> None:
    """SageMaker AI developer guide, "SageMaker HyperPod references": FSx needs an instance group of Controller."""
    cluster = HyperPodCluster(site.stack, "Pods", eks_cluster=existing_cluster(site), vpc_subnets=site.one_subnet)
    store = LustreStore.from_lustre_store_attributes(
        site.stack,
        "Store",
        file_system_id="fs-0123456789abcdef0",
        mount_name="abcdefgh",
        security_group=ec2.SecurityGroup.from_security_group_id(site.stack, "OfStore", "sg-0123456789abcdef2"),
    )
    with pytest.raises(ConfigError, match=r"GPU-HYP-015: Site/Pods/Trainers.mounts./fsx.*FSx CSI driver"):
        cluster.add_instance_group("Trainers", instance_type="p5.48xlarge", node_count=2, mounts={"/fsx": store})


def test_a_second_group_of_login_nodes_is_refused(site: Site) -> None:
    cluster = slurm_of_hyperpod(site)
    login: dict[str, Any] = {"instance_type": "m7i.xlarge", "node_count": 1, "node_type": SlurmNodeType.LOGIN}
    cluster.add_instance_group("Login", **login)
    with pytest.raises(ConfigError, match=r"GPU-HYP-014: Site/HyperPod/More.*another group of Login"):
        cluster.add_instance_group("More", **login)


def test_spot_instances_need_continuous_provisioning(site: Site) -> None:
    cluster = slurm_of_hyperpod(site, continuous_provisioning=False)
    with pytest.raises(ConfigError, match=r"GPU-HYP-026.*leave continuous_provisioning out"):
        cluster.add_instance_group("Spot", instance_type="g6.12xlarge", node_count=2, capacity=Capacity.spot())


def test_slurm_has_no_quotas(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-HYP-021"):
        slurm_of_hyperpod(site).add_team_quota(
            "Vision", team="vision", resources=[QuotaResource(instance_type="p5.48xlarge", node_count=1)]
        )
