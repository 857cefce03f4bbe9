"""For every check of preflight, accounts in which it does not pass: what differs, and what it says then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from cdk_gpu_clusters.rules.fabric import EFA_IN, EFA_OUT
from fake_aws import Refusal
from preflight_account import (
    ACCOUNT,
    ADD_ONS,
    BLOCK,
    BLOCKS,
    CLIENTS_GROUP,
    CLOSED,
    DEFAULT_GROUP,
    EXISTING,
    FLEET_SUBNET,
    GROUP,
    IMAGE,
    KEY,
    LATER_BLOCK,
    NEW,
    NOW,
    ON_BATCH,
    ON_EKS,
    ON_EXISTING_EKS,
    ON_EXISTING_PCS,
    ON_HYPERPOD,
    ON_HYPERPOD_EKS,
    ON_KARPENTER,
    ON_PARALLELCLUSTER,
    ON_PCS,
    OTHER_CLUSTER,
    OVER_BLOCK,
    OWN_CLUSTER,
    OWN_TAGS,
    PLAN,
    RESERVATION,
    SERVERS_GROUP,
    VPC,
    add_ons,
    block,
    eks_cluster,
    eks_versions,
    endpoint_services,
    file_system,
    homes,
    hyperpod_cluster,
    hyperpod_clusters,
    images,
    later_block,
    limit,
    pcs_cluster,
    pcs_clusters,
    quotas_by_name,
    reservations,
    reserved_capacity,
    route_tables,
    self_rules,
    status_checks,
    subnets,
    training_plan,
    types,
    watched_tag,
    zones,
)


class Case(NamedTuple):
    """One account.

    Attributes:
        id: The check.
        spec: The cluster file.
        answers: What AWS answers otherwise than in a healthy account.
        outcome: What the check says: `fail`, `warn`, `cannot tell` or `pass`.
        says: A part of the cause.
        fix: A part of the fix.
    """

    id: str
    spec: str
    answers: dict[str, Any]
    outcome: str
    says: str
    fix: str = ""


_MISSING = Refusal("ResourceNotFoundException", "nothing of that name")
_CALLER = "sts__get_caller_identity"
_RESERVATIONS = "ec2__describe_capacity_reservations"
_QUOTA = "service_quotas__get_service_quota"


def _caller(account: str = ACCOUNT, arn: str = "arn:aws:iam::111122223333:user/me") -> dict[str, Any]:
    return {_CALLER: {"Account": account, "Arn": arn, "UserId": "AIDA"}}


def _reserved(**changes: Any) -> dict[str, Any]:
    return {_RESERVATIONS: reservations(**changes)}


def _stack(status: str) -> dict[str, Any]:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    stack = {"StackName": "llama-network", "CreationTime": now, "StackStatus": status}
    return {"cloudformation__describe_stacks": {"Stacks": [stack]}}


def _running(name: str, number: int, **more: Any) -> dict[str, Any]:
    instances = [{"InstanceType": name, **more} for _ in range(number)]
    return {"ec2__describe_instances": {"Reservations": [{"Instances": instances}]}}


def _quota(value: float, **answers: Any) -> dict[str, Any]:
    return {_QUOTA: limit(value), **answers}


def _key(**changes: Any) -> dict[str, Any]:
    return {"kms__describe_key": {"KeyMetadata": {"KeyId": "01234567", "KeyState": "Enabled", **changes}}}


def _certificate(**changes: Any) -> dict[str, Any]:
    return {"acm__describe_certificate": {"Certificate": {"DomainName": "chat.example.com", **changes}}}


def _versions(**status: str) -> dict[str, Any]:
    return {"eks__describe_cluster_versions": eks_versions(**status)}


def _eks(**changes: Any) -> dict[str, Any]:
    return {"eks__describe_cluster": eks_cluster(**changes)}


def _pcs(**changes: Any) -> dict[str, Any]:
    return {"pcs__get_cluster": pcs_cluster(**changes)}


def _ebs_key(policy: str) -> dict[str, Any]:
    return {"ec2__get_ebs_default_kms_key_id": {"KmsKeyId": KEY}, "kms__get_key_policy": {"Policy": policy}}


_PER_TYPE, _PER_SPOT_TYPE = "ml_p5_48xlarge_for_cluster_usage", "ml_p5_48xlarge_for_cluster_spot_instance_usage"
_PER_CLUSTER = "Maximum_number_instances_allowed_per_SageMaker_HyperPod_cluster"
_ALL_NODES = "Total_number_of_instances_allowed_across_SageMaker_HyperPod_clusters"
_ALL_SPOT_NODES = "Total_number_of_Spot_instances_allowed_across_SageMaker_HyperPod_clusters"
_VOLUME = "Maximum_size_of_EBS_volume_in_GB_for_a_SageMaker_HyperPod_cluster_instance"


def _named(quota: str, value: float | None, **answers: Any) -> dict[str, Any]:
    """One quota of SageMaker has another value, or is listed by its default only."""
    return {"service_quotas__list_service_quotas": quotas_by_name(**{quota: value}), **answers}


def _hyperpod(*groups: dict[str, Any], own: bool = False) -> dict[str, Any]:
    """A cluster of HyperPod that is there already."""
    return {
        "sagemaker__list_clusters": hyperpod_clusters(OWN_CLUSTER if own else OTHER_CLUSTER),
        "sagemaker__describe_cluster": hyperpod_cluster(*groups),
    }


def _training_plan(*capacities: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"sagemaker__describe_training_plan": training_plan(*capacities, **changes)}


_IN_A_DAY = datetime(2026, 12, 3, 11, 30, tzinfo=UTC)


def _later(**changes: Any) -> dict[str, Any]:
    """Capacity of a training plan that follows the other one."""
    times = {
        "StartTime": datetime(2026, 12, 15, 11, 30, tzinfo=UTC),
        "EndTime": datetime(2026, 12, 29, 11, 30, tzinfo=UTC),
    }
    return reserved_capacity(Status="Scheduled", **times, **changes)


#: A cluster whose present nodes are in a group of their own.
_WITH_GROUP = ON_HYPERPOD_EKS.replace('"1.34" }', f'"1.34", node_security_group_ids: [{SERVERS_GROUP}] }}')


def _own_rules(asked: Any) -> Any:
    """Rules of security groups, those of the deployment among them."""
    rules = self_rules(group=asked["Filters"][0]["Values"][0])["SecurityGroupRules"]
    return {"SecurityGroupRules": [{**one, "Description": EFA_OUT if one["IsEgress"] else EFA_IN} for one in rules]}


_NO_ASSOCIATION: dict[str, Any] = {"eks__list_pod_identity_associations": {"associations": []}}


def _nodes_in(*groups: str) -> dict[str, Any]:
    node = {"SecurityGroups": [{"GroupId": one} for one in groups]}
    return {"ec2__describe_instances": {"Reservations": [{"Instances": [node]}]}}


def _status_check(key: str, value: str, **changes: Any) -> dict[str, Any]:
    return {
        "ec2__describe_application_status_checks": status_checks(**changes),
        "ec2__describe_application_status_check_associations": watched_tag(key, value),
    }


_NO_ROLE = {"iam__get_role": Refusal("NoSuchEntity", "no role")}
_NO_IMAGES = {"ec2__describe_images": Refusal("InvalidAMIID.NotFound", "no image")}


def _homes(**changes: Any) -> dict[str, Any]:
    return {"fsx__describe_file_systems": homes(**changes)}


def _in_two_zones(preferred: str) -> dict[str, Any]:
    """Homes with a server in each of two zones."""
    servers = {"DeploymentType": "MULTI_AZ_1", "ThroughputCapacity": 640, "PreferredSubnetId": preferred}
    return _homes(SubnetIds=[FLEET_SUBNET, "subnet-0123456789abcdef2"], OpenZFSConfiguration=servers)


_NO_FILE_SYSTEM: dict[str, Any] = {"fsx__describe_file_systems": {"FileSystems": []}}
_NO_SUBNET: dict[str, Any] = {"ec2__describe_subnets": {"Subnets": []}}
_NO_BUCKET = {"s3__head_bucket": Refusal("404", "Not Found")}
_NO_RESERVATION: dict[str, Any] = {_RESERVATIONS: {"CapacityReservations": []}}
_SOON = datetime(2026, 12, 3, 0, 0, tzinfo=UTC)
_PAST = datetime(2026, 12, 1, 0, 0, tzinfo=UTC)
_FIRST, _LATER = datetime(2026, 12, 1, 11, 30, tzinfo=UTC), datetime(2026, 12, 14, 11, 30, tzinfo=UTC)
_NO_WAY_OUT = {
    "ec2__describe_route_tables": route_tables({"NatGatewayId": "nat-0123456789abcdef0", "State": "blackhole"})
}

CASES = (
    Case("GPU-PRE-001", EXISTING, _caller("999999999999"), "fail", "999999999999", "--profile"),
    Case("GPU-PRE-002", EXISTING, _caller(arn=f"arn:aws:iam::{ACCOUNT}:root"), "warn", ":root", "role"),
    Case(
        "GPU-PRE-003",
        EXISTING,
        {"ec2__describe_regions": {"Regions": [{"RegionName": "us-east-1", "OptInStatus": "not-opted-in"}]}},
        "fail",
        "not-opted-in",
        "enable-region",
    ),
    Case(
        "GPU-PRE-003",
        EXISTING,
        {"ec2__describe_regions": Refusal("AuthFailure")},
        "fail",
        "AuthFailure",
        "enable",
    ),
    Case(
        "GPU-PRE-004",
        CLOSED,
        {"ec2__describe_availability_zones": {"AvailabilityZones": []}},
        "fail",
        "no zone use1-az4",
    ),
    Case(
        "GPU-PRE-004",
        EXISTING,
        {"ec2__describe_availability_zones": zones(OptInStatus="not-opted-in")},
        "fail",
        "not opted in",
        "modify-availability-zone-group",
    ),
    Case(
        "GPU-PRE-004",
        EXISTING,
        {"ec2__describe_availability_zones": zones(State="impaired", Messages=[{"Message": "power"}])},
        "fail",
        "impaired: power",
    ),
    Case(
        "GPU-PRE-005",
        NEW,
        {"ec2__describe_availability_zones": zones(State="unavailable")},
        "fail",
        "1 available zones",
    ),
    Case(
        "GPU-PRE-011",
        EXISTING,
        {"ssm__get_parameter": Refusal("ParameterNotFound")},
        "fail",
        "not bootstrapped",
        f"cdk bootstrap aws://{ACCOUNT}/us-east-1",
    ),
    Case(
        "GPU-PRE-011",
        EXISTING,
        {"ssm__get_parameter": {"Parameter": {"Value": "5"}}},
        "fail",
        "version 5, and 6",
        "cdk bootstrap",
    ),
    Case("GPU-PRE-012", EXISTING, _NO_BUCKET, "fail", f"cdk-hnb659fds-assets-{ACCOUNT}-us-east-1", "CDKToolkit"),
    Case("GPU-PRE-013", NEW, _stack("ROLLBACK_COMPLETE"), "fail", "ROLLBACK_COMPLETE", "delete-stack"),
    Case("GPU-PRE-013", NEW, _stack("UPDATE_ROLLBACK_FAILED"), "fail", "no update", "continue-update-rollback"),
    Case("GPU-PRE-013", NEW, _stack("UPDATE_IN_PROGRESS"), "warn", "deploying", "wait"),
    Case("GPU-PRE-013", NEW, _stack("UPDATE_COMPLETE"), "pass", "UPDATE_COMPLETE"),
    Case(
        "GPU-PRE-021",
        NEW,
        {"ec2__describe_instance_type_offerings": {"InstanceTypeOfferings": []}},
        "fail",
        "nowhere in us-east-1",
    ),
    Case(
        "GPU-PRE-021",
        NEW,
        {
            "ec2__describe_instance_type_offerings": {
                "InstanceTypeOfferings": [
                    {"InstanceType": name, "Location": "us-east-1b"} for name in ("p5.48xlarge", "m7i.4xlarge")
                ]
            }
        },
        "fail",
        "not offered in us-east-1a",
        "us-east-1b",
    ),
    Case(
        "GPU-PRE-022",
        EXISTING,
        {"ec2__describe_instance_types": types(VCpuInfo={"DefaultVCpus": 7})},
        "warn",
        "7 in EC2",
        "update the library",
    ),
    Case(
        "GPU-PRE-022",
        EXISTING,
        {"ec2__describe_instance_types": types(NetworkInfo={"EfaInfo": {"MaximumEfaInterfaces": 3}})},
        "warn",
        "EFA interfaces: 32 in the catalogue, 3 in EC2",
    ),
    Case(
        "GPU-PRE-022",
        EXISTING,
        {"ec2__describe_instance_types": {"InstanceTypes": []}},
        "cannot tell",
        "does not describe",
    ),
    Case(
        "GPU-PRE-023",
        EXISTING,
        {"ec2__describe_instance_types": types(SupportedUsageClasses=["on-demand"])},
        "fail",
        "not sold as capacity-block",
    ),
    # 2 x 192 for the reservation, and 16 to 64 for the fleet beside it, which has a quota of its own.
    Case("GPU-PRE-031", NEW, _quota(100), "fail", "100 vCPU, 384 needed", "L-417A185B"),
    Case(
        "GPU-PRE-031",
        NEW,
        _quota(400, **_running("p4d.24xlarge", 1), **_NO_RESERVATION),
        "fail",
        "384 needed, 96 used by others",
    ),
    Case(
        "GPU-PRE-031",
        NEW,
        _quota(400, **_running("p5.48xlarge", 2, Tags=OWN_TAGS), **_NO_RESERVATION),
        "pass",
        "384 needed, 0 used by others",
    ),
    Case(
        "GPU-PRE-031",
        NEW,
        _quota(400, **_running("p5.48xlarge", 2, InstanceLifecycle="capacity-block"), **_NO_RESERVATION),
        "pass",
        "384 needed, 0 used by others",
    ),
    Case("GPU-PRE-031", NEW, _quota(400, **_reserved()), "fail", "1,536 used by others"),
    Case(
        "GPU-PRE-031",
        NEW,
        {
            "ec2__describe_instances": Refusal("UnauthorizedOperation", "not allowed"),
        },
        "cannot tell",
        "what is used is not known: ec2:DescribeInstances is not allowed",
    ),
    Case(
        "GPU-PRE-032",
        EXISTING,
        _quota(10),
        "fail",
        "All G and VT Spot Instance Requests: 10 vCPU",
        "L-3819A6DF",
    ),
    Case("GPU-PRE-032", EXISTING, _quota(400), "warn", "enough for the start"),
    Case("GPU-PRE-032", CLOSED, {}, "cannot tell", "it is unknown which spot quota counts p6-b200"),
    Case("GPU-PRE-033", NEW, _quota(0.1), "fail", "TiB", "L-7A658B76"),
    Case(
        "GPU-PRE-033",
        NEW,
        _quota(50, ec2__describe_volumes={"Volumes": [{"Size": 51_200}]}),
        "fail",
        "50 used by others",
    ),
    Case("GPU-PRE-034", NEW, _quota(60), "fail", "60 interface, 67 to 70 needed", "L-DF5E4CA3"),
    Case(
        "GPU-PRE-034",
        NEW,
        _quota(70, ec2__describe_network_interfaces={"NetworkInterfaces": [{}, {"TagSet": OWN_TAGS}]}),
        "warn",
        "1 used by others: enough for the start",
    ),
    # A container of AWS Batch has an interface of its own.
    Case("GPU-PRE-034", ON_BATCH, _quota(65), "fail", "65 interface, 66 needed"),
    Case("GPU-PRE-031", ON_PARALLELCLUSTER, _quota(3), "fail", "3 vCPU, 4 needed", "L-1216C47A"),
    Case("GPU-PRE-031", ON_BATCH, _quota(383), "fail", "Running On-Demand P instances: 383 vCPU, 384 needed"),
    Case("GPU-PRE-041", NEW, _quota(1), "fail", "VPCs per Region: 1 VPC", "L-F678F1CE"),
    Case(
        "GPU-PRE-041",
        NEW,
        _quota(1, ec2__describe_vpcs={"Vpcs": [{"VpcId": VPC, "Tags": OWN_TAGS}]}),
        "pass",
        "has it already",
    ),
    Case(
        "GPU-PRE-042",
        NEW,
        _quota(5, ec2__describe_addresses={"Addresses": [{"PublicIp": f"192.0.2.{n}"} for n in range(5)]}),
        "fail",
        "EC2-VPC Elastic IPs: 5 address, 1 needed, 5 used",
        "L-0263D0A3",
    ),
    Case(
        "GPU-PRE-043",
        NEW,
        _quota(1, ec2__describe_internet_gateways={"InternetGateways": [{}]}),
        "fail",
        "Internet gateways per Region",
        "L-A4707A72",
    ),
    Case(
        "GPU-PRE-044",
        NEW,
        _quota(1, ec2__describe_nat_gateways={"NatGateways": [{"SubnetId": FLEET_SUBNET}]}),
        "fail",
        "NAT gateways per Availability Zone",
        "L-FE5A380F",
    ),
    Case(
        "GPU-PRE-044",
        NEW,
        _quota(1, ec2__describe_nat_gateways={"NatGateways": [{"SubnetId": "subnet-0123456789abcdef9"}]}),
        "pass",
        "0 used by others",
    ),
    Case(
        "GPU-PRE-045",
        EXISTING,
        _quota(50, elbv2__describe_load_balancers={"LoadBalancers": [{"Type": "application"}] * 50}),
        "fail",
        "Application Load Balancers per Region",
        "L-53DA6B97",
    ),
    Case("GPU-PRE-051", EXISTING, _NO_RESERVATION, "fail", f"no {RESERVATION}", "shared"),
    Case(
        "GPU-PRE-051",
        EXISTING,
        {"resource_groups__list_group_resources": Refusal("NotFoundException", "no group")},
        "fail",
        GROUP,
    ),
    Case(
        "GPU-PRE-051",
        EXISTING,
        {"resource_groups__list_group_resources": {"Resources": []}},
        "fail",
        "no reservation in it",
    ),
    Case("GPU-PRE-052", EXISTING, _reserved(ReservationType="capacity-block"), "fail", "is a Capacity Block"),
    Case(
        "GPU-PRE-052",
        EXISTING,
        {_RESERVATIONS: block(ReservationType="default")},
        "fail",
        f"{BLOCK} is an On-",
    ),
    Case("GPU-PRE-052", EXISTING, _NO_RESERVATION, "cannot tell", "sees no reservation", "GPU-PRE-051"),
    Case("GPU-PRE-053", EXISTING, _reserved(State="expired"), "fail", "is expired"),
    Case("GPU-PRE-053", EXISTING, _reserved(State="pending"), "warn", "is pending", "wait"),
    Case("GPU-PRE-053", EXISTING, {_RESERVATIONS: block(State="scheduled")}, "pass", "grows when"),
    Case("GPU-PRE-054", EXISTING, _reserved(InstanceType="p5en.48xlarge"), "fail", "holds p5en.48xlarge"),
    Case(
        "GPU-PRE-055",
        EXISTING,
        _reserved(AvailabilityZone="us-east-1b", AvailabilityZoneId="use1-az6"),
        "fail",
        "lies in us-east-1b",
    ),
    Case("GPU-PRE-056", EXISTING, _reserved(InstancePlatform="Windows"), "fail", "for Windows"),
    Case("GPU-PRE-056", EXISTING, _reserved(Tenancy="dedicated"), "fail", "tenancy dedicated"),
    Case("GPU-PRE-057", EXISTING, _reserved(AvailableInstanceCount=3), "fail", "3 of 4 for 4 nodes"),
    Case(
        "GPU-PRE-057",
        EXISTING,
        {
            **_reserved(AvailableInstanceCount=3),
            **_running("p5.48xlarge", 1, Tags=OWN_TAGS, CapacityReservationId=RESERVATION),
        },
        "pass",
        "4 of 4 for 4 nodes",
    ),
    Case(
        "GPU-PRE-057",
        EXISTING,
        {_RESERVATIONS: block(State="scheduled", AvailableInstanceCount=0)},
        "pass",
        "4 of 4 for 2 nodes",
    ),
    Case(
        "GPU-PRE-058",
        EXISTING,
        _reserved(PlacementGroupArn=f"arn:aws:ec2:us-east-1:{ACCOUNT}:placement-group/other"),
        "fail",
        "made in other",
        "placement_group: other",
    ),
    Case("GPU-PRE-058", EXISTING, _reserved(PlacementGroupArn=""), "fail", "no placement group", "none"),
    Case(
        "GPU-PRE-059",
        EXISTING,
        {"ec2__describe_placement_groups": {"PlacementGroups": []}},
        "fail",
        "llama-group",
    ),
    Case(
        "GPU-PRE-059",
        EXISTING,
        {"ec2__describe_placement_groups": {"PlacementGroups": [{"State": "available", "Strategy": "spread"}]}},
        "fail",
        "strategy spread",
    ),
    Case("GPU-PRE-051", BLOCKS, {_RESERVATIONS: later_block()}, "pass", LATER_BLOCK),
    Case("GPU-PRE-051", BLOCKS, {}, "fail", f"no {LATER_BLOCK}"),
    Case("GPU-PRE-051", BLOCKS.replace("2027-01", "2026-11"), {}, "fail", "are over", "GPU-PRE-060"),
    Case("GPU-PRE-054", BLOCKS, {_RESERVATIONS: later_block(InstanceType="p5e.48xlarge")}, "fail", LATER_BLOCK),
    Case(
        "GPU-PRE-055",
        BLOCKS,
        {_RESERVATIONS: later_block(AvailabilityZone="us-east-1b", AvailabilityZoneId="use1-az6")},
        "fail",
        LATER_BLOCK,
    ),
    Case("GPU-PRE-057", BLOCKS, {_RESERVATIONS: later_block(TotalInstanceCount=2)}, "fail", "2 of 2 for 4 nodes"),
    Case("GPU-PRE-057", BLOCKS, {_RESERVATIONS: later_block()}, "pass", "4 of 4 for 4 nodes"),
    Case("GPU-PRE-060", BLOCKS, {}, "pass", f"{OVER_BLOCK} is over"),
    Case("GPU-PRE-060", BLOCKS.replace("2027-01", "2026-11"), {}, "fail", "2026-11-15T11:30Z", "ends later"),
    Case("GPU-PRE-060", EXISTING.replace("2026-12-15", "2026-12-02"), {}, "fail", "no node would be launched"),
    Case(
        "GPU-PRE-062", BLOCKS, {_RESERVATIONS: later_block(StartDate=_LATER)}, "warn", "the file has 2027-01-01T11:30Z"
    ),
    Case("GPU-PRE-063", BLOCKS, {_RESERVATIONS: later_block(EndDate=_LATER)}, "fail", "the file has 2027-01-15T11:30Z"),
    Case("GPU-PRE-061", EXISTING, _reserved(EndDate=_SOON), "warn", "within a day"),
    Case("GPU-PRE-061", EXISTING, _reserved(EndDate=_PAST), "fail", "ended at 2026-12-01T00:00Z"),
    Case(
        "GPU-PRE-062",
        EXISTING,
        {_RESERVATIONS: block(StartDate=_LATER)},
        "warn",
        "starts at 2026-12-14T11:30Z, the file has 2026-12-01T11:30Z",
        "starts_at: 2026-12-14T11:30Z",
    ),
    Case(
        "GPU-PRE-062",
        EXISTING.replace("        starts_at: 2026-12-01T11:30Z\n", ""),
        {_RESERVATIONS: block(StartDate=_LATER)},
        "fail",
        "in the file it has started already",
    ),
    Case(
        "GPU-PRE-062",
        EXISTING.replace("        starts_at: 2026-12-01T11:30Z\n", ""),
        {_RESERVATIONS: block(StartDate=_FIRST)},
        "pass",
        "runs since",
    ),
    Case(
        "GPU-PRE-063",
        EXISTING,
        {_RESERVATIONS: block(EndDate=_LATER)},
        "fail",
        "before they are drained",
        "ends_at: 2026-12-14T11:30Z",
    ),
    Case(
        "GPU-PRE-063",
        EXISTING,
        {_RESERVATIONS: block(EndDate=datetime(2026, 12, 16, 11, 30, tzinfo=UTC))},
        "warn",
        "unused",
    ),
    Case("GPU-PRE-064", EXISTING, {_RESERVATIONS: block(LaunchStatus="launchable")}, "pass", "is launchable"),
    Case("GPU-PRE-064", EXISTING, {_RESERVATIONS: block(LaunchStatus="unlaunchable")}, "fail", "unlaunchable", "wait"),
    Case(
        "GPU-PRE-064",
        EXISTING,
        {_RESERVATIONS: block(LaunchStatus="unlaunchable", State="scheduled")},
        "pass",
        "not launchable yet",
    ),
    Case("GPU-PRE-071", EXISTING, {"ec2__describe_vpcs": {"Vpcs": []}}, "fail", f"no {VPC}"),
    Case(
        "GPU-PRE-071",
        EXISTING,
        {"ec2__describe_vpcs": {"Vpcs": [{"VpcId": VPC, "State": "pending"}]}},
        "fail",
        "is pending",
    ),
    Case(
        "GPU-PRE-072",
        EXISTING,
        {
            "ec2__describe_vpc_attribute": {
                "EnableDnsSupport": {"Value": True},
                "EnableDnsHostnames": {"Value": False},
            }
        },
        "fail",
        "enableDnsHostnames",
        "--enable-dns-hostnames",
    ),
    Case("GPU-PRE-073", EXISTING, _NO_SUBNET, "fail", f"no {FLEET_SUBNET}"),
    Case(
        "GPU-PRE-073",
        EXISTING,
        {"ec2__describe_subnets": subnets(VpcId="vpc-0123456789abcdef9")},
        "fail",
        "not in",
    ),
    Case("GPU-PRE-073", EXISTING, {"ec2__describe_subnets": subnets(State="pending")}, "fail", "is pending"),
    Case(
        "GPU-PRE-074",
        EXISTING,
        {"ec2__describe_subnets": subnets(AvailabilityZone="us-east-1b", AvailabilityZoneId="use1-az6")},
        "fail",
        "lies in us-east-1b (use1-az6), not in us-east-1a",
    ),
    Case("GPU-PRE-074", EXISTING, _NO_SUBNET, "cannot tell", "not there", "GPU-PRE-073"),
    Case(
        "GPU-PRE-075",
        EXISTING,
        {"ec2__describe_subnets": subnets(CidrBlock="10.1.0.0/20")},
        "fail",
        "has 10.1.0.0/20",
        "cidr: 10.1.0.0/20",
    ),
    # 8 training nodes with one address each; the nodes of `chat` stand in the service subnets.
    Case(
        "GPU-PRE-076",
        EXISTING,
        {"ec2__describe_subnets": subnets(AvailableIpAddressCount=7)},
        "fail",
        "8 needed",
    ),
    Case(
        "GPU-PRE-076",
        EXISTING,
        {
            "ec2__describe_subnets": subnets(AvailableIpAddressCount=7),
            "ec2__describe_network_interfaces": {
                "NetworkInterfaces": [
                    {"SubnetId": FLEET_SUBNET, "TagSet": OWN_TAGS, "PrivateIpAddresses": [{"Primary": True}]}
                ]
            },
        },
        "pass",
        "8 free addresses",
    ),
    Case(
        "GPU-PRE-077",
        EXISTING,
        {"ec2__describe_subnets": {"Subnets": [{**one, "AvailableIpAddressCount": 9} for one in subnets()["Subnets"]]}},
        "warn",
        "9 free addresses, 10 needed at most",
    ),
    Case(
        "GPU-PRE-077",
        EXISTING,
        {"ec2__describe_subnets": {"Subnets": [{**one, "AvailableIpAddressCount": 8} for one in subnets()["Subnets"]]}},
        "fail",
        "8 free addresses",
    ),
    Case(
        "GPU-PRE-081",
        EXISTING,
        _NO_WAY_OUT,
        "fail",
        "endpoints are missing",
        "add the interface endpoint ssm",
    ),
    Case(
        "GPU-PRE-081",
        EXISTING,
        {
            **_NO_WAY_OUT,
            "ec2__describe_vpc_endpoints": {
                "VpcEndpoints": [
                    {
                        "VpcEndpointType": "Gateway" if service.startswith("s3") else "Interface",
                        "ServiceName": f"com.amazonaws.us-east-1.{service}",
                        "State": "available",
                        "PrivateDnsEnabled": True,
                        "RouteTableIds": ["rtb-0123456789abcdef0"],
                    }
                    for service in (
                        *("s3", "s3express", "ssm", "ssmmessages", "logs", "monitoring", "autoscaling", "ec2"),
                        *("ecr.api", "ecr.dkr", "secretsmanager"),
                    )
                ]
            },
        },
        "pass",
        "through endpoints",
    ),
    Case(
        "GPU-PRE-082",
        EXISTING,
        {"ec2__describe_route_tables": route_tables({"GatewayId": "igw-0123456789abcdef0"})},
        "fail",
        "no public address",
    ),
    Case(
        "GPU-PRE-082",
        EXISTING,
        {"ec2__describe_route_tables": route_tables(public={"NatGatewayId": "nat-0123456789abcdef0"})},
        "fail",
        "named as public",
    ),
    Case(
        "GPU-PRE-083",
        EXISTING,
        {"ec2__describe_vpc_endpoints": {"VpcEndpoints": []}},
        "warn",
        "at a price",
        "s3 and s3express to route table rtb-0123456789abcdef0",
    ),
    Case(
        "GPU-PRE-084",
        CLOSED,
        {"ec2__describe_vpc_endpoint_services": endpoint_services("us-east-1a")},
        "fail",
        "not in us-east-1b",
    ),
    Case(
        "GPU-PRE-084",
        CLOSED,
        {"ec2__describe_vpc_endpoint_services": {"ServiceDetails": []}},
        "cannot tell",
        "usual name",
    ),
    Case(
        "GPU-PRE-084",
        CLOSED,
        {"ec2__describe_vpc_endpoint_services": {"ServiceDetails": [{"ServiceName": "com.amazonaws.us-east-1.ssm"}]}},
        "fail",
        "no endpoint service com.amazonaws.us-east-1.autoscaling",
    ),
    Case(
        "GPU-PRE-091",
        EXISTING,
        {"ec2__describe_security_groups": {"SecurityGroups": []}},
        "fail",
        CLIENTS_GROUP,
    ),
    Case(
        "GPU-PRE-091",
        EXISTING,
        {
            "ec2__describe_security_groups": {
                "SecurityGroups": [
                    {"GroupId": one, "VpcId": "vpc-0123456789abcdef9"} for one in (SERVERS_GROUP, CLIENTS_GROUP)
                ]
            }
        },
        "fail",
        f"not in {VPC}",
    ),
    Case(
        "GPU-PRE-092",
        EXISTING,
        {"ec2__describe_security_group_rules": self_rules(efa=False)},
        "fail",
        "does not let all traffic in",
    ),
    Case(
        "GPU-PRE-092",
        EXISTING.replace("      efa: true\n", ""),
        {"ec2__describe_security_group_rules": self_rules(efa=False)},
        "fail",
        "TCP 988 and 1018-1023",
    ),
    Case("GPU-PRE-093", EXISTING, _quota(1), "fail", "1 rule, 1 needed, 1 used by others", "L-0EA8095F"),
    Case(
        "GPU-PRE-094",
        ON_BATCH,
        {"ec2__describe_security_group_rules": {"SecurityGroupRules": []}},
        "fail",
        f"{DEFAULT_GROUP} does not let TCP 1024-65535 out with itself",
        f"add a rule out with {DEFAULT_GROUP} as peer",
    ),
    Case(
        "GPU-PRE-094",
        ON_BATCH,
        {"ec2__describe_security_group_rules": self_rules(group=DEFAULT_GROUP, efa=False)},
        "fail",
        "does not let TCP 1024-65535 in with itself",
    ),
    Case(
        "GPU-PRE-094",
        ON_BATCH,
        {"ec2__describe_security_groups": {"SecurityGroups": []}},
        "cannot tell",
        f"no default group of {VPC}",
    ),
    Case("GPU-PRE-101", NEW, {"ssm__get_parameter": Refusal("ParameterNotFound")}, "fail", "does not exist"),
    Case(
        "GPU-PRE-101",
        NEW,
        {"ssm__get_parameter": {"Parameter": {"Value": "6"}}},
        "fail",
        "no image id",
    ),
    Case("GPU-PRE-102", EXISTING, _NO_IMAGES, "fail", f"no {IMAGE}", "shared"),
    Case(
        "GPU-PRE-102",
        EXISTING,
        {"ec2__describe_images": images(State="deregistered")},
        "fail",
        "deregistered",
    ),
    Case(
        "GPU-PRE-102",
        NEW,
        {"ssm__get_parameter": Refusal("ParameterNotFound")},
        "cannot tell",
        "does not exist",
        "GPU-PRE-101",
    ),
    Case("GPU-PRE-103", EXISTING, {"ec2__describe_images": images(Architecture="arm64")}, "fail", "arm64"),
    Case("GPU-PRE-103", EXISTING, {"ec2__describe_images": images(EnaSupport=False)}, "fail", "no ENA support"),
    Case("GPU-PRE-103", EXISTING, _NO_IMAGES, "cannot tell", "not there", "GPU-PRE-102"),
    Case(
        "GPU-PRE-104",
        EXISTING,
        {"ec2__describe_images": images(RootDeviceName="/dev/xvda")},
        "fail",
        "/dev/sda1",
        "os:",
    ),
    Case(
        "GPU-PRE-105",
        NEW,
        {"ec2__describe_images": images(BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 300}}])},
        "fail",
        "needs 300 GiB, the root volume has 200",
        "size_gib: 300",
    ),
    Case(
        "GPU-PRE-106",
        EXISTING,
        {"ec2__describe_images": images(Description="Supported EC2 instances: G4dn, G5. Release notes: x")},
        "fail",
        "not for p5",
    ),
    Case(
        "GPU-PRE-106",
        EXISTING,
        {"ec2__describe_images": images(Description="our own")},
        "cannot tell",
        "does not say",
        "nvidia-smi",
    ),
    Case(
        "GPU-PRE-107",
        EXISTING,
        {"ec2__describe_images": images(OwnerId="999999999999", ImageOwnerAlias="")},
        "warn",
        "belongs to account 999999999999",
    ),
    Case(
        "GPU-PRE-107",
        EXISTING,
        {"ec2__describe_images": images(DeprecationTime="2026-01-01T00:00:00.000Z")},
        "warn",
        "deprecated",
    ),
    Case("GPU-PRE-111", NEW, _quota(30_000), "fail", "38,400 used by others", "L-8F1B9C74"),
    Case("GPU-PRE-112", NEW, _quota(1), "fail", "Lustre Persistent_2 file systems: 1", "L-FD6F2F22"),
    Case("GPU-PRE-113", EXISTING, _NO_FILE_SYSTEM, "fail", "there is no fs-"),
    Case(
        "GPU-PRE-113",
        EXISTING,
        {"fsx__describe_file_systems": file_system(Lifecycle="FAILED")},
        "fail",
        "FAILED",
    ),
    Case(
        "GPU-PRE-113",
        EXISTING,
        {"fsx__describe_file_systems": file_system(Lifecycle="UPDATING")},
        "warn",
        "updated",
    ),
    Case(
        "GPU-PRE-113",
        EXISTING,
        {"fsx__describe_file_systems": file_system(FileSystemType="ONTAP")},
        "fail",
        "ONTAP",
    ),
    Case(
        "GPU-PRE-114",
        EXISTING,
        {"fsx__describe_file_systems": file_system(LustreConfiguration={"MountName": "zyxwvuts"})},
        "fail",
        "mount_name zyxwvuts",
        "mount_name: zyxwvuts",
    ),
    Case(
        "GPU-PRE-114",
        EXISTING,
        {"fsx__describe_file_systems": file_system(LustreConfiguration={"EfaEnabled": False})},
        "fail",
        "efa false",
        "efa: false",
    ),
    Case("GPU-PRE-114", EXISTING, _NO_FILE_SYSTEM, "cannot tell", "not there", "GPU-PRE-113"),
    Case(
        "GPU-PRE-115",
        EXISTING,
        {"fsx__describe_file_systems": file_system(VpcId="vpc-0123456789abcdef9")},
        "fail",
        "is in vpc-0123456789abcdef9",
    ),
    Case(
        "GPU-PRE-115",
        EXISTING,
        {"fsx__describe_file_systems": file_system(SubnetIds=["subnet-0123456789abcdef2"])},
        "fail",
        "EFA does not leave a zone",
    ),
    Case("GPU-PRE-113", ON_EXISTING_PCS, _homes(FileSystemType="WINDOWS"), "fail", "WINDOWS", "FSx for OpenZFS"),
    Case("GPU-PRE-115", ON_EXISTING_PCS, _homes(VpcId="vpc-0123456789abcdef9"), "fail", "is in vpc-0123456789abcdef9"),
    Case(
        "GPU-PRE-115",
        ON_EXISTING_PCS,
        _homes(SubnetIds=["subnet-0123456789abcdef2"]),
        "warn",
        "each GB is charged",
    ),
    Case("GPU-PRE-115", ON_EXISTING_PCS, _in_two_zones(FLEET_SUBNET), "pass", "as it must be"),
    Case("GPU-PRE-115", ON_EXISTING_PCS, _in_two_zones("subnet-0123456789abcdef2"), "warn", "each GB is charged"),
    Case("GPU-PRE-116", ON_PCS, _quota(1), "fail", "file systems: 1 file system, 1 needed, 1 used", "L-59D0763F"),
    Case("GPU-PRE-116", ON_PCS, _quota(3000), "fail", "3,000 GiB, 1,024 needed, 2,048 used by others", "L-88479C21"),
    Case("GPU-PRE-116", ON_PCS, _quota(900), "fail", "900 MB/s, 320 needed, 640 used by others", "L-4EDE4065"),
    Case("GPU-PRE-116", ON_PCS, {**_quota(3000), **_homes(Tags=OWN_TAGS)}, "pass", "3,000 GiB, 1,024 needed, 0 used"),
    Case("GPU-PRE-121", EXISTING, _NO_BUCKET, "fail", "there is no bucket llama-checkpoints"),
    Case(
        "GPU-PRE-121",
        EXISTING,
        {"s3__head_bucket": Refusal("403")},
        "cannot tell",
        "refuses",
        "s3:ListBucket",
    ),
    Case(
        "GPU-PRE-122",
        NEW,
        {"s3__head_bucket": {"BucketRegion": "us-west-2"}},
        "fail",
        "us-west-2",
        "bucket_region",
    ),
    Case(
        "GPU-PRE-122",
        EXISTING.replace("        access_log_bucket: llama-logs\n", ""),
        {"s3__head_bucket": {"BucketRegion": "us-west-2"}},
        "warn",
        "charged",
    ),
    Case("GPU-PRE-122", NEW, _NO_BUCKET, "cannot tell", "there is no bucket", "GPU-PRE-121"),
    Case("GPU-PRE-123", NEW, {"s3__head_bucket": {}}, "fail", "is there already", "existing_checkpoints"),
    Case("GPU-PRE-123", NEW, {"s3__head_bucket": Refusal("403")}, "fail", "another account's"),
    Case("GPU-PRE-123", NEW, {"s3__head_bucket": {}, **_stack("CREATE_COMPLETE")}, "pass", "and so is stack"),
    Case(
        "GPU-PRE-124",
        EXISTING,
        {"s3__list_directory_buckets": {"Buckets": []}},
        "fail",
        "no directory bucket",
    ),
    Case("GPU-PRE-131", EXISTING, {"kms__describe_key": _MISSING}, "fail", "there is no arn:aws:kms"),
    Case("GPU-PRE-131", EXISTING, _key(KeyState="PendingDeletion"), "fail", "PendingDeletion"),
    Case("GPU-PRE-132", EXISTING, _key(KeySpec="RSA_2048"), "fail", "RSA_2048"),
    Case("GPU-PRE-132", EXISTING, _key(KeyManager="AWS"), "fail", "managed by AWS"),
    Case("GPU-PRE-132", EXISTING, {"kms__describe_key": _MISSING}, "cannot tell", "there is no", "GPU-PRE-131"),
    Case("GPU-PRE-133", NEW, _ebs_key("{}"), "warn", "does not name AWSServiceRoleForAutoScaling", "root_volume"),
    Case("GPU-PRE-133", NEW, _ebs_key('{"kms:ViaService": "ec2.us-east-1.amazonaws.com"}'), "pass", "admits"),
    Case(
        "GPU-PRE-133",
        ON_KARPENTER,
        _ebs_key("AWSServiceRoleForAutoScaling"),
        "warn",
        "the role of Karpenter",
        "root_volume",
    ),
    Case("GPU-PRE-133", ON_KARPENTER, _ebs_key('{"kms:ViaService": "ec2.us-east-1.amazonaws.com"}'), "pass", "admits"),
    Case("GPU-PRE-133", NEW, {"ec2__get_ebs_default_kms_key_id": {"KmsKeyId": "alias/aws/ebs"}}, "pass", "alias"),
    Case("GPU-PRE-141", NEW, _NO_ROLE, "warn", "AWSServiceRoleForAutoScaling", "autoscaling.amazonaws.com"),
    Case("GPU-PRE-142", EXISTING, _NO_ROLE, "warn", "AWSServiceRoleForEC2Spot", "spot.amazonaws.com"),
    Case("GPU-PRE-142", ON_KARPENTER, _NO_ROLE, "fail", "Karpenter may not make it", "spot.amazonaws.com"),
    Case("GPU-PRE-143", NEW, _NO_ROLE, "warn", "AWSServiceRoleForAmazonFSx", "fsx.amazonaws.com"),
    Case(
        "GPU-PRE-144",
        EXISTING,
        _NO_ROLE,
        "warn",
        "ElasticLoadBalancing",
        "elasticloadbalancing.amazonaws.com",
    ),
    Case("GPU-PRE-151", EXISTING, {"acm__describe_certificate": _MISSING}, "fail", "there is no arn:aws:acm"),
    Case("GPU-PRE-151", EXISTING, _certificate(Status="PENDING_VALIDATION"), "fail", "PENDING_VALIDATION"),
    Case("GPU-PRE-152", EXISTING, _certificate(NotAfter=_SOON), "warn", "ends at 2026-12-03", "import"),
    Case(
        "GPU-PRE-152",
        EXISTING,
        {"acm__describe_certificate": _MISSING},
        "cannot tell",
        "no arn",
        "GPU-PRE-151",
    ),
    Case(
        "GPU-PRE-153",
        EXISTING,
        {"ecr__describe_images": Refusal("ImageNotFoundException", "no tag v1")},
        "fail",
        "models/chat:v1: no tag v1",
    ),
    Case(
        "GPU-PRE-153",
        EXISTING.replace("dkr.ecr.us-east-1", "dkr.ecr.eu-west-1"),
        {},
        "warn",
        "pulled from eu-west-1",
        "replicate",
    ),
    Case("GPU-PRE-154", EXISTING, {"secretsmanager__describe_secret": _MISSING}, "fail", "there is no arn"),
    Case(
        "GPU-PRE-154",
        EXISTING,
        {"secretsmanager__describe_secret": {"Name": "hub", "DeletedDate": _SOON}},
        "fail",
        "to be deleted",
    ),
    Case(
        "GPU-PRE-154",
        EXISTING,
        {"ssm__describe_parameters": {"Parameters": []}},
        "fail",
        "no parameter /chat/mode",
    ),
    Case("GPU-PRE-145", ON_EKS, _NO_ROLE, "warn", "AWSServiceRoleForAmazonEKS does", "eks.amazonaws.com"),
    Case(
        "GPU-PRE-146",
        ON_EXISTING_EKS,
        _NO_ROLE,
        "warn",
        "AWSServiceRoleForAmazonEKSNodegroup",
        "eks-nodegroup",
    ),
    Case("GPU-PRE-147", ON_PCS, _NO_ROLE, "warn", "AWSServiceRoleForPCS does", "pcs.amazonaws.com"),
    Case("GPU-PRE-181", ON_PCS, {"pcs__list_clusters": pcs_clusters("CREATING")}, "fail", "creates research", "ACTIVE"),
    Case("GPU-PRE-182", ON_EXISTING_PCS, {"pcs__get_cluster": _MISSING}, "fail", "no cluster pcs_abc1234567", "Region"),
    Case("GPU-PRE-182", ON_EXISTING_PCS, _pcs(status="UPDATING"), "warn", "is UPDATING", "wait"),
    Case("GPU-PRE-182", ON_EXISTING_PCS, _pcs(status="SUSPENDED"), "fail", "is SUSPENDED", "resume"),
    Case("GPU-PRE-183", ON_EXISTING_PCS, {"pcs__get_cluster": _MISSING}, "cannot tell", "no pcs_abc", "GPU-PRE-182"),
    Case(
        "GPU-PRE-183",
        ON_EXISTING_PCS,
        _pcs(scheduler={"type": "SLURM", "version": "25.11"}),
        "fail",
        "has Slurm 25.11, the file has 26.05",
        'slurm_version: "25.11"',
    ),
    Case(
        "GPU-PRE-183",
        ON_EXISTING_PCS,
        _pcs(networking={"subnetIds": [FLEET_SUBNET], "securityGroupIds": [SERVERS_GROUP]}),
        "fail",
        "do not reach its controller",
        SERVERS_GROUP,
    ),
    Case(
        "GPU-PRE-183",
        ON_EXISTING_PCS.replace("nodes: 2", "nodes: 33"),
        {},
        "fail",
        "for 32 nodes, and the fleets have up to 33",
        "larger",
    ),
    Case(
        "GPU-PRE-184",
        ON_PCS,
        {"ec2__describe_images": images(Name="aws-pcs-sample_ami-al2023-x86_64-slurm-25.11")},
        "fail",
        "has Slurm 25.11, the cluster has 26.05",
        "Slurm 26.05",
    ),
    Case("GPU-PRE-184", ON_PCS, {"ec2__describe_images": images(Name="mine")}, "cannot tell", "does not say", "agent"),
    Case(
        "GPU-PRE-185",
        ON_PARALLELCLUSTER,
        {"ec2__describe_images": {"Images": []}},
        "fail",
        "no image aws-parallelcluster-3.16.1-amzn2023-hvm-x86_64* in us-east-1",
        "Image.CustomAmi",
    ),
    Case("GPU-PRE-161", ON_EKS, _versions(v1_35=""), "fail", "no Kubernetes 1.35", "one of 1.34"),
    Case("GPU-PRE-161", ON_EKS, _versions(v1_35="UNSUPPORTED"), "fail", "no Kubernetes 1.35", "1.34"),
    Case("GPU-PRE-161", ON_EKS, _versions(v1_35="EXTENDED_SUPPORT"), "warn", "costs more", "1.34"),
    Case(
        "GPU-PRE-162",
        ON_EKS,
        {"eks__describe_addon_versions": add_ons(*ADD_ONS[:-1])},
        "fail",
        "no aws-mountpoint-s3-csi-driver for Kubernetes 1.35",
        "another Region",
    ),
    Case(
        "GPU-PRE-163",
        ON_EKS,
        {"ec2__describe_availability_zones": zones(ZoneId="use1-az3")},
        "fail",
        "us-east-1a (use1-az3)",
        "other zones",
    ),
    Case(
        "GPU-PRE-164",
        ON_EKS,
        _quota(2, eks__list_clusters={"clusters": ["a", "b"]}),
        "fail",
        "Clusters: 2 cluster, 1 needed, 2 used",
        "L-1194D53C",
    ),
    Case(
        "GPU-PRE-164",
        ON_EKS,
        _quota(2, eks__list_clusters={"clusters": ["a", "llamaeks-Cluster-CD6E48B2"]}),
        "pass",
        "has one already",
    ),
    Case(
        "GPU-PRE-165",
        ON_EKS,
        _quota(1),
        "fail",
        "Nodes per managed node group: 1 node, 2 needed",
        "L-BD136A63",
    ),
    Case("GPU-PRE-166", ON_EXISTING_EKS, {"eks__describe_cluster": _MISSING}, "fail", "no EKS cluster research"),
    Case("GPU-PRE-166", ON_EXISTING_EKS, _eks(status="DELETING"), "fail", "research is DELETING", "another"),
    Case(
        "GPU-PRE-167",
        ON_EXISTING_EKS,
        {"eks__describe_cluster": _MISSING},
        "cannot tell",
        "no research",
        "166",
    ),
    Case(
        "GPU-PRE-167",
        ON_EXISTING_EKS,
        _eks(version="1.35"),
        "fail",
        "has 1.35, the file has 1.34",
        "version: 1.35",
    ),
    Case(
        "GPU-PRE-167",
        ON_EXISTING_EKS,
        _eks(kubernetesNetworkConfig={"serviceIpv4Cidr": "10.100.0.0/16"}),
        "fail",
        "has 10.100.0.0/16",
        "service_cidr: 10.100.0.0/16",
    ),
    Case(
        "GPU-PRE-167",
        ON_EXISTING_EKS,
        _eks(resourcesVpcConfig={"clusterSecurityGroupId": SERVERS_GROUP, "vpcId": "vpc-0fedcba9876543210"}),
        "fail",
        "has vpc-0fedcba9876543210",
        "network.vpc_id",
    ),
    Case(
        "GPU-PRE-167",
        ON_EXISTING_EKS,
        _eks(accessConfig={"authenticationMode": "CONFIG_MAP"}),
        "warn",
        "no access entries",
        "API_AND_CONFIG_MAP",
    ),
    Case("GPU-PRE-169", ON_EXISTING_EKS, _NO_ASSOCIATION, "fail", "never become Ready", "cni_from_node_role: true"),
    Case(
        "GPU-PRE-169",
        ON_EXISTING_EKS,
        {**_NO_ASSOCIATION, "eks__describe_addon": _MISSING},
        "warn",
        "annotated",
        "cni_from_node_role: true",
    ),
    Case(
        "GPU-PRE-169",
        ON_EXISTING_EKS,
        {**_NO_ASSOCIATION, "eks__describe_addon": {"addon": {"serviceAccountRoleArn": "arn:aws:iam::1:role/cni"}}},
        "pass",
        "a role of its own",
    ),
    Case(
        "GPU-PRE-169",
        ON_EXISTING_EKS.replace('"1.34"', '"1.34"\n    cni_from_node_role: true'),
        _NO_ASSOCIATION,
        "pass",
        "the role of the nodes",
    ),
    Case(
        "GPU-PRE-169",
        ON_EXISTING_EKS,
        {"eks__list_pod_identity_associations": _MISSING},
        "cannot tell",
        "no research",
        "166",
    ),
    Case(
        "GPU-PRE-170",
        ON_EXISTING_EKS,
        _nodes_in(SERVERS_GROUP),
        "warn",
        f"in {SERVERS_GROUP}",
        f"node_security_group_ids: [{SERVERS_GROUP}]",
    ),
    Case("GPU-PRE-170", ON_EXISTING_EKS, _nodes_in(SERVERS_GROUP, CLIENTS_GROUP), "pass", "has nodes in"),
    Case(
        "GPU-PRE-170",
        ON_EXISTING_EKS.replace('"1.34"', f'"1.34"\n    node_security_group_ids: [{SERVERS_GROUP}]'),
        _nodes_in(SERVERS_GROUP),
        "pass",
        "has nodes in",
    ),
    Case("GPU-PRE-168", ON_EKS, _NO_ROLE, "fail", "no arn:aws:iam::111122223333:role/teams/platform", "ARN"),
    Case(
        "GPU-PRE-168",
        ON_EKS,
        {"iam__get_user": Refusal("NoSuchEntity", "no user")},
        "fail",
        "no arn:aws:iam::111122223333:user/ann",
    ),
    Case(
        "GPU-PRE-168",
        ON_EKS.replace(
            "eks:\n",
            "eks:\n  teams: { lab: { quotas: [{ fleet: trainers, nominal: 1 }], "
            "principal_arns: ['arn:aws:iam::111122223333:user/bob'] } }\n",
        ),
        {"iam__get_user": Refusal("NoSuchEntity", "no user")},
        "fail",
        "no arn:aws:iam::111122223333:user/bob",
    ),
    Case("GPU-PRE-168", ON_EKS, _caller("999999999999"), "cannot tell", "of another account", "ask there"),
    Case(
        "GPU-PRE-031",
        ON_EKS,
        _quota(7),
        "warn",
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances: 7 vCPU, 4 to 12 needed",
    ),
    # An update of nodes in two zones launches up to four beside the old ones: two m7i.large, one g6e.48xlarge.
    Case("GPU-PRE-031", ON_EKS, _quota(12), "pass", "12 vCPU, 4 to 12 needed"),
    Case("GPU-PRE-031", ON_EKS, _quota(959), "warn", "959 vCPU, 192 to 960 needed", "960 more"),
    Case("GPU-PRE-171", EXISTING, _status_check("team", "research"), "pass", "none of 1"),
    Case("GPU-PRE-171", EXISTING, _status_check("gpu-cluster", "llama"), "fail", "watches gpu-cluster=llama", "tag"),
    Case("GPU-PRE-171", EXISTING, _status_check("gpu-cluster", "other"), "pass", "none of 1"),
    Case(
        "GPU-PRE-171",
        EXISTING,
        _status_check("gpu-cluster", "llama", Aggregation="excluded"),
        "warn",
        "excluded from the status",
        "not yours",
    ),
    Case(
        "GPU-PRE-171",
        EXISTING,
        _status_check("aws:cloudformation:stack-name", "llama-fleet-reserved"),
        "fail",
        "asc-0123456789abcdef0",
        "exclude",
    ),
    Case(
        "GPU-PRE-021",
        ON_HYPERPOD,
        {"ec2__describe_instance_type_offerings": {"InstanceTypeOfferings": []}},
        "warn",
        "p5.48xlarge is not offered in us-east-1a",
        "SageMaker",
    ),
    Case(
        "GPU-PRE-095",
        ON_HYPERPOD_EKS,
        {"ec2__describe_security_group_rules": self_rules(group=CLIENTS_GROUP)},
        "pass",
        "as it must be",
    ),
    Case(
        "GPU-PRE-095",
        ON_HYPERPOD_EKS,
        {"ec2__describe_security_group_rules": self_rules(group=CLIENTS_GROUP, efa=False)},
        "fail",
        f"{CLIENTS_GROUP} does not let all traffic out with itself as peer",
        "add a rule out",
    ),
    # Before 1.33 the deployment adds the rule for traffic out, and EKS the one for traffic in.
    Case(
        "GPU-PRE-095",
        ON_HYPERPOD_EKS.replace("1.34", "1.32"),
        {"ec2__describe_security_group_rules": self_rules(group=CLIENTS_GROUP)},
        "fail",
        f"{CLIENTS_GROUP} lets all traffic out with itself as peer, and the deployment adds this rule",
        "remove the rule",
    ),
    Case(
        "GPU-PRE-095",
        ON_HYPERPOD_EKS.replace("1.34", "1.32"),
        {"ec2__describe_security_group_rules": {"SecurityGroupRules": []}},
        "fail",
        f"{CLIENTS_GROUP} does not let all traffic in with itself as peer",
    ),
    Case(
        "GPU-PRE-095",
        _WITH_GROUP,
        {"ec2__describe_security_group_rules": lambda asked: self_rules(group=asked["Filters"][0]["Values"][0])},
        "fail",
        f"{SERVERS_GROUP} lets all traffic in with itself as peer, and the deployment adds this rule",
    ),
    # The rules of an earlier deployment are in the way of none.
    Case("GPU-PRE-095", _WITH_GROUP, {"ec2__describe_security_group_rules": _own_rules}, "pass", "as it must be"),
    Case("GPU-PRE-102", ON_HYPERPOD_EKS, {"ec2__describe_images": {"Images": []}}, "fail", "there is no ami-"),
    Case("GPU-PRE-148", ON_BATCH, _NO_ROLE, "warn", "AWSServiceRoleForBatch", "batch.amazonaws.com"),
    Case(
        "GPU-PRE-149",
        ON_HYPERPOD,
        _NO_ROLE,
        "warn",
        "AWSServiceRoleForSageMakerHyperPod",
        "hyperpod.sagemaker.amazonaws.com",
    ),
    Case(
        "GPU-PRE-191",
        ON_HYPERPOD,
        _named(_PER_TYPE, 17),
        "fail",
        "ml.p5.48xlarge for cluster usage: 17 node, 18 needed",
        "--service-code sagemaker --quota-code L-00000000",
    ),
    Case("GPU-PRE-191", ON_HYPERPOD, _named(_PER_TYPE, 21, **_hyperpod({})), "fail", "18 needed, 4 used by others"),
    Case("GPU-PRE-191", ON_HYPERPOD, _named(_PER_TYPE, 22, **_hyperpod({})), "pass", "18 needed, 4 used by others"),
    # Its own nodes, those of other types and those on Spot are not counted; those still to come are.
    Case("GPU-PRE-191", ON_HYPERPOD, _named(_PER_TYPE, 18, **_hyperpod({}, own=True)), "pass", "18 needed, 0 used"),
    Case(
        "GPU-PRE-191",
        ON_HYPERPOD,
        _named(
            _PER_TYPE,
            18,
            **_hyperpod(
                {"InstanceType": "ml.p4d.24xlarge"},
                {"CapacityRequirements": {"Spot": {}}},
                {"CurrentCount": 0, "TargetCount": 3},
            ),
        ),
        "fail",
        "18 needed, 3 used by others",
    ),
    Case(
        "GPU-PRE-191",
        ON_HYPERPOD_EKS,
        _named(_PER_SPOT_TYPE, 4, **_hyperpod({"CapacityRequirements": {"Spot": {}}}, {})),
        "fail",
        "ml.p5.48xlarge for cluster spot instance usage: 4 node, 4 needed, 4 used by others",
    ),
    # The default applies where the account has no value of its own.
    Case("GPU-PRE-191", ON_HYPERPOD, _named(_PER_TYPE, None), "pass", "1,000 node, 18 needed"),
    Case(
        "GPU-PRE-191",
        ON_HYPERPOD,
        _named(_PER_TYPE, None, service_quotas__list_aws_default_service_quotas={"Quotas": []}),
        "cannot tell",
        "lists no quota 'ml.p5.48xlarge for cluster usage'",
    ),
    Case(
        "GPU-PRE-191",
        ON_HYPERPOD,
        {"sagemaker__list_clusters": Refusal("AccessDeniedException")},
        "cannot tell",
        "what is used is not known: sagemaker:ListClusters is not allowed",
    ),
    Case("GPU-PRE-192", ON_HYPERPOD, _named(_PER_CLUSTER, 20), "fail", "20 node, 21 needed", "L-00000004"),
    Case("GPU-PRE-192", ON_HYPERPOD, _named(_PER_CLUSTER, 21, **_hyperpod({})), "pass", "21 needed"),
    Case("GPU-PRE-193", ON_HYPERPOD, _named(_ALL_NODES, 20), "fail", "20 node, 21 needed"),
    Case(
        "GPU-PRE-193",
        ON_HYPERPOD,
        _named(_ALL_NODES, 24, **_hyperpod({"InstanceType": "ml.g5.xlarge", "CapacityRequirements": {"Spot": {}}})),
        "fail",
        "21 needed, 4 used by others",
    ),
    Case("GPU-PRE-193", ON_HYPERPOD_EKS, _named(_ALL_SPOT_NODES, 0), "fail", "Spot instances allowed across"),
    Case("GPU-PRE-194", ON_HYPERPOD, _named(_VOLUME, 499), "fail", "499 GB, 500 needed"),
    Case(
        "GPU-PRE-195",
        ON_HYPERPOD,
        {"sagemaker__describe_training_plan": Refusal("ResourceNotFound")},
        "fail",
        f"there is no {PLAN}",
        "list-training-plans",
    ),
    Case(
        "GPU-PRE-195", ON_HYPERPOD, _training_plan(Status="Expired"), "fail", "research is Expired", "capacity search"
    ),
    Case(
        "GPU-PRE-195",
        ON_HYPERPOD,
        _training_plan(Status="Failed", StatusMessage="no payment"),
        "fail",
        "research is Failed: no payment",
    ),
    Case(
        "GPU-PRE-195",
        ON_HYPERPOD,
        _training_plan(Status="Scheduled", ReservedCapacitySummaries=[], StartTime=_IN_A_DAY),
        "warn",
        "when its next block starts at 2026-12-03T11:30Z",
    ),
    # Between two blocks, a plan is Scheduled again.
    Case(
        "GPU-PRE-195",
        ON_HYPERPOD,
        _training_plan(
            reserved_capacity(Status="Expired", EndTime=datetime(2026, 12, 2, 11, 30, tzinfo=UTC)),
            _later(),
            Status="Scheduled",
        ),
        "warn",
        "when its next block starts at 2026-12-15T11:30Z",
    ),
    Case("GPU-PRE-195", ON_HYPERPOD, _training_plan(Status="Pending"), "warn", "research is Pending", "wait"),
    Case("GPU-PRE-196", ON_HYPERPOD, _training_plan(TargetResources=["training-job"]), "fail", "is for training-job"),
    Case(
        "GPU-PRE-196",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(InstanceType="ml.p4d.24xlarge")),
        "fail",
        "research has ml.p4d.24xlarge, the fleet ml.p5.48xlarge",
        "instance_type: p4d.24xlarge",
    ),
    Case(
        "GPU-PRE-196",
        ON_HYPERPOD,
        {"sagemaker__describe_training_plan": Refusal("ResourceNotFound")},
        "cannot tell",
        f"there is no {PLAN}",
        "GPU-PRE-195",
    ),
    Case(
        "GPU-PRE-197",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(AvailabilityZone="us-east-1b")),
        "fail",
        "research has capacity in us-east-1b, the subnet of the nodes is in us-east-1a",
        "subnet in us-east-1b",
    ),
    Case(
        "GPU-PRE-197",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(), _later(AvailabilityZone="us-east-1b")),
        "warn",
        "use only a part of it",
    ),
    Case(
        "GPU-PRE-197",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(AvailabilityZone="us-east-1b", Status="Expired"), _later()),
        "pass",
        "as it must be",
    ),
    Case(
        "GPU-PRE-197",
        ON_HYPERPOD.replace("us-east-1a", "use1-az4"),
        _training_plan(reserved_capacity(AvailabilityZoneId="use1-az6")),
        "fail",
        "capacity in use1-az6",
    ),
    Case(
        "GPU-PRE-198",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(TotalInstanceCount=15)),
        "fail",
        "research has 15 instances, 16 needed",
    ),
    # Capacity at different times does not add up.
    Case(
        "GPU-PRE-198",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(TotalInstanceCount=8), _later(TotalInstanceCount=8)),
        "fail",
        "research has 8 instances, 16 needed",
    ),
    Case(
        "GPU-PRE-198",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(TotalInstanceCount=8), reserved_capacity(TotalInstanceCount=8)),
        "pass",
        "research has 16 instances, 16 needed",
    ),
    Case(
        "GPU-PRE-198",
        ON_HYPERPOD,
        {**_training_plan(AvailableInstanceCount=12), **_hyperpod({"TrainingPlanArn": PLAN})},
        "fail",
        "research has 12 of 16 instances free, 16 needed",
    ),
    Case(
        "GPU-PRE-198",
        ON_HYPERPOD,
        {**_training_plan(AvailableInstanceCount=12), **_hyperpod({"TrainingPlanArn": PLAN}, own=True)},
        "pass",
        "research has 16 instances",
    ),
    Case(
        "GPU-PRE-199",
        ON_HYPERPOD,
        _training_plan(ReservedCapacitySummaries=[], EndTime=_IN_A_DAY),
        "warn",
        "SageMaker ends the nodes of research at 2026-12-03T10:30Z, an hour before their block ends",
        "extend-training-plan",
    ),
    # The first of two blocks ends, and not the plan.
    Case(
        "GPU-PRE-199",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(EndTime=_IN_A_DAY), _later()),
        "warn",
        "at 2026-12-03T10:30Z, an hour before their block ends, and launches them again at 2026-12-15T11:30Z",
    ),
    Case(
        "GPU-PRE-199",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(EndTime=NOW + timedelta(hours=25, minutes=1))),
        "pass",
        "at 2026-12-03T12:01Z",
    ),
    Case(
        "GPU-PRE-199",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(EndTime=NOW + timedelta(minutes=30))),
        "warn",
        "at 2026-12-02T11:30Z",
    ),
    # An extension follows without a gap.
    Case(
        "GPU-PRE-199",
        ON_HYPERPOD,
        _training_plan(reserved_capacity(EndTime=_IN_A_DAY), {**_later(), "StartTime": _IN_A_DAY}),
        "pass",
        "at 2026-12-29T10:30Z",
    ),
    Case("GPU-PRE-199", ON_HYPERPOD, _training_plan(_later(), Status="Scheduled"), "pass", "no block of research runs"),
)
