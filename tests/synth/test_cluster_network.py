"""What a cluster network makes, where it stands, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Annotations, Match
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.network.cluster_network import ClusterNetwork
from cdk_gpu_clusters.network.egress import NetworkEgress
from cdk_gpu_clusters.rules.endpoints import NetworkFeature, endpoints_for
from cdk_gpu_clusters.rules.zones import LOCAL_ZONE_OPT_IN, ZONE_FORM, ZONE_IN_REGION

Resources = Mapping[str, Mapping[str, Any]]

ZONE = "us-east-1a"
REGIONS = [
    ("us-east-1", "us-east-1a"),
    ("us-gov-west-1", "us-gov-west-1a"),
    ("cn-north-1", "cn-north-1a"),
]


def new_stack(region: str | None = None) -> cdk.Stack:
    env = cdk.Environment(account="111122223333", region=region) if region else None
    synthesizer = cdk.DefaultStackSynthesizer(generate_bootstrap_version_rule=False)
    return cdk.Stack(cdk.App(analytics_reporting=False), "Net", env=env, synthesizer=synthesizer)


def synth(stack: cdk.Stack) -> dict[str, Any]:
    app = stack.node.root
    assert isinstance(app, cdk.App)
    folder = Path(app.synth().directory)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert "missing" not in manifest, "synthesis would look something up in an account"
    template: dict[str, Any] = json.loads((folder / "Net.template.json").read_text())
    return template


def synth_network(region: str | None = None, **options: Any) -> dict[str, Any]:
    stack = new_stack(region)
    ClusterNetwork(stack, "Network", **{"availability_zone": ZONE, **options})
    return synth(stack)


def of_type(template: Mapping[str, Any], resource_type: str) -> Resources:
    return {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == f"AWS::{resource_type}"
    }


def properties(template: Mapping[str, Any], resource_type: str) -> list[Mapping[str, Any]]:
    return [resource["Properties"] for resource in of_type(template, resource_type).values()]


def subnet(template: Mapping[str, Any], name_end: str) -> Mapping[str, Any]:
    (found,) = [
        resource
        for resource in properties(template, "EC2::Subnet")
        if any(tag["Key"] == "Name" and tag["Value"].endswith(name_end) for tag in resource["Tags"])
    ]
    return found


def interface_services(template: Mapping[str, Any]) -> set[str]:
    """Short service names of the interface endpoints, wherever the Region stands in them."""
    found = set()
    for endpoint in properties(template, "EC2::VPCEndpoint"):
        if endpoint["VpcEndpointType"] == "Interface":
            name = endpoint["ServiceName"]
            full = name if isinstance(name, str) else "".join(map(str, name["Fn::Join"][1]))
            found.add(full.split("amazonaws.", 1)[1].split(".", 1)[1])
    return found


def default_routes(template: Mapping[str, Any], through: str) -> list[str]:
    """Logical ids of the route tables with a default route through a gateway of a kind."""
    return [
        route["RouteTableId"]["Ref"]
        for route in properties(template, "EC2::Route")
        if route["DestinationCidrBlock"] == "0.0.0.0/0" and through in route
    ]


@pytest.fixture(scope="module")
def minimal() -> dict[str, Any]:
    return synth_network()


@pytest.fixture(scope="module")
def closed() -> dict[str, Any]:
    return synth_network(
        egress=NetworkEgress.CLOSED,
        features=[NetworkFeature.SESSION_MANAGER, NetworkFeature.CONTAINER_IMAGES],
    )


# --- subnets


def test_no_subnet_gives_public_addresses(minimal: dict[str, Any]) -> None:
    subnets = properties(minimal, "EC2::Subnet")
    assert len(subnets) == 6  # fleet, NAT, two control, two load balancer
    assert all(each["MapPublicIpOnLaunch"] is False for each in subnets)


def test_subnets_do_not_overlap_and_the_fleets_is_the_largest(minimal: dict[str, Any]) -> None:
    networks = {IPv4Network(each["CidrBlock"]) for each in properties(minimal, "EC2::Subnet")}
    assert not any(one.overlaps(other) for one, other in combinations(networks, 2))
    assert max(networks, key=lambda network: network.num_addresses) == IPv4Network("10.0.0.0/18")
    assert subnet(minimal, "/Fleet")["CidrBlock"] == "10.0.0.0/18"


def test_control_and_load_balancer_subnets_stand_in_two_listed_zones(minimal: dict[str, Any]) -> None:
    for role in ("Control", "LoadBalancer"):
        for place in (0, 1):
            zone = subnet(minimal, f"/{role}/Zone{place + 1}")["AvailabilityZone"]
            assert zone == {"Fn::Select": [place, {"Fn::GetAZs": ""}]}


def test_internal_load_balancers_find_their_subnets(minimal: dict[str, Any]) -> None:
    tag = {"Key": "kubernetes.io/role/internal-elb", "Value": "1"}
    tagged = [each for each in properties(minimal, "EC2::Subnet") if tag in each["Tags"]]
    assert [each["Tags"][-1]["Value"] for each in tagged] == [
        "Net/Network/Subnets/LoadBalancer/Zone1",
        "Net/Network/Subnets/LoadBalancer/Zone2",
    ]


def test_every_subnet_has_a_route_table(minimal: dict[str, Any]) -> None:
    associated = {each["SubnetId"]["Ref"] for each in properties(minimal, "EC2::SubnetRouteTableAssociation")}
    assert associated == set(of_type(minimal, "EC2::Subnet"))


def test_adding_a_control_zone_changes_nothing_else() -> None:
    two = synth_network(control_availability_zones=["us-east-1b", "us-east-1c"])["Resources"]
    three = synth_network(control_availability_zones=["us-east-1a", "us-east-1c", "us-east-1b"])["Resources"]
    added = set(three) - set(two)
    assert {logical_id: three[logical_id] for logical_id in two} == two
    assert {three[logical_id]["Type"] for logical_id in added} == {
        "AWS::EC2::Subnet",
        "AWS::EC2::SubnetRouteTableAssociation",
    }


def test_the_ids_of_subnets_are_pinned() -> None:
    template = synth_network(control_availability_zones=["us-east-1a", "us-east-1b"])
    assert list(of_type(template, "EC2::VPC")) == ["Network1C6012B5"]
    assert next(iter(of_type(template, "EC2::Subnet"))) == "NetworkSubnetsFleet503AB9B8"


# --- zones


@pytest.mark.parametrize("zone", ["use1-az4", "use1-dfw2-az1"])
def test_a_zone_id_is_passed_as_an_id(zone: str) -> None:
    fleet = subnet(synth_network("us-east-1", availability_zone=zone), "/Fleet")
    assert fleet["AvailabilityZoneId"] == zone
    assert "AvailabilityZone" not in fleet


def test_a_zone_may_be_a_token() -> None:
    template = synth_network(availability_zone=cdk.Fn.import_value("fleet-zone"))
    zone = {"Fn::ImportValue": "fleet-zone"}
    assert subnet(template, "/Fleet")["AvailabilityZone"] == zone
    assert subnet(template, "/Public")["AvailabilityZone"] == zone


def test_control_zones_may_be_ids_or_tokens() -> None:
    by_id = synth_network(control_availability_zones=["use1-az1", "use1-az2"])
    assert subnet(by_id, "/Control/use1-az2")["AvailabilityZoneId"] == "use1-az2"
    tokens = [cdk.Fn.import_value("one"), cdk.Fn.import_value("two")]
    by_token = synth_network(control_availability_zones=tokens)
    assert subnet(by_token, "/Control/Zone2")["AvailabilityZone"] == {"Fn::ImportValue": "two"}


@pytest.mark.parametrize("region", [None, "us-east-1"])
def test_in_a_local_zone_only_the_fleet_stands_there(region: str | None) -> None:
    template = synth_network(region, availability_zone="us-east-1-dfw-2a")
    in_local_zone = [
        each for each in properties(template, "EC2::Subnet") if each["AvailabilityZone"] == "us-east-1-dfw-2a"
    ]
    assert [each["CidrBlock"] for each in in_local_zone] == ["10.0.0.0/18"]
    assert subnet(template, "/Public")["AvailabilityZone"] == {"Fn::Select": [0, {"Fn::GetAZs": ""}]}


def test_a_local_zone_is_told_to_need_an_opt_in() -> None:
    stack = new_stack("us-east-1")
    ClusterNetwork(stack, "Network", availability_zone="us-east-1-dfw-2a")
    told = Annotations.from_stack(stack)
    told.has_info("/Net/Network", Match.string_like_regexp(f"{LOCAL_ZONE_OPT_IN.id}.*enable the zone group"))


def test_the_nat_gateway_may_stand_elsewhere() -> None:
    template = synth_network(nat_availability_zone="us-east-1c")
    assert subnet(template, "/Public")["AvailabilityZone"] == "us-east-1c"


# --- ways out


def test_private_subnets_reach_the_internet_through_the_nat_gateway_only(minimal: dict[str, Any]) -> None:
    assert subnet(minimal, "/Public")["AvailabilityZone"] == ZONE
    private = {
        table
        for table, resource in of_type(minimal, "EC2::RouteTable").items()
        if "Subnets" in resource["Properties"]["Tags"][0]["Value"]
    }
    public = set(of_type(minimal, "EC2::RouteTable")) - private
    assert set(default_routes(minimal, "NatGatewayId")) == private
    assert set(default_routes(minimal, "GatewayId")) == public
    assert len(private) == 2
    assert len(public) == 1


def test_the_nat_gateway_waits_for_its_route_to_the_internet(minimal: dict[str, Any]) -> None:
    (gateway,) = of_type(minimal, "EC2::NatGateway").values()
    (internet,) = [
        route for route, resource in of_type(minimal, "EC2::Route").items() if "GatewayId" in resource["Properties"]
    ]
    assert internet in gateway["DependsOn"]


def test_s3_goes_through_its_gateway_from_every_private_table(minimal: dict[str, Any]) -> None:
    (endpoint,) = properties(minimal, "EC2::VPCEndpoint")
    tables = [table["Ref"] for table in endpoint["RouteTableIds"]]
    assert sorted(tables) == sorted(default_routes(minimal, "NatGatewayId"))
    assert endpoint["VpcEndpointType"] == "Gateway"


def test_a_closed_network_has_no_way_to_the_internet(closed: dict[str, Any]) -> None:
    for resource_type in ("InternetGateway", "NatGateway", "EIP", "Route"):
        assert not of_type(closed, f"EC2::{resource_type}")
    assert len(properties(closed, "EC2::Subnet")) == 5


@pytest.mark.parametrize(
    "features",
    [
        (),
        (NetworkFeature.LOGS,),
        (NetworkFeature.EKS, NetworkFeature.LOGS, NetworkFeature.FSX),
        tuple(NetworkFeature),
    ],
    ids=["none", "one", "some", "all"],
)
def test_the_endpoints_of_a_closed_network_follow_from_its_features(
    features: tuple[NetworkFeature, ...],
) -> None:
    template = synth_network(egress=NetworkEgress.CLOSED, features=features)
    assert interface_services(template) == set(endpoints_for(features))
    assert len(of_type(template, "EC2::SecurityGroup")) == (1 if features else 0)


def test_interface_endpoints_take_https_from_the_vpc_in_the_control_subnets(closed: dict[str, Any]) -> None:
    (group_id, group), *others = of_type(closed, "EC2::SecurityGroup").items()
    assert not others
    (rule,) = group["Properties"]["SecurityGroupIngress"]
    assert (rule["CidrIp"], rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == (
        "10.0.0.0/16",
        "tcp",
        443,
        443,
    )
    control = [
        logical_id for logical_id in of_type(closed, "EC2::Subnet") if logical_id.startswith("NetworkSubnetsControl")
    ]
    interfaces = [each for each in properties(closed, "EC2::VPCEndpoint") if each["VpcEndpointType"] == "Interface"]
    assert len(interfaces) == 4
    for endpoint in interfaces:
        assert endpoint["PrivateDnsEnabled"] is True
        assert [each["Ref"] for each in endpoint["SubnetIds"]] == control
        assert endpoint["SecurityGroupIds"] == [{"Fn::GetAtt": [group_id, "GroupId"]}]
    (vpc,) = properties(closed, "EC2::VPC")
    assert (vpc["EnableDnsHostnames"], vpc["EnableDnsSupport"]) == (True, True)


def test_a_feature_added_later_changes_no_other_endpoint() -> None:
    def resources(features: Iterable[NetworkFeature], later: Iterable[NetworkFeature]) -> dict[str, Any]:
        stack = new_stack()
        network = ClusterNetwork(
            stack, "Network", availability_zone=ZONE, egress=NetworkEgress.CLOSED, features=features
        )
        for feature in later:
            network.add_feature(feature)
        return dict(synth(stack)["Resources"])

    few = resources([NetworkFeature.LOGS], [])
    more = resources([NetworkFeature.LOGS], [NetworkFeature.STS, NetworkFeature.EKS])
    assert {logical_id: more[logical_id] for logical_id in few} == few
    assert more == resources([NetworkFeature.EKS, NetworkFeature.STS, NetworkFeature.LOGS], [NetworkFeature.LOGS])


@pytest.mark.parametrize("egress", NetworkEgress)
def test_directory_buckets_are_reached_through_a_gateway_in_every_network(egress: NetworkEgress) -> None:
    """Otherwise their data go through the NAT gateway, and a closed network does not reach them."""
    stack = new_stack()
    features = [NetworkFeature.S3_EXPRESS, NetworkFeature.S3_EXPRESS]
    ClusterNetwork(stack, "Network", availability_zone=ZONE, egress=egress, features=features)
    template = synth(stack)
    endpoints = properties(template, "EC2::VPCEndpoint")
    s3, express = sorted(endpoints, key=lambda one: json.dumps(one["ServiceName"]))
    assert json.dumps(express["ServiceName"]).endswith('.s3express"]]}')
    assert express["VpcEndpointType"] == "Gateway"
    assert express["RouteTableIds"] == s3["RouteTableIds"]
    assert len(express["RouteTableIds"]) > 1


def test_with_a_nat_gateway_features_make_no_endpoints_but_one_can_be_added() -> None:
    stack = new_stack()
    network = ClusterNetwork(stack, "Network", availability_zone=ZONE, features=list(NetworkFeature))
    assert not network.interface_endpoints
    network.endpoints.add_interface("ssm")
    assert set(network.interface_endpoints) == {"ssm"}
    assert interface_services(synth(stack)) == {"ssm"}


# --- flow logs


def test_flow_logs_record_all_traffic_under_a_role_for_one_log_group(minimal: dict[str, Any]) -> None:
    (flow_log,) = properties(minimal, "EC2::FlowLog")
    ((group_id, group),) = of_type(minimal, "Logs::LogGroup").items()
    ((role_id, role),) = of_type(minimal, "IAM::Role").items()
    ((policy_id, policy),) = of_type(minimal, "IAM::ManagedPolicy").items()
    assert flow_log["TrafficType"] == "ALL"
    assert flow_log["LogGroupName"] == {"Ref": group_id}
    assert flow_log["DeliverLogsPermissionArn"] == {"Fn::GetAtt": [role_id, "Arn"]}
    assert group["Properties"]["RetentionInDays"] == 30
    assert policy["Properties"]["Roles"] == [{"Ref": role_id}]
    (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Resource"] == {"Fn::GetAtt": [group_id, "Arn"]}
    (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    (resource,) = of_type(minimal, "EC2::FlowLog").values()
    assert policy_id in resource["DependsOn"]


def test_flow_logs_can_be_kept_longer_under_a_key_or_left_out() -> None:
    stack = new_stack()
    key = kms.Key(stack, "Key")
    ClusterNetwork(
        stack,
        "Network",
        availability_zone=ZONE,
        flow_log_retention=logs.RetentionDays.ONE_YEAR,
        flow_log_encryption_key=key,
    )
    (group,) = properties(synth(stack), "Logs::LogGroup")
    assert group["RetentionInDays"] == 365
    assert "KmsKeyId" in group
    without = synth_network(flow_logs=False)
    assert not of_type(without, "EC2::FlowLog")
    assert not of_type(without, "Logs::LogGroup")
    assert not of_type(without, "IAM::Role")


# --- environments


@pytest.mark.parametrize(("region", "zone"), REGIONS)
@pytest.mark.parametrize("egress", list(NetworkEgress))
def test_every_partition_synthesizes_without_credentials(region: str, zone: str, egress: NetworkEgress) -> None:
    named = synth_network(region, availability_zone=zone, egress=egress, features=list(NetworkFeature))
    agnostic = synth_network(availability_zone=zone, egress=egress, features=list(NetworkFeature))
    assert "arn:aws:" not in json.dumps(named)
    assert "arn:aws:" not in json.dumps(agnostic)
    assert list(named["Resources"]) == list(agnostic["Resources"])


def test_in_china_services_keep_their_own_prefix() -> None:
    features = [NetworkFeature.CONTAINER_IMAGES, NetworkFeature.LOGS]
    template = synth_network(
        "cn-north-1", availability_zone="cn-north-1a", egress=NetworkEgress.CLOSED, features=features
    )
    names = [
        endpoint["ServiceName"]
        for endpoint in properties(template, "EC2::VPCEndpoint")
        if endpoint["VpcEndpointType"] == "Interface"
    ]
    assert sorted(names) == [
        "cn.com.amazonaws.cn-north-1.ecr.api",
        "cn.com.amazonaws.cn-north-1.ecr.dkr",
        "com.amazonaws.cn-north-1.logs",
    ]


def test_a_block_known_at_deploy_time_is_divided_by_cloudformation() -> None:
    stack = new_stack()
    block = cdk.CfnParameter(stack, "Block").value_as_string
    network = ClusterNetwork(stack, "Network", availability_zone=ZONE, cidr=block, egress=NetworkEgress.CLOSED)
    network.add_feature(NetworkFeature.LOGS)
    assert network.free_fleet_addresses is None
    assert network.check_nodes(1_000_000) == []
    template = synth(stack)
    fleet = subnet(template, "/Fleet")["CidrBlock"]
    assert fleet == {"Fn::Select": [0, {"Fn::Cidr": [{"Ref": "Block"}, 1, "14"]}]}
    control = subnet(template, "/Control/Zone2")["CidrBlock"]
    assert control == {"Fn::Select": [50, {"Fn::Cidr": [{"Ref": "Block"}, 51, "10"]}]}
    (group,) = properties(template, "EC2::SecurityGroup")
    assert group["SecurityGroupIngress"][0]["CidrIp"] == {"Ref": "Block"}


# --- use by other constructs


def test_other_constructs_take_the_vpc_and_the_fleet_subnet() -> None:
    stack = new_stack()
    network = ClusterNetwork(stack, "Network", availability_zone=ZONE)
    ec2.Instance(
        stack,
        "Node",
        vpc=network.vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
        instance_type=ec2.InstanceType("g6.xlarge"),
        machine_image=ec2.MachineImage.latest_amazon_linux2023(),
    ).node.add_dependency(network.egress_ready)
    assert [each.availability_zone for each in network.control_subnets] == list(network.vpc.availability_zones)
    assert network.fleet_subnet.availability_zone == ZONE
    Annotations.from_stack(stack).has_no_warning("*", Match.any_value())
    template = synth(stack)
    (node,) = of_type(template, "EC2::Instance").values()
    assert node["Properties"]["SubnetId"] == {"Ref": "NetworkSubnetsFleet503AB9B8"}
    assert node["Properties"]["AvailabilityZone"] == ZONE
    nat_routes = {
        route for route, resource in of_type(template, "EC2::Route").items() if "NatGatewayId" in resource["Properties"]
    }
    assert nat_routes | set(of_type(template, "EC2::VPCEndpoint")) <= set(node["DependsOn"])


@pytest.mark.parametrize(("egress", "isolated"), [(NetworkEgress.NAT, 0), (NetworkEgress.CLOSED, 4)])
def test_the_vpcs_subnets_are_of_the_right_kind(egress: NetworkEgress, isolated: int) -> None:
    network = ClusterNetwork(new_stack(), "Network", availability_zone=ZONE, egress=egress)
    assert len(network.vpc.isolated_subnets) == isolated
    assert len(network.vpc.private_subnets) == 4 - isolated
    assert network.vpc.public_subnets == []
    assert (network.public_subnet is None) == (egress is NetworkEgress.CLOSED)


def test_node_counts_are_held_against_the_fleet_subnet() -> None:
    network = ClusterNetwork(new_stack(), "Network", availability_zone=ZONE, fleet_subnet_prefix=26)
    assert network.free_fleet_addresses == 59
    assert network.check_nodes(59) == []
    (finding,) = network.check_nodes(4, addresses_per_node=16)
    assert finding.id == "GPU-IP-003"
    assert finding.path == "Net/Network"


# --- refusals


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"availability_zone": "us-west-2a"}, {(ZONE_IN_REGION.id, "availability_zone")}),
        ({"availability_zone": "us-west-2-lax-1a"}, {(ZONE_IN_REGION.id, "availability_zone")}),
        ({"availability_zone": "usw2-az1"}, {(ZONE_IN_REGION.id, "availability_zone")}),
        ({"availability_zone": "us-east-1"}, {(ZONE_FORM.id, "availability_zone")}),
        (
            {"control_availability_zones": ["us-east-1a", "us-west-2b"]},
            {(ZONE_IN_REGION.id, "control_availability_zones")},
        ),
        (
            {"control_availability_zones": ["us-east-1a", "us-east-1-dfw-2a"]},
            {("GPU-NET-143", "control_availability_zones")},
        ),
        ({"nat_availability_zone": "us-east-1-dfw-2a"}, {("GPU-NET-145", "nat_availability_zone")}),
        (
            {"nat_availability_zone": "us-east-1b", "egress": NetworkEgress.CLOSED},
            {("GPU-NET-145", "nat_availability_zone")},
        ),
        ({"cidr": "10.0.0.0/29"}, {("GPU-NET-141", "cidr")}),
        ({"cidr": "8.8.0.0/16"}, {("GPU-NET-141", "cidr")}),
        ({"fleet_subnet_prefix": 16}, {("GPU-NET-142", "fleet_subnet_prefix")}),
        (
            {"availability_zone": "eu-west-1a", "cidr": "10.0.0.0/24", "control_availability_zones": []},
            {
                (ZONE_IN_REGION.id, "availability_zone"),
                ("GPU-NET-141", "cidr"),
                ("GPU-NET-143", "control_availability_zones"),
            },
        ),
    ],
)
def test_what_cannot_work_is_refused_all_at_once(options: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    with pytest.raises(ConfigError) as caught:
        ClusterNetwork(new_stack("us-east-1"), "Network", **{"availability_zone": ZONE, **options})
    assert {(finding.id, finding.path.removeprefix("Net/Network.")) for finding in caught.value.findings} == expected


def test_without_a_region_the_zones_must_agree() -> None:
    with pytest.raises(ConfigError, match=ZONE_IN_REGION.id):
        synth_network(control_availability_zones=["eu-west-1a", "eu-west-1b"])


# --- whole templates


def test_minimal_template(minimal: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    assert minimal == snapshot(extension_class=JSONSnapshotExtension)


def test_everything_on_template(snapshot: SnapshotAssertion) -> None:
    stack = new_stack("us-east-1")
    ClusterNetwork(
        stack,
        "Network",
        availability_zone="use1-az4",
        cidr="10.64.0.0/16",
        fleet_subnet_prefix=17,
        control_availability_zones=["use1-az1", "use1-az2", "use1-az4"],
        egress=NetworkEgress.CLOSED,
        features=list(NetworkFeature),
        flow_log_retention=logs.RetentionDays.ONE_YEAR,
        flow_log_encryption_key=kms.Key(stack, "Key", enable_key_rotation=True),
    )
    assert synth(stack) == snapshot(extension_class=JSONSnapshotExtension)
