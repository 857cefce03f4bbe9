"""pydantic's errors in the words of the cluster file: what is wrong, the value, what is allowed, and the fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, Tag
from pydantic_core import ErrorDetails

from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION
from cdk_gpu_clusters.errors import Finding, Rule
from cdk_gpu_clusters.rules.capacity import TIME_ZONE
from cdk_gpu_clusters.rules.capacity_checks import BLOCK_NEEDS_END, RESERVATION_GROUP_ARN, RESERVATION_ID

from . import _base, capacity, data, eks, fleet, hyperpod, inference, monitoring, network, parallelcluster, pcs
from ._base import NAME_PATTERN, form_tag
from ._document import Fault, Key, dotted
from ._meant import EXAMPLES, FLEET_KINDS, ROOT_KEYS, SYNONYMS, example_of, homes_of, meant_key, number_in, usable_name
from ._rules import MISSING_KEY, NAME, ONE_FORM, ORCHESTRATOR, UNKNOWN_KEY, USER_DATA_FILE, WRONG_TYPE, WRONG_VALUE
from .model import ORCHESTRATORS, ClusterSpec


def translate(errors: Iterable[ErrorDetails]) -> list[Fault]:
    """Turn pydantic's errors into faults, leaving out those that only follow from another."""
    faults: list[Fault] = []
    suggested: set[Key] = set()
    missing: list[tuple[Key, Fault]] = []
    errors = list(errors)
    nameless = {_key_of(error)[0] for error in errors if _is_key_of_fleet(error)}
    faults += [_nameless(min(group, key=str)) for group in _by_section(nameless)]
    for error in errors:
        key, tag = _key_of(error)
        if key[:_FLEET_DEPTH] in nameless:
            continue
        if error["type"] == "extra_forbidden":
            fault, near = _unknown(key, error["loc"])
            faults.append(fault)
            if near:
                suggested.add((*key[:-1], near))
        elif error["type"] == "missing":
            missing.append((key, _missing(key, tag)))
        elif error["type"] != "too_short" or not error["input"]:  # a list is short of the items that have a fault
            faults.append(_value_fault(key, error))
    faults += [fault for key, fault in missing if key not in suggested]
    return faults


def _is_key_of_fleet(error: ErrorDetails) -> bool:
    """Whether a key of a fleet, with its value, is in the place of the name of a fleet."""
    key = _key_of(error)[0]
    if len(key) != _FLEET_DEPTH or key[0] not in FLEET_KINDS or _is_about_key(error):
        return False
    return key[2] in FLEET_KINDS[str(key[0])].model_fields and not isinstance(error["input"], dict | NoneType)


_FLEET_DEPTH = 3


def _by_section(keys: Iterable[Key]) -> list[list[Key]]:
    return [[key for key in keys if key[0] == kind] for kind in FLEET_KINDS if any(key[0] == kind for key in keys)]


def _nameless(key: Key) -> Fault:
    name = str(key[2])
    finding = NAME.finding(
        cause=f"{dotted(key[:2])}: {name} is a key of a fleet, and the fleet has no name",
        got=name,
        allowed=example_of("fleets"),
        fix="write the name of the fleet above it, such as trainers:, and indent its keys below",
    )
    return Fault(key[:_FLEET_DEPTH], finding, at_key=True)


def _key_of(error: ErrorDetails) -> tuple[Key, str]:
    """The path in the file of an error's location, and the last form tag in it."""
    loc, tag = error["loc"], ""
    key: list[int | str] = []
    parts = loc[:-1] if _is_about_key(error) else loc
    for index, part in enumerate(parts):
        if part in FORM_TAGS.get(forms_key(parts[:index]), ()):
            tag = str(part)
        else:
            key.append(part)
    return tuple(key), tag


def _is_about_key(error: ErrorDetails) -> bool:
    """Whether a key of a free mapping is wrong, not its value: pydantic then adds `[key]` to the location."""
    loc = error["loc"]
    return loc[-1:] == ("[key]",) and loc[-3:-2] in _FREE_MAPPINGS and error["type"] != "extra_forbidden"


