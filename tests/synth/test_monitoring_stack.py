"""The stack of `monitoring`: what the dashboard shows under each orchestrator, and the budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from user_data import user_data

CLUSTER = """\
version: 1
name: lab
region: us-east-1
network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }
data:
  homes: { openzfs: { storage_capacity_gib: 1024 } }
  corpus: { lustre: { storage_capacity_gib: 1200, throughput_mb_per_s_per_tib: 125 } }
  old: { existing_lustre: { file_system_id: fs-0123456789abcdef0, mount_name: abcdefgh, security_group_id: sg-0123456789abcdef0 } }
training:
  fleets:
    split: { instance_type: p4d.24xlarge, nodes: 1, capacity: spot, mig: "3g.20gb,3g.20gb", efa: false, placement: none }
    reserved: { instance_type: p5.48xlarge, nodes: 2, capacity: { new_reservation: { unlimited: true } }, mounts: { /fsx: corpus } }
"""

Synthesize = Callable[[str], dict[str, dict[str, Any]]]


@pytest.fixture
def synthesize(app_factory: Any, tmp_path: Path) -> Synthesize:
    """Synthesize a cluster file; its templates by stack."""

    def run(text: str) -> dict[str, dict[str, Any]]:
        app, file = app_factory(), tmp_path / "cluster.yaml"
        file.write_text(text, encoding="utf-8")
        cluster = load_cluster(file)
        build_cluster(app, cluster)
        assembly = app.synth()
        planned = {stack.name: set(stack.depends_on) for stack in plan_cluster(cluster).stacks}
        found = {stack.stack_name: {one.id for one in stack.dependencies} for stack in assembly.stacks}
        assert {
            name: {one for one in depends if not one.endswith(".assets")} for name, depends in found.items()
        } == planned
        return {stack.stack_name: stack.template for stack in assembly.stacks}

    return run


def graphs(template: dict[str, Any]) -> dict[str, list[list[Any]]]:
    """The lines of each graph of the dashboard by its title; what only the deployment knows as the name of its output."""
    [dashboard] = [one for one in template["Resources"].values() if one["Type"] == "AWS::CloudWatch::Dashboard"]
    body = dashboard["Properties"]["DashboardBody"]
    parts = [body] if isinstance(body, str) else body["Fn::Join"][1]
    text = "".join(one if isinstance(one, str) else ":".join(one["Fn::GetStackOutput"].values()) for one in parts)
    widgets = [one["properties"] for one in json.loads(text)["widgets"] if one["type"] == "metric"]
    return {one["title"]: one["metrics"] for one in widgets}


@pytest.mark.parametrize("orchestrator", ["ec2", "eks", "pcs"])
def test_the_dashboard_shows_every_fleet_and_lustre_file_system(orchestrator: str, synthesize: Synthesize) -> None:
    text = f"{CLUSTER}orchestrator: {orchestrator}\nmonitoring: {{ dashboard: true }}\n"
    templates = synthesize(text)
    monitoring = templates["lab-monitoring"]
    assert {one["Type"] for one in monitoring["Resources"].values()} == {"AWS::CloudWatch::Dashboard"}
    shown = graphs(monitoring)
    path = {"ec2": "lab-fleet-reserved/Fleet"}.get(orchestrator, "lab-fleet-reserved/Nodes")
    assert [line[:4] for line in shown["Unhealthy nodes"]] == [
        ["GpuCluster", "UnhealthyNodes", "Fleet", path],
        ["GpuCluster", "UnhealthyNodes", "Fleet", path.replace("reserved", "split")],
    ]
    assert path in json.dumps(templates["lab-fleet-reserved"]), "the nodes send their metrics under this name"
    assert [line[-1]["label"] for line in shown["MIG devices in use"]] == ["split"]
    assert [line[3] for line in shown["Free storage"]] == ["lab-data-corpus:FileSystemId", "fs-0123456789abcdef0"]
    assert [line[3] for line in shown["Unused reserved instances"]] == ["lab-capacity-reserved:ReservationId"]
    groups = [line[3] for line in shown.get("Nodes in service and desired", [])]
    assert groups == (
        ["lab-fleet-reserved:FleetName"] * 2 + ["lab-fleet-split:FleetName"] * 2 if orchestrator == "ec2" else []
    )


def test_the_order_of_fleets_in_the_file_does_not_matter(synthesize: Synthesize) -> None:
    text = f"{CLUSTER}monitoring: {{ dashboard: true }}\n"
    lines = text.splitlines(keepends=True)
    first, second = (
        next(index for index, line in enumerate(lines) if name in line) for name in ("split:", "reserved:")
    )
    lines[first], lines[second] = lines[second], lines[first]
    assert synthesize(text)["lab-monitoring"] == synthesize("".join(lines))["lab-monitoring"]


def test_a_budget_alone_needs_no_other_stack(synthesize: Synthesize) -> None:
    text = f"{CLUSTER}monitoring: {{ budget: {{ usd_per_month: 500, emails: [a@example.org] }} }}\n"
    resources = synthesize(text)["lab-monitoring"]["Resources"].values()
    [budget] = [one["Properties"]["Budget"] for one in resources if one["Type"] == "AWS::Budgets::Budget"]
    assert budget["BudgetLimit"] == {"Amount": 500, "Unit": "USD"}
    assert budget["CostFilters"] == {"TagKeyValue": ["user:gpu-cluster$lab"]}
    assert sorted(one["Type"] for one in resources) == [
        "AWS::Budgets::Budget",
        "AWS::SNS::Subscription",
        "AWS::SNS::Topic",
        "AWS::SNS::TopicPolicy",
    ]


def test_without_the_section_there_is_no_stack(synthesize: Synthesize) -> None:
    assert "lab-monitoring" not in synthesize(f"{CLUSTER}monitoring: {{ dashboard: false }}\n")


def test_metrics_of_every_node_with_a_watchdog_are_scraped(synthesize: Synthesize) -> None:
    """Its two sides agree: what the nodes serve, whom they admit, what the collector reads, and what is in the record."""
    text = CLUSTER.replace("nodes: 1,", 'nodes: 1, watch: { mode: "off" },')
    keys = "destination: workspace, exporters: [dcgm], install_exporters: true"
    templates = synthesize(f"{text}monitoring: {{ metrics: {{ {keys} }} }}\n")
    monitoring = templates["lab-monitoring"]
    by_type: dict[str, list[dict[str, Any]]] = {}
    for one in monitoring["Resources"].values():
        by_type.setdefault(one["Type"], []).append(one.get("Properties", {}))
    [scraper] = by_type["AWS::APS::Scraper"]
    jobs = yaml.safe_load(scraper["ScrapeConfiguration"]["ConfigurationBlob"]["Fn::Base64"])["scrape_configs"]
    record = "reserved.lab.gpu-metrics.internal"
    assert {job["job_name"]: job["dns_sd_configs"] for job in jobs} == {
        "gpunode": [{"names": [record], "type": "A", "port": 9810}],
        "dcgm": [{"names": [record], "type": "A", "port": 9400}],
    }
    assert jobs[1]["relabel_configs"][0]["replacement"] == "lab-fleet-reserved/Fleet"
    assert [
        (one["FromPort"], one["GroupId"]["Fn::GetStackOutput"]) for one in by_type["AWS::EC2::SecurityGroupIngress"]
    ] == [(port, {"StackName": "lab-fleet-reserved", "OutputName": "NodeSecurityGroupId"}) for port in (9810, 9400)]
    assert len(by_type["AWS::APS::Workspace"]) == len(by_type["AWS::APS::RuleGroupsNamespace"]) == 1
    schedules = [one["Targets"][0]["Input"] for one in by_type["AWS::Events::Rule"]]
    assert len(schedules) == 1
    assert record in json.dumps(schedules)
    serves = {
        name: "GPU_METRICS_PORT=9810" in user_data(templates[f"lab-fleet-{name}"]["Resources"])
        for name in ("reserved", "split")
    }
    assert serves == {"reserved": True, "split": False}
    assert "GPU_EXPORTERS=dcgm" in user_data(templates["lab-fleet-reserved"]["Resources"])
    assert "GPU_EXPORTERS" not in user_data(templates["lab-fleet-split"]["Resources"])
    assert "NodeSecurityGroupId" not in templates["lab-fleet-split"]["Outputs"]


def test_a_zone_that_an_earlier_collector_left_is_used_again(synthesize: Synthesize) -> None:
    """The names of the records are those of before, and no second zone of the name is made."""
    metrics = "monitoring: { metrics: { zone_id: Z0123456789ABCDEFGHIJ } }\n"
    resources = synthesize(f"{CLUSTER}{metrics}")["lab-monitoring"]["Resources"].values()
    assert "AWS::Route53::HostedZone" not in {one["Type"] for one in resources}
    [machine] = [one["Properties"] for one in resources if one["Type"] == "AWS::StepFunctions::StateMachine"]
    assert machine["DefinitionSubstitutions"] == {"Zone": "Z0123456789ABCDEFGHIJ"}
    [scraper] = [one["Properties"] for one in resources if one["Type"] == "AWS::APS::Scraper"]
    assert "reserved.lab.gpu-metrics.internal" in scraper["ScrapeConfiguration"]["ConfigurationBlob"]["Fn::Base64"]


def test_grafana_reads_the_workspace_of_the_metrics(synthesize: Synthesize) -> None:
    metrics = "monitoring: { metrics: { destination: workspace }, grafana: { authentication: [identity-center] } }\n"
    template = synthesize(f"{CLUSTER}{metrics}")["lab-monitoring"]
    resources = template["Resources"]
    [grafana] = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::Grafana::Workspace"]
    assert (grafana["Name"], grafana["AuthenticationProviders"]) == ("lab", ["AWS_SSO"])
    [workspace] = [name for name, one in resources.items() if one["Type"] == "AWS::APS::Workspace"]
    policies = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::IAM::ManagedPolicy"]
    [reads] = [one["PolicyDocument"]["Statement"][0] for one in policies if "aps:QueryMetrics" in json.dumps(one)]
    assert reads["Resource"] == {"Fn::GetAtt": [workspace, "Arn"]}
    assert "GrafanaEndpoint" in template["Outputs"]


def test_a_brake_reads_the_names_of_its_groups_and_notifies_as_the_budget_does(synthesize: Synthesize) -> None:
    brake = "budget: { usd_per_month: 500, emails: [a@example.org], brake: { fleets: [split], percent: 90 } }"
    templates = synthesize(f"{CLUSTER}monitoring: {{ {brake} }}\n")
    resources = templates["lab-monitoring"]["Resources"]
    [machine] = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::StepFunctions::StateMachine"]
    definition = json.dumps(machine["DefinitionString"])
    assert '"StackName": "lab-fleet-split"' in definition
    assert "* 90.0 / 100" in definition
    [topic] = [name for name, one in resources.items() if one["Type"] == "AWS::SNS::Topic"]
    alarms = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::CloudWatch::Alarm"]
    assert len(alarms) == 2
    assert all(one["AlarmActions"] == [{"Ref": topic}] for one in alarms)


def test_a_brake_stops_model_servers_too(synthesize: Synthesize) -> None:
    text = (
        "version: 1\nname: lab\nregion: us-east-1\n"
        "network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }\n"
        "inference:\n  fleets:\n    chat:\n      { instance_type: g6.xlarge, nodes: 2, load_balancer: { plain_http: true },\n"
        "        server: { image: 'vllm/vllm-openai:v0.21.0' } }\n"
        "monitoring: { budget: { usd_per_month: 500, emails: [a@example.org], brake: { fleets: [chat] } } }\n"
    )
    templates = synthesize(text)
    resources = templates["lab-monitoring"]["Resources"].values()
    [machine] = [one["Properties"] for one in resources if one["Type"] == "AWS::StepFunctions::StateMachine"]
    assert '"StackName": "lab-inference-chat", "OutputName": "FleetName"' in json.dumps(machine["DefinitionString"])
    assert "FleetName" in templates["lab-inference-chat"]["Outputs"]


def test_of_pcs_nodes_and_the_controller_are_scraped(synthesize: Synthesize) -> None:
    section = 'orchestrator: pcs\npcs: { slurm_version: "26.05", metrics: true }\nmonitoring: { metrics: { exporters: [dcgm] } }\n'
    templates = synthesize(f"{CLUSTER}{section}")
    resources = templates["lab-monitoring"]["Resources"].values()
    [scraper] = [one["Properties"] for one in resources if one["Type"] == "AWS::APS::Scraper"]
    jobs = yaml.safe_load(scraper["ScrapeConfiguration"]["ConfigurationBlob"]["Fn::Base64"])["scrape_configs"]
    names = {job["job_name"]: [one["names"][0].partition(".")[0] for one in job["dns_sd_configs"]] for job in jobs}
    of_slurm = [names.pop(name) for name in [*names] if name.startswith("slurmctld-")]
    assert of_slurm == [["slurm"]] * 5
    assert names == {"gpunode": ["reserved", "split"], "dcgm": ["reserved", "split"]}
    labels = [rule["replacement"] for rule in jobs[1]["relabel_configs"]]
    assert labels == ["lab-fleet-reserved/Nodes", "lab-fleet-split/Nodes"]
    admitted = [one["Properties"] for one in resources if one["Type"] == "AWS::EC2::SecurityGroupIngress"]
    # All nodes and the controller are in one group, which has each rule once.
    assert sorted(one["FromPort"] for one in admitted) == [6817, 9400, 9810]
    of_cluster = {"StackName": "lab-slurm", "OutputName": "SecurityGroupId"}
    assert all(one["GroupId"] == {"Fn::GetStackOutput": of_cluster} for one in admitted)
    inputs = json.dumps(
        [one["Properties"]["Targets"][0]["Input"] for one in resources if one["Type"] == "AWS::Events::Rule"]
    )
    for stack in ("lab-fleet-reserved", "lab-fleet-split"):
        assert f'"StackName": "{stack}", "OutputName": "NodeGroupId"' in inputs
        assert "GPU_METRICS_PORT=9810" in user_data(templates[stack]["Resources"])


def test_the_server_of_a_node_is_scraped_through_its_balancer(synthesize: Synthesize) -> None:
    """With several servers on a node, each scrape would read another one."""
    server = "load_balancer: { plain_http: true }, server: { image: 'vllm/vllm-openai:v0.21.0', port: 8010 }"
    text = f"""\
