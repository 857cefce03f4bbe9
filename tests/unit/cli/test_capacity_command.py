"""`gpu-clusters capacity` against EC2's own shapes: offers, pages, refusals, throttling, and no block bought by mistake."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from botocore.stub import Stubber
from moto import mock_aws

from cdk_gpu_clusters.catalogue.instances import instance_type
from cdk_gpu_clusters.rules.capacity_checks import check_block_request
from cdk_gpu_clusters_stacks.cli import capacity, output
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.offers import (
    LONGEST_INTERVAL_SECONDS,
    CapacityRequest,
    Market,
    NoCredentials,
    blocks_in,
    ec2_clients,
    search_market,
    watch_blocks,
)
from cdk_gpu_clusters_stacks.spec import read_cluster

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
START = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
SESSION = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing")
WISH = CapacityRequest(instance_type="p5.48xlarge", count=16, hours=336)
ASKED = ["--type", "p5.48xlarge", "--count", "16", "--duration", "14d"]


def block(offering: str, price: str, *, zone: str = "us-east-1a") -> dict[str, Any]:
    return {
        "CapacityBlockOfferingId": offering,
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": zone,
        "InstanceCount": 16,
        "StartDate": START,
        "EndDate": START + timedelta(hours=336),
        "CapacityBlockDurationHours": 336,
        "UpfrontFee": price,
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


@cache
def client_of(region: str, _method: str) -> Any:
    """A client for each call, so that any order of calls holds; to make one takes a third of a second."""
    return SESSION.client("ec2", region_name=region)


class Account:
    """An account whose answers are checked against the shapes of the API."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[str, Any]]] = {}
        self.asked: list[tuple[str, str]] = []

    def answer(self, region: str, method: str, response: Any) -> None:
        """What a call gives next in a Region: a response, or the code of an error."""
        self.answers.setdefault(region, []).append((method, response))

    def __call__(self, region: str) -> Any:
        account = self

        def prepared(method: str) -> Any:
            client = client_of(region, method)
            account.asked.append((region, method))
            stubber = Stubber(client)
            answers = [one for one in account.answers.get(region, []) if one[0] == method]
            for one in answers:
                account.answers[region].remove(one)
                if isinstance(one[1], str):
                    stubber.add_client_error(method, one[1], f"no {method}", 403)
                else:
                    stubber.add_response(method, one[1])
            if not answers:
                stubber.add_response(method, EMPTY[method])
            client.meta.events.unregister("before-call.*.*", unique_id="boto_stubber")
            client.meta.events.unregister("before-parameter-build.*.*", unique_id="boto_stubber_expected_params")
            stubber.activate()
            return client

        class Client:
            def get_paginator(self, method: str) -> Any:
                return prepared(method).get_paginator(method)

            def purchase_capacity_block(self, **given: Any) -> Any:
                account.bought = given
                return prepared("purchase_capacity_block").purchase_capacity_block(**given)

        return Client()

    bought: dict[str, Any] | None = None


EMPTY: dict[str, dict[str, Any]] = {
    "describe_capacity_block_offerings": {"CapacityBlockOfferings": []},
    "describe_instance_type_offerings": {"InstanceTypeOfferings": []},
    "describe_spot_price_history": {"SpotPriceHistory": []},
    "get_spot_placement_scores": {"SpotPlacementScores": []},
}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    made = Account()
    monkeypatch.setattr(capacity, "_clients", lambda *_, **__: made)
    return made


def market(account: Callable[[str], Any], *regions: str) -> Market:
    return search_market(WISH, regions, account, now=NOW)


# ----- what is found


