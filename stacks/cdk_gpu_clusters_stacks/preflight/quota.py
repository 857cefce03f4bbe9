"""Quotas of the account against what a cluster needs."""

from __future__ import annotations

from collections.abc import Callable

from cdk_gpu_clusters.catalogue.quotas import Quota

from .call import DEFAULT_QUOTA, DEFAULT_QUOTAS, QUOTA, QUOTAS, NoAnswer
from .check import Inquiry, Verdict, failed, passed, warned

#: The calls of every check that weighs a quota.
QUOTA_CALLS = (QUOTA, DEFAULT_QUOTA)
#: The calls of every check that weighs a quota which only its name identifies.
NAMED_QUOTA_CALLS = (QUOTAS, DEFAULT_QUOTAS)


def limit_of(quota: Quota, inquiry: Inquiry) -> float:
    """The account's own value of a quota in the Region; the default where it has none.

    Raises:
        NoAnswer: If Service Quotas does not say.
    """
    names = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    answer = inquiry.find(QUOTA, **names) or inquiry.ask(DEFAULT_QUOTA, **names)
    return float(answer["Quota"]["Value"])


def named_quota(service: str, name: str, unit: str, inquiry: Inquiry) -> tuple[Quota, float]:
    """A quota whose code the catalogue does not have, and the account's own value; the default where it has none.

    Args:
        service: Service code of Service Quotas.
        name: Name of the quota.
        unit: What it counts.
        inquiry: Where to ask.

    Raises:
        NoAnswer: If Service Quotas lists no such quota.
    """
    # Service Quotas API reference, ListServiceQuotas: a quota without an applied value is left out.
    for call in NAMED_QUOTA_CALLS:
        for found in inquiry.ask(call, ServiceCode=service).get("Quotas", ()):
            if found.get("QuotaName") == name and "Value" in found:
                code = str(found["QuotaCode"])
                quota = Quota(key=name, service=service, code=code, name=name, unit=unit, source=call.name)
                return quota, float(found["Value"])
    raise NoAnswer(
        f"Service Quotas lists no quota {name!r} in {inquiry.cluster.region}",
        fix="look in the Service Quotas console, and check that the Region has this type",
    )


def weigh(
    quota: Quota, inquiry: Inquiry, *, used: Callable[[], float], least: float, most: float | None = None
) -> Verdict:
    """Say whether a quota has room, as `weigh_limit` does.

    Raises:
        NoAnswer: If the quota, or what is used of it, is not known.
    """
    return weigh_limit(quota, limit_of(quota, inquiry), used=used, least=least, most=most)


def weigh_limit(
    quota: Quota, limit: float, *, used: Callable[[], float], least: float, most: float | None = None
) -> Verdict:
    """Say whether a quota has room.

    Args:
        quota: The quota.
        limit: Its value.
        used: Gives what others in the account use already.
        least: What the cluster needs from the start.
        most: What it needs when all fleets have their greatest size, and are updated. Default: the same.

    Raises:
        NoAnswer: If what is used of it is not known.
    """
    greatest = least if most is None else most
    need = _number(least) if greatest == least else f"{_number(least)} to {_number(greatest)}"
    fix = (
        f"ask for {_number(greatest)} more than is used: aws service-quotas request-service-quota-increase "
        f"--service-code {quota.service} --quota-code {quota.code} --desired-value …"
    )
    said = f"{quota.name}: {_number(limit)} {quota.unit}, {need} needed"
    if least > limit:
        return failed(said, fix=fix)
    try:
        others = used()
    except NoAnswer as none:
        raise type(none)(
            f"{said}; what is used is not known: {none.cause}", fix=none.fix, permission=none.permission
        ) from None
    said = f"{said}, {_number(others)} used by others"
    if least + others > limit:
        return failed(said, fix=fix)
    if greatest + others > limit:
        return warned(f"{said}: enough for the start, not for the greatest size or an update", fix=fix)
    return passed(said)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
