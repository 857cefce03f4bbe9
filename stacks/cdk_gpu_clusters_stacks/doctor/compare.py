"""Compare a described resource with its plan: every place where they differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .planned import ANY_VERSION, UNKNOWN

Json = Mapping[str, Any]
#: Names of properties, and of items where a list has them.
Path = tuple[str, ...]

#: What distinguishes the items of a list, by the name of the list: items are compared with each other by it.
ITEM_KEYS: Mapping[str, tuple[str, ...]] = {
    "BlockDeviceMappings": ("DeviceName",),
    "CgroupCustomSettings": ("ParameterName",),
    "LifecycleHookSpecificationList": ("LifecycleHookName",),
    "NetworkInterfaces": ("NetworkCardIndex", "DeviceIndex"),
    "SlurmCustomSettings": ("ParameterName",),
    "TagSpecifications": ("ResourceType",),
    "Tags": ("Key",),
    "Taints": ("Key", "Effect"),
}
#: Documented defaults, by the last two names of their path: to state one is the same as to leave it out. None for what
#: EC2 alone sets. Sources: EC2 API reference, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest and
#: LaunchTemplateInstanceMetadataOptions; AWS PCS API reference, Accounting, Networking and SlurmRest.
_DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("NetworkInterfaces", "InterfaceType"): "interface",
    ("NetworkInterfaces", "NetworkCardIndex"): 0,
    ("MetadataOptions", "HttpEndpoint"): "enabled",
    ("MetadataOptions", "HttpProtocolIpv6"): "disabled",
    ("MetadataOptions", "InstanceMetadataTags"): "disabled",
    ("MetadataOptions", "State"): None,
    # EKS Auto Mode: clusters on which it was never on answer without these (aws-controllers-k8s/community#2619).
    ("ComputeConfig", "Enabled"): False,
    ("BlockStorage", "Enabled"): False,
    ("ElasticLoadBalancing", "Enabled"): False,
    ("Accounting", "DefaultPurgeTimeInDays"): -1,
    ("Accounting", "Mode"): "NONE",
    ("Networking", "NetworkType"): "IPV4",
    ("SlurmRest", "Mode"): "NONE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where a resource differs from its plan.

    Attributes:
        path: The property.
        planned: Its value in the plan; None if it has none.
        live: Its value in the account; None if it has none.
    """

    path: Path
    planned: Any
    live: Any


def differences(planned: Any, live: Any, path: Path = (), *, strict: bool = False) -> Iterator[Difference]:
    """Every difference between a value of the plan and the live one.

    Args:
        planned: Value of the plan.
        live: Live value.
        path: Its property.
        strict: Whether members that the plan does not give must be absent; otherwise they are AWS's own.
    """
    if planned is UNKNOWN or (isinstance(planned, list) and UNKNOWN in planned):
        return
    if live is None and _is_default(planned, path):
        return
    if isinstance(planned, Mapping) and isinstance(live, Mapping):
        for name in planned:
            yield from differences(planned[name], live.get(name), (*path, name), strict=strict)
        if strict:
            yield from _added(planned, live, path)
    elif isinstance(planned, list) and isinstance(live, list | type(None)):
        yield from _of_lists(planned, live or [], path, strict=strict)
    elif planned is ANY_VERSION:
        if not str(live).isdecimal():
            yield Difference(path=path, planned=planned, live=live)
    elif not _equal(planned, live, path):
        yield Difference(path=path, planned=planned, live=live)


def _added(planned: Json, live: Json, path: Path) -> Iterator[Difference]:
    """What the plan does not give, and is no default."""
    for name in (one for one in live if one not in planned):
        if not _empty(live[name]) and not _is_default(live[name], (*path, name)):
            yield Difference(path=(*path, name), planned=None, live=live[name])


def _is_default(value: Any, path: Path) -> bool:
    """Whether a value, or all values in it, are what AWS takes where nothing is stated."""
    if isinstance(value, Mapping):
        return all(_is_default(one, (*path, name)) for name, one in value.items())
    place = (_last_name(path[:-1]), path[-1] if path else "")
    return place in _DEFAULTS and _DEFAULTS[place] in (None, value)


def _of_lists(planned: Sequence[Any], live: Sequence[Any], path: Path, *, strict: bool) -> Iterator[Difference]:
    keys = ITEM_KEYS.get(path[-1] if path else "")
    if keys is None or not all(isinstance(one, Mapping) for one in (*planned, *live)):
        if not _same_items(planned, live, path, strict=strict):
            yield Difference(path=path, planned=list(planned), live=list(live))
        return
    wanted, found = ({key_of(one, keys): one for one in some} for some in (planned, live))
    for key, item in wanted.items():
        if key in found:
            yield from differences(item, found[key], (*path, key), strict=strict)
        else:
            yield Difference(path=(*path, key), planned=item, live=None)
    if path[-1] != "Tags":  # others add tags of their own
        yield from (
            Difference(path=(*path, key), planned=None, live=item) for key, item in found.items() if key not in wanted
        )


def _same_items(planned: Sequence[Any], live: Sequence[Any], path: Path, *, strict: bool) -> bool:
    """Whether two lists have the same items in any order, apart from members of items that are AWS's own."""
    rest = list(live)
    for item in sorted(planned, key=lambda one: len(text_of(one)), reverse=True):  # the most specific one first
        same = (at for at, one in enumerate(rest) if not any(differences(item, one, path, strict=strict)))
        if (at := next(same, None)) is None:
            return False
        del rest[at]
    return not rest


def key_of(item: Json, keys: Sequence[str]) -> str:
    """What distinguishes an item of a list from the others, by its keys in `ITEM_KEYS`."""
    # EC2 API reference, LaunchTemplateInstanceNetworkInterfaceSpecification: the default network card index is 0.
    return ", ".join(f"{name} {item.get(name, 0)}" if len(keys) > 1 else str(item.get(name)) for name in keys)


def _last_name(path: Path) -> str:
    """The last property of a path, also where an item of its list follows."""
    names = [one for one in path[-2:] if one in ITEM_KEYS or one == path[-1]]
    return next((one for one in names if one in ITEM_KEYS), names[-1] if names else "")


def _empty(value: Any) -> bool:
    return value in (None, "", [], {}, False)


def _equal(planned: Any, live: Any, path: Path) -> bool:
    if _empty(planned) and _empty(live):
        return True
    form = _FORMS.get(path[-1] if path else "", lambda value: value)
    return text_of(form(planned)) == text_of(form(live))


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _moment(value: Any) -> Any:
    from cdk_gpu_clusters_stacks.failures.answers import time_of

    return time_of(value) or value


def _log_group(arn: Any) -> str:
    """The log group in an ARN: FSx may answer with a log stream in it, and ARNs of groups may end with `:*`.

    Sources: hashicorp/terraform-provider-aws, `logStateFunc` for FSx; CloudWatch Logs API reference, LogGroup.
    """
    return ":".join(str(arn).split(":")[:7])


#: Values that AWS may write in another form, by the name of their property: what is compared instead.
_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "ConfigurationValues": _parsed,
    "Destination": _log_group,
    "EndDate": _moment,
}


def text_of(value: Any) -> str:
    """A value as text: CloudFormation takes numbers and truth values as texts, too."""
    if isinstance(value, Mapping):
        return json.dumps({str(name): text_of(one) for name, one in value.items() if not _empty(one)}, sort_keys=True)
    if isinstance(value, list):
        return json.dumps([text_of(one) for one in value])
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)
