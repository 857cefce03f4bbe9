"""Cluster files with everything that preflight looks at, and an account in which all of it is well."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.quotas import quotas
from cdk_gpu_clusters.rules.eks_cluster import AFTER_NODES, BEFORE_NODES
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster
from fake_aws import FakeAws, Refusal

ACCOUNT = "111122223333"
NOW = datetime(2026, 12, 2, 12, 0, tzinfo=UTC)
VPC = "vpc-0123456789abcdef0"
FLEET_SUBNET = "subnet-0123456789abcdef0"
SERVICE_SUBNETS = ("subnet-0123456789abcdef1", "subnet-0123456789abcdef2")
PUBLIC_SUBNETS = ("subnet-0123456789abcdef3", "subnet-0123456789abcdef4")
RESERVATION = "cr-0123456789abcdef0"
BLOCK = "cr-0123456789abcdef1"
GROUP = f"arn:aws:resource-groups:us-east-1:{ACCOUNT}:group/research"
GROUPED = "cr-0123456789abcdef2"
FILE_SYSTEM = "fs-0123456789abcdef0"
HOMES = "fs-0123456789abcdef7"
SERVERS_GROUP = "sg-0123456789abcdef0"
DEFAULT_GROUP = "sg-0123456789abcdefd"
CLIENTS_GROUP = "sg-0123456789abcdef1"
IMAGE = "ami-0123456789abcdef0"
GPU_IMAGE = "ami-0123456789abcdef1"
CPU_IMAGE = "ami-0123456789abcdef2"
SLURM_IMAGE = "ami-0123456789abcdef3"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/01234567-89ab-cdef-0123-456789abcdef"
CERTIFICATE = f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/01234567-89ab-cdef-0123-456789abcdef"
SECRET = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:hub-AbCdEf"
OWN_TAGS = [{"Key": "gpu-cluster", "Value": "llama"}]

#: Everything exists already: network, stores, reservations, image, certificate.
EXISTING = f"""
version: 1
name: llama
region: us-east-1
account: "{ACCOUNT}"
network:
  vpc_id: {VPC}
  subnet_ids: [{FLEET_SUBNET}]
  availability_zone: us-east-1a
  cidr: 10.0.0.0/20
  service_subnets: {{ us-east-1a: {SERVICE_SUBNETS[0]}, us-east-1b: {SERVICE_SUBNETS[1]} }}
  public_subnets: {{ us-east-1a: {PUBLIC_SUBNETS[0]}, us-east-1b: {PUBLIC_SUBNETS[1]} }}
data:
  corpus:
    existing_lustre:
      file_system_id: {FILE_SYSTEM}
      mount_name: abcdefgh
      security_group_id: {SERVERS_GROUP}
      efa: true
      lustre_version: "2.15"
      availability_zone: us-east-1a
  checkpoints:
    existing_checkpoints:
      bucket_name: llama-checkpoints
      encryption_key_arn: {KEY}
      express_bucket_name: llama--use1-az4--x-s3
training:
  fleets:
    reserved:
      instance_type: p5.48xlarge
      nodes: 4
      capacity: {{ reservation: {RESERVATION}, placement_group: llama-group }}
      image: {{ id: {IMAGE}, os: ubuntu-22.04 }}
      mounts: {{ /fsx: corpus }}
      checkpoints: checkpoints
      evidence_bucket: llama-evidence
    grouped:
      instance_type: p5.48xlarge
      nodes: 2
      capacity: {{ reservation_group: "{GROUP}" }}
    block:
      instance_type: p5.48xlarge
      nodes: 2
      capacity:
        capacity_block: {BLOCK}
        starts_at: 2026-12-01T11:30Z
        ends_at: 2026-12-15T11:30Z