_FREE_MAPPINGS = tuple(
    (name,)
    for name in (
        "fleets",
        "environment",
        "secrets",
        "tags",
        "data",
        "mounts",
        "service_subnets",
        "public_subnets",
        "queues",
        "node_settings",
        "slurm_settings",
    )
)


def _unknown(key: Key, loc: tuple[int | str, ...]) -> tuple[Fault, str]:
    known = fields_at(loc[:-1])
    name = str(key[-1])
    near = meant_key(name, known)
    fix = f"write {near}" if near else "remove it, or use one of the keys allowed"
    if near and near in EXAMPLES and SYNONYMS.get(name) == near:
        fix = f"write {near}: {EXAMPLES[near]}"
    homes = homes_of(name)
    if homes and (not near or name in ROOT_KEYS):
        fix, near = f"move it to {' or '.join(homes)}", ""
    elif len(key) == 2 and key[0] in FLEET_KINDS and not near:
        fix = "write it below fleets:, indented once more"
    finding = UNKNOWN_KEY.finding(
        cause=f"{dotted(key)}: there is no key of this name here", got=name, allowed=", ".join(known), fix=fix
    )
    return Fault(key, finding, at_key=True), near


def _missing(key: Key, tag: str) -> Fault:
    name = str(key[-1])
    if name == "ends_at" and "block" in tag:
        finding = BLOCK_NEEDS_END.finding(
            cause=f"{dotted(key[:-1])}: a block needs its end, so that nodes are drained before EC2 takes them",
            got="no ends_at",
            allowed="the end of the block, such as 2026-12-15T11:30Z",
            fix="add ends_at, as DescribeCapacityReservations shows the block's EndDate",
        )
        return Fault(key[:-1], finding)
    parent = dotted(key[:-1]) or "the file"
    finding = MISSING_KEY.finding(cause=f"{parent} lacks the key {name}", got="nothing", fix=f"add {name}")
    return Fault(key[:-1], finding, at_key=True)


def _value_fault(key: Key, error: ErrorDetails) -> Fault:
    kind = error["type"]
    if key == ("orchestrator",):
        return Fault(key, _orchestrator(error["input"]))
    if kind in FORMS_ERRORS:
        return Fault(key, _no_form(key, error["input"]))
    if kind == "string_pattern_mismatch":
        return Fault(key, _pattern(key, error), at_key=_is_about_key(error))
    return Fault(key, value_finding(dotted(key), error), at_key=_is_about_key(error))


FORMS_ERRORS = ("union_tag_not_found", "union_tag_invalid")


#: Other names of orchestrators.
_ALSO_CALLED = {
    "aws-batch": "batch",
    "hyperpod": "hyperpod-slurm",
    "kubernetes": "eks",
    "k8s": "eks",
    "slurm": "pcs",
    "none": "ec2",
    **dict.fromkeys(("aws-parallelcluster", "pcluster"), "parallelcluster"),
}


def _orchestrator(value: object) -> Finding:
    word = str(value).lower()
    near = get_close_matches(_ALSO_CALLED.get(word, word), list(ORCHESTRATORS), n=1)
    return ORCHESTRATOR.finding(
        cause="orchestrator: not one that this version builds",
        got=show(value),
        allowed=", ".join(ORCHESTRATORS),
        fix=f"write orchestrator: {near[0]}" if near else f"write orchestrator: {' or '.join(ORCHESTRATORS)}",
    )


def _no_form(key: Key, value: object) -> Finding:
    forms = FORMS[forms_key(key)]
    given = [form.key for form in forms if isinstance(value, dict) and form.key in value]
    if given:
        cause, fix = f"two forms at once: {' and '.join(given)}", "keep one of them"
    else:
        meant = [form.example for form in forms if form.key in _meant(value, forms)]
        cause, fix = (
            "none of the forms that this value can have",
            f"write {' or '.join(meant) or 'one of these forms'}",
        )
    allowed = " | ".join(form.example for form in forms)
    return ONE_FORM.finding(cause=f"{dotted(key)}: {cause}", got=show(value), allowed=allowed, fix=fix)


