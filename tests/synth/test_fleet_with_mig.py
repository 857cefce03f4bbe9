"""Fleets whose GPUs are split with MIG."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk.assertions import Annotations, Match

from cdk_gpu_clusters import ConfigError, FabricManagerOrder, GpuFleet, MigLayout, NodeImage
from stack_fixtures import Site, only

TEMPLATE = "AWS::EC2::LaunchTemplate"


def fleet(site: Site, **options: Any) -> GpuFleet:
    given: dict[str, Any] = {
        "vpc": site.vpc,
        "vpc_subnets": site.one_subnet,
        "instance_type": "p4d.24xlarge",
        "node_count": 2,
        "efa": False,
        "mig": MigLayout(["1g.5gb"] * 7),
    }
    return GpuFleet(site.stack, "Servers", **(given | options))


def user_data(site: Site) -> str:
    """The user data as text, with references as placeholders."""
    encoded = only(site.resources(), TEMPLATE)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    _, parts = encoded["Fn::Join"]
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


def test_p4d_with_56_slices(site: Site) -> None:
    made = fleet(site)
    assert made.plan.mig is not None
    assert made.plan.mig.slices_per_node == 56
    text = user_data(site)
    assert "MIG_MINIMUM_DRIVER=450.80.02\\n" in text
    assert f'MIG_PARTITION=\\"{",".join(["1g.5gb"] * 7)}\\"' in text
    assert "GPU_MIG_COUNT=56\n" in text
    assert "systemctl start --no-block gpu-mig" in text
    data = only(site.resources(), TEMPLATE)["LaunchTemplateData"]
    assert [each.get("InterfaceType") for each in data["NetworkInterfaces"]] == ["interface"]


def test_p5_with_a_layout_for_each_gpu(site: Site) -> None:
    layouts = [MigLayout("1g.10gb,2g.20gb,3g.40gb"), *[MigLayout("9,9")] * 3, *[MigLayout.whole_gpu()] * 4]
    made = fleet(site, instance_type="p5.48xlarge", mig=layouts, fabric_manager_order=FabricManagerOrder.BEFORE)
    assert made.plan.mig is not None
    text = user_data(site)
    expected = ["3g.40gb,2g.20gb,1g.10gb", *["3g.40gb,3g.40gb"] * 3, *["off"] * 4]
    assert f'MIG_PARTITION=\\"{";".join(expected)}\\"' in text
    assert "GPU_MIG_COUNT=9\n" in text
    assert "Before=nvidia-fabricmanager.service" in text


def test_another_layout_is_another_version_of_the_same_template(make_site: Any) -> None:
    def resources(mig: MigLayout | None) -> dict[str, Any]:
        site = make_site()
        fleet(site, mig=mig)
        return dict(site.resources())

    sevens, halves = resources(MigLayout(["1g.5gb"] * 7)), resources(MigLayout("9,9"))
    assert sevens.keys() == halves.keys()
    differing = [key for key, value in sevens.items() if value != halves[key]]
    assert [sevens[key]["Type"] for key in differing] == [TEMPLATE]


@pytest.mark.parametrize("efa", [None, True])
def test_mig_with_efa_is_refused_with_its_reason(site: Site, efa: bool | None) -> None:
    with pytest.raises(ConfigError) as caught:
        fleet(site, efa=efa)
    [finding] = caught.value.findings
    assert (finding.id, finding.path) == ("GPU-MIG-006", "Site/Servers.mig")


def test_faults_of_the_layout_name_the_construct(site: Site) -> None:
    with pytest.raises(ConfigError) as caught:
        fleet(site, mig=[MigLayout("9,9,9")] * 8)
    assert [finding.path for finding in caught.value.findings] == [f"Site/Servers.mig[{n}]" for n in range(8)]


def test_type_without_mig_is_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-MIG-001"):
        fleet(site, instance_type="g6e.48xlarge")


def test_inferred_placements_are_told(site: Site) -> None:
    fleet(site, instance_type="p5en.48xlarge", mig=MigLayout("9,9"))
    Annotations.from_stack(site.stack).has_info("/Site/Servers", Match.string_like_regexp("GPU-MIG-007"))


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (None, False),
        (NodeImage.latest("ubuntu-22.04"), True),
        (NodeImage.from_id("ami-0123456789abcdef0"), True),
        (NodeImage.from_parameter("/images/servers"), True),
    ],
)
def test_unknown_driver_is_told(site: Site, image: NodeImage | None, told: bool) -> None:
    made = fleet(site, image=image)
    infos = [str(entry.data) for entry in made.node.metadata if entry.type.endswith("info")]
    found = [info for info in infos if "GPU-MIG-009" in info and "driver 450.80.02 or newer" in info]
    assert len(found) == told
