"""Checks of values that several parts of the file have: tags, ARNs, images, and names of stores."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cdk_gpu_clusters.catalogue.regions import partition_of
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.model_servers import read_ecr_image

from ._document import Fault, Key, faults_at
from ._parts import SpecParts
from ._rules import CLOSED_REGISTRY, FOREIGN_ARN, STORE, TAGS
from .network import NewNetwork

# Tags: the limits of AWS.

_MOST = 50
#: What IAM accepts in keys and values besides letters (L), numbers (N) and spaces (Z); EC2 takes more, but roles and
#: instance profiles get the same tags.
_SIGNS = frozenset("_.:/=+-@")
_SORTS = frozenset("LNZ")
#: Tags that the constructs and stacks add themselves.
_OURS = ("Name", "gpu-cluster")
#: Of these, the one that roles get as well; the name tag is EC2's alone.
_EVERYWHERE = ("gpu-cluster",)


def check_tags(key: Key, tags: Mapping[str, str], *, above: Mapping[str, str] | None = None) -> list[Fault]:
    """Find tags that AWS refuses.

    Args:
        above: Tags that the same resources get from elsewhere in the file.
    """
    faults: list[Fault] = []
    count = len({*tags, *(above or {}), *_OURS})
    if count > _MOST and tags:
        finding = TAGS.finding(
            cause="a resource would get too many tags",
            got=f"{count} (cluster, fleet, and {', '.join(_OURS)})",
            allowed=f"at most {_MOST}",
            fix=f"remove {count - _MOST}",
        )
        faults += faults_at(key, [finding])
    known = {name.lower(): name for name in (*_EVERYWHERE, *(above or {}))}
    for name, value in tags.items():
        faults += _check_tag((*key, name), name, value)
        other = known.setdefault(name.lower(), name)
        if other != name:
            faults += faults_at((*key, name), [_same_but_for_case(name, other)], at_key=True)
    return faults


def _same_but_for_case(name: str, other: str) -> Finding:
    return TAGS.finding(
        cause=f"a resource would get this tag and {other}, which differ in case alone; IAM takes them for one",
        got=name,
        allowed=other,
        fix=f"write {other}, or another key",
    )


def _foreign_sign(text: str) -> str:
    """The first character that IAM refuses in a tag; empty if there is none."""
    return next((sign for sign in text if sign not in _SIGNS and unicodedata.category(sign)[0] not in _SORTS), "")


def _check_tag(key: Key, name: str, value: str) -> list[Fault]:
    sign = _foreign_sign(name) or _foreign_sign(value)
    if name.lower().startswith("aws:"):
        cause, got, allowed, fix = "tag keys that start with aws: belong to AWS", name, "any other start", "rename it"
    elif not 1 <= len(name) <= 128:
        cause, got = "a tag key has an impossible length", f"{len(name)} characters"
        allowed, fix = "1 to 128 characters", "shorten it"
    elif len(value) > 256:
        cause, got = "a tag value is too long", f"{len(value)} characters"
        allowed, fix = "at most 256 characters", "shorten it"
    elif sign:
        cause, got = "a tag has a character that IAM refuses", repr(sign)
        allowed, fix = "letters, numbers, spaces and _ . : / = + - @", f"take {sign!r} out, or write - for it"
    else:
        return []
    return faults_at(key, [TAGS.finding(cause=cause, got=got, allowed=allowed, fix=fix)], at_key=True)


# ARNs: their Region and partition.


class ForeignPlace(NamedTuple):
    """The beginning of an ARN as it was given, and as the cluster's Region would have it."""

    got: str
    allowed: str


def foreign_place(arn: str, region: str) -> ForeignPlace | None:
    """Describe how an ARN is in another Region or partition; None if it is in this one.

    Example:
        >>> foreign_place("arn:aws:acm:us-east-1:111122223333:certificate/a", "eu-west-1")
        ForeignPlace(got='arn:aws:acm:us-east-1:…', allowed='arn:aws:acm:eu-west-1:…')
    """
    _, partition, service, there, *_ = arn.split(":")
    here = partition_of(region)
    if (partition, there) == (here, region):
        return None
    return ForeignPlace(f"arn:{partition}:{service}:{there}:…", f"arn:{here}:{service}:{region}:…")


# Names of stores, as fleets give them.


def check_store_name(name: str, stores: Mapping[str, Any], kinds: tuple[type[Any], ...], word: str) -> list[Finding]:
    """Find a name that no store of these kinds has; one with a fault of its own may be of any kind."""
    if name in stores and (stores[name] is None or isinstance(stores[name], kinds)):
        return []
    fitting = sorted(other for other, store in stores.items() if isinstance(store, kinds))
    return [
        STORE.finding(
            cause=f"this store is not one of {word}" if name in stores else "there is no store of this name in data",
            got=name,
            allowed=", ".join(fitting) or "none: data holds no such store",
            fix=f"write {' or '.join(fitting)}" if fitting else f"add data: {{ {name}: {{ {word}: … }} }}",
        )
    ]


def check_arn(key: Key, arn: str, region: str, what: str) -> list[Fault]:
    """Find an ARN of another Region or partition than the cluster's."""
    foreign = foreign_place(arn, region)
    if foreign is None:
        return []
    finding = FOREIGN_ARN.finding(
        cause=f"the {what} is in another Region or partition than the cluster",
        got=foreign.got,
        allowed=foreign.allowed,
        fix=f"give a {what} of the cluster's Region",
    )
    return faults_at(key, [finding])


def check_registry(image: str, parts: SpecParts) -> Iterator[Finding]:
    """Find an image that nodes of a closed network cannot pull."""
    network, repository = parts.network, read_ecr_image(image)
    is_closed = isinstance(network, NewNetwork) and network.egress == "closed"
    if is_closed and (repository is None or parts.region not in (None, repository.region)):
        region = parts.region or "<region>"
        yield CLOSED_REGISTRY.finding(
            cause="a closed network reaches no registry but ECR in its Region",
            got=image,
            allowed=f"<account>.dkr.ecr.{region}.amazonaws.com/<repository>:<tag>",
            fix="copy the image into ECR, or write egress: nat",
        )
