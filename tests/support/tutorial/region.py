"""What happens in the Region beside the reader: instances boot when groups launch them, and end when they are gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

from botocore.exceptions import ClientError

from gpu_clusters_emulator.permissions import private_address
from nodebox.agent import Agent
from nodebox.cloud import Fleet
from nodebox.disks import local_disks
from nodebox.lab import Lab
from nodebox.namespace import NetworkNamespace
from nodebox.node import Node
from nodebox.servers import relay

_PAUSE_SECONDS = 0.5
_FLEETS = ("-fleet-", "-inference-")
#: Address of the load balancer in the nodes' network, and ports of it and of a node behind it.
_BALANCER, _PORT, _NODE_PORT = "10.0.255.254", 80, 8080


class Region:
    """Boots and ends instances while the `with` statement lasts.

    Args:
        lab: Where nodes are booted.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab, self._account = lab, lab.cloud.account
        self._lan, self._joined = NetworkNamespace(), 0
        self._nodes: dict[str, tuple[Node, ExitStack]] = {}
        self._balancer: ExitStack | None = None
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._fault: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(60)
        for name in list(self._nodes):
            self._end(name)
        if self._balancer:
            self._balancer.close()
        self._lan.close()

    def check(self) -> None:
        """Raise what went wrong meanwhile."""
        if self._fault:
            raise self._fault

    def last_words(self) -> str:
        """The end of the journals of all nodes, for people who read a failure."""
        return "\n".join(f"{name}\n{node.last_words()}" for name, (node, _) in self._nodes.items())

    def lose_terminating(self) -> None:
        """Take the power of the instances that their groups end: nothing on them answers the hook."""
        with self._lock:
            ending = [
                (fleet, name)
                for fleet, states in self._fleets()
                for name, state in states.items()
                if state == "Terminating:Wait" and name in self._nodes
            ]
            assert ending, "no group ends an instance"
            for fleet, name in ending:
                self._nodes[name][0].power_off()
                fleet.release(name)

    def _keep(self) -> None:
        try:
            while not self._ended.wait(_PAUSE_SECONDS):
                with self._lock:
                    self._look()
        except BaseException as fault:  # noqa: BLE001 - for the thread that runs the page
            self._fault = fault

    def _look(self) -> None:
        there: set[str] = set()
        for fleet, states in self._fleets():
            there |= set(states)
            for name, state in states.items():
                if state == "Pending:Wait" and name not in self._nodes:
                    self._boot(fleet)
                if state == "InService" and name in self._nodes and "-inference-" in fleet.stack_name:
                    self._balance(name)
        for name in set(self._nodes) - there:
            self._end(name)

    def _fleets(self) -> Iterator[tuple[Fleet, dict[str, str]]]:
        for stack in self._client("cloudformation").describe_stacks()["Stacks"]:
            if any(part in stack["StackName"] for part in _FLEETS):
                fleet = Fleet(self._account, stack["StackName"], [])
                # A stack that is being made or deleted may have no group.
                with suppress(ClientError, ValueError):
                    yield fleet, fleet.states()

    def _boot(self, fleet: Fleet) -> None:
        fleet.booted |= set(self._nodes)
        made = ExitStack()
        disks = made.enter_context(local_disks(self._lab.directory()))
        node = made.enter_context(
            self._lab.instance(fleet, gpu="NVIDIA L4", gpu_count=1, efa_count=fleet.efa_count(), binds=disks)
        )
        self._joined += 1
        node.network.join(self._lan, private_address(node.instance_id), self._joined)
        node.power_on()
        made.enter_context(Agent(node))
        self._nodes[node.instance_id] = (node, made)

    def _end(self, name: str) -> None:
        node, made = self._nodes.pop(name)
        node.power_off()
        made.close()

    def _balance(self, name: str) -> None:
        """Be the load balancer in front of a node, under its name."""
        if self._balancer:
            return
        (balancer,) = self._client("elbv2").describe_load_balancers()["LoadBalancers"]
        self._balancer, network = ExitStack(), NetworkNamespace()
        self._balancer.callback(network.close)
        self._joined += 1
        network.join(self._lan, _BALANCER, self._joined)
        server = relay(network.listen(_BALANCER, _PORT), (private_address(name), _NODE_PORT), network.connect)
        self._balancer.callback(server.close)
        for node, _ in self._nodes.values():
            node.run(f"echo {_BALANCER} {balancer['DNSName']} >>/etc/hosts")

    def _client(self, service: str) -> Any:
        return self._account.client(service)
