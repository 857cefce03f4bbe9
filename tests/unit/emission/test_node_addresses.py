"""The state machine that writes the addresses of nodes, run by the emulator's interpreter and read by moto's parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

from cdk_gpu_clusters.observability.node_addresses import PERIOD_MINUTES, TTL_SECONDS, definition
from cdk_gpu_clusters.observability.prometheus_rules import prometheus_rules
from cdk_gpu_clusters.rules.scrape import MOST_NODES
from gpu_clusters_emulator.state_machines import run

NAME = "trainers.lab.metrics.internal"
RECORD = {"Name": f"{NAME}.", "Type": "A", "Ttl": TTL_SECONDS, "ResourceRecords": [{"Value": "10.0.0.1"}]}


class Account:
    """A group of nodes with two interfaces each, one node that boots, and a zone."""

    clock = SimpleNamespace(now=lambda: datetime.now(UTC))

    def __init__(self, nodes: int, record: dict[str, Any] | None = None, *, has_cards: bool = True) -> None:
        self.record = record
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._nodes = [f"i-{number:04}" for number in range(nodes)]
        self._has_cards = has_cards

    def new_id(self, *_: Any) -> str:
        return "run"

    def api(self, _: Any, service: str, operation: str, sent: dict[str, Any], caller: Any) -> Any:
        self.calls.append((operation, sent))
        model = botocore.session.get_session().get_service_model(service)
        shape = model.operation_model(operation).input_shape
        assert shape is not None
        members = {name.lower() for name in shape.members}
        assert {name.lower() for name in sent} <= members
        return getattr(self, xform_name(operation))(sent)

    def run(self, **asked: str) -> None:
        asked = asked or {"group": "trainers"}
        steps = definition("aws", asks_clusters="cluster" in asked)
        done = run(steps, {**asked, "name": NAME}, self)  # type: ignore[arg-type]
        assert (done.status, done.cause) == ("SUCCEEDED", "")

    def addresses(self) -> list[str]:
        assert self.record is not None
        return [one["Value"] for one in self.record["ResourceRecords"]]

    def describe_auto_scaling_groups(self, sent: dict[str, Any]) -> Any:
        assert sent == {"AutoScalingGroupNames": ["trainers"]}
        nodes = [{"InstanceId": node, "LifecycleState": "InService"} for node in self._nodes]
        return {"AutoScalingGroups": [{"Instances": [*nodes, {"InstanceId": "i-b", "LifecycleState": "Pending:Wait"}]}]}

    def describe_network_interfaces(self, sent: dict[str, Any]) -> Any:
        nodes, index = (one["Values"] for one in sent["Filters"])
        assert index == ["0"]
        return {"NetworkInterfaces": [one for node in nodes for one in self._interfaces(node)]}

    def _interfaces(self, node: str) -> Iterator[dict[str, Any]]:
        address = f"{int(node[2:]) // 250}.{int(node[2:]) % 250}"
        first = {"NetworkCardIndex": 0} if self._has_cards else {}
        # As EC2 describes one, with tags.
        text = {"Description": "-" * 1_500}
        yield {"Attachment": {"InstanceId": node, **first}, "PrivateIpAddress": f"10.0.{address}", **text}
        if self._has_cards:
            yield {"Attachment": {"NetworkCardIndex": 1}, "PrivateIpAddress": f"10.1.{address}", **text}

    def get_cluster(self, sent: dict[str, Any]) -> Any:
        assert sent == {"ClusterIdentifier": "pcs_abc"}
        kinds = ("SLURMDBD", "SLURMCTLD", "SLURMRESTD")
        found = [{"Type": kind, "PrivateIpAddress": f"10.2.0.{at}", "Port": "1"} for at, kind in enumerate(kinds)]
        return {"Cluster": {"Endpoints": found if self._nodes else []}}

    def list_resource_record_sets(self, sent: dict[str, Any]) -> Any:
        assert (sent["StartRecordName"], sent["StartRecordType"]) == (NAME, "A")
        other = {
            "Name": "vllm.lab.metrics.internal.",
            "Type": "A",
            "Ttl": 30,
            "ResourceRecords": [{"Value": "10.9.9.9"}],
        }
        return {"ResourceRecordSets": [self.record or other]}

    def change_resource_record_sets(self, sent: dict[str, Any]) -> Any:
        (change,) = sent["ChangeBatch"]["Changes"]
        record = change["ResourceRecordSet"]
        if change["Action"] == "DELETE":
            assert record == self.record
            self.record = None
        else:
            assert change["Action"] == "UPSERT"
            self.record = record
        return {}


@pytest.mark.parametrize("asks_clusters", [False, True])
def test_another_parser_reads_the_definition(asks_clusters: bool) -> None:
    AmazonStateLanguageParser.parse(json.dumps(definition("aws", asks_clusters=asks_clusters)))


def test_a_controller_has_a_record() -> None:
    account = Account(1)
    account.run(cluster="pcs_abc")
    assert account.addresses() == ["10.2.0.1"]


def test_a_controller_without_an_address_has_no_record() -> None:
    account = Account(0, RECORD)
    account.run(cluster="pcs_abc")
    assert account.record is None


@pytest.mark.parametrize("nodes", [1, 2, 50, 51, MOST_NODES])
def test_the_record_has_every_node_in_service(nodes: int) -> None:
    account = Account(nodes)
    account.run()
    assert account.addresses() == sorted(f"10.0.0.{number}" for number in range(nodes))
    assert account.record is not None
    assert (account.record["Name"], account.record["Type"], account.record["Ttl"]) == (NAME, "A", TTL_SECONDS)


def test_nodes_of_one_network_card_have_addresses_too() -> None:
    account = Account(2, has_cards=False)
    account.run()
    assert account.addresses() == ["10.0.0.0", "10.0.0.1"]


def test_a_fleet_without_nodes_has_no_record() -> None:
    account = Account(0, RECORD)
    account.run()
    assert account.record is None


def test_a_fleet_without_nodes_leaves_the_records_of_others() -> None:
    account = Account(0)
    account.run()
    assert "ChangeResourceRecordSets" not in {operation for operation, _ in account.calls}


def test_a_node_that_ended_is_no_target_when_its_silence_would_raise_an_alert() -> None:
    (silent,) = [line for line in prometheus_rules().splitlines() if line.strip().startswith("for:")]
    minutes = int(silent.split()[1].rstrip("m"))
    refresh_seconds = 30  # Prometheus documentation, dns_sd_config: refresh_interval by default
    assert PERIOD_MINUTES * 60 + TTL_SECONDS + refresh_seconds < minutes * 60
