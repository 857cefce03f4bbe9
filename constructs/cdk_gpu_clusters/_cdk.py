"""Small helpers where CDK meets the rules: rules never see a token, and errors name the construct."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import aws_cdk as cdk
import jsii
from constructs import Construct

from cdk_gpu_clusters.errors import ConfigError, Finding, Severity, raise_for

T = TypeVar("T")


# What CDK puts where a context lookup is still to be made; the CLI then looks it up and synthesizes again.
_LOOKED_UP_LATER = re.compile(r"dummy1[a-z]|dummy-value-for-.*|1\.2\.3\.4/5")


def known(value: T | None) -> T | None:
    """The value if it is known at synthesis, None if it is absent, a token, or still to be looked up."""
    if value is None or cdk.Token.is_unresolved(value):
        return None
    if isinstance(value, str) and _LOOKED_UP_LATER.fullmatch(value):
        return None
    return value


@contextmanager
def errors_at(scope: Construct) -> Iterator[None]:
    """Put the construct's path before the findings of any `ConfigError` raised inside."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(finding.at(scope.node.path) for finding in error.findings) from None


def report(scope: Construct, findings: list[Finding]) -> None:
    """Raise the errors among the findings, and annotate the construct with the rest.

    Warnings and infos can be acknowledged in the ordinary CDK way under `cdk_gpu_clusters:<rule id>`.

    Raises:
        ConfigError: If any finding is an error.
    """
    raise_for(findings, path=scope.node.path)
    annotations = cdk.Annotations.of(scope)
    for finding in findings:
        if finding.severity is Severity.WARNING:
            annotations.add_warning_v2(f"cdk_gpu_clusters:{finding.id}", str(finding))
        else:
            annotations.add_info_v2(f"cdk_gpu_clusters:{finding.id}", str(finding))


def tag_specifications(tags: cdk.TagManager, resource_types: Sequence[str]) -> cdk.IResolvable:
    """Tags as EC2 takes them for what it makes: the same ones for each kind of resource, as they stand in the end.

    Args:
        tags: Filled by `Tags.of(scope).add(...)` until synthesis.
        resource_types: Such as `instance` and `volume`.
    """
    return cdk.Lazy.any(_TagSpecifications(tags, resource_types))


@jsii.implements(cdk.IStableAnyProducer)
class _TagSpecifications:
    def __init__(self, tags: cdk.TagManager, resource_types: Sequence[str]) -> None:
        self._tags = tags
        self._resource_types = resource_types

    def produce(self) -> Any:
        rendered = self._tags.render_tags()
        if not rendered:
            return None
        tags = [{"key": tag["Key"], "value": tag["Value"]} for tag in rendered]
        return [{"resourceType": kind, "tags": tags} for kind in self._resource_types]
