"""A dashboard deployed in the emulator: references become names, and a later body takes the place of the first."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from cdk_gpu_clusters import ClusterDashboard, DashboardFileSystem, DashboardFleet
from cdk_gpu_clusters.testing import InProcessEmulator


def template(app: cdk.App, title: str) -> dict[str, Any]:
    """A dashboard whose fleet and file system are parameters."""
    stack = cdk.Stack(app, "Monitoring")
    group = cdk.CfnParameter(stack, "Group", default="trainers-group")
    file_system = cdk.CfnParameter(stack, "FileSystem", default="fs-0123456789abcdef0")
    ClusterDashboard(
        stack,
        "Dashboard",
        title=title,
        fleets=[
            DashboardFleet(
                name="trainers", path="app/Trainers", group_name=group.value_as_string, instance_type="p5.48xlarge"
            )
        ],
        file_systems=[DashboardFileSystem(name="corpus", file_system_id=file_system.value_as_string)],
    )
    return dict(Template.from_stack(stack).to_json())


def body(account: InProcessEmulator) -> str:
    client = account.client("cloudwatch")
    (one,) = client.list_dashboards()["DashboardEntries"]
    return str(client.get_dashboard(DashboardName=one["DashboardName"])["DashboardBody"])


def test_a_dashboard_is_made_and_changed(app_factory: Any) -> None:
    with InProcessEmulator() as account:
        account.deploy(template(app_factory(), "first"))
        first = body(account)
        assert "trainers-group" in first
        assert "fs-0123456789abcdef0" in first
        assert "Ref" not in first
        assert json.loads(first)["widgets"][0]["properties"]["markdown"] == "# first"
        account.deploy(template(app_factory(), "second"))
        assert json.loads(body(account))["widgets"][0]["properties"]["markdown"] == "# second"
