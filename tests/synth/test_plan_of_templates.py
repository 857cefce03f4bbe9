"""A plan says what the app makes: its stacks with their order, its groups, interfaces and addresses, for every example.

The templates are those that are recorded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks.plan import ClusterPlan, plan_cluster
from cdk_gpu_clusters_stacks.plan.model import FleetReport
from cdk_gpu_clusters_stacks.spec import load_cluster
from cluster_files.edits import sides, write
from nodeadm import FROM_EKS, node_configs, read_by_nodeadm
from shared_assemblies import SharedAssemblies, templates_in
from stack_fixtures import readable
from user_data import node_files, user_data

_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}
EXAMPLES = sorted(Path("examples").glob("*.yaml"))


class Assembly:
    """What was synthesized: its folder, and the templates by stack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.templates = templates_in(folder)

    def dependencies(self, stack: str) -> set[str]:
        """The stacks that one waits for."""
        artifacts = json.loads((self.folder / "manifest.json").read_text("utf-8"))["artifacts"]
        return set(artifacts[stack].get("dependencies", ())) & self.templates.keys()


@pytest.fixture(scope="module", params=EXAMPLES, ids=lambda path: path.name)
def made(request: pytest.FixtureRequest, assemblies_of_files: SharedAssemblies) -> tuple[ClusterPlan, Assembly]:
    """The plan of an example, and what was synthesized from it."""
    return plan_cluster(load_cluster(request.param)), Assembly(
        assemblies_of_files.of(request.param.read_text(encoding="utf-8"))
    )


def resources(assembly: Assembly, stack: str, kind: str) -> list[dict[str, Any]]:
    template = assembly.templates[stack]
    return [one["Properties"] for one in template["Resources"].values() if one["Type"] == kind]


def fleets_in_stacks(plan: ClusterPlan) -> list[FleetReport]:
    """Fleets whose nodes the stacks make; `test_examples_on_parallelcluster` looks at the others."""
    return [fleet for fleet in plan.fleets if fleet.slurm_queue is None]


def test_every_example_is_as_recorded(made: tuple[ClusterPlan, Assembly], snapshot_json: Any) -> None:
    assert {f"{name}.template.json": readable(one) for name, one in made[1].templates.items()} == snapshot_json