def _meant(value: object, forms: Iterable[Form]) -> set[str]:
    """Leading keys of the forms that a value looks like: by its id's prefix, or by a near word."""
    words = [word for word in (value if isinstance(value, dict) else [value]) if isinstance(word, str)]
    by_prefix = {form.key for form in forms for word in words if form.prefix and word.startswith(form.prefix)}
    names = [form.key for form in forms]
    return by_prefix or {near for word in words for near in get_close_matches(_as_key(word), names, n=1)}


def _as_key(word: str) -> str:
    return word.replace("-", "_").lower()


def _pattern(key: Key, error: ErrorDetails) -> Finding:
    what, example, rule_id = PATTERNS[error["ctx"]["pattern"]]
    rule: Rule = _PATTERN_RULES.get(rule_id, WRONG_VALUE)
    value = str(error["input"])
    fix = f"write it like {example}"
    if rule is NAME:
        name = usable_name(value)
        fix = f"write {name}" if name else "write it with letters from a to z, such as trainers"
        if "/" in value and (key[-1] == "checkpoints" or key[-2:-1] == ("mounts",)):
            fix = "write the name of a store in data"
        if key[-2:-1] == ("mounts",) and value.startswith("/"):
            fix = f"write {value}: {key[-1]}, the directory first"
    elif rule is WRONG_VALUE and what == "the name of a bucket":
        fix = f"write {value.removeprefix('s3://').partition('/')[0].lower().replace('_', '-')}"
    return rule.finding(cause=f"{dotted(key)}: not {what}", got=show(value), allowed=f"such as {example}", fix=fix)


_PATTERN_RULES = {"reservation": RESERVATION_ID, "group": RESERVATION_GROUP_ARN, "name": NAME}


# What messages need to know about the models: keys at a place, forms of a value, meanings of patterns.


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
        Form("capacity_blocks", "{capacity_blocks: [{capacity_block: cr-…, ends_at: …}, …]}"),
        Form("ultraserver_block", "{ultraserver_block: arn:…, ends_at: …}", "arn:"),
        Form("new_reservation", "{new_reservation: {end_date: …}}"),
        Form("training_plan", "{training_plan: arn:…}", "arn:aws:sagemaker:"),
    ),
    "image": (
        Form("id", "{id: ami-…}", "ami-"),
        Form("parameter", "{parameter: /…}", "/"),
        Form("os", "{os: al2023}"),
    ),
    "data": (
        Form("lustre", "{lustre: {storage_capacity_gib: …}}"),
        Form("existing_lustre", "{existing_lustre: {file_system_id: fs-…}}", "fs-"),
        Form("openzfs", "{openzfs: {storage_capacity_gib: …}}"),
        Form("existing_openzfs", "{existing_openzfs: {file_system_id: fs-…}}"),
        Form("efs", "{efs: {}}"),
        Form("existing_efs", "{existing_efs: {file_system_id: fs-…}}"),
        Form("checkpoints", "{checkpoints: {}}"),
        Form("existing_checkpoints", "{existing_checkpoints: {bucket_name: …}}"),
    ),
}

