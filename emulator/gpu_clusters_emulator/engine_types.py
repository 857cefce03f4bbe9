"""Handlers of the engine that are put right for one resource type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .extra import optional_module
from .faults import Fault, Refused
from .lazy_handlers import Handler
from .world import ALARM, BUCKET, Json

_SUFFIX_LENGTH = 7  # a hyphen and six characters, which Secrets Manager puts behind the name


def put_right(type_name: str, own: Handler) -> Handler:
    """The engine's handler, corrected where it is known to differ from AWS."""
    correct = _CORRECTIONS.get(type_name)
    return correct(own) if correct else own


def _secret(own: Handler) -> Handler:
    """`Ref` of a secret is its ARN (CloudFormation template reference); the engine gives the name."""

    def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
        _, attributes = own["create"](logical_id, given, stack_name)
        return attributes["Id"], attributes

    def update(
        physical_id: str, old: Json, new: Json, stack_name: str, logical_id: str | None = None
    ) -> tuple[str, Json]:
        _, attributes = own["update"](_name(physical_id), old, new, stack_name, logical_id)
        return attributes["Id"], attributes

    def delete(physical_id: str, given: Json) -> None:
        own["delete"](_name(physical_id), given)

    return {**own, "create": create, "update": update, "update_with_logical_id": True, "delete": delete}


def _name(arn: str) -> str:
    return arn.rpartition(":secret:")[2][:-_SUFFIX_LENGTH]


def _bucket(own: Handler) -> Handler:
    """A bucket that holds objects is not deleted (S3 API, DeleteBucket: BucketNotEmpty); the engine deletes it."""

    def delete(physical_id: str, given: Json, *rest: Any) -> None:
        s3 = optional_module("ministack.services.s3")
        bucket = s3._buckets.get(physical_id)
        if bucket is not None and (bucket["objects"] or s3._bucket_has_versions(physical_id)):
            message = f"the bucket {physical_id!r} you tried to delete is not empty"
            raise Refused(f"{BUCKET} {physical_id}", [Fault(check="bucket-not-empty", message=message)])
        own["delete"](physical_id, given, *rest)

    return {**own, "delete": delete}


def _alarm(own: Handler) -> Handler:
    """The engine refuses alarms on metric math; it keeps them under their first metric, and `alarms.py` reads them."""

    def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
        made: tuple[str, Json] = own["create"](logical_id, _simple(given), stack_name)
        return made

    def update(physical_id: str, old: Json, new: Json, *rest: Any) -> tuple[str, Json]:
        made: tuple[str, Json] = own["update"](physical_id, _simple(old), _simple(new), *rest)
        return made

    return {**own, "create": create, "update": update} if "update" in own else {**own, "create": create}


def _simple(alarm: Json) -> Json:
    stats = [query["MetricStat"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
    if not stats:
        return alarm
    rest = {key: value for key, value in alarm.items() if key != "Metrics"}
    return {**rest, **stats[0]["Metric"], "Period": stats[0]["Period"], "Statistic": stats[0]["Stat"]}


_CORRECTIONS: Mapping[str, Callable[[Handler], Handler]] = {
    ALARM: _alarm,
    BUCKET: _bucket,
    "AWS::SecretsManager::Secret": _secret,
}