def test_the_stacks_are_those_of_the_app(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    assert {stack.name for stack in plan.stacks} == assembly.templates.keys()


def test_each_stack_waits_for_those_that_the_app_makes_it_wait_for(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for stack in plan.stacks:
        assert assembly.dependencies(stack.name) == set(stack.depends_on), stack.name


def test_no_stack_stands_before_one_that_it_waits_for(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, _ = made
    seen: set[str] = set()
    for stack in plan.stacks:
        assert seen.issuperset(stack.depends_on)
        seen.add(stack.name)


def test_launch_templates_hold_what_is_planned(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for fleet in fleets_in_stacks(plan):
        if is_pool(fleet) or fleet.instance_group is not None:  # Karpenter and SageMaker make their own
            assert resources(assembly, fleet.stack_name, "AWS::EC2::LaunchTemplate") == []
            continue
        (template,) = resources(assembly, fleet.stack_name, "AWS::EC2::LaunchTemplate")
        data = template["LaunchTemplateData"]
        planned = {
            (card.index, one.device_index, one.interface_type)
            for card in fleet.node.network.cards
            for one in card.interfaces
        }
        given = {
            (one.get("NetworkCardIndex", 0), one["DeviceIndex"], one.get("InterfaceType", "interface"))
            for one in data["NetworkInterfaces"]
        }
        assert given == planned
        if fleet.compute_node_group is None:  # AWS PCS takes the type from its group
            assert data["InstanceType"] == fleet.node.instance_type
        assert ("GroupName" in data.get("Placement", {})) == (fleet.placement.strategy is not None)
        assert data.get("InstanceMarketOptions", {}).get("MarketType") == fleet.capacity.market_type
        root = data["BlockDeviceMappings"][0]["Ebs"]
        volume = fleet.node.root_volume
        assert volume is not None
        assert (root["VolumeSize"], root["Iops"]) == (volume.size_gib, volume.iops)
        assert root.get("KmsKeyId") == volume.encryption_key_arn


@pytest.mark.parametrize(
    "edit",
    ["root volume with a key", "root volume of servers with a key", "EKS: root volume with a key"],
)
def test_a_key_of_the_root_volume_reaches_the_template(
    edit: str, tmp_path: Path, assemblies_of_files: SharedAssemblies
) -> None:
    text = sides(edit)[1]
    assembly = Assembly(assemblies_of_files.of(text))
    shown = set()
    for fleet in plan_cluster(load_cluster(write(tmp_path, text))).fleets:
        (template,) = resources(assembly, fleet.stack_name, "AWS::EC2::LaunchTemplate")
        key = template["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"].get("KmsKeyId")
        assert key == (fleet.node.root_volume and fleet.node.root_volume.encryption_key_arn)
        shown.add(key)
    assert len(shown) == 2  # one fleet has the key, the others the account's


def test_groups_have_the_planned_size(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for fleet in fleets_in_stacks(plan):
        if fleet.node_group is not None or fleet.compute_node_group is not None or fleet.instance_group is not None:
            continue
        if fleet.compute_environment is not None:
            (environment,) = resources(assembly, fleet.stack_name, "AWS::Batch::ComputeEnvironment")
            vcpus = environment["ComputeResources"]
            planned = fleet.compute_environment.minimum_vcpus, fleet.compute_environment.maximum_vcpus
            assert (vcpus["MinvCpus"], vcpus["MaxvCpus"]) == planned
            assert len(vcpus["Subnets"]) == len(fleet.subnets)
            continue
        (group,) = resources(assembly, fleet.stack_name, "AWS::AutoScaling::AutoScalingGroup")
        assert (int(group["MinSize"]), int(group["MaxSize"])) == (fleet.nodes_at_deploy, fleet.maximum_nodes)
        assert len(group["VPCZoneIdentifier"]) == len(fleet.subnets)


def is_pool(fleet: FleetReport) -> bool:
    return fleet.node_group is not None and fleet.node_group.managed_by == "karpenter"


def test_node_pools_of_karpenter_are_as_planned(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for fleet in fleets_in_stacks(plan):
        planned = fleet.node_group
        if planned is None or not is_pool(fleet):
            continue
        (manifest,) = resources(assembly, fleet.stack_name, "Custom::AWSCDK-EKS-KubernetesResource")
        parts = manifest["Manifest"]["Fn::Join"][1]
        objects = json.loads("".join(one if isinstance(one, str) else "?" for one in parts))
        specs = {one["kind"]: one["spec"] for one in objects}
        template = specs["NodePool"]["template"]
        requirements = {one["key"]: one["values"] for one in template["spec"]["requirements"]}
        assert requirements["karpenter.sh/capacity-type"] == planned.capacity_type.split(", ")
        assert requirements["node.kubernetes.io/instance-type"] == [fleet.node.instance_type]
        assert specs["EC2NodeClass"]["amiSelectorTerms"] == [{"alias": planned.ami_type}]
        assert specs["EC2NodeClass"]["kubelet"]["maxPods"] == planned.max_pods
        assert template["metadata"]["labels"] == planned.labels
        assert specs["NodePool"].get("replicas") == planned.desired_nodes
        assert specs["NodePool"]["limits"]["nodes"] == str(fleet.maximum_nodes + planned.surge_nodes)


def test_node_groups_of_eks_are_as_planned(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for fleet in fleets_in_stacks(plan):
        groups = resources(assembly, fleet.stack_name, "AWS::EKS::Nodegroup")
        planned = fleet.node_group
        assert len(groups) == (planned is not None and not is_pool(fleet))
        if planned is None or is_pool(fleet):
            continue
        (group,) = groups
        assert (group["CapacityType"], group["AmiType"]) == (planned.capacity_type, planned.ami_type)
        assert group["Labels"] == planned.labels
        taints = [f"{one['Key']}={one['Value']}:{_EFFECTS[one['Effect']]}" for one in group.get("Taints", [])]
        assert tuple(taints) == planned.taints
        assert group["ScalingConfig"] == {
            "MinSize": fleet.nodes_at_deploy,
            "MaxSize": fleet.maximum_nodes,
            "DesiredSize": planned.desired_nodes,
        }
        assert group["UpdateConfig"]["UpdateStrategy"] == planned.update_strategy
        assert ("Version" in group) == ("rolling" in planned.update)
        assert len(group["Subnets"]) == len(fleet.subnets)
        text = user_data(assembly.templates[fleet.stack_name]["Resources"])
        [own] = node_configs(text)
        over = [
            json.loads(content)
            for path, content in node_files(text, assembly.folder).items()
            if path.startswith("/etc/eks/nodeadm.d/")
        ]
        assert len(over) == 1
        for documents in ([own, FROM_EKS, *over], [FROM_EKS, own, *over]):
            told = read_by_nodeadm(documents)
            assert told["kubelet"]["config"]["maxPods"] == planned.max_pods
            raid = told.get("instance") == {"localStorage": {"strategy": "RAID0"}}
            assert raid == bool(fleet.node.local_disks and fleet.node.local_disks.mount_point)


def test_clusters_of_eks_are_as_planned(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    planned = plan.kubernetes
    if planned is None or planned.stack_name is None or planned.system_nodes is None:
        assert plan.orchestrator not in ("eks", "hyperpod-eks")
        return
    (cluster,) = resources(assembly, planned.stack_name, "AWS::EKS::Cluster")
    assert cluster["Version"] == planned.version
    place = cluster["ResourcesVpcConfig"]
    assert tuple(place.get("PublicAccessCidrs", ())) == planned.public_access_cidrs
    assert place["EndpointPrivateAccess"] is True
    assert place["EndpointPublicAccess"] is bool(planned.public_access_cidrs)
    assert cluster["KubernetesNetworkConfig"]["ServiceIpv4Cidr"] == planned.service_cidr
    add_ons = {one["AddonName"] for one in resources(assembly, planned.stack_name, "AWS::EKS::Addon")}
    assert add_ons == set(planned.add_ons)
    (nodes,) = resources(assembly, planned.stack_name, "AWS::EKS::Nodegroup")
    assert nodes["ScalingConfig"]["DesiredSize"] == planned.system_nodes.node_count
    assert len(nodes["Subnets"]) == len(planned.system_nodes.subnets)
    entries = resources(assembly, planned.stack_name, "AWS::EKS::AccessEntry")
    groups = {one["PrincipalArn"]: tuple(one.get("KubernetesGroups", ())) for one in entries}
    members = {arn: (team.group,) for team in planned.teams for arn in team.members}
    assert groups == {**dict.fromkeys(planned.admins, ()), **members}


def test_compute_node_groups_of_pcs_are_as_planned(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for fleet in fleets_in_stacks(plan):
        groups = resources(assembly, fleet.stack_name, "AWS::PCS::ComputeNodeGroup")
        planned = fleet.compute_node_group
        assert len(groups) == (planned is not None)
        if planned is None:
            continue
        (group,) = groups
        assert (group["Name"], group["PurchaseOption"]) == (planned.name, planned.purchase_option)
        assert group["InstanceConfigs"] == [{"InstanceType": fleet.node.instance_type}]
        scaling = group["ScalingConfiguration"]
        assert scaling["MinInstanceCount"] == planned.minimum_nodes
        assert scaling["MaxInstanceCount"] == planned.maximum_nodes
        settings = group["SlurmConfiguration"]["SlurmCustomSettings"]
        assert {one["ParameterName"]: one["ParameterValue"] for one in settings} == planned.slurm_settings
        assert len(group["SubnetIds"]) == len(fleet.subnets)


def test_clusters_of_pcs_are_as_planned(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    planned = plan.slurm
    if planned is None or planned.stack_name is None or planned.size is None:
        assert plan.orchestrator != "pcs"
        return
    (cluster,) = resources(assembly, planned.stack_name, "AWS::PCS::Cluster")
    assert (cluster["Size"], cluster["Scheduler"]["Version"]) == (planned.size.upper(), planned.slurm_version)
    mode = cluster["SlurmConfiguration"]["Accounting"]["Mode"]
    assert (mode == "STANDARD") is planned.accounting
    for queue in planned.queues:
        (made_queue,) = resources(assembly, queue.stack_name, "AWS::PCS::Queue")
        assert made_queue["Name"] == queue.name
        assert len(made_queue["ComputeNodeGroupConfigurations"]) == len(queue.fleets)
    if planned.login is not None:
        (login,) = resources(assembly, planned.login.stack_name, "AWS::PCS::ComputeNodeGroup")
        assert login["InstanceConfigs"] == [{"InstanceType": planned.login.instance_type}]
        assert login["ScalingConfiguration"]["MaxInstanceCount"] == planned.login.node_count


def test_placement_groups_are_made_where_it_is_said(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for fleet in fleets_in_stacks(plan):
        own = resources(assembly, fleet.stack_name, "AWS::EC2::PlacementGroup")
        reserved = [
            group
            for stack in plan.stacks
            if (stack.kind, stack.of) == ("capacity", fleet.name)
            for group in resources(assembly, stack.name, "AWS::EC2::PlacementGroup")
        ]
        strategies = [group["Strategy"] for group in own + reserved]
        assert strategies == ([fleet.placement.strategy] if fleet.placement.is_made_here else [])


def test_subnets_are_those_of_the_network(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    if not plan.network.is_new:
        return
    subnets = resources(assembly, f"{plan.name}-network", "AWS::EC2::Subnet")
    assert sorted(one["CidrBlock"] for one in subnets) == sorted(str(one.cidr) for one in plan.network.subnets)
    endpoints = resources(assembly, f"{plan.name}-network", "AWS::EC2::VPCEndpoint")
    named = len(plan.network.gateway_endpoints) + len(plan.network.interface_endpoints)
    assert len(endpoints) == named


def test_file_systems_have_the_planned_size(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for store in plan.stores:
        if store.lustre is None or store.stack_name is None:
            continue
        (system,) = resources(assembly, store.stack_name, "AWS::FSx::FileSystem")
        assert system["StorageCapacity"] == store.lustre.storage_capacity_gib


def test_load_balancers_listen_where_it_is_said(made: tuple[ClusterPlan, Assembly]) -> None:
    plan, assembly = made
    for fleet in fleets_in_stacks(plan):
        listeners = resources(assembly, fleet.stack_name, "AWS::ElasticLoadBalancingV2::Listener")
        ports = [] if fleet.load_balancer is None else [fleet.load_balancer.port]
        assert [one["Port"] for one in listeners] == ports
