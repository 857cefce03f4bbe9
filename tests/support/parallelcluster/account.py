"""An account in moto for validators of ParallelCluster: run as a program, it prints its address and ids.

moto lacks what the validators ask of reservations and placement groups, and refuses disks of an image in a dry run of
RunInstances. Both are added here, as EC2 answers (EC2 API reference: DescribeCapacityReservations,
DescribeCapacityBlockStatus, DescribePlacementGroups, BlockDeviceMapping).
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import boto3
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.responses import EC2Response
from moto.ec2.responses.instances import InstanceResponse
from moto.server import ThreadedMotoServer

_REGION, _ZONE = "us-east-1", "us-east-1a"
_IMAGE = "aws-parallelcluster-{version}-amzn2023-hvm-x86_64-202601010000"
_RESERVATION = "cr-0123456789abcdef0"
_BLOCK = "cr-0fedcba9876543210"
_PLACEMENT_GROUP = "reserved"
_ITEM = """
<item>
  <capacityReservationId>{id}</capacityReservationId>
  <instanceType>{instance_type}</instanceType>
  <instancePlatform>Linux/UNIX</instancePlatform>
  <availabilityZone>us-east-1a</availabilityZone>
  <totalInstanceCount>{count}</totalInstanceCount>
  <state>active</state>
  <reservationType>{kind}</reservationType>
  {group}
</item>
"""
_GROUP = f"<placementGroupArn>arn:aws:ec2:us-east-1:{DEFAULT_ACCOUNT_ID}:placement-group/{_PLACEMENT_GROUP}</placementGroupArn>"
_RESERVATIONS = {
    _RESERVATION: _ITEM.format(id=_RESERVATION, instance_type="p4d.24xlarge", count=4, kind="default", group=_GROUP),
    _BLOCK: _ITEM.format(id=_BLOCK, instance_type="p5.48xlarge", count=2, kind="capacity-block", group=""),
}


def describe_capacity_reservations(self: Any) -> str:
    """The reservations of the account by their ids."""
    asked = [value[0] for name, value in self.querystring.items() if name.startswith("CapacityReservationId")]
    items = "".join(_RESERVATIONS[identifier] for identifier in asked)
    return (
        '<DescribeCapacityReservationsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<capacityReservationSet>{items}</capacityReservationSet></DescribeCapacityReservationsResponse>"
    )


def describe_placement_groups(_: Any) -> str:
    """The placement group of a reservation."""
    group = (
        f"<item><groupName>{_PLACEMENT_GROUP}</groupName><strategy>cluster</strategy><state>available</state></item>"
    )
    return (
        '<DescribePlacementGroupsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<placementGroupSet>{group}</placementGroupSet></DescribePlacementGroupsResponse>"
    )


def describe_capacity_block_status(_: Any) -> str:
    """No UltraServer is impaired."""
    return (
        '<DescribeCapacityBlockStatusResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        "<capacityBlockStatusSet></capacityBlockStatusSet></DescribeCapacityBlockStatusResponse>"
    )


def main(version: str) -> None:
    """Serve the account until standard input ends."""
    EC2Response.describe_capacity_reservations = describe_capacity_reservations
    EC2Response.describe_capacity_block_status = describe_capacity_block_status
    EC2Response.describe_placement_groups = describe_placement_groups
    InstanceResponse._validate_block_device_mapping = staticmethod(lambda _: None)
    backend, name = ec2_backends[DEFAULT_ACCOUNT_ID][_REGION], _IMAGE.format(version=version)
    image = Ami(
        backend, "ami-0123456789abcdef0", name=name, description=name, owner_id="247102896272", owner_alias="amazon",
        public=True, architecture="x86_64", virtualization_type="hvm", root_device_type="ebs",
        root_device_name="/dev/xvda", image_location=f"amazon/{name}", hypervisor="xen",
        creation_date=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    backend.amis[image.id] = image
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    json.dump({"url": url, "reservation": _RESERVATION, "block": _BLOCK, **_resources(url)}, sys.stdout)
    sys.stdout.write("\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


def _resources(url: str) -> dict[str, str]:
    ec2, s3, efs = (boto3.client(name, endpoint_url=url, region_name=_REGION) for name in ("ec2", "s3", "efs"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20", AvailabilityZone=_ZONE)["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="clients", Description="Clients of stores", VpcId=vpc)["GroupId"]
    every = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=every)
    s3.create_bucket(Bucket="my-bucket")
    file_system = efs.create_file_system(CreationToken="homes")["FileSystemId"]
    efs.create_mount_target(FileSystemId=file_system, SubnetId=subnet, SecurityGroups=[group])
    return {"vpc": vpc, "subnet": subnet, "group": group, "file_system": file_system}


if __name__ == "__main__":
    main(sys.argv[1])
