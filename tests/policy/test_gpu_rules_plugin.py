"""The GPU rules as a CDK validation plugin: findings at the construct, accepted there, and errors that stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from assemblies import REPORT_ONLY
from cdk_gpu_clusters import GpuClusterRules, GpuFleet, GpuLaunchTemplate
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.template_rules.lint import lint
from cdk_gpu_clusters.template_rules.registry import choose_rules

WRONG_TYPE = {"instanceType": "p5.49xlarge", "metadataOptions": {"httpTokens": "required"}}
NO_TOKENS = {"instanceType": "p5.48xlarge", "metadataOptions": {"httpTokens": "optional"}}
RULES = ("GPU-INST-001", "GPU-LT-010")


def report(app: cdk.App) -> dict[str, Any]:
    """What the plugin reported; empty if it found nothing."""
    app.synth()
    written = json.loads((Path(app.outdir) / "validation-report.json").read_text())
    reports: list[dict[str, Any]] = written["pluginReports"]
    return next((one for one in reports if one["pluginName"] == "GpuClusterRules"), {})


def app_with(app_factory: Any, data: dict[str, Any], **context: Any) -> tuple[cdk.App, ec2.CfnLaunchTemplate]:
    app: cdk.App = app_factory(context={**REPORT_ONLY, **context})
    cdk.Validations.of(app).add_plugins(GpuClusterRules(select=RULES))
    stack = cdk.Stack(app, "Stack")
    return app, ec2.CfnLaunchTemplate(stack, "Nodes", launch_template_data=data)


def test_a_finding_stands_at_its_construct_with_its_fix(app_factory: Any) -> None:
    app, _ = app_with(app_factory, WRONG_TYPE)
    found = report(app)
    assert found["conclusion"] == "failure"
    [violation] = found["violations"]
    assert violation["ruleName"] == "GPU-INST-001"
    assert violation["severity"] == "error"
    assert violation["suggestedFix"].startswith("correct the name")
    [construct] = violation["violatingConstructs"]
    assert construct["constructPath"] == "Stack/Nodes"
    assert construct["cloudFormationResource"]["propertyPaths"] == ["Properties/LaunchTemplateData/InstanceType"]


def test_a_warning_is_reported_without_failing(app_factory: Any) -> None:
    app, _ = app_with(app_factory, NO_TOKENS)
    found = report(app)
    assert found["conclusion"] == "success"
    assert [violation["severity"] for violation in found["violations"]] == ["warning"]


def test_an_error_fails_the_synthesis(app_factory: Any) -> None:
    app: cdk.App = app_factory()
    cdk.Validations.of(app).add_plugins(GpuClusterRules(select=RULES))
    ec2.CfnLaunchTemplate(cdk.Stack(app, "Stack"), "Nodes", launch_template_data=WRONG_TYPE)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()


def test_findings_are_acknowledged_as_in_any_cdk_app(app_factory: Any) -> None:
    app, nodes = app_with(app_factory, WRONG_TYPE)
    reason = "a type that the catalogue does not know yet"
    cdk.Validations.of(nodes).acknowledge(cdk.Acknowledgment(id="GpuClusterRules::GPU-INST-001", reason=reason))
    found = report(app)
    assert (found["conclusion"], found["violations"]) == ("success", [])
    assert [one["reason"] for one in found["suppressedViolations"]] == [reason]
    linted = lint([Path(app.outdir)], choose_rules(select=RULES))
    assert linted.faults() == []
    assert [one.verdict.reason for one in linted.accepted()] == [reason]


@pytest.mark.parametrize(
    ("value", "not_secret"), [("sets-v2", ("STORAGE_KEY",)), ("sets-v2", ("sets-v2",)), ("/sets/v2", ())]
)
def test_what_a_fleet_accepts_as_no_secret_is_accepted_in_its_template(
    app_factory: Any, value: str, not_secret: tuple[str, ...]
) -> None:
    app: cdk.App = app_factory(context=REPORT_ONLY)
    cdk.Validations.of(app).add_plugins(GpuClusterRules(select=("GPU-UD-002",)))
    stack = cdk.Stack(app, "Stack")
    nodes = GpuFleet(
        stack,
        "Nodes",
        vpc=ec2.Vpc(stack, "Vpc", max_azs=1),
        instance_type="g6.xlarge",
        node_count=1,
        environment={"STORAGE_KEY": value},
        not_secret=not_secret,
    )
    text = f"#!/bin/sh\nexport STORAGE_KEY={value}\n"
    GpuLaunchTemplate(
        stack,
        "Template",
        instance_type="g6.xlarge",
        security_groups=[nodes.fabric or nodes.launch_template.security_groups[0]],
        user_data=text,
        not_secret=not_secret,
    )
    found = report(app)
    assert found.get("violations", []) == []
    assert len(found.get("suppressedViolations", [])) == (2 if not_secret else 0)


def test_a_secret_of_a_fleet_is_refused_in_python(app_factory: Any) -> None:
    stack = cdk.Stack(app_factory(), "Stack")
    with pytest.raises(ConfigError, match=r"GPU-UD-002: .* the value of STORAGE_KEY.*add STORAGE_KEY to not_secret"):
        GpuFleet(
            stack,
            "Nodes",
            vpc=ec2.Vpc(stack, "Vpc", max_azs=1),
            instance_type="g6.xlarge",
            node_count=1,
            environment={"STORAGE_KEY": "sets-v2"},
        )


def test_nested_stacks_are_looked_at(app_factory: Any) -> None:
    app: cdk.App = app_factory(context=REPORT_ONLY)
    cdk.Validations.of(app).add_plugins(GpuClusterRules(select=RULES))
    nested = cdk.NestedStack(cdk.Stack(app, "Stack"), "Inner")
    ec2.CfnLaunchTemplate(nested, "Nodes", launch_template_data=WRONG_TYPE)
    [violation] = report(app)["violations"]
    assert violation["violatingConstructs"][0]["constructPath"] == "Stack/Inner/Nodes"


@pytest.mark.parametrize("beside", [True, False])
def test_what_a_stack_reads_of_another_is_looked_up_there(app_factory: Any, beside: bool) -> None:
    """A group with rules of its own stack; without that stack, only a deployment knows."""
    app: cdk.App = app_factory(context=REPORT_ONLY)
    cdk.Validations.of(app).add_plugins(GpuClusterRules(select=["GPU-EFA-030"], undecidable=True))
    if beside:
        network = cdk.Stack(app, "Network", stack_name="named-otherwise")
        group = ec2.CfnSecurityGroup(network, "Fabric", group_description="fabric", vpc_id="vpc-0123456789abcdef0")
        cdk.CfnOutput(network, "FabricId", value=group.attr_group_id)
    fabric = cdk.Fn.get_stack_output("named-otherwise", "FabricId")
    interface = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa", "groups": [fabric]}
    data = {"instanceType": "p5.48xlarge", "networkInterfaces": [interface]}
    ec2.CfnLaunchTemplate(cdk.Stack(app, "Stack"), "Nodes", launch_template_data=data)
    [violation] = report(app)["violations"]
    assert violation["ruleName"] == "GPU-EFA-030"
    assert violation["severity"] == ("error" if beside else "info")
    assert ("cannot be decided" in violation["description"]) is not beside


def test_what_is_undecidable_is_left_out_unless_asked_for(app_factory: Any) -> None:
    data = {"instanceType": cdk.Fn.import_value("type"), "metadataOptions": {"httpTokens": "required"}}
    for asked in (False, True):
        app: cdk.App = app_factory(context=REPORT_ONLY)
        plugin = GpuClusterRules(select=["GPU-INST-001"], undecidable=asked)
        cdk.Validations.of(app).add_plugins(plugin)
        ec2.CfnLaunchTemplate(cdk.Stack(app, "Stack"), "Nodes", launch_template_data=data)
        found = report(app)
        assert [one["severity"] for one in found.get("violations", [])] == ["info"] * asked
        assert found.get("conclusion", "success") == "success"


def test_rules_are_chosen(app_factory: Any) -> None:
    app: cdk.App = app_factory(context=REPORT_ONLY)
    plugin = GpuClusterRules(ignore=["GPU-INST"])
    assert "GPU-INST-001" not in plugin.rule_ids
    assert "GPU-LT-010" in plugin.rule_ids
    with pytest.raises(ValueError, match="GPU-NONE"):
        GpuClusterRules(select=["GPU-NONE"])
    cdk.Validations.of(app).add_plugins(plugin)
    ec2.CfnLaunchTemplate(cdk.Stack(app, "Stack"), "Nodes", launch_template_data=WRONG_TYPE)
    assert "GPU-INST-001" not in json.dumps(report(app))
