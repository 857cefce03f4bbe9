"""What the models look like, as far as messages need it: keys at a place, forms of a value, meanings of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, Tag

from . import _base, alarms, capacity, data, eks, image, inference, network
from ._base import NAME_PATTERN
from .model import ClusterSpec


class Form(NamedTuple):
    """One form of a value: its leading key, how it is written, and how its main text starts."""

    key: str
    example: str
    prefix: str = ""


#: Key whose value has several forms -> those forms.
FORMS = {
    "capacity": (
        Form("on_demand", "on_demand"),
        Form("spot", "spot"),
        Form("reservation", "{reservation: cr-…}", "cr-"),
        Form("reservation_group", "{reservation_group: arn:…}", "arn:"),
        Form("capacity_block", "{capacity_block: cr-…, ends_at: …}", "cr-"),
        Form("ultraserver_block", "{ultraserver_block: arn:…, ends_at: …}", "arn:"),
        Form("new_reservation", "{new_reservation: {end_date: …}}"),
    ),
    "image": (
        Form("id", "{id: ami-…}", "ami-"),
        Form("parameter", "{parameter: /…}", "/"),
        Form("os", "{os: al2023}"),
    ),
    "data": (
        Form("lustre", "{lustre: {storage_capacity_gib: …}}"),
        Form("existing_lustre", "{existing_lustre: {file_system_id: fs-…}}", "fs-"),
        Form("checkpoints", "{checkpoints: {}}"),
        Form("existing_checkpoints", "{existing_checkpoints: {bucket_name: …}}"),
    ),
}

#: Key whose value has several forms -> the tags under which pydantic reports the faults of each.
FORM_TAGS: dict[str, tuple[str, ...]] = {
    "capacity": tuple(capacity.CAPACITY_FORMS.values()),
    "image": tuple(image.IMAGE_FORMS.values()),
    "network": network.NETWORK_FORMS,
    "data": tuple(data.STORE_FORMS.values()),
}


def forms_key(path: tuple[int | str, ...]) -> str:
    """Key of `FORMS` and `FORM_TAGS` for the value at a path: that of all stores is `data`."""
    return "data" if len(path) == _STORE_DEPTH and path[0] == "data" else str(path[-1]) if path else ""


_STORE_DEPTH = 2


def _pattern_of(annotated: Any) -> str:
    return next(str(item.pattern) for item in annotated.__metadata__ if getattr(item, "pattern", None))


#: Pattern -> what it describes, an example, and which rule owns it.
PATTERNS = {
    NAME_PATTERN: (
        "a name of lower-case letters, digits and hyphens, a letter first, at most 40",
        "trainers",
        "name",
    ),
    _pattern_of(capacity.ReservationId): (
        "the id of a Capacity Reservation or Capacity Block",
        "cr-0123456789abcdef0",
        "reservation",
    ),
    _pattern_of(capacity.ResourceGroupArn): (
        "the ARN of a resource group",
        "arn:aws:resource-groups:us-east-1:111122223333:group/blocks",
        "group",
    ),
    _pattern_of(network.VpcId): ("the id of a VPC", "vpc-0123456789abcdef0", ""),
    _pattern_of(network.SubnetId): ("the id of a subnet", "subnet-0123456789abcdef0", ""),
    _pattern_of(image.ImageId): ("the id of a machine image", "ami-0123456789abcdef0", ""),
    _pattern_of(image.ParameterName): ("the name of an SSM parameter", "/images/training/latest", ""),
    _pattern_of(_base.VariableName): ("the name of an environment variable", "NCCL_DEBUG", ""),
    _pattern_of(_base.Line): ("one line of printable ASCII text", "INFO", ""),
    _pattern_of(data.FileSystemId): ("the id of a file system", "fs-0123456789abcdef0", ""),
    _pattern_of(data.SecurityGroupId): ("the id of a security group", "sg-0123456789abcdef0", ""),
    _pattern_of(data.MountName): ("the mount name of a file system", "abcdefgh", ""),
    _pattern_of(data.KeyArn): (
        "the ARN of a KMS key",
        "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        "",
    ),
    _pattern_of(data.BucketName): ("the name of a bucket", "my-corpus", ""),
    _pattern_of(data.ExpressBucketName): ("the name of a directory bucket", "llama--use1-az4--x-s3", ""),
    _pattern_of(data.WeeklyTime): ("a day, hour and minute of the week", "7:03:30", ""),
    _pattern_of(alarms.TopicArn): (
        "the ARN of an SNS topic",
        "arn:aws:sns:us-east-1:111122223333:operators",
        "",
    ),
    _pattern_of(inference.CertificateArn): (
        "the ARN of a certificate",
        "arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab",
        "",
    ),
    _pattern_of(eks.KubernetesVersion): ("a version of Kubernetes, in quotes", '"1.34"', ""),
    _pattern_of(eks.PrincipalArn): (
        "the ARN of an IAM role or user",
        "arn:aws:iam::111122223333:role/platform",
        "",
    ),
    _pattern_of(eks.RoleArn): ("the ARN of an IAM role", "arn:aws:iam::111122223333:role/platform", ""),
    _pattern_of(eks.ProgramUrl): ("an address", "s3://my-tools/kubectl", ""),
    _pattern_of(eks.Sha256): ("a sha256 of 64 hexadecimal digits", "0123456789abcdef" * 4, ""),
    _pattern_of(eks.Mirror): (
        "a registry, and a path in it",
        "111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror",
        "",
    ),
    r"^[0-9]{12}$": ("an AWS account id of 12 digits", "111122223333", ""),
}


def meant_key(name: str, known: Sequence[str]) -> str:
    """The key that is meant by a word; empty if none is near."""
    return next(iter(get_close_matches(name.replace("-", "_").lower(), known, n=1)), "")


def fields_at(loc: tuple[int | str, ...]) -> list[str]:
    """Keys that the format has at a location as pydantic reports it."""
    node: Any = ClusterSpec
    for part in loc:
        node = _step(node, part)
    model = _model_of(node)
    return list(model.model_fields) if model else []


def _step(node: Any, part: int | str) -> Any:
    if get_origin(node) in (dict, tuple):
        return get_args(node)[1 if get_origin(node) is dict else 0]
    tagged = _tagged(node, part)
    if tagged is not None:
        return tagged
    model = _model_of(node)
    return model.model_fields[str(part)].annotation if model and part in model.model_fields else None


def _model_of(node: Any) -> type[BaseModel] | None:
    if isinstance(node, type) and issubclass(node, BaseModel):
        return node
    if get_origin(node) in (dict, tuple):
        return None
    found = [model for model in map(_model_of, get_args(node)) if model]
    return found[0] if len(found) == 1 else None


def _tagged(node: Any, tag: int | str) -> Any:
    for part in get_args(node):
        if any(isinstance(item, Tag) and item.tag == tag for item in getattr(part, "__metadata__", ())):
            return get_args(part)[0]
        inner = _tagged(part, tag)
        if inner is not None:
            return inner
    return None
