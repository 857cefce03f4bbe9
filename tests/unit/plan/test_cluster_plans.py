"""Plans of unusual clusters: unknown prices and sizes, mixed MIG, Neuron, no EFA, UltraServers, a thousand nodes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters_stacks.cli.output import as_json
from cdk_gpu_clusters_stacks.plan import ClusterPlan, plan_cluster
from cdk_gpu_clusters_stacks.plan.model import UsdRange
from cdk_gpu_clusters_stacks.plan.text import plan_text
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster

Plan = Callable[..., ClusterPlan]
HEAD = "version: 1\nname: lab\nregion: {region}\nnetwork: {network}\n"
NEW = "{ availability_zone: us-east-1a }"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """The plan of one training fleet, or of the text after the head of a file."""

    def run(fleet: str = "", *, rest: str = "", region: str = "us-east-1", network: str = NEW) -> ClusterPlan:
        file = tmp_path / "cluster.yaml"
        body = rest or f"training: {{ fleets: {{ one: {{ {fleet} }} }} }}\n"
        file.write_text(HEAD.format(region=region, network=network) + body, encoding="utf-8")
        return plan_cluster(load_cluster(file))

    return run


def every_unknown(value: Any, path: str = "") -> list[tuple[str, str]]:
    """Each reason in a plan, with the field that it is for."""
    if is_dataclass(value) and not isinstance(value, type):
        found = [(f"{path}.{name}", why) for name, why in getattr(value, "unknown", {}).items()]
        return found + [
            one for field in fields(value) for one in every_unknown(getattr(value, field.name), f"{path}.{field.name}")
        ]
    if isinstance(value, tuple):
        return [one for index, item in enumerate(value) for one in every_unknown(item, f"{path}[{index}]")]
    return []


def test_a_price_that_nobody_gives_is_unknown_with_its_reason(plan: Plan) -> None:
    made = plan("instance_type: m8g.4xlarge, nodes: 2")
    cost = made.fleets[0].cost
    assert cost.usd_per_hour is None
    assert cost.unknown["usd_per_hour"] == "no source gives the on-demand price of m8g.4xlarge in us-east-1"
    assert made.cost.usd_per_hour is None
    assert "unknown: nothing here has a sourced price" in plan_text(made)


def test_what_is_unknown_is_in_no_sum_and_is_named(plan: Plan) -> None:
    made = plan(
        rest="training: { fleets: { a: { instance_type: g6.xlarge, nodes: 1 }, "
        "b: { instance_type: m8g.4xlarge, nodes: 1 } } }\n"
    )
    assert made.cost.usd_per_hour == UsdRange(0.8048, 0.8048)
    assert made.cost.includes == ("fleet a",)
    assert made.cost.missing["fleet b"].startswith("no source gives")
    assert "root volumes" in made.cost.missing


def test_mixed_mig_shows_each_gpu_with_its_places(plan: Plan) -> None:
    made = plan(
        'instance_type: p4d.24xlarge, nodes: 1, efa: false, mig: ["3g.20gb,4g.20gb", off, off, off, off, off, off, off]'
    )
    mig = made.fleets[0].node.mig
    assert mig is not None
    assert [len(gpu.slices) for gpu in mig.gpus] == [2, 0, 0, 0, 0, 0, 0, 0]
    assert sorted((one.start, one.size) for one in mig.gpus[0].slices) == [(0, 4), (4, 4)]
    assert mig.resources["nvidia.com/gpu"] == 7
    text = plan_text(made)
    assert "GPUs 1-7       whole" in text
    assert made.totals.mig_slices == 2


def test_no_two_slices_of_a_gpu_overlap(plan: Plan) -> None:
    made = plan('instance_type: p5.48xlarge, nodes: 1, efa: false, mig: "1g.10gb,2g.20gb,3g.40gb"')
    assert made.fleets[0].node.mig
    for gpu in made.fleets[0].node.mig.gpus:
        taken = [place for one in gpu.slices for place in range(one.start, one.start + one.size)]
        assert len(taken) == len(set(taken))
        assert max(taken) < made.fleets[0].node.mig.memory_slices


def test_neuron_devices_have_cores_and_no_nvlink(plan: Plan) -> None:
    made = plan(
        "instance_type: trn2.48xlarge, nodes: 2, capacity: { reservation: cr-0123456789abcdef0 }",
        region="us-east-2",
        network="{ availability_zone: us-east-2c }",
    )
    accelerator = made.fleets[0].node.accelerator
    assert accelerator is not None
    assert (accelerator.kind, accelerator.count, accelerator.neuron_cores_each) == ("neuron", 16, 8)
    assert accelerator.nvlink_gbytes_per_s is None
    assert "nvlink_gbytes_per_s" in accelerator.unknown
    assert "driver -> efa" in plan_text(made)
    assert "neuron-memory" in made.fleets[0].node.boot_checks


def test_a_share_of_a_gpu_is_said_as_one(plan: Plan) -> None:
    made = plan("instance_type: g6f.xlarge, nodes: 1, image: { id: ami-0123456789abcdef0 }")
    assert made.fleets[0].accelerators == 1
    assert "of one L4" in plan_text(made)


def test_a_type_without_efa_has_one_plain_interface(plan: Plan) -> None:
    network = plan("instance_type: g6.xlarge, nodes: 1").fleets[0].node.network
    assert (network.efa_gbps, network.hardware_efa_gbps, network.hardware_efa_interfaces) == (0, 0, 0)
    assert [len(card.interfaces) for card in network.cards] == [1]


@pytest.mark.parametrize(
    ("image", "words", "advised"),
    [
        ("", "moves at a deployment unless `gpu-clusters pin-image` has pinned it", True),
        (", image: { os: al2023 }", "moves at a deployment, and", False),
        (", image: { os: al2023, pinned: true }", "; pinned", False),
        (", image: { os: al2023, framework: pytorch }", "al2023 with PyTorch 2.13, /aws/service/deeplearning", False),
        (", image: { id: ami-0123456789abcdef0 }", "; pinned", False),
    ],
)
def test_what_becomes_of_the_image_is_said(plan: Plan, image: str, words: str, advised: bool) -> None:
    text = " ".join(plan_text(plan(f"instance_type: p5.48xlarge, nodes: 2, capacity: spot{image}")).split())
    assert words in text
    assert ("GPU-AMI-102" in text) is advised


def test_the_cache_of_model_servers_is_shown(plan: Plan) -> None:
    server = "{ image: vllm/vllm-openai:v0.11.0, cache_path: /scratch/cache }"
    fleet = f"{{ instance_type: g6.12xlarge, nodes: 2, server: {server}, load_balancer: {{ plain_http: true }} }}"
    text = plan_text(plan(rest=f"inference: {{ fleets: {{ chat: {fleet} }} }}\n"))
    assert "cache at /scratch/cache, on the local disks" in text


def test_efa_that_is_switched_off_is_told(plan: Plan) -> None:
    made = plan("instance_type: p5.48xlarge, nodes: 1, capacity: spot, efa: false")
    assert made.fleets[0].node.network.hardware_efa_gbps == 3200
    assert "no EFA, though the type has it" in plan_text(made)
    assert made.fleets[0].fabric is None


def test_maximum_ena_bandwidth_takes_an_address_for_each_interface(plan: Plan) -> None:
    made = plan("instance_type: p5.48xlarge, nodes: 4, capacity: spot, interface_policy: maximum-ena-bandwidth")
    network = made.fleets[0].node.network
    assert (network.ip_addresses, network.ena_gbps) == (8, 800)
    assert made.network.subnets[0].uses[0].words == "4 nodes x 8"
    assert made.network.subnets[0].used_addresses == 32
    assert "cards 4, 8, 12, 16, 20, 24, 28" in plan_text(made)


def test_a_key_of_the_root_volume_is_shown(plan: Plan) -> None:
    key = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    made = plan(f"instance_type: g6.xlarge, nodes: 3, root_volume: {{ encryption_key_arn: '{key}' }}")
    volume = made.fleets[0].node.root_volume
    assert volume is not None
    assert volume.encryption_key_arn == key
    assert f"encrypted by {key}" in " ".join(plan_text(made).split())


def test_an_existing_network_of_unknown_size_counts_no_free_addresses(plan: Plan) -> None:
    made = plan(
        "instance_type: g6.xlarge, nodes: 3",
        network="{ vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], availability_zone: us-east-1a }",
    )
    (subnet,) = made.network.subnets
    assert (subnet.used_addresses, subnet.usable_addresses, subnet.free_addresses) == (3, None, None)
    assert "3 used of unknown (the file does not give the range of this subnet)" in plan_text(made)


def test_an_ultraserver_is_named_and_its_group_is_drained_early(plan: Plan) -> None:
    block = (
        "{ ultraserver_block: 'arn:aws:resource-groups:us-east-1:111122223333:group/g', ends_at: 2026-12-15T11:30Z }"
    )
    made = plan(
        f"instance_type: p6e-gb200.36xlarge, nodes: 18, capacity: {block}",
        network="{ availability_zone: us-east-1-dfw-2a }",
    )
    fleet = made.fleets[0]
    assert fleet.node.accelerator is not None
    assert fleet.node.accelerator.ultraserver == "u-p6e-gb200x72"
    assert fleet.capacity.drains_at == "2026-12-15T10:20Z"
    assert (fleet.nodes_at_deploy, fleet.maximum_nodes) == (0, 18)
    assert (fleet.cost.run_hours, fleet.cost.usd_per_run) == (None, None)
    assert "runs already, until 2026-12-15T11:30Z" in plan_text(made)


def test_a_thousand_nodes_are_planned_at_once_and_read_like_one(plan: Plan) -> None:
    started = time.perf_counter()
    made = plan("instance_type: p5.48xlarge, nodes: 1000, capacity: { reservation: cr-0123456789abcdef0 }")
    text = plan_text(made)
    assert time.perf_counter() - started < 5
    assert made.totals.accelerators == 8000
    assert "8,000 x H100 with 640,000 GiB of memory in all" in text
    assert "1,000 used of 16,379 addresses, 15,379 free" in text
    assert len(text.splitlines()) < 80
    assert len(json.dumps(as_json(made))) < 40_000


def test_a_reservation_is_paid_for_as_a_whole_though_the_fleet_scales(plan: Plan) -> None:
    made = plan(
        "instance_type: p4d.24xlarge, min_nodes: 0, max_nodes: 4, capacity: { reservation: cr-0123456789abcdef0 }"
    )
    cost = made.fleets[0].cost
    assert cost.usd_per_hour is not None
    assert cost.usd_per_hour.low == cost.usd_per_hour.high
    assert cost.billing == "by the reservation, used or not"


def test_a_price_between_bounds_makes_every_sum_a_range(plan: Plan) -> None:
    made = plan(
        "instance_type: p5en.48xlarge, nodes: 2, capacity: { capacity_block: cr-0123456789abcdef0, "
        "starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-02T11:30Z }"
    )
    assert made.cost.usd_per_run == UsdRange(2396.544, 2636.16)  # 2 x 24 h x 49.928 and 54.92
    assert made.cost.usd_per_day == made.cost.usd_per_run


def test_a_cluster_with_errors_has_no_plan(tmp_path: Path) -> None:
    sound = load_cluster("examples/p5-capacity-block.yaml")
    trainers = sound.training.fleets["trainers"].model_copy(update={"instance_type": "g6.xlarge"})
    training = sound.training.model_copy(update={"fleets": {"trainers": trainers}})
    with pytest.raises(ConfigError, match="GPU-CAP-003"):
        plan_cluster(sound.model_copy(update={"training": training}))


@pytest.fixture(params=sorted(Path("examples").glob("*.yaml")), ids=lambda path: path.stem)
def example(request: pytest.FixtureRequest) -> ClusterSpec:
    return load_cluster(request.param)


def test_every_unknown_is_a_field_that_is_none_and_says_why(example: ClusterSpec) -> None:
    made = plan_cluster(example)
    for path, reason in every_unknown(made):
        assert reason, path
        owner: Any = made
        for name in path.removeprefix(".").replace("]", "").replace("[", ".").split("."):
            owner = owner[int(name)] if name.isdigit() else getattr(owner, name)
        assert owner is None, path


def test_the_json_of_a_plan_is_all_of_it(example: ClusterSpec) -> None:
    made = plan_cluster(example)
    document = json.loads(json.dumps(as_json(made)))
    assert [fleet["name"] for fleet in document["fleets"]] == [fleet.name for fleet in made.fleets]
    assert document["fleets"][0]["node"]["network"]["cards"][0]["interfaces"][0]["interface_type"]


def test_the_same_file_makes_the_same_plan(example: ClusterSpec) -> None:
    assert plan_text(plan_cluster(example)) == plan_text(plan_cluster(example))


def test_plans_import_no_cdk() -> None:
    assert "cdk_gpu_clusters_stacks.plan" in sys.modules
    import subprocess

    program = "import sys, cdk_gpu_clusters_stacks.plan as p; print(*({'aws_cdk', 'jsii', 'boto3', 'rich'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
