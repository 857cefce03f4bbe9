"""The example clusters are what they say. That they pass CDK's own validation is a test of `tests/policy`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks.spec.load import load_cluster
from shared_assemblies import SharedAssemblies, templates_in
from stack_fixtures import Resources, node_roles, of_type, only
from user_data import node_files, user_data

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
TEMPLATE = "AWS::EC2::LaunchTemplate"
BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"
LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
FILE_SYSTEM = "AWS::FSx::FileSystem"
ASSOCIATION = "AWS::FSx::DataRepositoryAssociation"
SEVENTHS = ",".join(["1g.10gb"] * 7)


@dataclass(frozen=True)
class Cluster:
    """The cloud assembly of one example."""

    name: str
    folder: Path

    def stack(self, name: str) -> Resources:
        """The resources of the stack `<cluster>-<name>`."""
        resources: Resources = json.loads((self.folder / f"{self.name}-{name}.template.json").read_text())["Resources"]
        return resources

    def node(self, stack: str) -> Node:
        """What the nodes of a fleet are."""
        resources = self.stack(stack)
        text = user_data(resources)
        return Node(only(resources, TEMPLATE)["LaunchTemplateData"], text, node_files(text, self.folder))


@dataclass(frozen=True)
class Node:
    """The launch template of a fleet, its user data, and the static files of its nodes."""

    template: dict[str, Any]
    text: str
    files: dict[str, str]

    def setting(self, name: str) -> str:
        """The value of a shell variable in the user data, as it is quoted there."""
        [value] = re.findall(rf"^ *{name}=(.*)$", self.text, flags=re.MULTILINE)
        return str(value)

    @property
    def interfaces(self) -> list[str]:
        """The kinds of its network interfaces."""
        return [each.get("InterfaceType", "interface") for each in self.template["NetworkInterfaces"]]

    @property
    def mounts(self) -> list[str]:
        """Its lines of file systems: mount point, name, options, and `efa` where data take it."""
        return re.findall(r"^ *(/\S+ .+ relatime,flock(?: efa)?)$", self.text, flags=re.MULTILINE)

    @property
    def balanced_servers(self) -> int:
        """Servers that HAProxy sends requests to."""
        configuration = self.files["/etc/gpu-cluster/haproxy.cfg"]
        return len(re.findall(r"^\s+server \S+ 127\.0\.0\.1:", configuration, flags=re.MULTILINE))


FindCluster = Callable[[str], Cluster]


@pytest.fixture(scope="module")
def assemblies(assemblies_of_files: SharedAssemblies) -> dict[str, Path]:
    """The cloud assemblies of the examples by the name of their file."""
    return {file.stem: assemblies_of_files.of(file.read_text("utf-8")) for file in sorted(EXAMPLES.glob("*.yaml"))}


@pytest.fixture
def cluster(assemblies: dict[str, Path]) -> FindCluster:
    """Find an example by the name of its file."""
    return lambda example: Cluster(load_cluster(EXAMPLES / f"{example}.yaml").name, assemblies[example])


def needed_by(resources: Resources, logical_id: str) -> set[str]:
    """The resources that CloudFormation makes before one, and deletes after it."""
    found: set[str] = set()
    waiting = [logical_id]
    while waiting:
        for other in direct_needs(resources[waiting.pop()]) & resources.keys() - found:
            found.add(other)
            waiting.append(other)
    return found


def direct_needs(value: Any) -> set[str]:
    """What a value of a template names: `DependsOn`, `Ref`, `Fn::GetAtt`, `Fn::Sub`."""
    if isinstance(value, list):
        return {name for one in value for name in direct_needs(one)}
    if not isinstance(value, dict):
        return set()
    found = {name for key, one in value.items() if key not in {"Ref", "Fn::GetAtt"} for name in direct_needs(one)}
    found |= {value["Ref"]} if isinstance(value.get("Ref"), str) else set()
    found |= {value["Fn::GetAtt"][0]} if "Fn::GetAtt" in value else set()
    found |= set(re.findall(r"\$\{(\w+)", json.dumps(value.get("Fn::Sub", ""))))
    given = value.get("DependsOn", [])
    return found | ({given} if isinstance(given, str) else set(given))


@pytest.mark.parametrize("template", ["AWS::AutoScaling::AutoScalingGroup", "AWS::EKS::Nodegroup"])
def test_what_nodes_are_allowed_is_there_before_their_group_and_outlives_it(
    assemblies: dict[str, Path], template: str
) -> None:
    found: set[str] = set()
    stacks = [stack for folder in assemblies.values() for stack in templates_in(folder).items()]
    for stack, resources in ((name, one["Resources"]) for name, one in stacks):
        for group in of_type(resources, template):
            before = needed_by(resources, group)
            roles = before & node_roles(resources).keys()
            policies = {
                name
                for name, one in resources.items()
                if one["Type"] in {"AWS::IAM::ManagedPolicy", "AWS::IAM::Policy"}
                and direct_needs(one["Properties"].get("Roles", [])) & roles
            }
            assert policies <= before, f"{stack}: {group}"
            assert group not in {name for one in policies for name in needed_by(resources, one)}
            found |= policies
    assert found


def targets_of_scaling(resources: Resources) -> list[float]:
    """Requests per node and minute that the scaling policies of a stack aim at."""
    return [
        policy["Properties"]["TargetTrackingConfiguration"]["TargetValue"]
        for policy in of_type(resources, "AWS::AutoScaling::ScalingPolicy").values()
    ]


def zones(resources: Resources) -> tuple[int, int]:
    """Subnets of the nodes, and of the load balancer in front of them."""
    balancer = only(resources, BALANCER)
    assert balancer["Scheme"] == "internal"
    return len(only(resources, GROUP)["VPCZoneIdentifier"]), len(balancer["Subnets"])


def sizes(resources: Resources) -> tuple[str, str]:
    group = only(resources, GROUP)
    return group["MinSize"], group["MaxSize"]


def test_p4d_nodes_run_a_server_on_each_of_56_slices(cluster: FindCluster) -> None:
    made = cluster("p4d-mig-56-slices")
    resources = made.stack("inference-slices")
    node = made.node("inference-slices")
    assert node.template["InstanceType"] == "p4d.24xlarge"
    assert node.interfaces == ["interface"]
    assert f'MIG_PARTITION=\\"{",".join(["1g.5gb"] * 7)}\\"' in node.text
    assert node.setting("GPU_MIG_COUNT") == "56"
    assert (node.setting("MODEL_KIND"), node.setting("MODEL_COUNT"), node.balanced_servers) == (
        "mig",
        "56",
        56,
    )
    assert "MIG" in node.files["/usr/local/libexec/gpu-cluster/mig-apply"]
    assert sizes(resources) == ("2", "4")
    assert targets_of_scaling(resources) == [1680]
    assert zones(resources) == (2, 2)
    listener = only(resources, LISTENER)
    assert (listener["Port"], listener["Protocol"], len(listener["Certificates"])) == (443, "HTTPS", 1)
    assert "repository/super-resolution" in json.dumps(of_type(resources, "AWS::IAM::Policy"))


def test_p5_gpus_have_layouts_of_their_own(cluster: FindCluster) -> None:
    made = cluster("p5-mixed-mig")
    resources = made.stack("inference-mixed")
    node = made.node("inference-mixed")
    layouts = [*[SEVENTHS] * 4, *["4g.40gb,3g.40gb"] * 2, *["7g.80gb"] * 2]
    assert f'MIG_PARTITION=\\"{";".join(layouts)}\\"' in node.text
    assert (node.setting("MODEL_COUNT"), node.balanced_servers) == ("34", 34)
    assert "cr-0fedcba9876543210" in json.dumps(node.template["CapacityReservationSpecification"])
    assert zones(resources) == (1, 2), "nodes where the reservation is, the load balancer in two zones"


def test_g6e_nodes_run_two_servers_of_four_gpus(cluster: FindCluster) -> None:
    made = cluster("g6e-tensor-parallel")
    resources = made.stack("inference-llama")
    node = made.node("inference-llama")
    assert node.setting("MODEL_DEVICES") == "(0,1,2,3 4,5,6,7)"
    assert (node.balanced_servers, node.setting("MODEL_SHM_GIB")) == (2, "8")
    assert "--tensor-parallel-size 4" in node.setting("MODEL_COMMAND")
    assert node.setting("MODEL_WEIGHTS_URI") == "s3://my-models/llama-3.3-70b-instruct"
    assert node.setting("MODEL_WEIGHTS_PATH").startswith(node.setting("GPU_SCRATCH") + "/")
    assert "my-models/llama-3.3-70b-instruct" in json.dumps(of_type(resources, "AWS::IAM::Policy"))
    assert only(resources, "AWS::EC2::PlacementGroup")["Strategy"] == "spread"
    assert zones(resources) == (2, 2)


def test_g5_nodes_scale_from_one_to_eight(cluster: FindCluster) -> None:
    made = cluster("g5-single-gpu")
    resources = made.stack("inference-bert")
    node = made.node("inference-bert")
    assert (node.setting("MODEL_COUNT"), node.balanced_servers, node.setting("MODEL_PORT")) == (
        "1",
        1,
        "8080",
    )
    assert "/healthz" in node.files["/etc/gpu-cluster/haproxy.cfg"]
    assert sizes(resources) == ("1", "8")
    assert targets_of_scaling(resources) == [600]
    listener = only(resources, LISTENER)
    assert (listener["Port"], listener["Protocol"]) == (80, "HTTP")


def test_inf2_nodes_run_a_server_on_each_neuron_device(cluster: FindCluster) -> None:
    made = cluster("inf2-neuron")
    node = made.node("inference-neuron")
    assert node.setting("MODEL_KIND") == "neuron"
    assert node.setting("MODEL_DEVICES") == f"({' '.join(map(str, range(12)))})"
    assert node.balanced_servers == 12
    assert "neuron" in json.dumps(node.template["ImageId"]).lower()
    assert "repository/llama-neuronx" in json.dumps(of_type(made.stack("inference-neuron"), "AWS::IAM::Policy"))


def test_p5en_nodes_have_their_data_and_checkpoints_beside_them(cluster: FindCluster) -> None:
    made = cluster("p5en-express-preprocessing")
    trainers, helpers = (made.node(f"fleet-{name}") for name in ("trainers", "preprocessing"))
    assert trainers.template["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert trainers.interfaces == ["interface", *["efa-only"] * 16]
    assert helpers.template["InstanceType"] == "m8g.4xlarge"
    assert "arm64" in json.dumps(helpers.template["ImageId"])
    assert trainers.mounts == [f"{mount} efa" for mount in helpers.mounts]
    assert "moe-train-data-corpus" in trainers.mounts[0]
    [zone] = {
        subnet["Properties"]["AvailabilityZoneId"]
        for name, subnet in of_type(made.stack("network"), "AWS::EC2::Subnet").items()
        if "Fleet" in name
    }
    assert only(made.stack("data-checkpoints"), "AWS::S3Express::DirectoryBucket")["LocationName"] == zone
    assert "CHECKPOINT_EXPRESS_S3_URI" in trainers.text
    lustre = only(made.stack("data-corpus"), FILE_SYSTEM)
    assert (lustre["StorageCapacity"], lustre["LustreConfiguration"]["EfaEnabled"]) == (19200, True)


def test_p5_lustre_is_16_nodes_with_efa_and_two_associations(cluster: FindCluster) -> None:
    made = cluster("p5-lustre")
    node = made.node("fleet-trainers")
    assert node.interfaces == ["interface", *["efa-only"] * 32]
    assert only(made.stack("fleet-trainers"), GROUP)["MaxSize"] == "16"
    store = made.stack("data-corpus")
    assert only(store, FILE_SYSTEM)["LustreConfiguration"]["EfaEnabled"] is True
    links = [each["Properties"] for each in of_type(store, ASSOCIATION).values()]
    assert {link["FileSystemPath"]: sorted(link["S3"]) for link in links} == {
        "/data": ["AutoImportPolicy"],
        "/results": ["AutoExportPolicy"],
    }


def test_training_and_inference_share_a_store(cluster: FindCluster) -> None:
    made = cluster("train-and-serve")
    trainers, servers = made.node("fleet-trainers"), made.node("inference-servers")
    assert trainers.mounts == [f"{mount} efa" for mount in servers.mounts]
    assert "assistant-data-models" in servers.mounts[0]
    assert trainers.interfaces.count("efa-only") == 32
    assert servers.interfaces == ["interface"]
    assert servers.setting("MODEL_WEIGHTS_PATH") == "/fsx/assistant/v1"
    assert servers.setting("MODEL_WEIGHTS_URI") == "''"
    assert servers.setting("MODEL_DEVICES") == "(0,1,2,3)"


def test_the_base_pod_is_a_reservation_in_its_placement_group_with_100_tb(cluster: FindCluster) -> None:
    made = cluster("p4de-base-pod")
    reservation = only(made.stack("capacity-trainers"), "Custom::EC2CapacityReservation")
    assert (reservation["InstanceCount"], reservation["EndDateType"]) == (8, "limited")
    assert "PlacementGroupArn" in reservation
    assert only(made.stack("data-corpus"), FILE_SYSTEM)["StorageCapacity"] * 2**30 > 100 * 10**12
    trainers = made.node("fleet-trainers")
    assert trainers.interfaces.count("efa-only") == 4
    assert "CHECKPOINT_S3_URI" in trainers.text
