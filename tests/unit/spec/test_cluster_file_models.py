"""Right cluster files: what the models make of them."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from cdk_gpu_clusters.catalogue.images import Framework, OperatingSystem
from cdk_gpu_clusters.errors import defined_rules
from cdk_gpu_clusters.node.settings import WATCH_RANGES, NodeWatch
from cdk_gpu_clusters.rules.capacity import CapacityKind, capacity_windows
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import PlacementStrategy
from cdk_gpu_clusters_stacks.spec import (
    CapacityBlock,
    ClusterSpec,
    ExistingNetwork,
    FleetSpec,
    ImageById,
    ImageByOs,
    ImageByParameter,
    NewNetwork,
    NewReservation,
    OnDemand,
    RootVolume,
    Spot,
    SpotOptions,
    TrainingSpec,
    capacity_terms,
    check_cluster,
    load_cluster,
    read_cluster,
)
from cdk_gpu_clusters_stacks.spec import fleet as image_module
from cdk_gpu_clusters_stacks.spec.fleet import WatchSpec
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS
from cluster_files.inference import EVERYTHING, MINIMAL, PUBLIC

HEAD = "version: 1\nname: demo\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n"


def one(tmp_path: Path, fleet: str, *, head: str = HEAD) -> FleetSpec:
    """The only fleet of a file."""
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{head}training: {{ fleets: {{ only: {{ {fleet} }} }} }}\n")
    return load_cluster(file).training.fleets["only"]


def test_the_least_file_gets_the_documented_defaults(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + "training: { fleets: { only: { instance_type: g6.xlarge, nodes: 2 } } }\n")
    cluster = load_cluster(file)
    assert cluster.network == NewNetwork(
        availability_zone="us-east-1a", cidr="10.0.0.0/16", egress="nat", flow_logs=True
    )
    assert cluster.account is None
    assert cluster.orchestrator == "ec2"
    fleet = cluster.training.fleets["only"]
    assert (fleet.minimum_nodes, fleet.maximum_nodes, fleet.scales) == (2, 2, False)
    assert fleet.capacity == OnDemand()
    assert (fleet.efa, fleet.placement, fleet.image, fleet.update, fleet.fabric) == (
        None,
        None,
        None,
        "never",
        "default",
    )


def test_a_range_of_nodes(tmp_path: Path) -> None:
    fleet = one(tmp_path, "instance_type: m8g.4xlarge, min_nodes: 0, max_nodes: 6")
    assert (fleet.minimum_nodes, fleet.maximum_nodes, fleet.scales) == (0, 6, True)


CAPACITIES = {
    "on_demand": (CapacityKind.ON_DEMAND, None, None),
    "spot": (CapacityKind.SPOT, None, None),
    "{ spot: { max_price_usd_per_hour: 40 } }": (CapacityKind.SPOT, None, None),
    "{ reservation: cr-0123456789abcdef0, placement_group: mine }": (
        CapacityKind.RESERVATION,
        "cr-0123456789abcdef0",
        None,
    ),
    "{ reservation_group: 'arn:aws:resource-groups:us-east-1:111122223333:group/odcr' }": (
        CapacityKind.RESERVATION,
        None,
        "arn:aws:resource-groups:us-east-1:111122223333:group/odcr",
    ),
    "{ capacity_block: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z }": (
        CapacityKind.CAPACITY_BLOCK,
        "cr-0123456789abcdef0",
        None,
    ),
    "{ new_reservation: { unlimited: true } }": (CapacityKind.RESERVATION, None, None),
}


@pytest.mark.parametrize("text", CAPACITIES)
def test_each_form_of_capacity_gives_its_terms(text: str, tmp_path: Path) -> None:
    terms = capacity_terms(one(tmp_path, f"instance_type: p5.48xlarge, nodes: 1, capacity: {text}").capacity)
    assert (terms.kind, terms.reservation_id, terms.reservation_group_arn) == CAPACITIES[text]


def test_an_ultraserver_block_gives_its_terms(tmp_path: Path) -> None:
    arn = "arn:aws:resource-groups:us-east-1:111122223333:group/rack"
    text = f"instance_type: p6e-gb200.36xlarge, nodes: 18, capacity: {{ ultraserver_block: '{arn}', ends_at: 2026-12-15T11:30Z }}"
    fleet = one(tmp_path, text, head=HEAD.replace("us-east-1a", "us-east-1-dfw-2a"))
    terms = capacity_terms(fleet.capacity)
    assert (terms.kind, terms.reservation_group_arn) == (CapacityKind.ULTRASERVER_BLOCK, arn)


def test_an_ultraserver_block_may_have_an_id_to_follow_its_events(tmp_path: Path) -> None:
    arn, block = "arn:aws:resource-groups:us-east-1:111122223333:group/rack", "cr-0123456789abcdef0"
    text = (
        "instance_type: p6e-gb200.36xlarge, nodes: 18, "
        f"capacity: {{ ultraserver_block: '{arn}', reservation: {block}, ends_at: 2026-12-15T11:30Z }}"
    )
    fleet = one(tmp_path, text, head=HEAD.replace("us-east-1a", "us-east-1-dfw-2a"))
    terms = capacity_terms(fleet.capacity)
    assert (terms.reservation_group_arn, terms.reservation_id) == (arn, block)
    assert type(fleet).model_validate(fleet.model_dump()) == fleet


TIMES = (
    "2026-12-15T11:30Z",
    "2026-12-15 11:30Z",
    "2026-12-15T11:30:00Z",
    "2026-12-15T12:30+01:00",
    '"2026-12-15T06:30-05:00"',
)


@pytest.mark.parametrize("text", TIMES)
def test_times_are_utc_however_they_are_written(text: str, tmp_path: Path) -> None:
    capacity = one(
        tmp_path,
        f"instance_type: p5.48xlarge, nodes: 1, capacity: {{ capacity_block: cr-0123456789abcdef0, ends_at: {text} }}",
    ).capacity
    assert isinstance(capacity, CapacityBlock)
    assert capacity.ends_at == datetime(2026, 12, 15, 11, 30, tzinfo=UTC)
    assert capacity.ends_at.tzinfo is UTC


_ENDS = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("{ on_demand: { ends_at: 2026-12-15T11:30Z } }", CapacityKind.ON_DEMAND),
        ("{ spot: { ends_at: 2026-12-15T11:30Z } }", CapacityKind.SPOT),
        ("{ reservation: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z }", CapacityKind.RESERVATION),
        (
            "{ reservation_group: 'arn:aws:resource-groups:us-east-1:111122223333:group/blocks', ends_at: 2026-12-15T11:30Z }",
            CapacityKind.RESERVATION,
        ),
    ],
)
def test_every_kind_of_capacity_can_have_an_end(written: str, kind: CapacityKind, tmp_path: Path) -> None:
    fleet = one(tmp_path, f"instance_type: g6.xlarge, nodes: 1, capacity: {written}")
    terms = capacity_terms(fleet.capacity)
    assert (terms.kind, terms.ends_at) == (kind, _ENDS)
    assert FleetSpec.model_validate(fleet.model_dump(mode="json", exclude_unset=True)).capacity == fleet.capacity


def test_words_without_options_are_written_as_words(tmp_path: Path) -> None:
    for word in ("on_demand", "spot"):
        fleet = one(tmp_path, f"instance_type: g6.xlarge, nodes: 1, capacity: {{ {word}: {{}} }}")
        assert fleet.model_dump(mode="json")["capacity"] == word


def test_several_blocks_are_a_list(tmp_path: Path) -> None:
    capacity = one(
        tmp_path,
        "instance_type: p5.48xlarge, nodes: 4, capacity: { capacity_blocks: ["
        "{ capacity_block: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z, nodes: 2 }, "
        "{ capacity_block: cr-0123456789abcdef1, starts_at: 2026-12-16T11:30Z, ends_at: 2026-12-29T11:30Z }] }",
    ).capacity
    terms = capacity_terms(capacity)
    assert [(one.reservation_id, one.node_count) for one in terms.blocks] == [
        ("cr-0123456789abcdef0", 2),
        ("cr-0123456789abcdef1", None),
    ]
    assert (terms.starts_at, terms.ends_at) == (None, datetime(2026, 12, 29, 11, 30, tzinfo=UTC))
    assert [window.node_count for window in capacity_windows(terms, 4)] == [2, 4]


def test_the_word_none_is_no_placement_group(tmp_path: Path) -> None:
    fleet = one(
        tmp_path,
        "instance_type: p4d.24xlarge, nodes: 1, placement: none, "
        "capacity: { reservation: cr-0123456789abcdef0, placement_group: none }",
    )
    assert fleet.placement == "none"
    assert fleet.placement_strategy is PlacementStrategy.NONE
    assert getattr(fleet.capacity, "placement_group", "") is None


def test_account_digits_need_no_quotes_but_keep_leading_zeros(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    for written, meant in (
        ("111122223333", "111122223333"),
        ("012345678901", "012345678901"),
        ('"000000000001"', "000000000001"),
    ):
        file.write_text(
            HEAD + f"account: {written}\ntraining: {{ fleets: {{ a: {{ instance_type: g6.xlarge, nodes: 1 }} }} }}\n"
        )
        assert load_cluster(file).account == meant


def test_scripts_stand_beside_the_cluster_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "deep").mkdir(parents=True)
    (tmp_path / "deep" / "setup.sh").write_text("#!/bin/bash\n")
    file = tmp_path / "deep" / "cluster.yaml"
    file.write_text(
        HEAD + "training: { fleets: { a: { instance_type: g6.xlarge, nodes: 1, user_data: deep/../setup.sh } } }\n"
    )
    monkeypatch.chdir(tmp_path)
    script = load_cluster("deep/cluster.yaml").training.fleets["a"].user_data
    assert script is not None
    assert script.is_absolute()
    assert script.read_text() == "#!/bin/bash\n"


def test_characters_beyond_the_basic_plane_as_json_writes_them(tmp_path: Path) -> None:
    fleet = one(tmp_path, 'instance_type: g6.xlarge, nodes: 1, tags: { "\\ud835\\udc00": "\\U0001D400" }')
    assert fleet.tags == {"\U0001d400": "\U0001d400"}


def test_anchors_and_merge_keys_share_settings(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        HEAD + "training:\n  fleets:\n"
        "    a: &base { instance_type: g6.xlarge, nodes: 1, environment: { A: b } }\n"
        "    b: { <<: *base, nodes: 3 }\n"
    )
    fleets = load_cluster(file).training.fleets
    assert fleets["b"] == fleets["a"].model_copy(update={"nodes": 3})


def test_an_anchor_that_is_defined_again_means_the_one_before_its_alias(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        HEAD + "training:\n  fleets:\n"
        "    a: &base { instance_type: g6.xlarge, nodes: 1 }\n"
        "    b: &base { instance_type: g6.2xlarge, nodes: 2 }\n"
        "    c: *base\n"
    )
    fleets = load_cluster(file).training.fleets
    assert fleets["c"] == fleets["b"] != fleets["a"]


def test_a_merged_fault_stands_where_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        HEAD + "training:\n  fleets:\n"
        "    a: &base { instance_type: g6.xlarge, nodes: 1 }\n"
        "    b: { <<: *base, instance_type: g6.huge }\n"
        "    c: &wrong { instance_type: g6.tiny, nodes: 1 }\n"
        "    d: { <<: *wrong, nodes: 2 }\n"
    )
    places = [finding.path.removeprefix(f"{file}:") for finding in read_cluster(file).findings]
    assert places == ["8:36", "9:32", "9:32"]


def test_everything_given_survives_a_round_trip(tmp_path: Path) -> None:
    (tmp_path / "setup.sh").write_text("#!/bin/sh\ntrue\n")
    file = tmp_path / "cluster.yaml"
    file.write_text("""\
