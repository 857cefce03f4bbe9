"""eksctl -> Amazon EKS, key by key, and the rules that what eksctl deploys breaks."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters_stacks.importing import Imported
from cdk_gpu_clusters_stacks.importing.draft import Change
from foreign_files import import_text

Values = dict[str, Any]


def _group(**changes: object) -> Values:
    return {
        "name": "p5",
        "instanceType": "p5.48xlarge",
        "privateNetworking": True,
        "efaEnabled": True,
        "availabilityZones": ["us-east-1a"],
        "minSize": 0,
        "desiredCapacity": 2,
        "maxSize": 8,
        "volumeEncrypted": True,
        **changes,
    }


def _file(*groups: Values, unmanaged: tuple[Values, ...] = (), **changes: object) -> Values:
    return {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {"name": "mine", "region": "us-east-1", "version": "1.34"},
        "accessConfig": {"bootstrapClusterCreatorAdminPermissions": False},
        "managedNodeGroups": list(groups) if groups or unmanaged else [_group()],
        **({"nodeGroups": list(unmanaged)} if unmanaged else {}),
        **changes,
    }


def _import(values: Values) -> Imported:
    return import_text(yaml.safe_dump(values, sort_keys=False))


def _cluster(values: Values) -> Any:
    made = _import(values)
    assert made.text is not None, made.findings
    return yaml.safe_load(made.text)


def _fleet(values: Values, name: str = "p5") -> Any:
    return _cluster(values)["training"]["fleets"][name]


def test_a_group_becomes_a_fleet_in_the_same_zone() -> None:
    made = _import(_file())
    assert made.text is not None
    assert "CHANGE" not in made.text
    assert _cluster(_file()) == {
        "version": 1,
        "name": "mine",
        "region": "us-east-1",
        "orchestrator": "eks",
        "network": {"availability_zone": "us-east-1a"},
        "eks": {"kubernetes_version": "1.34"},
        "training": {
            "fleets": {
                "p5": {
                    "instance_type": "p5.48xlarge",
                    "min_nodes": 0,
                    "max_nodes": 8,
                    "placement": "cluster",
                    "efa": True,
                    "root_volume": {"size_gib": 80},
                }
            }
        },
    }


# The rules, asked of what eksctl deploys.


def test_one_efa_interface_a_card_takes_32_addresses_a_node() -> None:
    """300 nodes do not fit into the subnet that eksctl makes, and fit into that of the library."""
    made = _import(_file(_group(maxSize=300)))
    (found,) = [one for one in made.broken if one.id == "GPU-IP-003"]
    assert "300 nodes x 32" in found.cause
    assert found.path.startswith("theirs.yaml:")
    assert not [one for one in made.findings if one.id == "GPU-IP-003"]
    assert any("takes 32 addresses" in note.text for note in made.notes if note.change is Change.BETTER)


@pytest.mark.parametrize(
    ("changes", "rule", "key"),
    [
        ({"privateNetworking": False}, "GPU-FLT-003", "privateNetworking"),
        ({"volumeEncrypted": False}, "GPU-LT-012", "p5"),
        ({"disableIMDSv1": False}, "GPU-LT-010", "p5"),
        ({"maxSize": 128, "instanceMarketOptions": {"marketType": "capacity-block"},
          "capacityReservation": {"capacityReservationTarget": {"capacityReservationID": "cr-0a1b2c3d4e5f60718"}}},
         "GPU-CAP-013", "p5"),
    ],
)  # fmt: skip
def test_a_rule_that_the_file_breaks_is_at_the_line_that_decides_it(changes: Values, rule: str, key: str) -> None:
    values = _file(_group(**changes))
    lines = yaml.safe_dump(values, sort_keys=False).splitlines()
    found = {one.id: int(one.path.rsplit(":", 2)[1]) for one in _import(values).broken}
    assert rule in found
    assert key in lines[found[rule] - 1] or "name: p5" in lines[found[rule] - 1], lines[found[rule] - 1]


def test_a_file_that_breaks_no_rule_of_its_own() -> None:
    """But that pods reach the metadata service, as eksctl sets it on all nodes."""
    assert {one.id for one in _import(_file()).broken} == {"GPU-EKS-052"}


def test_what_only_a_launch_template_of_the_group_has_is_filled_in_and_not_judged() -> None:
    template = {"id": "lt-0a1b2c3d4e5f60718", "version": "3"}
    group = {"name": "own", "launchTemplate": template, "instanceTypes": ["p5.48xlarge"], "desiredCapacity": 2}
    made = _import(_file({**group, "availabilityZones": ["us-east-1a"]}))
    filled = {note.what for note in made.notes if note.change is Change.FILLED}
    assert {f"training.fleets.own.{key}" for key in ("capacity", "efa", "root_volume.size_gib")} <= filled
    assert "placement" not in _fleet(_file(group), "own")
    assert not made.broken
    assert any("import --launch-template lt-0a1b2c3d4e5f60718:3" in note.text for note in made.notes)


def test_the_market_of_a_group_with_a_launch_template_is_in_the_file() -> None:
    """As pkg/cfn/builder/managed_nodegroup.go has it: the capacity type is that of the node group."""
    template = {"id": "lt-0a1b2c3d4e5f60718"}
    group = {"name": "own", "launchTemplate": template, "instanceTypes": ["p5.48xlarge"], "spot": True}
    assert _fleet(_file(group), "own")["capacity"] == {"spot": {}}


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"disablePodIMDS": True}, set()),
        ({"disablePodIMDS": True, "disableIMDSv1": False}, set()),
        ({"disableIMDSv1": False}, {"GPU-EKS-052", "GPU-LT-010"}),
    ],
)
def test_the_options_of_the_metadata_service_are_those_of_eksctl(changes: Values, broken: set[str]) -> None:
    made = _import(_file(_group(**changes)))
    assert {one.id for one in made.broken} == broken
    assert not any("IMDS" in note.what for note in made.notes)


_BLOCK = {
    "instanceMarketOptions": {"marketType": "capacity-block"},
    "capacityReservation": {"capacityReservationTarget": {"capacityReservationID": "cr-0a1b2c3d4e5f60718"}},
}


def test_eksctl_puts_nodes_that_it_manages_itself_into_a_placement_group_also_with_a_reservation() -> None:
    """EC2 does not launch a Capacity Block into a placement group (GPU-CAP-002)."""
    assert "GPU-CAP-002" in {one.id for one in _import(_file(unmanaged=(_group(**_BLOCK),))).broken}
    assert "GPU-CAP-002" not in {one.id for one in _import(_file(_group(**_BLOCK))).broken}


def test_a_managed_group_with_a_preference_for_reservations_has_no_placement_group() -> None:
    preferred = {"capacityReservation": {"capacityReservationPreference": "none"}}
    assert _fleet(_file(_group(**preferred)))["placement"] == "none"
    assert _fleet(_file(unmanaged=(_group(**preferred),)))["placement"] == "cluster"


# Capacity and numbers.


@pytest.mark.parametrize(
    ("changes", "capacity"),
    [
        ({"spot": True}, {"spot": {}}),
        ({"capacityReservation": {"capacityReservationTarget": {"capacityReservationID": "cr-0a1b2c3d"}}},
         {"reservation": "cr-0a1b2c3d"}),
        ({"capacityReservation": {"capacityReservationTarget": {"capacityReservationID": "cr-0a1b2c3d"}},
          "placement": {"groupName": "rack"}}, {"reservation": "cr-0a1b2c3d", "placement_group": "rack"}),
    ],
)  # fmt: skip
def test_capacity(changes: Values, capacity: Values) -> None:
    assert _fleet(_file(_group(**changes)))["capacity"] == capacity


def test_a_capacity_block_takes_the_desired_nodes() -> None:
    changes = {
        "instanceMarketOptions": {"marketType": "capacity-block"},
        "capacityReservation": {"capacityReservationTarget": {"capacityReservationID": "cr-0a1b2c3d4e5f60718"}},
    }
    fleet = _fleet(_file(_group(**changes)))
    assert (fleet["nodes"], fleet["capacity"]["capacity_block"]) == (2, "cr-0a1b2c3d4e5f60718")
    assert _fleet(_file(_group(**changes, desiredCapacity=0)))["nodes"] == 8


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({}, {"nodes": 2}),
        ({"desiredCapacity": 3}, {"nodes": 3}),
        ({"minSize": 1, "maxSize": 4}, {"min_nodes": 1, "max_nodes": 4}),
    ],
)
def test_sizes_that_the_file_leaves_out_are_those_of_eksctl(sizes: Values, expected: Values) -> None:
    group = {key: value for key, value in _group().items() if key not in ("minSize", "maxSize", "desiredCapacity")}
    fleet = _fleet(_file({**group, **sizes}))
    assert {key: fleet[key] for key in ("nodes", "min_nodes", "max_nodes") if key in fleet} == expected


def test_a_mix_of_spot_and_on_demand_is_on_demand_and_the_mix_is_lost() -> None:
    mixed = {"instanceTypes": ["g5.xlarge", "g6.xlarge"], "onDemandPercentageAboveBaseCapacity": 50}
    group = {"name": "mix", "minSize": 1, "maxSize": 2, "instancesDistribution": mixed}
    made = _import(_file(unmanaged=(group,)))
    assert made.text is not None
    assert "spot" not in made.text
    lost = {note.what for note in made.notes if note.change is Change.LOST}
    assert "nodeGroups[0].instancesDistribution.onDemandPercentageAboveBaseCapacity" in lost
    assert "nodeGroups[0].instancesDistribution.instanceTypes[1]" in lost


@pytest.mark.parametrize(
    ("shares", "capacity", "is_noted"),
    [
        ({"onDemandPercentageAboveBaseCapacity": 0}, {"spot": {}}, False),
        ({"onDemandBaseCapacity": 0, "onDemandPercentageAboveBaseCapacity": 0}, {"spot": {}}, False),
        ({"onDemandBaseCapacity": 1, "onDemandPercentageAboveBaseCapacity": 0}, None, True),
        ({"onDemandBaseCapacity": 0}, None, False),
        ({}, None, False),
    ],
)
def test_shares_that_the_file_leaves_out_are_those_of_auto_scaling(
    shares: Values, capacity: Values | None, is_noted: bool
) -> None:
    mixed = {"instanceTypes": ["g5.xlarge", "g6.xlarge"], **shares}
    values = _file(unmanaged=({"name": "mix", "minSize": 1, "maxSize": 2, "instancesDistribution": mixed},))
    assert _fleet(values, "mix").get("capacity") == capacity
    notes = [note for note in _import(values).notes if "this mix becomes On-Demand" in note.text]
    assert bool(notes) is is_noted


@pytest.mark.parametrize(
    ("sizes", "is_noted"),
    [
        ({"minSize": 0, "desiredCapacity": 8, "maxSize": 8}, True),
        ({"minSize": 2, "desiredCapacity": 2, "maxSize": 8}, False),
        ({"minSize": 8, "desiredCapacity": 8, "maxSize": 8}, False),
    ],
)
def test_a_number_of_nodes_at_first_is_lost(sizes: Values, is_noted: bool) -> None:
    lost = {note.what for note in _import(_file(_group(**sizes))).notes if note.change is Change.LOST}
    assert ("managedNodeGroups[0].desiredCapacity" in lost) is is_noted


@pytest.mark.parametrize(
    ("taints", "where"),
    [
        (None, "managedNodeGroups[0]"),
        ([{"key": "team", "value": "a", "effect": "NoSchedule"}], "managedNodeGroups[0].taints"),
        ([{"key": "team", "effect": "NoSchedule"}], "managedNodeGroups[0].taints"),
        ({"nvidia.com/gpu": "true:NoExecute"}, "managedNodeGroups[0].taints"),
        ([{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}], None),
        ({"nvidia.com/gpu": "true:NoSchedule"}, None),
    ],
)
def test_the_taint_of_the_nodes_is_named_where_the_file_has_others(taints: object, where: str | None) -> None:
    made = _import(_file(_group(**({} if taints is None else {"taints": taints}))))
    noted = [note.what for note in made.notes if "nvidia.com/gpu=true:NoSchedule" in note.text]
    assert noted == ([] if where is None else [where])
    assert not any("taints" in note.what for note in made.notes if note.change is Change.LOST)


# Network and cluster.


def test_an_existing_network_keeps_its_ids_and_zones() -> None:
    subnets = {
        "private": {"us-east-1a": {"id": "subnet-0a1b2c3d"}, "second": {"id": "subnet-0a1b2c3e", "az": "us-east-1b"}},
        "public": {"us-east-1a": {"id": "subnet-0a1b2c40"}, "us-east-1b": {"id": "subnet-0a1b2c41"}},
    }
    made = _import(_file(vpc={"id": "vpc-0a1b2c3d", "subnets": subnets}))
    assert made.text is not None
    assert "CHANGE" not in made.text
    assert yaml.safe_load(made.text)["network"] == {
        "vpc_id": "vpc-0a1b2c3d",
        "subnet_ids": ["subnet-0a1b2c3d"],
        "availability_zone": "us-east-1a",
        "service_subnets": {"us-east-1a": "subnet-0a1b2c3d", "us-east-1b": "subnet-0a1b2c3e"},
        "public_subnets": {"us-east-1a": "subnet-0a1b2c40", "us-east-1b": "subnet-0a1b2c41"},
    }


def test_a_group_names_its_subnet_by_the_name_in_the_vpc() -> None:
    subnets = {"private": {"one": {"id": "subnet-0a1b2c3d"}, "two": {"id": "subnet-0a1b2c3e"}}}
    network = _cluster(_file(_group(subnets=["two"]), vpc={"id": "vpc-0a1b2c3d", "subnets": subnets}))["network"]
    assert network["subnet_ids"] == ["subnet-0a1b2c3e"]


def test_the_zones_of_the_cluster_are_those_of_the_control_plane() -> None:
    group = {key: value for key, value in _group().items() if key != "availabilityZones"}
    made = _import(_file(group, availabilityZones=["us-east-1b", "us-east-1c"], vpc={"cidr": "10.20.0.0/16"}))
    assert made.text is not None
    assert yaml.safe_load(made.text)["network"] == {
        "availability_zone": "us-east-1b",
        "control_availability_zones": ["us-east-1b", "us-east-1c"],
        "cidr": "10.20.0.0/16",
    }
    assert "us-east-1b # CHANGE: the zone of your nodes" in made.text


def test_the_first_group_without_accelerators_holds_the_pods_of_the_cluster() -> None:
    plain = {"name": "sys", "instanceType": "m7i.xlarge", "desiredCapacity": 3}
    other = {"name": "more", "instanceType": "m5.large"}
    made = _import(_file(plain, _group(), other))
    assert made.text is not None
    assert yaml.safe_load(made.text)["eks"]["system_nodes"] == {"instance_type": "m7i.xlarge", "nodes": 3}
    assert "managedNodeGroups[2]" in {note.what for note in made.notes if note.change is Change.LOST}


@pytest.mark.parametrize(
    ("types", "taken"),
    [
        ({"instanceTypes": ["m5.large", "g6e.12xlarge"]}, "g6e.12xlarge"),
        ({"instanceType": "mixed", "instancesDistribution": {"instanceTypes": ["g5.12xlarge", "g5.24xlarge"]}},
         "g5.12xlarge"),
    ],
)  # fmt: skip
def test_a_group_is_a_fleet_of_the_first_of_its_types_with_accelerators(types: Values, taken: str) -> None:
    """As pkg/cfn/builder/managed_nodegroup.go has it, selectManagedInstanceType."""
    group = {"name": "gpu", "desiredCapacity": 2, **types}
    values = _file(unmanaged=(group,)) if "instancesDistribution" in types else _file(group)
    assert _fleet(values, "gpu")["instance_type"] == taken
    assert "system_nodes" not in _cluster(values)["eks"]


@pytest.mark.parametrize(
    ("of_group", "is_system"),
    [
        ({"instanceType": "p3.8xlarge"}, False),
        ({"instanceTypes": ["m5.large", "p3.8xlarge"]}, False),
        ({"instanceType": "g99.large"}, False),
        ({"instanceType": "vt1.3xlarge"}, False),
        ({"instanceType": "m5.large"}, True),
        ({"instanceTypes": ["hpc7g.4xlarge", "i3en.large", "u7i-12tb.224xlarge", "u-12tb1.metal"]}, True),
        ({}, True),
        ({"instanceSelector": {"vCPUs": 2, "gpus": 0, "neuron_devices": 0}}, True),
    ],
)
def test_only_nodes_that_have_no_accelerators_become_system_nodes(of_group: Values, is_system: bool) -> None:
    made = _import(_file({"name": "other", "desiredCapacity": 3, **of_group}, _group()))
    assert made.text is not None, made.findings
    assert ("system_nodes" in yaml.safe_load(made.text)["eks"]) is is_system
    lost = {note.what for note in made.notes if note.change is Change.LOST}
    assert ("managedNodeGroups[0]" in lost) is not is_system


@pytest.mark.parametrize(
    ("of_group", "fix"),
    [
        ({"launchTemplate": {"id": "lt-0a1b2c3d4e5f60718", "version": "3"}},
         "gpu-clusters import --launch-template lt-0a1b2c3d4e5f60718:3"),
        ({"instanceSelector": {"gpus": 8}}, "instanceTypes"),
        ({"instanceSelector": {"vCPUs": 2}}, "instanceTypes"),
    ],
)  # fmt: skip
def test_a_group_whose_type_is_not_in_the_file_is_refused(of_group: Values, fix: str) -> None:
    made = _import(_file({"name": "other", "desiredCapacity": 3, **of_group}, _group()))
    assert made.text is None
    assert [one.id for one in made.findings] == ["GPU-IMP-010"]
    assert fix in made.findings[0].fix


def test_administrators_and_the_ranges_of_the_api_server_stay() -> None:
    admin = "arn:aws:iam::111122223333:role/platform"
    policy = {"policyARN": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"}
    entries = [{"principalARN": admin, "accessPolicies": [policy]}]
    eks = _cluster(_file(accessConfig={"accessEntries": entries}, vpc={"publicAccessCIDRs": ["203.0.113.0/24"]}))["eks"]
    assert eks["admin_principal_arns"] == [admin]
    assert eks["public_access_cidrs"] == ["203.0.113.0/24"]


def test_a_private_cluster_stays_closed() -> None:
    made = _import(_file(privateCluster={"enabled": True}))
    assert made.text is not None, made.findings
    assert yaml.safe_load(made.text)["network"] == {"egress": "closed", "availability_zone": "us-east-1a"}
    assert not any("internet" in note.text or "privateCluster" in note.what for note in made.notes)


def test_an_api_server_without_a_public_endpoint_gets_none() -> None:
    vpc = {"clusterEndpoints": {"publicAccess": False}, "publicAccessCIDRs": ["203.0.113.0/24"]}
    assert "public_access_cidrs" not in _cluster(_file(vpc=vpc))["eks"]
    open_one = {**vpc, "clusterEndpoints": {"publicAccess": True}}
    assert "public_access_cidrs" not in _cluster(_file(vpc=open_one, privateCluster={"enabled": True}))["eks"]


def test_who_administers_the_cluster_is_to_be_filled_in_where_eksctl_takes_its_caller() -> None:
    made = _import(_file(accessConfig={"authenticationMode": "API"}))
    filled = {note.what for note in made.notes if note.change is Change.FILLED}
    assert filled == {"eks.admin_principal_arns"}
    assert "admin_principal_arns" not in _cluster(_file())["eks"]


def test_a_version_that_eks_has_no_more_is_replaced() -> None:
    values = _file()
    values["metadata"]["version"] = "1.14"
    made = _import(values)
    assert made.text is not None
    assert "kubernetes_version" not in made.text
    assert "metadata.version" in {note.what for note in made.notes if note.change is Change.REPLACED}


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (_file(_group(instanceType="$TYPE")), "GPU-IMP-003"),
        (_file(_group(maxSize="$MOST")), "GPU-IMP-003"),
        (_file(_group(maxSize=[1])), "GPU-IMP-002"),
        (_file(_group(instanceType="m5.large")), "GPU-IMP-004"),
        (_file(_group(), _group(name="P5")), "GPU-IMP-007"),
        (_file(metadata="mine"), "GPU-IMP-002"),
    ],
)
def test_faults_stop_an_import(values: Values, rule: str) -> None:
    made = _import(values)
    assert made.text is None
    assert rule in {one.id for one in made.findings if one.severity is Severity.ERROR}
