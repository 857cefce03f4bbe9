"""AWS PCS in templates: what is read over several resources, and which rules of other areas hold for it, too."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from cdk_gpu_clusters.template_rules.template import Template

P4D = "p4d.24xlarge"
SUBNETS = ["subnet-0123456789abcdef0"]
SEVEN = "nvidia-smi mig -cgi 1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb -C"
OF_TEMPLATE = {"TemplateId": {"Ref": "Nodes"}, "Version": {"Fn::GetAtt": ["Nodes", "LatestVersionNumber"]}}
DECLARED = {
    "SlurmCustomSettings": [{"ParameterName": "Gres", "ParameterValue": "gpu:1g.5gb:56"}],
    "GresCustomSettings": [{"AutoDetect": "nvml"}],
}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def cluster(version: Any = "26.05", **properties: Any) -> dict[str, Any]:
    scheduler = {"Type": "SLURM", "Version": version}
    networking = {"SubnetIds": SUBNETS}
    return resource(
        "AWS::PCS::Cluster", Size="SMALL", **{"Scheduler": scheduler, "Networking": networking} | properties
    )


def group(*types: str, **properties: Any) -> dict[str, Any]:
    configs = [{"InstanceType": name} for name in types or (P4D,)]
    known = {
        "ClusterId": {"Ref": "Cluster"},
        "InstanceConfigs": configs,
        "ScalingConfiguration": {"MinInstanceCount": 4, "MaxInstanceCount": 4},
        "SubnetIds": SUBNETS,
    }
    return resource("AWS::PCS::ComputeNodeGroup", **known | properties)


def nodes(**data: Any) -> dict[str, Any]:
    return resource("AWS::EC2::LaunchTemplate", LaunchTemplateData=data)


def split(command: str = SEVEN) -> dict[str, Any]:
    return nodes(UserData={"Fn::Base64": f"#!/bin/sh\nnvidia-smi -mig 1\n{command}\n"})


def verdicts(rule: str, *, parameters: dict[str, Any] | None = None, **resources: Any) -> list[Verdict]:
    rules = [one for one in every_rule() if one.id == rule]
    return judge(Template.of({"Resources": resources, "Parameters": parameters or {}}), rules)


def outcomes(rule: str, **resources: Any) -> set[Outcome]:
    return {verdict.outcome for verdict in verdicts(rule, **resources)}


def depends(made: dict[str, Any], *names: str) -> dict[str, Any]:
    return made | {"DependsOn": list(names)}


@pytest.mark.parametrize(
    ("resources", "outcome"),
    [
        ({"First": cluster()}, Outcome.NOT_APPLICABLE),
        ({"First": cluster(), "Second": cluster()}, Outcome.NOT_COMPLIANT),
        ({"First": cluster(), "Second": depends(cluster(), "First")}, Outcome.COMPLIANT),
        ({"First": depends(cluster(), "Second"), "Second": cluster()}, Outcome.COMPLIANT),
        ({"First": cluster(), "Second": depends(cluster(), "Queue"), "Queue": "of First"}, Outcome.COMPLIANT),
    ],
)
def test_clusters_wait_for_each_other_directly_or_over_others(resources: dict[str, Any], outcome: Outcome) -> None:
    made = {
        name: resource("AWS::PCS::Queue", ClusterId={"Ref": "First"}) if one == "of First" else one
        for name, one in resources.items()
    }
    assert outcome in outcomes("GPU-PCS-026", **made)
    assert (Outcome.NOT_COMPLIANT in outcomes("GPU-PCS-026", **made)) is (outcome is Outcome.NOT_COMPLIANT)


def test_every_pair_of_clusters_that_does_not_wait_is_reported_once() -> None:
    found = verdicts("GPU-PCS-026", A=cluster(), B=cluster(), C=depends(cluster(), "A"))
    assert sorted(one.resource for one in found if one.outcome is Outcome.NOT_COMPLIANT) == ["B", "C"]


@pytest.mark.parametrize(("size", "outcome"), [(4, Outcome.COMPLIANT), (3, Outcome.NOT_COMPLIANT)])
def test_a_group_is_not_larger_than_its_block(size: int, outcome: Outcome) -> None:
    """The rule of all reservations counts the greatest size of a PCS node group."""
    reservation = resource("AWS::EC2::CapacityReservation", InstanceType=P4D, InstanceCount=size)
    target = {"CapacityReservationTarget": {"CapacityReservationId": {"Ref": "Block"}}}
    found = outcomes(
        "GPU-CAP-022",
        Block=reservation,
        Nodes=nodes(InstanceMarketOptions={"MarketType": "capacity-block"}, CapacityReservationSpecification=target),
        Group=group(CustomLaunchTemplate=OF_TEMPLATE, PurchaseOption="CAPACITY_BLOCK"),
        Cluster=cluster(),
    )
    assert found == {outcome}


@pytest.mark.parametrize(("version", "outcome"), [("1", Outcome.NOT_COMPLIANT), (None, Outcome.COMPLIANT)])
def test_a_group_follows_its_launch_template(version: str | None, outcome: Outcome) -> None:
    named = OF_TEMPLATE if version is None else {**OF_TEMPLATE, "Version": version}
    assert outcomes("GPU-LT-013", Nodes=nodes(), Group=group(CustomLaunchTemplate=named)) == {outcome}


@pytest.mark.parametrize(
    ("command", "configuration", "outcome"),
    [
        (SEVEN, DECLARED, Outcome.COMPLIANT),
        (SEVEN, {}, Outcome.NOT_COMPLIANT),
        (SEVEN, {"GresCustomSettings": [{"AutoDetect": "nvml"}]}, Outcome.NOT_COMPLIANT),
        (SEVEN, {"SlurmCustomSettings": DECLARED["SlurmCustomSettings"]}, Outcome.NOT_COMPLIANT),
        ("true", {}, Outcome.NOT_APPLICABLE),  # MIG is on, and no instance is made here
        ("nvidia-smi mig -cgi 2g.20gb -C", {}, Outcome.NOT_APPLICABLE),  # the rule of layouts reports this one
    ],
)
def test_slices_are_declared(command: str, configuration: dict[str, Any], outcome: Outcome) -> None:
    made = group(CustomLaunchTemplate=OF_TEMPLATE, SlurmConfiguration=configuration)
    assert outcomes("GPU-PCS-032", Nodes=split(command), Group=made, Cluster=cluster()) == {outcome}


def settings(**values: str) -> list[dict[str, str]]:
    return [{"ParameterName": name, "ParameterValue": value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("cgroup", "configuration", "outcome"),
    [
        (None, DECLARED, Outcome.NOT_COMPLIANT),
        ("yes", DECLARED, Outcome.COMPLIANT),
        ("no", {}, Outcome.NOT_COMPLIANT),
        (None, {}, Outcome.NOT_APPLICABLE),
    ],
)
def test_a_cluster_whose_nodes_have_gres_limits_jobs_to_their_devices(
    cgroup: str | None, configuration: dict[str, Any], outcome: Outcome
) -> None:
    slurm = {} if cgroup is None else {"CgroupCustomSettings": settings(ConstrainDevices=cgroup)}
    made = group(CustomLaunchTemplate=OF_TEMPLATE, SlurmConfiguration=configuration)
    found = outcomes("GPU-PCS-043", Nodes=nodes(), Group=made, Cluster=cluster(SlurmConfiguration=slurm))
    assert found == {outcome}


def test_a_setting_of_the_deployment_is_not_judged() -> None:
    slurm = {"SlurmCustomSettings": [{"ParameterName": "PreemptMode", "ParameterValue": {"Ref": "Mode"}}]}
    found = verdicts("GPU-PCS-040", parameters={"Mode": {"Type": "String"}}, Cluster=cluster(SlurmConfiguration=slurm))
    assert {one.outcome for one in found} == {Outcome.UNDECIDABLE}


@pytest.mark.parametrize("kind", ["c8a.xlarge", "hpc7a.96xlarge"])
def test_nodes_without_accelerators_have_no_slices(kind: str) -> None:
    """The catalogue knows accelerated types alone, and these rules have nothing to say about others."""
    made = group(kind, CustomLaunchTemplate=OF_TEMPLATE)
    for rule in ("GPU-PCS-032", "GPU-PCS-034"):
        assert outcomes(rule, Nodes=nodes(), Group=made, Cluster=cluster()) == {Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize(("version", "outcome"), [("25.11", Outcome.COMPLIANT), ("25.05", Outcome.NOT_COMPLIANT)])
def test_a_version_of_a_parameter_is_judged_by_its_default(version: str, outcome: Outcome) -> None:
    choice = {"Type": "String", "Default": version}
    setting = {"SlurmCustomSettings": [{"ParameterName": "Sockets", "ParameterValue": "2"}]}
    made = {"Cluster": cluster({"Ref": "Version"}), "Group": group(SlurmConfiguration=setting)}
    found = verdicts("GPU-PCS-019", parameters={"Version": choice}, **made)
    assert {verdict.outcome for verdict in found if verdict.resource == "Group"} == {outcome}


@pytest.mark.parametrize(
    ("configuration", "outcome"),
    [
        ({}, Outcome.NOT_APPLICABLE),
        ({"ScaleDownIdleTimeInSeconds": -1}, Outcome.NOT_APPLICABLE),
        ({"ScaleDownIdleTimeInSeconds": 60}, Outcome.UNDECIDABLE),
    ],
)
def test_a_cluster_elsewhere_leaves_the_version_open(configuration: dict[str, Any], outcome: Outcome) -> None:
    made = group(ClusterId="pcs_0123456789", SlurmConfiguration=configuration)
    assert outcomes("GPU-PCS-019", Group=made) == {outcome}


@pytest.mark.parametrize(
    ("market", "outcome"),
    [
        (None, Outcome.NOT_COMPLIANT),
        ("spot", Outcome.NOT_COMPLIANT),
        ("capacity-block", Outcome.COMPLIANT),
        ("interruptible-capacity-reservation", Outcome.COMPLIANT),
    ],
)
def test_an_on_demand_reservation_is_named_by_its_group(market: str | None, outcome: Outcome) -> None:
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}
    options = {} if market is None else {"InstanceMarketOptions": {"MarketType": market}}
    made = nodes(CapacityReservationSpecification=target, **options)
    assert outcomes("GPU-PCS-028", Nodes=made, Group=group(CustomLaunchTemplate=OF_TEMPLATE)) == {outcome}


def test_values_that_only_a_deployment_knows_do_not_hide_a_wrong_setting() -> None:
    settings = [
        {"ParameterName": "Prolog", "ParameterValue": {"Fn::Sub": "/opt/${AWS::StackName}/prolog.sh"}},
        {"ParameterName": "Weight", "ParameterValue": {"Ref": "AWS::StackName"}},
    ]
    found = verdicts("GPU-PCS-020", Cluster=cluster(SlurmConfiguration={"SlurmCustomSettings": settings}))
    assert [one.path[-1] for one in found if one.outcome is Outcome.NOT_COMPLIANT] == [1]


def test_a_checksum_that_a_deployment_knows_is_one() -> None:
    source = {"ScriptLocation": {"Fn::Sub": "s3://${Scripts}/verify.sh"}, "Checksum": {"Fn::GetAtt": ["Sum", "Hex"]}}
    stages = {"NodeBootstrapped": [{"Name": "gpunode verify", "ScriptSource": source}]}
    made = group(NodeLifecycleActions={"Stages": stages})
    parts = {"Scripts": resource("AWS::S3::Bucket"), "Sum": resource("Custom::Sum")}
    for rule in ("GPU-PCS-023", "GPU-PCS-024"):
        assert outcomes(rule, Group=made, **parts) == {Outcome.COMPLIANT}
    source.pop("Checksum")
    assert outcomes("GPU-PCS-024", Group=made, **parts) == {Outcome.NOT_COMPLIANT}


@pytest.mark.parametrize(
    ("queued", "outcome"),
    [("Group", Outcome.NOT_COMPLIANT), ("Others", Outcome.NOT_APPLICABLE), (None, Outcome.NOT_COMPLIANT)],
)
def test_nodes_without_a_queue_run_no_prolog(queued: str | None, outcome: Outcome) -> None:
    """Login nodes are a group that no queue names."""
    slurm = {"SlurmCustomSettings": settings(Prolog="/opt/site/prolog.sh")}
    queue = resource(
        "AWS::PCS::Queue", ClusterId={"Ref": "Cluster"},
        ComputeNodeGroupConfigurations=[{"ComputeNodeGroupId": {"Fn::GetAtt": [queued, "Id"]}}],
    )  # fmt: skip
    found = verdicts(
        "GPU-PCS-068",
        Cluster=cluster(SlurmConfiguration=slurm),
        Nodes=nodes(UserData={"Fn::Base64": "#!/bin/sh"}),
        Group=group(CustomLaunchTemplate=OF_TEMPLATE),
        Others=group(),
        **({} if queued is None else {"Queue": queue}),
    )
    assert {one.outcome for one in found if one.resource == "Group"} == {outcome}