#: Key whose value has several forms -> the tags under which pydantic reports the faults of each.
FORM_TAGS: dict[str, tuple[str, ...]] = {
    **{key: tuple(form_tag(form.key) for form in forms) for key, forms in FORMS.items()},
    "network": network.NETWORK_FORMS,
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
    _pattern_of(network.OrganizationId): ("the id of an organization", "o-a1b2c3d4e5", ""),
    _pattern_of(network.SubnetId): ("the id of a subnet", "subnet-0123456789abcdef0", ""),
    _pattern_of(fleet.ImageId): ("the id of a machine image", "ami-0123456789abcdef0", ""),
    _pattern_of(fleet.ParameterName): ("the name of an SSM parameter", "/images/training/latest", ""),
    _pattern_of(_base.VariableName): ("the name of an environment variable", "NCCL_DEBUG", ""),
    _pattern_of(_base.UserName): ("the name or number of a user, or '*'", "ubuntu", ""),
    _pattern_of(_base.Line): ("one line of printable ASCII text", "INFO", ""),
    _pattern_of(monitoring.HostedZoneId): ("the id of a hosted zone", "Z0123456789ABCDEFGHIJ", ""),
    _pattern_of(parallelcluster.VolumeId): ("the id of a volume of FSx for OpenZFS", "fsvol-0123456789abcdef0", ""),
    _pattern_of(parallelcluster.ParallelClusterVersion): ("a version of AWS ParallelCluster", "3.16.1", ""),
    _pattern_of(data.FileSystemId): ("the id of a file system", "fs-0123456789abcdef0", ""),
    _pattern_of(data.SecurityGroupId): ("the id of a security group", "sg-0123456789abcdef0", ""),
    _pattern_of(data.ExportPath): ("a directory of a file system", "/fsx/home", ""),
    _pattern_of(data.MountName): ("the mount name of a file system", "abcdefgh", ""),
    _pattern_of(data.KeyArn): (
        "the ARN of a KMS key",
        "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        "",
    ),
    _pattern_of(data.BucketName): ("the name of a bucket", "my-corpus", ""),
    _pattern_of(data.ExpressBucketName): ("the name of a directory bucket", "llama--use1-az4--x-s3", ""),
    _pattern_of(data.KeyPrefix): ("a folder of a bucket, without a slash at its ends", "runs/llama", ""),
    _pattern_of(fleet.Cron): ("minute, hour, day of the month, month and day of the week", "0 2 * * SUN", ""),
    _pattern_of(fleet.TimeZone): ("the name of a time zone", "Europe/Berlin", ""),
    _pattern_of(data.WeeklyTime): ("a day, hour and minute of the week", "7:03:30", ""),
    _pattern_of(fleet.TopicArn): (
        "the ARN of an SNS topic",
        "arn:aws:sns:us-east-1:111122223333:operators",
        "",
    ),
    _pattern_of(inference.CertificateArn): (
        "the ARN of a certificate",
        "arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab",
        "",
    ),
    _pattern_of(eks.HostName): (
        "a name of DNS in lower-case letters, digits, dashes and dots",
        "models.example.org",
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
    _pattern_of(pcs.SlurmVersion): ("a version of Slurm, in quotes", f'"{DEFAULT_SLURM_VERSION}"', ""),
    _pattern_of(hyperpod.SecretArn): (
        "the ARN of a secret",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:slurm-AbCdEf",
        "",
    ),
    _pattern_of(pcs.ClusterId): ("the id of a cluster of AWS PCS", "pcs_abc1234567", ""),
    r"^[0-9]{12}$": ("an AWS account id of 12 digits", "111122223333", ""),
}


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


# Messages about a value that is wrong by itself.

_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "tuple_type": "a list",
    "path_type": "the path of a file",
    "enum": "",
}
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "above"),
}
_BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}


_MAPPING = "a mapping of keys to values"


def _wrong_type(where: str, error: ErrorDetails) -> Finding:
    wanted = _TYPES[error["type"]]
    value = error["input"]
    fix = f"write {wanted}"
    if wanted == "text" and where == "name":
        fix = "write a name that begins with a letter, such as demo"
    elif wanted == "text" and isinstance(value, bool | int | float):
        fix = f'put it in quotes: "{show(value)}"'
    elif wanted == "text" and isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        fix = f"write one of them: {value[0]}"
    elif wanted == "true or false":
        fix = f"write {_BOOLEANS.get(str(value).lower(), wanted)}"
    elif wanted in ("a whole number", "a number"):
        fix = f"write {number_in(value, where) or wanted}"
    elif wanted == "a list" and isinstance(value, str):
        fix = f"write [{', '.join(value.split())}]"
    elif wanted == _MAPPING:
        key = where.rpartition(".")[2]
        fix = f"write {key}: {example_of(where)}"
        if value is None:
            fix += "; indent what belongs to it further than the key"
    return WRONG_TYPE.finding(
        cause=f"{where}: not {wanted}", got=f"{show(value)} ({_kind(value)})", allowed=wanted, fix=fix
    )


def _limit(where: str, error: ErrorDetails) -> Finding:
    name, word = _LIMITS[error["type"]]
    bound = error["ctx"][name]
    return WRONG_VALUE.finding(
        cause=f"{where}: out of range",
        got=show(error["input"]),
        allowed=f"{word} {bound}",
        fix=f"give {word} {bound}",
    )


