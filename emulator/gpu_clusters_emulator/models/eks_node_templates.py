"""What EKS refuses of a launch template under a managed node group.

EC2 takes such templates; EKS refuses them when it makes the node group. Sources, read 2026-11-22: Amazon EKS user guide
(awsdocs/amazon-eks-user-guide @ 4d52b4d), "Customize managed nodes with launch templates" and "Create a managed node
group with Capacity Blocks for ML"; EKS API model (botocore 1.44.5), CreateNodegroup. Wordings of the service:
terraform-aws-modules/terraform-aws-eks issues 1386, 2219 and 1875, crossplane-contrib/provider-upjet-aws issue 866,
pulumi/pulumi-eks issue 1283.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..node_templates import own_specification

if TYPE_CHECKING:
    from ..world import World

_FORBIDDEN = ("IamInstanceProfile", "InstanceInitiatedShutdownBehavior", "HibernationOptions")
_ONLY_IN_TEMPLATE = {
    "DiskSize": "Disk size must be specified within the launch template.",
    "RemoteAccess": "Remote access configuration cannot be specified with a launch template.",
}
_BLOCK = "CAPACITY_BLOCK"


def node_template_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of the launch template of an `AWS::EKS::Nodegroup`, and of what stands beside it."""
    if "LaunchTemplate" not in properties:
        yield from _without_template(properties)
        return
    given, specification = properties["LaunchTemplate"], own_specification(properties)
    if ("Id" in given) == ("Name" in given):
        message = "either the launch template name or the launch template ID must be given, but not both"
        yield Fault(check="node-template-name", message=message, path="LaunchTemplate")
        return
    data = world.launch_template_data(specification or {})
    if data is None:
        message = f"there is no launch template {specification}"
        yield Fault(check="node-template-missing", message=message, path="LaunchTemplate")
        return
    yield from _forbidden(data)
    yield from _said_twice(properties, data)
    yield from _image_faults(properties, data)
    yield from _purchase_faults(properties, data)


def _without_template(properties: dict[str, Any]) -> Iterator[Fault]:
    if properties.get("CapacityType") == _BLOCK:
        message = "Managed node groups with Capacity Blocks can only be created with custom launch templates"
        yield Fault(check="node-template-block", message=message, path="LaunchTemplate")
    if properties.get("AmiType") == "CUSTOM":
        message = "AmiType CUSTOM needs a launch template with an image id"
        yield Fault(check="node-template-image", message=message, path="AmiType")


def _forbidden(data: dict[str, Any]) -> Iterator[Fault]:
    for name in _FORBIDDEN:
        if name in data:
            message = f"{name} is prohibited in the launch template of a managed node group"
            yield Fault(check="node-template-forbidden", message=message, path="LaunchTemplate")
    if any("SubnetId" in one for one in data.get("NetworkInterfaces", [])):
        message = "SubnetId is prohibited in the network interfaces: the node group has the subnets"
        yield Fault(check="node-template-forbidden", message=message, path="LaunchTemplate")


def _said_twice(properties: dict[str, Any], data: dict[str, Any]) -> Iterator[Fault]:
    if "InstanceType" in data and properties.get("InstanceTypes"):
        message = "Cannot specify instance types in launch template and API request"
        yield Fault(check="node-template-type", message=message, path="InstanceTypes")
    for name, message in _ONLY_IN_TEMPLATE.items():
        if name in properties:
            yield Fault(check="node-template-beside", message=message, path=name)


def _image_faults(properties: dict[str, Any], data: dict[str, Any]) -> Iterator[Fault]:
    image, kind = data.get("ImageId"), properties.get("AmiType")
    if image is None and kind == "CUSTOM":
        message = "AmiType CUSTOM needs an image id in the launch template"
        yield Fault(check="node-template-image", message=message, path="AmiType")
    for name in ("Version", "ReleaseVersion"):
        if image is not None and name in properties:
            message = (
                f"You cannot specify {name} when specifying an image id to use within the launch template."
            )
            yield Fault(check="node-template-image", message=message, path=name)
    if image is not None and kind not in (None, "CUSTOM"):
        message = f"You cannot specify an AMI type other than CUSTOM when specifying an image id, got {kind}"
        yield Fault(check="node-template-image", message=message, path="AmiType")
    is_merged = image is None and "BOTTLEROCKET" not in str(kind) and "WINDOWS" not in str(kind)
    if is_merged and "UserData" in data and not _is_mime(data["UserData"]):
        message = "Ec2LaunchTemplateInvalidConfiguration: User data was not in the MIME multipart format."
        yield Fault(check="node-template-user-data", message=message, path="LaunchTemplate")


def _is_mime(encoded: str) -> bool:
    try:
        text = base64.b64decode(encoded).decode(errors="replace")
    except (binascii.Error, ValueError):
        return False
    head = text.partition("\n\n")[0].replace("\r", "").lower()
    return "mime-version:" in head and "content-type: multipart/" in head


def _purchase_faults(properties: dict[str, Any], data: dict[str, Any]) -> Iterator[Fault]:
    kind = properties.get("CapacityType", "ON_DEMAND")
    market = data.get("InstanceMarketOptions", {}).get("MarketType")
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if market == "spot":
        message = "Spot market options are prohibited in the launch template: set CapacityType to SPOT"
        yield Fault(check="node-template-spot", message=message, path="LaunchTemplate")
    if market == "capacity-block" and kind != _BLOCK:
        message = f"MarketType capacity-block needs CapacityType {_BLOCK}, got {kind}"
        yield Fault(check="node-template-block", message=message, path="CapacityType")
    if kind != _BLOCK:
        return
    missing = [
        name
        for name, is_there in (
            ("InstanceMarketOptions with MarketType capacity-block", market == "capacity-block"),
            ("CapacityReservationTarget with CapacityReservationId", "CapacityReservationId" in target),
            ("InstanceType", "InstanceType" in data),
        )
        if not is_there
    ]
    if missing:
        message = f"the launch template of a node group with a Capacity Block has no {', no '.join(missing)}"
        yield Fault(check="node-template-block", message=message, path="LaunchTemplate")
