"""Ids that only a deployment knows: the outputs of its stacks, as `cdk deploy --outputs-file` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters_stacks.spec._document import Fault, Key, faults_at

DEPLOYED = define_rule(
    "GPU-PCL-012",
    "what the cluster file makes is deployed before a file of another tool names it",
    source="AWS CDK CLI reference, cdk deploy --outputs-file: outputs by stack",
)

#: Outputs by stack.
Outputs = Mapping[str, Mapping[str, str]]


def read_outputs(text: str) -> Outputs:
    """The outputs in a file of `cdk deploy --outputs-file`.

    Args:
        text: The JSON text.

    Raises:
        ValueError: If it is no such file.

    Example:
        >>> read_outputs('{"dev-network": {"VpcId": "vpc-1"}}')
        {'dev-network': {'VpcId': 'vpc-1'}}
    """
    found = json.loads(text)
    are_outputs = isinstance(found, dict) and all(
        isinstance(values, dict) and all(isinstance(value, str) for value in values.values())
        for values in found.values()
    )
    if not are_outputs:
        raise ValueError("no outputs of stacks")
    return {stack: dict(values) for stack, values in found.items()}


class AskedOutputs(dict[str, Mapping[str, str]]):
    """Outputs of whatever stack, each of which a function gives when it is asked for."""

    def __init__(self, ask: Callable[[str, str], str]) -> None:
        """Begin without outputs.

        Args:
            ask: Gives the value of an output by the names of its stack and itself.
        """
        super().__init__()
        self._ask = ask

    def get(self, key: str, default: object = None) -> Mapping[str, str]:  # noqa: ARG002
        """The outputs of a stack."""
        return _Asked(key, self._ask)


class _Asked(dict[str, str]):
    def __init__(self, stack: str, ask: Callable[[str, str], str]) -> None:
        super().__init__()
        self._stack, self._ask = stack, ask

    def get(self, key: str, default: object = None) -> str:  # noqa: ARG002
        return self._ask(self._stack, key)


class DeployedIds:
    """The ids of what stacks of the cluster make.

    Attributes:
        faults: What was asked for and is not known: the first output of a stack for each key.
    """

    def __init__(self, outputs: Outputs) -> None:
        """Read from the outputs.

        Args:
            outputs: Outputs by stack.
        """
        self._outputs = outputs
        self._unknown: set[tuple[str, Key]] = set()
        self.faults: list[Fault] = []

    def of(self, stack: str, output: str, *, key: Key) -> str:
        """An output; empty, with a fault, if it is not known.

        Args:
            stack: Name of the stack.
            output: Name of the output.
            key: What in the cluster file it is made for.
        """
        value = self._outputs.get(stack, {}).get(output, "")
        if not value and (stack, key) not in self._unknown:
            self._unknown.add((stack, key))
            finding = DEPLOYED.finding(
                cause=f"only the deployment of the stack {stack} knows its output {output}",
                got="nothing" if not self._outputs else f"outputs without {stack}.{output}",
                fix="deploy it with cdk deploy --outputs-file outputs.json, and give --outputs outputs.json; or name "
                "what exists already",
            )
            self.faults += faults_at(key, [finding])
        return value