version: 1
name: lab
region: us-east-1
network: {{ availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }}
inference:
  fleets:
    one: {{ instance_type: g6.xlarge, nodes: 1, {server} }}
    four: {{ instance_type: g6.12xlarge, nodes: 1, devices_per_server: 1, {server} }}
monitoring: {{ metrics: {{}} }}
"""
    templates = synthesize(text)
    resources = templates["lab-monitoring"]["Resources"].values()
    [scraper] = [one["Properties"] for one in resources if one["Type"] == "AWS::APS::Scraper"]
    jobs = yaml.safe_load(scraper["ScrapeConfiguration"]["ConfigurationBlob"]["Fn::Base64"])["scrape_configs"]
    [found] = [job["dns_sd_configs"] for job in jobs if job["job_name"] == "vllm"]
    [group] = [
        one["Properties"]
        for one in templates["lab-inference-one"]["Resources"].values()
        if one["Type"] == "AWS::ElasticLoadBalancingV2::TargetGroup"
    ]
    assert found == [{"names": ["one.lab.gpu-metrics.internal"], "type": "A", "port": group["Port"]}]
    admitted = [one["Properties"] for one in resources if one["Type"] == "AWS::EC2::SecurityGroupIngress"]
    of_node = {"StackName": "lab-inference-one", "OutputName": "NodeSecurityGroupId"}
    assert {one["FromPort"] for one in admitted if one["GroupId"]["Fn::GetStackOutput"] == of_node} == {
        9810,
        group["Port"],
    }


def test_of_eks_nodes_and_pods_are_scraped(synthesize: Synthesize) -> None:
    """Its two sides agree: what the nodes serve and are labelled, and what the collector keeps."""
    text = CLUSTER.replace("nodes: 1,", 'nodes: 1, watch: { mode: "off" },') + (
        "inference: { fleets: { chat: { instance_type: g6.xlarge, nodes: 1,\n"
        "  server: { image: 'vllm/vllm-openai:v0.21.0', port: 8010 } } } }\n"
        "orchestrator: eks\nmonitoring: { metrics: { exporters: [node] } }\n"
    )
    templates = synthesize(text)
    resources = templates["lab-monitoring"]["Resources"].values()
    assert {one["Type"] for one in resources} == {"AWS::APS::Scraper", "AWS::Logs::LogGroup"}
    [scraper] = [one["Properties"] for one in resources if one["Type"] == "AWS::APS::Scraper"]
    source = scraper["Source"]["EksConfiguration"]
    of_cluster = {"StackName": "lab-eks", "OutputName": "ClusterSecurityGroupId"}
    assert source["SecurityGroupIds"] == [{"Fn::GetStackOutput": of_cluster}]
    assert len(source["SubnetIds"]) == 2
    written = scraper["ScrapeConfiguration"]["ConfigurationBlob"]["Fn::Base64"]["Fn::Join"][1]
    assert [part for part in written if not isinstance(part, str)] == [
        {"Fn::GetStackOutput": {"StackName": "lab-eks", "OutputName": "ClusterName"}}
    ]
    configuration = yaml.safe_load("".join(part if isinstance(part, str) else "CLUSTER" for part in written))
    assert configuration["global"]["external_labels"] == {"cluster": "CLUSTER"}
    kept = {
        job["job_name"]: [rule["regex"] for rule in job["relabel_configs"] if rule.get("action") == "keep"]
        for job in configuration["scrape_configs"]
    }
    assert kept == {
        "gpunode": ["chat|reserved"],
        "dcgm": ["9400"],
        "ray": ["8080", "yes"],
        "vllm": ["8010", "server"],
        "node": ["9100"],
    }
    serves = {
        name: "GPU_METRICS_PORT=9810" in user_data(templates[stack]["Resources"])
        for name, stack in (("reserved", "lab-fleet-reserved"), ("split", "lab-fleet-split"))
    }
    assert serves == {"reserved": True, "split": False}
    [group] = [
        one["Properties"]
        for one in templates["lab-fleet-reserved"]["Resources"].values()
        if one["Type"] == "AWS::EKS::Nodegroup"
    ]
    assert group["Labels"]["gpu-cluster/fleet"] == "reserved"