def _choice(where: str, error: ErrorDetails) -> Finding:
    allowed = [part.strip().strip("'") for part in error["ctx"]["expected"].replace(" or ", ", ").split(",")]
    value = error["input"]
    word = value.replace("_", "-").lower() if isinstance(value, str) else ""
    near = get_close_matches(word, allowed, n=1)
    fix = f"write {near[0] if near else ' or '.join(allowed)}"
    return WRONG_VALUE.finding(
        cause=f"{where}: not a value of this key", got=show(value), allowed=", ".join(allowed), fix=fix
    )


#: Errors of our own types -> the rule, what is allowed, and the fix.
_OWN_TYPES = {
    "utc_time": (
        TIME_ZONE,
        "a date and a time to the minute with its time zone, such as 2026-12-15T11:30Z",
        "write it like 2026-12-15T11:30Z; Z is UTC",
    ),
    "client": (
        WRONG_VALUE,
        "an IPv4 range such as 10.0.0.0/16, or the id of a security group such as sg-0123456789abcdef0",
        "write one of them",
    ),
    "outside": (
        USER_DATA_FILE,
        "a file in the folder of the cluster file or below it, also after links",
        "move the file there",
    ),
    "mig": (
        WRONG_TYPE,
        "profiles separated by commas, such as 3g.20gb,4g.20gb; or a list of such texts, one for each GPU",
        "write profiles by name or id",
    ),
}


def _own_type(where: str, error: ErrorDetails) -> Finding:
    rule, allowed, fix = _OWN_TYPES[error["type"]]
    return rule.finding(cause=f"{where}: {error['msg']}", got=show(error["input"]), allowed=allowed, fix=fix)


def _cidr(where: str, error: ErrorDetails) -> Finding:
    meant = error.get("ctx", {}).get("meant")
    fix = f"write {meant}" if meant else "write an address, a slash and a prefix length"
    if not meant and _ADDRESS.fullmatch(str(error["input"])):
        fix = f"write {error['input']}/32 for this address alone, or a range such as 10.0.0.0/16"
    return WRONG_VALUE.finding(
        cause=f"{where}: {'host bits are set in this range' if meant else error['msg']}",
        got=show(error["input"]),
        allowed="an IPv4 range such as 10.0.0.0/16",
        fix=fix,
    )


_ADDRESS = re.compile(r"(\d{1,3}\.){3}\d{1,3}")


def _empty(where: str, error: ErrorDetails) -> Finding:
    return WRONG_VALUE.finding(
        cause=f"{where}: empty",
        got=show(error["input"]),
        allowed="at least one",
        fix="add one, or remove the key",
    )


def _other(where: str, error: ErrorDetails) -> Finding:
    message = error["msg"][:1].lower() + error["msg"][1:]
    return WRONG_VALUE.finding(cause=f"{where}: {message}", got=show(error["input"]), fix="correct the value")


_MAKERS: dict[str, Callable[[str, ErrorDetails], Finding]] = {
    "greater_than_equal": _limit,
    "less_than_equal": _limit,
    "greater_than": _limit,
    "literal_error": _choice,
    "enum": _choice,
    **dict.fromkeys(_OWN_TYPES, _own_type),
    "cidr": _cidr,
    "cidr_host_bits": _cidr,
    "string_too_short": _empty,
    "too_short": _empty,
}


def value_finding(where: str, error: ErrorDetails) -> Finding:
    """Say what is wrong with a value."""
    kind = error["type"]
    return _MAKERS.get(kind, _wrong_type if kind in _TYPES else _other)(where, error)


def show(value: Any) -> str:
    """A value of the file, short, as YAML would have it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        text = "{" + ", ".join(f"{key}: {show(item)}" for key, item in list(value.items())[:4]) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(show(item) for item in value[:4]) + "]"
    else:
        text = str(value) if str(value).isprintable() and str(value) else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _kind(value: object) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        dict: "a mapping",
    }
    return "empty" if value is None else names.get(type(value), "a list")
