"""Values that one stack gives to others, without ever blocking a redeploy of either.

A stack publishes the same outputs whether anybody reads them or not, so that a reader that comes or goes leaves its
template byte-identical; a reader reads them weakly (`Fn::GetStackOutput`), so that the publisher can still change.
"""

from __future__ import annotations

from weakref import WeakSet

import aws_cdk as cdk
from constructs import Construct

from cdk_gpu_clusters._cdk import cached_per_construct


def publish(stack: Construct, name: str, value: str, *, description: str) -> None:
    """Publish a value as an output of a stack under a fixed name, which is the id of the construct directly in it."""
    cdk.CfnOutput(stack, name, value=value, description=description)


def read(reader: cdk.Stack, publisher: cdk.Stack, name: str) -> str:
    """Read a published value of another stack, which is deployed first."""
    publishers = _publishers_of(reader)
    if publisher not in publishers:
        publishers.add(publisher)
        reader.add_stack_dependency(publisher)
    values = _values_of(publisher)
    if name not in values:
        values[name] = cdk.Fn.get_stack_output(_name_of(publisher), name)
    return values[name]


@cached_per_construct
def _publishers_of(_: cdk.Stack) -> WeakSet[cdk.Stack]:
    """The stacks that a reader depends on already."""
    return WeakSet()


@cached_per_construct
def _values_of(_: cdk.Stack) -> dict[str, str]:
    """The values that were read of a publisher: they are the same for every reader."""
    return {}


@cached_per_construct
def _name_of(stack: cdk.Stack) -> str:
    return stack.stack_name
