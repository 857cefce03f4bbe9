"""Make, change and cancel a Capacity Reservation for CloudFormation: the code of a function of AWS Lambda.

EC2 gets the id of CloudFormation's request as its client token, so a request that is repeated reserves nothing twice.
The reservation has the stack and the resource as tags: one whose id never reached CloudFormation is found by them, and
is cancelled with the next request. A change that is rolled back finds the earlier one, which is not yet deleted.

Sources: CloudFormation user guide, "Custom resource request objects" and "`cfn-response` module"; EC2 API,
CreateCapacityReservation, ModifyCapacityReservation; its errors: hashicorp/terraform-provider-aws,
`internal/service/ec2/ec2_capacity_reservation.go`. Stored copies of 2026.
"""

import re
import time
from typing import Any

import boto3
import cfnresponse

FIXED = ("InstanceType", "InstancePlatform", "AvailabilityZone", "AvailabilityZoneId", "PlacementGroupArn")
CHANGEABLE = ("InstanceCount", "EndDateType", "EndDate", "InstanceMatchCriteria")


def handler(event: Any, context: Any) -> None:
    identifier = event.get("PhysicalResourceId")
    try:
        identifier = perform(boto3.client("ec2"), event, identifier)
    except Exception as error:  # noqa: BLE001 - whatever it is, CloudFormation waits for an answer
        cfnresponse.send(event, context, cfnresponse.FAILED, {}, identifier, reason=str(error))
    else:
        cfnresponse.send(event, context, cfnresponse.SUCCESS, {}, identifier)


def perform(ec2: Any, event: Any, present: Any) -> Any:
    marks = {"gpu-clusters:stack": event["StackId"], "gpu-clusters:resource": event["LogicalResourceId"]}
    own = live(ec2, Filters=[{"Name": f"tag:{key}", "Values": [value]} for key, value in marks.items()])
    if event["RequestType"] != "Delete":
        identifier = settled(ec2, event, present, own, marks)
        own.pop(identifier, None)
        own.pop(present, None)  # CloudFormation deletes it when the whole stack has changed
        present = identifier
    elif re.fullmatch("cr-[0-9a-f]+", present):
        own = live(ec2, CapacityReservationIds=[present])
    for one in own:
        ec2.cancel_capacity_reservation(CapacityReservationId=one)
    return present


def settled(ec2: Any, event: Any, present: Any, own: Any, marks: Any) -> Any:
    wanted, before = event["ResourceProperties"], event.get("OldResourceProperties", {"Tags": {}})
    fixed = terms(wanted, FIXED)
    if fixed != terms(before, FIXED):
        present = next((one for one, its in own.items() if terms(its, FIXED).items() >= fixed.items()), None)
    if present is None:
        return made(ec2, event, {**wanted["Tags"], **marks})
    if terms(wanted, CHANGEABLE) != terms(before, CHANGEABLE):
        ec2.modify_capacity_reservation(CapacityReservationId=present, **terms(wanted, CHANGEABLE))
    if wanted["Tags"] != before["Tags"]:
        ec2.create_tags(Resources=[present], Tags=pairs(wanted["Tags"]))
    if gone := before["Tags"].keys() - wanted["Tags"].keys():
        ec2.delete_tags(Resources=[present], Tags=[{"Key": key} for key in sorted(gone)])
    return present


def made(ec2: Any, event: Any, tags: Any) -> Any:
    found = ec2.create_capacity_reservation(
        ClientToken=event["RequestId"],
        TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": pairs(tags)}],
        **terms(event["ResourceProperties"], FIXED + CHANGEABLE),
    )["CapacityReservation"]
    identifier = found["CapacityReservationId"]
    for _ in range(24):
        if found["State"] != "pending":
            break
        time.sleep(5)
        found = live(ec2, CapacityReservationIds=[identifier]).get(identifier, {"State": "gone"})
    if found["State"] != "active":
        raise RuntimeError(f"the reservation {identifier} is {found['State']}")
    return identifier


def live(ec2: Any, **which: Any) -> Any:
    try:
        found = ec2.describe_capacity_reservations(**which)["CapacityReservations"]
    except ec2.exceptions.ClientError as error:
        if "NotFound" not in error.response["Error"]["Code"]:
            raise
        found = []
    return {one["CapacityReservationId"]: one for one in found if one["State"] in ("pending", "active")}


def terms(given: Any, names: Any) -> Any:
    chosen = {name: given[name] for name in names if name in given}
    return {name: int(value) if name == "InstanceCount" else value for name, value in chosen.items()}


def pairs(tags: Any) -> Any:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