version: 1
name: everything
region: eu-west-1
account: "000011112222"
orchestrator: ec2
tags: { team: a }
network: { availability_zone: euw1-az2, cidr: 10.8.0.0/17, egress: closed, fleet_subnet_prefix: 20, flow_logs: false }
training:
  fleets:
    a:
      instance_type: p5.48xlarge
      nodes: 4
      capacity: { capacity_block: cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }
      efa: true
      interface_policy: maximum-ena-bandwidth
      fabric: first
      image: { os: ubuntu-24.04, framework: pytorch, pinned: true }
      root_volume: { size_gib: 1000, iops: 12000, throughput_mib_per_s: 1000 }
      update: rolling
      environment: { NCCL_DEBUG: INFO, EMPTY: "" }
      user_data: setup.sh
      tags: { owner: b }
    b: { instance_type: p4d.24xlarge, nodes: 2, capacity: { spot: { max_price_usd_per_hour: 12.5 } }, efa: false }
    c: { instance_type: g6.xlarge, nodes: 7, placement: spread, image: { parameter: /images/mine, os: ubuntu-22.04 } }
    d:
      instance_type: g6.xlarge
      nodes: 1
      image: { id: ami-0123456789abcdef0 }
      capacity: { new_reservation: { end_date: 2027-01-31T00:00Z, match: open } }