def test_offers_of_many_regions_stand_side_by_side_with_total_prices(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.answer(
        "us-east-1",
        "describe_capacity_block_offerings",
        {"CapacityBlockOfferings": [block("cb-1", "223254.53")]},
    )
    account.answer(
        "us-west-2",
        "describe_capacity_block_offerings",
        {"CapacityBlockOfferings": [block("cb-2", "200000.00", zone="us-west-2b")]},
    )
    account.answer(
        "us-east-1",
        "describe_instance_type_offerings",
        {"InstanceTypeOfferings": [{"InstanceType": "p5.48xlarge", "Location": "us-east-1a"}]},
    )
    account.answer(
        "us-east-1",
        "describe_spot_price_history",
        {
            "SpotPriceHistory": [
                {
                    "AvailabilityZone": "us-east-1a",
                    "AvailabilityZoneId": "use1-az4",
                    "InstanceType": "p5.48xlarge",
                    "ProductDescription": "Linux/UNIX",
                    "SpotPrice": price,
                    "Timestamp": NOW - timedelta(hours=hours),
                }
                for price, hours in (("20.5", 1), ("19.0", 2))
            ]
        },
    )
    account.answer(
        "us-east-1",
        "get_spot_placement_scores",
        {"SpotPlacementScores": [{"Region": "us-east-1", "AvailabilityZoneId": "use1-az4", "Score": 3}]},
    )
    assert main(["capacity", "search", *ASKED, "--regions", "us-east-1,us-west-2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "16 x p5.48xlarge for 336 hours"
    assert lines[3].split()[0] == "cb-2"  # the cheapest first
    assert "223,254.53 USD" in lines[4]
    assert "41.528" in lines[4]  # of one instance for an hour
    on_demand = next(line for line in lines if line.startswith("on-demand"))
    assert "295,895.04" in on_demand  # 16 x 336 x 55.04
    spot = next(line for line in lines if line.startswith("spot"))
    assert "110,208.00" in spot  # 16 x 336 x 20.5, the newest price
    assert "3/10" in spot


def test_json_has_everything(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.answer(
        "us-east-1", "describe_capacity_block_offerings", {"CapacityBlockOfferings": [block("cb-1", "5.00")]}
    )
    assert main(["capacity", "search", *ASKED, "--regions", "us-east-1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["blocks"][0]["id"] == "cb-1"
    assert found["blocks"][0]["price"] == "5.00"
    assert found["problems"] == []


def test_every_page_is_read(account: Account) -> None:
    for offering, token in (("cb-1", "more"), ("cb-2", None)):
        page: dict[str, Any] = {"CapacityBlockOfferings": [block(offering, "1.00")]}
        account.answer("us-east-1", "describe_capacity_block_offerings", page | ({"NextToken": token} if token else {}))
    assert [one.id for one in market(account, "us-east-1").blocks] == ["cb-1", "cb-2"]


def test_regions_are_those_of_the_catalogue_by_default() -> None:
    known = instance_type("p5.48xlarge")
    assert set(capacity._regions(WISH, None)) == {*known.regions, *known.capacity_block_regions}
    assert capacity._regions(WISH, "us-east-1, us-west-2") == ["us-east-1", "us-west-2"]


def test_scores_are_asked_for_ten_regions_at_a_time() -> None:
    asked: list[list[str]] = []

    class Client:
        def get_paginator(self, method: str) -> Client:
            assert method in EMPTY
            return self

        def paginate(self, **given: Any) -> list[dict[str, Any]]:
            asked.extend([given["RegionNames"]] if "RegionNames" in given else [])
            return []

    market(lambda _: Client(), *(f"us-east-{number}" for number in range(1, 13)))
    assert [len(regions) for regions in asked] == [10, 2]


def test_zones_and_spot_prices_of_an_emulated_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    request = CapacityRequest(instance_type="p4d.24xlarge", count=2, hours=24)
    with mock_aws():
        found = search_market(request, ["us-east-1"], ec2_clients(boto3.Session()), now=NOW)
    on_demand = [one for one in found.zones if one.market == "on-demand"]
    assert on_demand
    assert all(one.total_usd(request) == Decimal("21.957642") * 48 for one in on_demand)
    assert any(one.market == "spot" and one.usd_per_hour for one in found.zones)
    assert {one.action for one in found.problems} == {  # what the emulator has not
        "ec2:DescribeCapacityBlockOfferings",
        "ec2:GetSpotPlacementScores",
    }


# ----- what fails


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("UnauthorizedOperation", "permission ec2:DescribeCapacityBlockOfferings is missing"),
        ("OptInRequired", "the Region is not enabled for this account"),
        ("AuthFailure", "the Region is not enabled for this account"),
        ("InvalidAction", "not offered in this Region (InvalidAction)"),
        ("InternalError", "InternalError: no describe_capacity_block_offerings"),
    ],
)
def test_one_refusal_is_named_and_the_rest_is_shown(
    account: Account, code: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    account.answer("us-east-1", "describe_capacity_block_offerings", code)
    account.answer(
        "us-west-2", "describe_capacity_block_offerings", {"CapacityBlockOfferings": [block("cb-2", "2.00")]}
    )
    assert main(["capacity", "search", *ASKED, "--regions", "us-east-1,us-west-2"]) == 0
    shown = capsys.readouterr()
    assert "cb-2" in shown.out
    assert f"us-east-1: ec2:DescribeCapacityBlockOfferings: {reason}\n" in shown.err


@pytest.mark.parametrize("code", ["ExpiredToken", "RequestExpired", "InvalidClientTokenId"])
def test_bad_credentials_are_one_line(account: Account, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    account.answer("us-east-1", "describe_spot_price_history", code)
    assert main(["capacity", "search", *ASKED, "--regions", "us-east-1"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gpu-clusters: capacity: the AWS credentials are not good")
    assert len(error.splitlines()) == 1


def test_no_credentials_and_no_endpoint() -> None:
    def without_credentials(_region: str) -> Any:
        raise NoCredentialsError

    def without_endpoint(region: str) -> Any:
        raise EndpointConnectionError(endpoint_url=f"https://ec2.{region}.amazonaws.com")

    with pytest.raises(NoCredentials):
        market(without_credentials, "us-east-1")
    problems = market(without_endpoint, "xx-east-1").problems
    assert {one.reason for one in problems} == {"no endpoint answers: no such Region, or no network"}


def test_what_is_throttled_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through botocore's own retries: only what goes out on the wire is answered here."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    throttled: dict[str, int] = {}

    def on_the_wire(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        body = request.body.decode() if isinstance(request.body, bytes) else str(request.body)
        action = dict(part.split("=", 1) for part in body.split("&"))["Action"]
        throttled[action] = throttled.get(action, 0) + 1
        if throttled[action] < 3:
            return _answer(
                503,
                "<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>slow</Message></Error>"
                "</Errors></Response>",
            )
        return _answer(200, f"<{action}Response></{action}Response>")

    def clients(region: str) -> Any:
        client = ec2_clients(SESSION)(region)
        client.meta.events.register("before-send.ec2", on_the_wire)
        return client

    assert market(clients, "us-east-1").problems == ()
    assert set(throttled.values()) == {3}
    assert len(throttled) == 4


def _answer(status: int, body: str) -> AWSResponse:
    class Raw:
        def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
            yield body.encode()

    return AWSResponse("https://ec2", status, HTTPHeaders(), Raw())


# ----- waiting


def test_watching_waits_longer_and_longer_and_ends_when_a_block_appears(account: Account) -> None:
    waited: list[float] = []
    looks = iter([Decimal(9), Decimal(9), Decimal(5)])

    def look() -> Market:
        account.answer(
            "us-east-1",
            "describe_capacity_block_offerings",
            {"CapacityBlockOfferings": [block("cb-1", str(next(looks)))]},
        )
        return market(account, "us-east-1")

    found = watch_blocks(look, most_seconds=3600, max_price=Decimal(6), sleep=waited.append)
    assert [one.price for one in found] == [Decimal(5)]
    assert waited == [30, 45]


def test_watching_gives_up(account: Account) -> None:
    waited: list[float] = []
    found = watch_blocks(
        lambda: market(account, "us-east-1"), most_seconds=24 * 3600, max_price=None, sleep=waited.append
    )
    assert found == []
    assert sum(waited) <= 24 * 3600
    assert max(waited) == LONGEST_INTERVAL_SECONDS
    assert sorted(waited) == waited


def test_the_watch_command_prints_the_block(
    account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert main(["capacity", "watch", *ASKED, "--regions", "us-east-1", "--hours", "0.1"]) == 1
    assert "asking again in 30 s" in capsys.readouterr().err
    account.answer(
        "us-east-1", "describe_capacity_block_offerings", {"CapacityBlockOfferings": [block("cb-1", "5.00")]}
    )
    assert main(["capacity", "watch", *ASKED, "--regions", "us-east-1"]) == 0
    assert "cb-1" in capsys.readouterr().out


# ----- buying


def offer(account: Account, price: str = "223254.53") -> None:
    account.answer("us-east-1", "describe_capacity_block_offerings", {"CapacityBlockOfferings": [block("cb-1", price)]})
    account.answer(
        "us-east-1",
        "purchase_capacity_block",
        {
            "CapacityReservation": {
                "CapacityReservationId": "cr-0123456789abcdef0",
                "State": "payment-pending",
            }
        },
    )


def buy(*options: str) -> int:
    return main(["capacity", "buy", "cb-1", *ASKED, "--regions", "us-east-1", *options])


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("typer.prompt", lambda *_, **__: text)


@pytest.mark.parametrize("typed", ["223254.53", "223,254.53", "223254.53 USD"])
def test_a_block_is_bought_after_its_price_was_typed(
    typed: str,
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(account)
    type_in(monkeypatch, typed)
    assert buy("--name", "llama") == 0
    assert account.bought == {
        "CapacityBlockOfferingId": "cb-1",
        "InstancePlatform": "Linux/UNIX",
        "TagSpecifications": [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "Name", "Value": "llama"}]}],
    }
    printed = capsys.readouterr().out
    file = tmp_path / "cluster.yaml"
    lines = printed[printed.index("network:") :]
    file.write_text(f"version: 1\nname: llama\nregion: us-east-1\n{lines}")
    spec = read_cluster(file).spec
    assert spec is not None
    assert spec.training.fleets["workers"].nodes == 16


@pytest.mark.parametrize("typed", ["", "y", "yes", "223254", "1"])
def test_nothing_is_bought_without_the_price(
    typed: str, account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(account)
    type_in(monkeypatch, typed)
    assert buy() == 1
    assert account.bought is None
    assert "not bought" in capsys.readouterr().err


def test_without_a_question_only_up_to_a_price(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    assert buy("--yes") == 2
    assert "--max-price" in capsys.readouterr().err
    offer(account)
    assert buy("--yes", "--max-price", "223254.52") == 1
    assert account.bought is None
    offer(account)
    assert buy("--yes", "--max-price", "223,254.53") == 0
    assert account.bought is not None


def test_an_offering_that_is_gone_is_not_bought(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    assert buy("--yes", "--max-price", "1") == 1
    assert "cb-1 is not on offer in us-east-1" in capsys.readouterr().err
    assert account.bought is None


def test_a_refused_purchase_is_said(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.answer(
        "us-east-1", "describe_capacity_block_offerings", {"CapacityBlockOfferings": [block("cb-1", "5.00")]}
    )
    account.answer("us-east-1", "purchase_capacity_block", "UnauthorizedOperation")
    assert buy("--yes", "--max-price", "9") == 1
    assert "not bought: permission ec2:PurchaseCapacityBlock is missing" in capsys.readouterr().err


def test_a_long_value_of_an_answer_is_shortened_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_table(["zone"], [["x" * 40_000]])
    assert len(capsys.readouterr().out) < 2_000


@pytest.mark.parametrize("answer", [{"CapacityReservation": "cr-1"}, {"CapacityReservations": "cr-1"}])
def test_an_answer_without_a_reservation_may_be_a_purchase(
    answer: dict[str, Any], account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(account)
    account.answer("us-east-1", "purchase_capacity_block", answer)
    assert buy("--yes", "--max-price", "900000") == 1
    assert "It may have been bought" in capsys.readouterr().err


class LostAnswer:
    """EC2, whose answer to a purchase never comes."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.purchases = 0

    def __call__(self, region: str) -> Any:
        return self

    def get_paginator(self, method: str) -> Any:
        return self.account("us-east-1").get_paginator(method)

    def purchase_capacity_block(self, **_: Any) -> Any:
        self.purchases += 1
        raise ReadTimeoutError(endpoint_url="https://ec2.us-east-1.amazonaws.com")


def test_a_lost_answer_is_not_called_a_refusal(
    account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(account)
    silent = LostAnswer(account)
    monkeypatch.setattr(capacity, "_clients", lambda *_, **__: silent)
    assert buy("--yes", "--max-price", "900000") == 1
    assert silent.purchases == 1
    error = capsys.readouterr().err
    assert "It may have been bought" in error
    assert "not bought" not in error


def test_a_purchase_is_sent_once_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second try of a call whose answer was lost could buy a second block."""
    asked: list[int] = []
    monkeypatch.setattr(
        "cdk_gpu_clusters_stacks.offers.ec2_clients",
        lambda _session, *, attempts, **_: asked.append(attempts),
    )
    monkeypatch.setattr("cdk_gpu_clusters_stacks.aws_session.open_session", lambda _profile: SESSION)
    monkeypatch.setattr("cdk_gpu_clusters_stacks.aws_session.require_answer", lambda *_: None)
    capacity._clients(None, ["us-east-1"])
    capacity._clients(None, ["us-east-1"], attempts=1)
    assert asked == [6, 1]
    client = ec2_clients(SESSION, attempts=1)("us-east-1")
    assert client.meta.config.retries["total_max_attempts"] == 1


def test_a_limit_in_usd_buys_nothing_in_another_currency(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    found = {**block("cb-1", "5.00"), "CurrencyCode": "CNY"}
    account.answer("us-east-1", "describe_capacity_block_offerings", {"CapacityBlockOfferings": [found]})
    assert buy("--yes", "--max-price", "9") == 1
    assert account.bought is None
    assert "it costs 5.00 CNY, not USD" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"InstanceType": "p4d.24xlarge"}, "it is of p4d.24xlarge, not of p5.48xlarge"),
        ({"InstanceCount": 1}, "it has 1 instances, not 16"),
        ({"InstanceCount": 32}, "it has 32 instances, not 16"),
        ({"CapacityBlockDurationHours": 24}, "it is for 24 hours, not for 336"),
        (
            {"CapacityBlockDurationHours": 311, "CapacityBlockDurationMinutes": 59},
            "it is for 311 hours and 59 minutes, not for 336",
        ),
        ({"EndDate": START + timedelta(days=2)}, "it runs from 2026-12-01T11:30Z to 2026-12-03T11:30Z"),
        ({"EndDate": START - timedelta(days=2)}, "ends before it starts"),
        ({"AvailabilityZone": "eu-west-1a"}, "its zone 'eu-west-1a' is not in us-east-1"),
        ({"AvailabilityZone": "us-east-1a\ntraining: {}"}, "is not in us-east-1"),
        ({"UpfrontFee": "-1"}, "its price is -1"),
        ({"UpfrontFee": "NaN"}, "a price of NaN"),
        ({"CurrencyCode": "CNY"}, "CNY, not USD"),
    ],
)
def test_another_block_than_the_one_that_was_asked_for_is_not_bought(
    changes: dict[str, Any], words: str, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {**block("cb-1", "5.00"), **changes}
    account.answer("us-east-1", "describe_capacity_block_offerings", {"CapacityBlockOfferings": [found]})
    assert buy("--yes", "--max-price", "9") == 1
    assert account.bought is None
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--starts-after", "2026-12-02"), "it starts at 2026-12-01T11:30Z, before 2026-12-02T00:00Z"),
        (("--ends-before", "2026-12-10"), "it ends at 2026-12-15T11:30Z, after 2026-12-10T00:00Z"),
    ],
)
def test_a_block_of_other_dates_is_not_bought(
    option: tuple[str, str], words: str, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(account)
    assert buy("--yes", "--max-price", "999999", *option) == 1
    assert account.bought is None
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes",
    [
        {"CapacityReservationId": "cr-1\n  evil: true"},
        {"InstanceType": "p4d.24xlarge"},
        {"TotalInstanceCount": 1},
        {"AvailabilityZone": "us-east-1b"},
        {"EndDate": START},
    ],
)
def test_a_purchase_of_something_else_is_reported_and_no_lines_are_given(
    changes: dict[str, Any], account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"CapacityBlockOfferings": [block("cb-1", "5.00")]}
    account.answer("us-east-1", "describe_capacity_block_offerings", found)
    bought = {**reservation_of(0, block("cb-1", "5.00")), **changes}
    account.answer("us-east-1", "purchase_capacity_block", {"CapacityReservation": bought})
    assert buy("--yes", "--max-price", "9") == 1
    assert account.bought is not None
    out = capsys.readouterr()
    assert "bought, but not as it was offered" in out.err
    assert "training:" not in out.out


@pytest.mark.parametrize("price", ["nan", "inf", "-1", "0", "abc", ""])
def test_what_is_no_price_buys_nothing(price: str, account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    offer(account)
    assert buy("--yes", f"--max-price={price}") == 2
    assert account.bought is None
    assert "is no price" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", ",", " , "])
@pytest.mark.parametrize("command", [["search"], ["watch"], ["buy", "cb-1"]])
def test_regions_without_a_name_are_refused(
    command: list[str], text: str, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capacity", *command, *ASKED, "--regions", text]) == 2
    assert "names no Region" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["2026-12-01T11:30:00", "2026-12-01T11:30Z", "2026-12-01T13:30:00+02:00", "2026-12-01 11:30:00"]
)
def test_a_start_is_a_moment_whatever_its_offset(
    text: str, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["capacity", "search", *ASKED, "--regions", "us-east-1", "--starts-after", text, "--json"])
    assert json.loads(capsys.readouterr().out)["request"]["starts_after"] == "2026-12-01 11:30:00+00:00"


def test_a_window_that_ends_before_it_starts_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    window = ["--starts-after", "2026-12-02", "--ends-before", "2026-12-01"]
    assert main(["capacity", "search", *ASKED, *window]) == 2
    assert "is not after" in capsys.readouterr().err


def test_ultraservers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--type", "p6e-gb200.36xlarge", "--count", "9", "--duration", "7d"]
    assert main(["capacity", "search", *asked]) == 2
    assert "UltraServers" in capsys.readouterr().err


# ----- what EC2 does not sell


@pytest.mark.parametrize("duration", ["1d", "14d", "24h", "336h", "3w", "182d", "26w"])
def test_durations_that_are_sold(duration: str) -> None:
    assert check_block_request(instance_type("p5.48xlarge"), count=64, duration=duration) == []


@pytest.mark.parametrize("duration", ["15d", "36h", "27w", "183d", "0d", "two weeks", ""])
def test_durations_that_are_not(duration: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["capacity", "search", "--type", "p5.48xlarge", "--count", "65", "--duration", duration]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "GPU-OFFER-001" in error
    assert "GPU-OFFER-002" in error


# ----- offerings of several segments (EC2 API model of botocore 1.44.5; the installed one may not know them)

SEGMENTS: list[dict[str, Any]] = [
    {**block("", "100000.00"), "InstanceCount": 8},
    {**block("", "150000.00", zone="us-east-1b"), "InstanceCount": 8, "StartDate": START + timedelta(days=14)},
]
SEGMENTED: dict[str, Any] = {
    "CapacityBlockOfferingId": "cb-seg",
    "UpfrontFee": "250000.00",
    "CurrencyCode": "USD",
    "CapacityBlockOfferingSegments": [
        {**SEGMENTS[1], "EndDate": START + timedelta(days=28)},
        SEGMENTS[0],
    ],
}


class NewerEc2:
    """EC2 as a newer service model describes it."""

    def __init__(self, reservations: list[dict[str, Any]], offering: dict[str, Any] = SEGMENTED) -> None:
        self._reservations, self._offering = reservations, offering

    def __call__(self, _region: str) -> NewerEc2:
        return self

    def get_paginator(self, _method: str) -> NewerEc2:
        return self

    def paginate(self, **_asked: Any) -> Iterator[dict[str, Any]]:
        yield {"CapacityBlockOfferings": [self._offering]}

    def purchase_capacity_block(self, **_asked: Any) -> dict[str, Any]:
        first, *_ = self._reservations
        return {"CapacityReservation": first, "CapacityReservations": self._reservations}


def reservation_of(number: int, segment: dict[str, Any]) -> dict[str, Any]:
    same = {key: segment[key] for key in ("InstanceType", "AvailabilityZone", "StartDate", "EndDate")}
    return {
        "CapacityReservationId": f"cr-0123456789abcdef{number}",
        "TotalInstanceCount": segment["InstanceCount"],
        "State": "scheduled",
        **same,
    }


def test_the_segments_of_an_offering_are_shown_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    blocks, problems = blocks_in(WISH, "us-east-1", NewerEc2([]))
    assert not problems
    capacity.write_blocks(blocks)
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert "2 segments" in lines[0]
    assert ["us-east-1a" in lines[1], "us-east-1b" in lines[2]] == [True, True]
    (offer,) = blocks
    assert offer.price_per_instance_hour == Decimal(250000) / (8 * 336 * 2)


def test_a_block_of_segments_becomes_a_fleet_for_each_reservation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = SEGMENTED["CapacityBlockOfferingSegments"][::-1]
    second = {**second, "AvailabilityZone": "us-east-1a"}
    offering = {**SEGMENTED, "CapacityBlockOfferingSegments": [second, first]}
    clients = NewerEc2([reservation_of(0, first), reservation_of(1, second)], offering)
    monkeypatch.setattr(capacity, "_clients", lambda *_, **__: clients)
    asked = ["cb-seg", *ASKED, "--regions", "us-east-1", "--yes", "--max-price", "250000"]
    assert run_buy(asked) == 0
    out = capsys.readouterr()
    assert "bought cr-0123456789abcdef1" in out.err
    text = out.out[out.out.index("network:") :]
    lines = "name: llama\nregion: us-east-1\n" + text
    fleets = read_fleets(lines)
    assert [fleet["capacity"]["capacity_block"] for fleet in fleets.values()] == [
        "cr-0123456789abcdef0",
        "cr-0123456789abcdef1",
    ]


def test_a_segment_in_another_zone_is_for_another_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = SEGMENTED["CapacityBlockOfferingSegments"][::-1]
    monkeypatch.setattr(
        capacity,
        "_clients",
        lambda *_, **__: NewerEc2([reservation_of(0, first), reservation_of(1, second)]),
    )
    assert run_buy(["cb-seg", *ASKED, "--regions", "us-east-1", "--yes", "--max-price", "250000"]) == 0
    out = capsys.readouterr().out
    assert list(read_fleets(out[out.index("network:") :])) == ["workers"]
    assert "# in us-east-1b, for another cluster:         capacity_block: cr-0123456789abcdef1" in out


def run_buy(arguments: list[str]) -> int:
    try:
        main(["capacity", "buy", *arguments])
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0


def read_fleets(text: str) -> dict[str, Any]:
    fleets: dict[str, Any] = yaml.safe_load(text)["training"]["fleets"]
    return fleets