inference:
  fleets:
    chat:
      instance_type: g6e.48xlarge
      min_nodes: 1
      max_nodes: 4
      capacity: spot
      devices_per_server: 4
      server:
        image: {ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/models/chat:v1
        secrets:
          HUB_TOKEN: {{ arn: "{SECRET}" }}
          MODE: {{ arn: "arn:aws:ssm:us-east-1:{ACCOUNT}:parameter/chat/mode" }}
        weights: {{ s3_uri: "s3://llama-models/chat" }}
      load_balancer:
        certificate_arn: {CERTIFICATE}
        clients: [{CLIENTS_GROUP}]
        access_log_bucket: llama-logs
"""

#: Two blocks in sequence, of which the first is over.
OVER_BLOCK, LATER_BLOCK = "cr-0123456789abcdef8", "cr-0123456789abcdef9"
BLOCKS = f"""
version: 1
name: llama
region: us-east-1
network: {{ availability_zone: us-east-1a }}
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 4
      capacity:
        capacity_blocks:
          - {{ capacity_block: {OVER_BLOCK}, ends_at: 2026-11-01T11:30Z }}
          - {{ capacity_block: {LATER_BLOCK}, starts_at: 2027-01-01T11:30Z, ends_at: 2027-01-15T11:30Z }}
"""

#: Everything is made here: network with NAT gateway, file systems, buckets, a reservation.
NEW = f"""
version: 1
name: llama
region: us-east-1
network: {{ availability_zone: us-east-1a }}
data:
  corpus:
    lustre:
      storage_capacity_gib: 4800
      throughput_mb_per_s_per_tib: 250
      encryption_key_arn: {KEY}
    repositories: [ {{ path: /data, bucket: llama-corpus, auto_import: [new] }} ]
  scratch:
    lustre: {{ storage_capacity_gib: 2400, deployment_type: SCRATCH_2 }}
  checkpoints:
    checkpoints: {{ bucket_name: llama-new-checkpoints, encryption_key_arn: {KEY} }}
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 2
      capacity: {{ new_reservation: {{ end_date: 2027-01-01T00:00Z }} }}
      mounts: {{ /fsx: corpus, /tmp-fsx: scratch }}
      checkpoints: checkpoints
    preprocessing: {{ instance_type: m7i.4xlarge, min_nodes: 1, max_nodes: 4 }}
"""

#: A network without internet access, in named zones.
CLOSED = """
version: 1
name: dev
region: us-east-1
network:
  availability_zone: use1-az4
  control_availability_zones: [us-east-1a, us-east-1b]
  egress: closed
training:
  fleets:
    dev: { instance_type: p6-b200.48xlarge, nodes: 1, capacity: spot }
"""


#: A cluster of EKS made here, in named zones, with a fleet that serves.
ON_EKS = f"""
version: 1
name: llama
region: us-east-1
orchestrator: eks
eks:
  kubernetes_version: "1.35"
  admin_principal_arns: ["arn:aws:iam::{ACCOUNT}:role/teams/platform", "arn:aws:iam::{ACCOUNT}:user/ann"]
network:
  availability_zone: us-east-1a
  control_availability_zones: [us-east-1a, us-east-1b]
training:
  fleets:
    trainers: {{ instance_type: p5.48xlarge, nodes: 2, capacity: {{ capacity_block: {BLOCK}, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }} }}
inference:
  fleets:
    chat:
      instance_type: g6e.48xlarge
      nodes: 1
      server: {{ image: "{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/models/chat:v1" }}
"""

#: An existing cluster of EKS in an existing network.
ON_EXISTING_EKS = f"""
version: 1
name: llama
region: us-east-1
orchestrator: eks
eks:
  existing:
    cluster_name: research
    cluster_security_group_id: {CLIENTS_GROUP}
    kubernetes_version: "1.34"
network:
  vpc_id: {VPC}
  subnet_ids: [{FLEET_SUBNET}]
  availability_zone: us-east-1a
training:
  fleets:
    trainers: {{ instance_type: p5.48xlarge, nodes: 2, capacity: spot }}
"""

#: The same with nodes that Karpenter launches.
ON_KARPENTER = (
    ON_EXISTING_EKS.replace("eks:\n  existing:", "eks:\n  software: { apply: true }\n  existing:")
    .replace('"1.34"', f'"1.34"\n    kubectl_role_arn: "arn:aws:iam::{ACCOUNT}:role/installer"')
    .replace("capacity: spot", "capacity: spot, managed_by: karpenter")
)

#: A Slurm cluster made here.
ON_PCS = f"""
version: 1
name: llama
region: us-east-1
orchestrator: pcs
network: {{ availability_zone: us-east-1a }}
pcs: {{ slurm_version: "26.05", login: {{ mounts: {{ /home: home }} }} }}
data:
  home: {{ openzfs: {{ storage_capacity_gib: 1024 }} }}
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 2
      capacity: spot
      image: {{ id: {SLURM_IMAGE}, os: al2023 }}
      mounts: {{ /home: home }}
"""

#: A cluster of AWS ParallelCluster.
ON_PARALLELCLUSTER = """
version: 1
name: llama
region: us-east-1
orchestrator: parallelcluster
network: { availability_zone: us-east-1a }
training:
  fleets:
    trainers: { instance_type: p5.48xlarge, nodes: 2, capacity: spot }
"""

#: Multi-node jobs of AWS Batch in an existing network.
ON_BATCH = f"""
version: 1
name: llama
region: us-east-1
account: "{ACCOUNT}"
orchestrator: batch
network:
  vpc_id: {VPC}
  subnet_ids: [{FLEET_SUBNET}]
  availability_zone: us-east-1a
training:
  fleets:
    trainers: {{ instance_type: p5.48xlarge, nodes: 2, image: {{ id: {SLURM_IMAGE}, os: al2023 }} }}
"""

#: A cluster of SageMaker HyperPod on Slurm, with nodes of a training plan and others.
PLAN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-plan/research"
ON_HYPERPOD = f"""
version: 1
name: llama
region: us-east-1
orchestrator: hyperpod-slurm
network: {{ availability_zone: us-east-1a }}
hyperpod:
  login: {{ nodes: 2 }}
  groups: {{ trainers: {{ volume_gib: 500 }} }}
training:
  fleets:
    trainers: {{ instance_type: p5.48xlarge, nodes: 16, capacity: {{ training_plan: "{PLAN}" }} }}
    more: {{ instance_type: p5.48xlarge, nodes: 2 }}
"""

#: The same on Amazon EKS, on Spot, with an image of its own, on an existing cluster of EKS.
ON_HYPERPOD_EKS = f"""
version: 1
name: llama
region: us-east-1
orchestrator: hyperpod-eks
eks:
  existing: {{ cluster_name: research, cluster_security_group_id: {CLIENTS_GROUP}, kubernetes_version: "1.34" }}
network: {{ vpc_id: {VPC}, subnet_ids: [{FLEET_SUBNET}], availability_zone: us-east-1a }}
training:
  fleets:
    trainers: {{ instance_type: p5.48xlarge, nodes: 4, capacity: spot, image: {{ id: {SLURM_IMAGE}, os: al2023 }} }}
"""

#: An existing Slurm cluster in an existing network.
ON_EXISTING_PCS = f"""
version: 1
name: llama
region: us-east-1
orchestrator: pcs
pcs:
  existing: {{ cluster_id: pcs_abc1234567, slurm_version: "26.05", security_group_ids: [{CLIENTS_GROUP}] }}
network:
  vpc_id: {VPC}
  subnet_ids: [{FLEET_SUBNET}]
  availability_zone: us-east-1a
data:
  home: {{ existing_openzfs: {{ file_system_id: {HOMES}, security_group_id: {SERVERS_GROUP} }} }}
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 2
      capacity: spot
      image: {{ id: {SLURM_IMAGE}, os: al2023 }}
      mounts: {{ /home: home }}
"""

ADD_ONS = (*BEFORE_NODES, *AFTER_NODES)


@cache
def spec_of(text: str) -> ClusterSpec:
    """A cluster file, read."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "cluster.yaml")
        file.write_text(text, encoding="utf-8")
        return load_cluster(file)


def subnet(subnet_id: str, zone: str = "us-east-1a", **changes: Any) -> dict[str, Any]:
    """A subnet with plenty of room."""
    return {
        "SubnetId": subnet_id,
        "VpcId": VPC,
        "State": "available",
        "AvailabilityZone": zone,
        "AvailabilityZoneId": {"us-east-1a": "use1-az4", "us-east-1b": "use1-az6"}[zone],
        "CidrBlock": "10.0.0.0/20",
        "AvailableIpAddressCount": 4000,
        **changes,
    }


def subnets(**first: Any) -> dict[str, Any]:
    """All subnets; `first` changes the fleets'."""
    others = [
        subnet(one, zone)
        for pair in (SERVICE_SUBNETS, PUBLIC_SUBNETS)
        for one, zone in zip(pair, ("us-east-1a", "us-east-1b"), strict=True)
    ]
    return {"Subnets": [subnet(FLEET_SUBNET, **first), *others]}


def reservation(reservation_id: str, **changes: Any) -> dict[str, Any]:
    """An active reservation of p5.48xlarge with room for the fleets."""
    return {
        "CapacityReservationId": reservation_id,
        "OwnerId": ACCOUNT,
        "InstanceType": "p5.48xlarge",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1a",
        "AvailabilityZoneId": "use1-az4",
        "Tenancy": "default",
        "TotalInstanceCount": 4,
        "AvailableInstanceCount": 4,
        "State": "active",
        "EndDateType": "unlimited",
        "InstanceMatchCriteria": "targeted",
        "ReservationType": "default",
        "StartDate": datetime(2026, 11, 1, tzinfo=UTC),
        **changes,
    }


def reservations(**first: Any) -> dict[str, Any]:
    """All reservations; `first` changes that of the fleet `reserved`."""
    block = {
        "ReservationType": "capacity-block",
        "StartDate": datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
        "EndDate": datetime(2026, 12, 15, 11, 30, tzinfo=UTC),
        "EndDateType": "limited",
    }
    group = f"arn:aws:ec2:us-east-1:{ACCOUNT}:placement-group/llama-group"
    return {
        "CapacityReservations": [
            reservation(RESERVATION, **{"PlacementGroupArn": group, **first}),
            reservation(BLOCK, **block),
            reservation(GROUPED),
        ]
    }


def block(**changes: Any) -> dict[str, Any]:
    """All reservations; the block is changed."""
    found = reservations()
    found["CapacityReservations"][1] |= changes
    return found


def later_block(**changes: Any) -> dict[str, Any]:
    """All reservations, and a block that is still to start."""
    found = reservations()
    block = {
        "ReservationType": "capacity-block",
        "State": "scheduled",
        "StartDate": datetime(2027, 1, 1, 11, 30, tzinfo=UTC),
        "EndDate": datetime(2027, 1, 15, 11, 30, tzinfo=UTC),
    }
    found["CapacityReservations"].append(reservation(LATER_BLOCK, **{**block, **changes}))
    return found


def image(image_id: str, **changes: Any) -> dict[str, Any]:
    """An image of Amazon's, which serves p5 and g6e."""
    device = "/dev/sda1" if image_id == IMAGE else "/dev/xvda"
    named = "Supported EC2 instances: G5, G6e, P4, P5, P6-B200. Release notes: https://docs.aws.amazon.com/"
    return {
        "ImageId": image_id,
        "Name": "Deep Learning Base AMI" if image_id != SLURM_IMAGE else "aws-pcs-sample_ami-al2023-x86_64-slurm-26.05",
        "Description": "" if image_id == CPU_IMAGE else named,
        "State": "available",
        "OwnerId": "898082745236",
        "ImageOwnerAlias": "amazon",
        "Architecture": "x86_64",
        "VirtualizationType": "hvm",
        "EnaSupport": True,
        "RootDeviceType": "ebs",
        "RootDeviceName": device,
        "BootMode": "uefi-preferred",
        "BlockDeviceMappings": [{"DeviceName": device, "Ebs": {"VolumeSize": 75}}],
        "DeprecationTime": "2028-01-01T00:00:00.000Z",
        **changes,
    }


def images(**changes: Any) -> Any:
    """Every image, changed in the same way."""
    # By their ids, or one by its name.
    return lambda parameters: {"Images": [image(one, **changes) for one in parameters.get("ImageIds", [SLURM_IMAGE])]}


def described(name: str, **changes: Any) -> dict[str, Any]:
    """What DescribeInstanceTypes says of a type: what the catalogue says."""
    record = instance_type(name)
    efa = record.network.efa
    network: dict[str, Any] = {
        "MaximumNetworkCards": len(record.network.cards),
        "MaximumNetworkInterfaces": record.network.max_interfaces,
        "EfaSupported": efa is not None,
    }
    if efa is not None:
        network["EfaInfo"] = {"MaximumEfaInterfaces": efa.max_interfaces}
    return {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": record.vcpus},
        "MemoryInfo": {"SizeInMiB": record.memory_mib},
        "NetworkInfo": network,
        "SupportedUsageClasses": sorted(record.usage_classes),
        **changes,
    }


def types(**changes: Any) -> Any:
    """What DescribeInstanceTypes says of the types that it is asked for."""
    return lambda asked: {"InstanceTypes": [described(name, **changes) for name in asked["Filters"][0]["Values"]]}


def _offerings(asked: Any) -> Any:
    places = {"availability-zone": ("us-east-1a", "us-east-1b"), "availability-zone-id": ("use1-az4",)}
    return {
        "InstanceTypeOfferings": [
            {"InstanceType": name, "LocationType": asked["LocationType"], "Location": place}
            for name in asked["Filters"][0]["Values"]
            for place in places[asked["LocationType"]]
        ]
    }


def route_table(gateway: dict[str, str], subnet_ids: tuple[str, ...], table: str) -> dict[str, Any]:
    """A route table with a default route."""
    default = {"DestinationCidrBlock": "0.0.0.0/0", "State": "active", **gateway}
    return {
        "RouteTableId": table,
        "VpcId": VPC,
        "Routes": [default],
        "Associations": [{"SubnetId": one, "RouteTableId": table} for one in subnet_ids],
    }


def route_tables(private: dict[str, str] | None = None, public: dict[str, str] | None = None) -> Any:
    """Route tables of private and of public subnets, by where their default routes lead."""
    nat = {"NatGatewayId": "nat-0123456789abcdef0"} if private is None else private
    out = {"GatewayId": "igw-0123456789abcdef0"} if public is None else public
    return {
        "RouteTables": [
            route_table(nat, (FLEET_SUBNET, *SERVICE_SUBNETS), "rtb-0123456789abcdef0"),
            route_table(out, PUBLIC_SUBNETS, "rtb-0123456789abcdef1"),
        ]
    }


def self_rules(*, group: str = SERVERS_GROUP, efa: bool = True) -> Any:
    """The rules of a group whose members reach each other: that of the file system."""
    ports = {"IpProtocol": "-1"} if efa else {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
    return {
        "SecurityGroupRules": [
            {
                "GroupId": group,
                "IsEgress": egress,
                "ReferencedGroupInfo": {"GroupId": group},
                **ports,
            }
            for egress in (False, True)
        ]
    }


def file_system(**changes: Any) -> Any:
    """The file systems of the account: the one that the file names."""
    lustre = {"DeploymentType": "PERSISTENT_2", "MountName": "abcdefgh", "EfaEnabled": True}
    return {
        "FileSystems": [
            {
                "FileSystemId": FILE_SYSTEM,
                "FileSystemType": "LUSTRE",
                "FileSystemTypeVersion": "2.15",
                "Lifecycle": "AVAILABLE",
                "StorageCapacity": 38400,
                "VpcId": VPC,
                "SubnetIds": [FLEET_SUBNET],
                "DNSName": f"{FILE_SYSTEM}.fsx.us-east-1.amazonaws.com",
                **changes,
                "LustreConfiguration": {**lustre, **changes.get("LustreConfiguration", {})},
            },
            *homes()["FileSystems"],
        ]
    }


def homes(**changes: Any) -> Any:
    """Home directories of the account, that the file names."""
    return {
        "FileSystems": [
            {
                "FileSystemId": HOMES,
                "FileSystemType": "OPENZFS",
                "Lifecycle": "AVAILABLE",
                "StorageCapacity": 2048,
                "VpcId": VPC,
                "SubnetIds": [FLEET_SUBNET],
                "OpenZFSConfiguration": {"DeploymentType": "SINGLE_AZ_HA_2", "ThroughputCapacity": 640},
                **changes,
            }
        ]
    }


def eks_cluster(**changes: Any) -> Any:
    """The existing cluster of EKS."""
    return {
        "cluster": {
            "name": "research",
            "version": "1.34",
            "status": "ACTIVE",
            "resourcesVpcConfig": {"clusterSecurityGroupId": CLIENTS_GROUP, "vpcId": VPC},
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16"},
            "accessConfig": {"authenticationMode": "API"},
            **changes,
        }
    }


def pcs_cluster(**changes: Any) -> Any:
    """The existing Slurm cluster."""
    return {
        "cluster": {
            "name": "research",
            "id": "pcs_abc1234567",
            "arn": f"arn:aws:pcs:us-east-1:{ACCOUNT}:cluster/pcs_abc1234567",
            "status": "ACTIVE",
            "createdAt": NOW,
            "modifiedAt": NOW,
            "scheduler": {"type": "SLURM", "version": "26.05"},
            "size": "SMALL",
            "networking": {"subnetIds": [FLEET_SUBNET], "securityGroupIds": [CLIENTS_GROUP]},
            **changes,
        }
    }


def pcs_clusters(status: str) -> Any:
    """The Slurm clusters of the account: one."""
    found = pcs_cluster(status=status)["cluster"]
    names = ("name", "id", "arn", "status", "createdAt", "modifiedAt")
    return {"clusters": [{name: found[name] for name in names}]}


def eks_versions(**status: str) -> Any:
    """Versions of Kubernetes that EKS offers; `v1_35` stands for 1.35."""
    found = {"1.34": "STANDARD_SUPPORT", "1.35": "STANDARD_SUPPORT"}
    found |= {name.removeprefix("v").replace("_", "."): one for name, one in status.items()}
    return {"clusterVersions": [{"clusterVersion": name, "versionStatus": one} for name, one in found.items() if one]}


def add_ons(*names: str) -> Any:
    """Add-ons that EKS offers."""
    return {"addons": [{"addonName": name} for name in names]}


def limit(value: float) -> Any:
    """One value for every quota."""
    return {"Quota": {"Value": value}}


#: Quotas of SageMaker, in the words of its guide, and for Spot in those of ListServiceQuotas output in public.
HYPERPOD_QUOTAS = (
    "ml.p5.48xlarge for cluster usage",
    "ml.m7i.12xlarge for cluster usage",
    "ml.m7i.xlarge for cluster usage",
    "ml.p5.48xlarge for cluster spot instance usage",
    "Maximum number instances allowed per SageMaker HyperPod cluster",
    "Total number of instances allowed across SageMaker HyperPod clusters",
    "Total number of Spot instances allowed across SageMaker HyperPod clusters",
    "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance",
)


def quotas_by_name(**changes: float | None) -> Any:
    """Quotas of SageMaker as Service Quotas lists them; a change is named by the words of the quota, None leaves it out."""
    values = {name: changes.get(_key_of(name), 1_000) for name in HYPERPOD_QUOTAS}
    assert set(changes) <= {_key_of(name) for name in HYPERPOD_QUOTAS}
    return {
        "Quotas": [
            {"ServiceCode": "sagemaker", "QuotaCode": f"L-{index:08X}", "QuotaName": name, "Value": value}
            for index, (name, value) in enumerate(values.items())
            if value is not None
        ]
    }


def _key_of(quota: str) -> str:
    return "".join(one if one.isalnum() else "_" for one in quota)


OTHER_CLUSTER, OWN_CLUSTER = (f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:cluster/{name * 12}" for name in "ab")


def hyperpod_clusters(*arns: str) -> Any:
    """Clusters of HyperPod in the account."""
    found = [
        {"ClusterArn": arn, "ClusterName": arn[-12:], "CreationTime": NOW, "ClusterStatus": "InService"} for arn in arns
    ]
    return {"ClusterSummaries": found}


def hyperpod_cluster(*groups: dict[str, Any]) -> Any:
    """What SageMaker says of each cluster."""
    return lambda asked: {
        "ClusterArn": asked["ClusterName"],
        "ClusterStatus": "InService",
        "InstanceGroups": [
            {"InstanceType": "ml.p5.48xlarge", "CurrentCount": 4, "TargetCount": 4, **group} for group in groups
        ],
    }


def hyperpod_tags(asked: Any) -> Any:
    """The tags of clusters: of this one, and of others."""
    return {"Tags": OWN_TAGS if asked["ResourceArn"] == OWN_CLUSTER else []}


def reserved_capacity(**changes: Any) -> dict[str, Any]:
    """What a training plan reserves."""
    return {
        "ReservedCapacityArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:reserved-capacity/research",
        "InstanceType": "ml.p5.48xlarge",
        "TotalInstanceCount": 16,
        "Status": "Active",
        "AvailabilityZone": "us-east-1a",
        "StartTime": datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
        "EndTime": datetime(2026, 12, 15, 11, 30, tzinfo=UTC),
        **changes,
    }


def training_plan(*capacities: dict[str, Any], **changes: Any) -> Any:
    """The training plan."""
    return {
        "TrainingPlanArn": PLAN,
        "TrainingPlanName": "research",
        "Status": "Active",
        "StartTime": datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
        "EndTime": datetime(2026, 12, 15, 11, 30, tzinfo=UTC),
        "TotalInstanceCount": 16,
        "AvailableInstanceCount": 16,
        "TargetResources": ["hyperpod-cluster"],
        "ReservedCapacitySummaries": list(capacities) or [reserved_capacity()],
        **changes,
    }


def endpoint_services(*zones: str) -> Any:
    """Every service that is asked for, in the zones."""
    return lambda asked: {
        "ServiceDetails": [
            {"ServiceName": name, "AvailabilityZones": list(zones)} for name in asked["Filters"][0]["Values"]
        ]
    }


def _bucket(asked: Any) -> Any:
    name = asked["Bucket"]
    if name == "llama-new-checkpoints":
        return Refusal("404", "Not Found")
    return {"BucketRegion": "us-east-1"}


def _groups(asked: Any) -> Any:
    names = {SERVERS_GROUP: "servers", CLIENTS_GROUP: "clients", DEFAULT_GROUP: "default"}
    wanted = {one["Name"]: one["Values"] for one in asked["Filters"]}
    return {
        "SecurityGroups": [
            {"GroupId": group, "GroupName": name, "VpcId": VPC}
            for group, name in names.items()
            if group in wanted.get("group-id", names) and name in wanted.get("group-name", [name])
        ]
    }


def _parameter(asked: Any) -> Any:
    name = asked["Name"]
    gpu = "deeplearning" in name or "nvidia" in name
    value = "21" if "bootstrap" in name else GPU_IMAGE if gpu else CPU_IMAGE
    return {"Parameter": {"Name": name, "Value": value}}


def _zone(name: str, zone_id: str) -> dict[str, str]:
    return {
        "ZoneName": name,
        "ZoneId": zone_id,
        "State": "available",
        "OptInStatus": "opt-in-not-required",
        "ZoneType": "availability-zone",
        "GroupName": "us-east-1-zg-1",
    }


def zones(**first: Any) -> Any:
    """Two zones; `first` changes us-east-1a."""
    return {"AvailabilityZones": [{**_zone("us-east-1a", "use1-az4"), **first}, _zone("us-east-1b", "use1-az6")]}


def status_checks(**changes: Any) -> dict[str, Any]:
    """One application status check."""
    check = {"ApplicationStatusCheckId": "asc-0123456789abcdef0", "Protocol": "http", "Port": 8000, **changes}
    return {"ApplicationStatusChecks": [check]}


def watched_tag(key: str, value: str) -> dict[str, Any]:
    """Its association with a tag."""
    target = {"ApplicationStatusCheckId": "asc-0123456789abcdef0", "AssociationType": "tag", "Key": key, "Value": value}
    return {"Associations": [target]}


def healthy() -> FakeAws:
    """An account in which every check of all these files passes."""
    assert len({quota.code for quota in quotas()}) == len(quotas())
    return FakeAws(
        {
            "sts.get_caller_identity": {
                "Account": ACCOUNT,
                "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/deployer/me",
                "UserId": "AROA:me",
            },
            "ec2.describe_regions": {"Regions": [{"RegionName": "us-east-1", "OptInStatus": "opt-in-not-required"}]},
            "ec2.describe_availability_zones": zones(),
            "ec2.describe_instance_types": types(),
            "ec2.describe_instance_type_offerings": _offerings,
            "ec2.describe_capacity_reservations": reservations(),
            "resource-groups.list_group_resources": {
                "Resources": [
                    {
                        "Identifier": {
                            "ResourceArn": f"arn:aws:ec2:us-east-1:{ACCOUNT}:capacity-reservation/{GROUPED}",
                            "ResourceType": "AWS::EC2::CapacityReservation",
                        }
                    }
                ]
            },
            "ec2.describe_placement_groups": {
                "PlacementGroups": [{"GroupName": "llama-group", "State": "available", "Strategy": "cluster"}]
            },
            "ec2.describe_images": images(),
            "eks.list_pod_identity_associations": {"associations": [{"serviceAccount": "aws-node"}]},
            "eks.describe_addon": {"addon": {"addonName": "vpc-cni"}},
            "ec2.describe_instances": {"Reservations": []},
            "ec2.describe_volumes": {"Volumes": []},
            "ec2.describe_application_status_checks": status_checks(),
            "ec2.describe_application_status_check_associations": watched_tag("team", "research"),
            "ec2.describe_network_interfaces": {"NetworkInterfaces": []},
            "ec2.describe_vpcs": {"Vpcs": [{"VpcId": VPC, "State": "available", "CidrBlock": "10.0.0.0/16"}]},
            "ec2.describe_vpc_attribute": {
                "VpcId": VPC,
                "EnableDnsSupport": {"Value": True},
                "EnableDnsHostnames": {"Value": True},
            },
            "ec2.describe_subnets": subnets(),
            "ec2.describe_route_tables": route_tables(),
            "ec2.describe_vpc_endpoints": {
                "VpcEndpoints": [
                    {
                        "VpcEndpointType": "Gateway",
                        "ServiceName": f"com.amazonaws.us-east-1.{service}",
                        "State": "available",
                        "RouteTableIds": ["rtb-0123456789abcdef0"],
                    }
                    for service in ("s3", "s3express")
                ]
            },
            "ec2.describe_vpc_endpoint_services": endpoint_services("us-east-1a", "us-east-1b"),
            "ec2.describe_security_groups": _groups,
            "ec2.describe_security_group_rules": lambda asked: self_rules(group=asked["Filters"][0]["Values"][0]),
            "ec2.describe_addresses": {"Addresses": []},
            "ec2.describe_internet_gateways": {"InternetGateways": []},
            "ec2.describe_nat_gateways": {"NatGateways": []},
            "service-quotas.get_service_quota": limit(100_000),
            "service-quotas.get_aws_default_service_quota": limit(100_000),
            "service-quotas.list_service_quotas": quotas_by_name(),
            "service-quotas.list_aws_default_service_quotas": quotas_by_name(),
            "sagemaker.list_clusters": hyperpod_clusters(),
            "sagemaker.describe_cluster": hyperpod_cluster({}),
            "sagemaker.list_tags": hyperpod_tags,
            "sagemaker.describe_training_plan": training_plan(),
            "ssm.get_parameter": _parameter,
            "ssm.describe_parameters": {"Parameters": [{"Name": "/chat/mode"}]},
            "secretsmanager.describe_secret": {"ARN": SECRET, "Name": "hub"},
            "cloudformation.describe_stacks": Refusal("ValidationError", "Stack with id llama does not exist"),
            "fsx.describe_file_systems": file_system(),
            "s3.head_bucket": _bucket,
            "s3.list_directory_buckets": {"Buckets": [{"Name": "llama--use1-az4--x-s3"}]},
            "ec2.get_ebs_default_kms_key_id": {"KmsKeyId": KEY},
            "kms.get_key_policy": {"Policy": "AWSServiceRoleForAutoScaling"},
            "kms.describe_key": {
                "KeyMetadata": {
                    "KeyId": "01234567",
                    "KeyState": "Enabled",
                    "KeySpec": "SYMMETRIC_DEFAULT",
                    "KeyUsage": "ENCRYPT_DECRYPT",
                    "KeyManager": "CUSTOMER",
                }
            },
            "iam.get_role": lambda asked: {
                "Role": {
                    "Path": "/",
                    "RoleName": asked["RoleName"],
                    "RoleId": "AROA0123456789ABCDEF",
                    "Arn": f"arn:aws:iam::{ACCOUNT}:role/{asked['RoleName']}",
                    "CreateDate": NOW,
                }
            },
            "iam.get_user": lambda asked: {
                "User": {
                    "Path": "/",
                    "UserName": asked["UserName"],
                    "UserId": "AIDA0123456789ABCDEF",
                    "Arn": f"arn:aws:iam::{ACCOUNT}:user/{asked['UserName']}",
                    "CreateDate": NOW,
                }
            },
            "eks.describe_cluster": eks_cluster(),
            "eks.list_clusters": {"clusters": []},
            "eks.describe_cluster_versions": eks_versions(),
            "eks.describe_addon_versions": add_ons(*ADD_ONS),
            "pcs.get_cluster": pcs_cluster(),
            "pcs.list_clusters": pcs_clusters("ACTIVE"),
            "acm.describe_certificate": {
                "Certificate": {
                    "DomainName": "chat.example.com",
                    "Status": "ISSUED",
                    "NotAfter": datetime(2027, 6, 1, tzinfo=UTC),
                    "RenewalEligibility": "ELIGIBLE",
                }
            },
            "ecr.describe_images": {"imageDetails": [{"repositoryName": "models/chat"}]},
            "elbv2.describe_load_balancers": {"LoadBalancers": []},
        }
    )