""")
    cluster = load_cluster(file)
    written = tmp_path / "written.yaml"
    written.write_text(json.dumps(cluster.model_dump(mode="json")))  # JSON is YAML
    assert load_cluster(written) == cluster
    assert ClusterSpec.model_validate(cluster.model_dump()) == cluster


@pytest.mark.parametrize("text", [MINIMAL, EVERYTHING, PUBLIC], ids=["minimal", "everything", "public"])
def test_clusters_that_serve_survive_a_round_trip(text: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    cluster = load_cluster(file)
    file.write_text(json.dumps(cluster.model_dump(mode="json")))
    assert load_cluster(file) == cluster


def test_the_least_inference_fleet_gets_the_documented_defaults(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(MINIMAL, encoding="utf-8")
    cluster = load_cluster(file)
    assert cluster.training.fleets == {}
    fleet = cluster.inference.fleets["chat"]
    assert (fleet.update, fleet.placement, fleet.mig, fleet.scratch, fleet.is_reserved) == (
        "rolling",
        None,
        None,
        None,
        False,
    )
    assert (fleet.server.port, fleet.server.health_path, fleet.server.command) == (8000, "/health", ())
    assert not fleet.load_balancer.internet_facing
    assert fleet.load_balancer.clients == ()


LAYOUTS = {
    '"3g.20gb,4g.20gb"': MigLayout(["3g.20gb", "4g.20gb"]),
    "[3g.20gb]": MigLayout(["3g.20gb"]),
    "9": MigLayout([9]),
    '["9,9", 0, off, off, off, off, off, off]': [
        MigLayout("9,9"),
        MigLayout([0]),
        *[MigLayout.whole_gpu()] * 6,
    ],
}


@pytest.mark.parametrize("text", LAYOUTS)
def test_layouts_are_texts_or_numbers_one_or_one_for_each_gpu(text: str, tmp_path: Path) -> None:
    fleet = one(tmp_path, f"instance_type: p4d.24xlarge, nodes: 1, capacity: spot, efa: false, mig: {text}")
    assert fleet.mig_layouts == LAYOUTS[text]


RESERVED = {
    "on_demand": False,
    "spot": False,
    "{ reservation: cr-0123456789abcdef0 }": True,
    "{ capacity_block: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z }": True,
    "{ new_reservation: { unlimited: true } }": True,
}


@pytest.mark.parametrize("text", RESERVED)
def test_reserved_capacity_lies_in_the_cluster_s_zone(text: str, tmp_path: Path) -> None:
    fleet = one(tmp_path, f"instance_type: p5.48xlarge, nodes: 1, capacity: {text}")
    assert fleet.is_reserved == RESERVED[text]


def test_a_cluster_made_in_python_is_checked_by_the_same_rules() -> None:
    fleet = FleetSpec(
        instance_type="g6.xlarge",
        nodes=1,
        capacity=Spot(spot=SpotOptions()),
        root_volume=RootVolume(iops=4000),
        efa=True,
    )
    cluster = ClusterSpec(
        version=1,
        name="demo",
        region="us-east-1",
        network=ExistingNetwork(
            vpc_id="vpc-0123456789abcdef0",
            subnet_ids=("subnet-0123456789abcdef0",),
            availability_zone="us-east-1a",
        ),
        training=TrainingSpec(fleets={"a": fleet}),
    )
    found = check_cluster(cluster)
    assert [(finding.id, finding.path) for finding in found] == [("GPU-EFA-025", "training.fleets.a.efa")]


def test_a_warning_does_not_stop(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + "training: { fleets: { a: { instance_type: p5.48xlarge, nodes: 1 } } }\n")
    reading = read_cluster(file)
    assert reading.spec is not None
    assert [(finding.id, finding.severity.value) for finding in reading.findings] == [("GPU-CAP-009", "warning")]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("placement: none, capacity: spot", ["GPU-PLC-007"]),
        ("placement: none, capacity: spot, efa: false", []),
        ("placement: cluster, capacity: spot, efa: false", ["GPU-EFA-034"]),
        (
            "efa: false, capacity: { reservation: cr-0123456789abcdef0, placement_group: own }",
            ["GPU-EFA-034"],
        ),
        ("capacity: { reservation: cr-0123456789abcdef0, placement_group: own }", []),
    ],
)
def test_a_placement_at_odds_with_efa_is_a_warning(tmp_path: Path, said: str, expected: list[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + f"training: {{ fleets: {{ a: {{ instance_type: p4d.24xlarge, nodes: 2, {said} }} }} }}\n")
    reading = read_cluster(file)
    assert reading.spec is not None
    assert [finding.id for finding in reading.findings] == expected


def test_a_reservation_made_here_goes_into_its_placement_group(tmp_path: Path) -> None:
    fleet = one(
        tmp_path,
        "instance_type: p4d.24xlarge, nodes: 4, placement: cluster, capacity: { new_reservation: { unlimited: true } }",
    )
    assert isinstance(fleet.capacity, NewReservation)


@pytest.mark.parametrize("leading", ["id: ami-0123456789abcdef0", "parameter: /images/mine"])
@pytest.mark.parametrize(("given", "meant"), [("", "al2023"), (", os: ubuntu-24.04", "ubuntu-24.04")])
def test_an_own_image_says_what_it_runs(leading: str, given: str, meant: str, tmp_path: Path) -> None:
    image = one(tmp_path, f"instance_type: g6.xlarge, nodes: 1, image: {{ {leading}{given} }}").image
    assert isinstance(image, ImageById | ImageByParameter)
    assert image.os == meant


def test_a_group_of_another_partition_goes_with_a_region_of_it(tmp_path: Path) -> None:
    arn = "arn:aws-us-gov:resource-groups:us-gov-west-1:111122223333:group/odcr"
    head = HEAD.replace("us-east-1", "us-gov-west-1")
    capacity = one(
        tmp_path, f"instance_type: g6.xlarge, nodes: 1, capacity: {{ reservation_group: '{arn}' }}", head=head
    ).capacity
    assert capacity_terms(capacity).reservation_group_arn == arn


def test_tags_of_all_letters_and_of_the_signs_that_iam_takes(tmp_path: Path) -> None:
    tags = {"Größe 1": "_.:/=+-@", "name": "", "gpu-cluster": "other"}
    fleet = one(tmp_path, f"instance_type: g6.xlarge, nodes: 1, tags: {json.dumps(tags)}")
    assert fleet.tags == tags


def test_two_subnets_of_one_zone_are_right_for_reserved_capacity_without_efa(tmp_path: Path) -> None:
    subnets = "subnet-0123456789abcdef0, subnet-0123456789abcdef1"
    network = f"{{ availability_zone: us-east-1a, vpc_id: vpc-0123456789abcdef0, subnet_ids: [{subnets}] }}"
    file = tmp_path / "cluster.yaml"
    file.write_text(
        HEAD.replace("{ availability_zone: us-east-1a }", network)
        + "training: { fleets: { a: { instance_type: g6.xlarge, nodes: 1, "
        "capacity: { reservation: cr-0123456789abcdef0 } } } }\n"
    )
    assert read_cluster(file).findings == ()


def test_words_of_the_file_are_those_of_the_library() -> None:
    assert set(get_args(image_module.OperatingSystem)) < {system.value for system in OperatingSystem}
    assert {policy.value for policy in InterfacePolicy} == {
        "minimum-ip",
        "maximum-ena-bandwidth",
        "efa-per-card",
    }
    placements = get_args(get_args(FleetSpec.model_fields["placement"].annotation)[0])
    assert set(placements) == {strategy.value for strategy in PlacementStrategy} | {"none"}
    assert ImageByOs(os="al2023").pinned is False
    assert set(get_args(image_module.Framework)) == {framework.value for framework in Framework}


def test_rules_of_the_cluster_file_say_where_they_come_from() -> None:
    rules = [rule for rule in defined_rules().values() if rule.id.startswith("GPU-SPEC-")]
    assert len(rules) >= 15
    assert all(rule.title and rule.source for rule in rules)


def test_every_orchestrator_of_the_file_has_a_profile() -> None:
    assert get_args(ClusterSpec.model_fields["orchestrator"].annotation) == tuple(ORCHESTRATORS)


def test_the_watchdog_of_a_file_has_the_librarys_settings_and_defaults(tmp_path: Path) -> None:
    # systemd units and clients of the nodes belong to Python apps, which make both.
    of_python = {"job_units", "health_port", "health_from", "metrics_port"}
    assert {field.name for field in fields(NodeWatch)} - of_python == set(WatchSpec.model_fields)
    assert WatchSpec().settings == NodeWatch()
    watch = "watch: { reboots_per_hour: 3, repair_wait_seconds: 0, maintenance: new driver, dcgm_level: 2 }"
    found = one(tmp_path, f"instance_type: g6.xlarge, nodes: 2, {watch}").watch.settings
    assert found == NodeWatch(reboots_per_hour=3, repair_wait_seconds=0, maintenance="new driver", dcgm_level=2)


@pytest.mark.parametrize("name", WATCH_RANGES)
def test_a_setting_of_the_watchdog_is_refused_outside_its_range(name: str) -> None:
    low, high = WATCH_RANGES[name]
    for value in (low - 1, high + 1):
        with pytest.raises(ValidationError, match=name):
            WatchSpec.model_validate({name: value})
