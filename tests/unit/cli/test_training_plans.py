"""Training plans beside Capacity Blocks, against SageMaker's own shapes; and none that is bought by mistake."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import Stubber

from cdk_gpu_clusters.catalogue.instances import instance_type
from cdk_gpu_clusters.rules.capacity_checks import check_plan_request
from cdk_gpu_clusters_stacks.cli import capacity
from cdk_gpu_clusters_stacks.cli.main import main

START = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
SESSION = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing")
ASKED = ["--type", "p5.48xlarge", "--count", "16", "--duration", "14d"]
ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/research"


def plan(offering: str = "tpo-1", price: str = "223254.53", **changes: Any) -> dict[str, Any]:
    capacity_of = {
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 16,
        "AvailabilityZone": "us-east-1a",
        "DurationHours": 336,
        "StartTime": START,
        "EndTime": START + timedelta(hours=336),
        **changes,
    }
    return {
        "TrainingPlanOfferingId": offering,
        "TargetResources": ["hyperpod-cluster"],
        "DurationHours": 336,
        "UpfrontFee": price,
        "CurrencyCode": "USD",
        "ReservedCapacityOfferings": [capacity_of],
    }


@cache
def client_of() -> Any:
    """To make a client takes a third of a second."""
    return SESSION.client("sagemaker", region_name="us-east-1")


class Account:
    """An account whose answers are checked against the shapes of the API; EC2 has nothing on offer."""

    def __init__(self) -> None:
        self.clients: list[dict[str, Any]] = []
        self.offers: list[dict[str, Any]] = []
        self.answer: Any = {"TrainingPlanArn": ARN}
        self.asked: list[dict[str, Any]] = []
        self.bought: list[dict[str, Any]] = []

    def __call__(self, region: str) -> Any:
        account = self

        class Client:
            def search_training_plan_offerings(self, **given: Any) -> Any:
                account.asked.append({"region": region, **given})
                client = client_of()
                with Stubber(client) as stubber:
                    stubber.add_response(
                        "search_training_plan_offerings", {"TrainingPlanOfferings": account.offers}, given
                    )
                    return client.search_training_plan_offerings(**given)

            def create_training_plan(self, **given: Any) -> Any:
                account.bought.append(given)
                if isinstance(account.answer, Exception):
                    raise account.answer
                client = client_of()
                with Stubber(client) as stubber:
                    if isinstance(account.answer, str):
                        stubber.add_client_error("create_training_plan", account.answer, "no", 403)
                    else:
                        stubber.add_response("create_training_plan", account.answer, given)
                    return client.create_training_plan(**given)

            def get_paginator(self, method: str) -> Any:
                empty: dict[str, Any] = {
                    "describe_capacity_block_offerings": {"CapacityBlockOfferings": []},
                    "describe_instance_type_offerings": {"InstanceTypeOfferings": []},
                    "describe_spot_price_history": {"SpotPriceHistory": []},
                    "get_spot_placement_scores": {"SpotPlacementScores": []},
                }

                class Pages:
                    def paginate(self, **_: Any) -> list[Any]:
                        return [empty[method]]

                return Pages()

        return Client()


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    made = Account()

    def clients(*_: object, **given: Any) -> Account:
        made.clients.append(given)
        return made

    monkeypatch.setattr(capacity, "_clients", clients)
    return made


def search(*options: str) -> int:
    return main(["capacity", "search", *ASKED, "--regions", "us-east-1", *options])


def buy(*options: str, offering: str = "tpo-1", name: str = "research") -> int:
    return main(["capacity", "buy-plan", offering, *ASKED, "--regions", "us-east-1", "--name", name, *options])


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("typer.prompt", lambda *_, **__: text)


def test_plans_stand_beside_blocks_the_cheapest_first(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.offers = [plan("tpo-2", "9.00"), plan("tpo-1", "5.00")]
    assert search("--training-plans", "--starts-after", "2026-12-01") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "no Capacity Block is on offer" in lines
    [title, first, second] = [line.split() for line in lines[-3:]]
    assert title[:2] == ["training", "plan"]
    assert (first[0], first[1], second[0]) == ("tpo-1", "us-east-1", "tpo-2")
    [asked] = account.asked
    assert asked == {
        "region": "us-east-1",
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 16,
        "DurationHours": 336,
        "TargetResources": ["hyperpod-cluster"],
        "StartTimeAfter": datetime(2026, 12, 1, tzinfo=UTC),
    }


def test_sagemaker_is_asked_only_on_request(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    assert search() == 1
    assert account.asked == []
    assert "training plan" not in capsys.readouterr().out
    assert search("--training-plans") == 1
    assert "no training plan is on offer" in capsys.readouterr().out


def test_plans_are_part_of_the_document(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.offers = [plan()]
    assert search("--training-plans", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    [found] = document["training_plans"]
    assert (found["id"], found["segments"][0]["instance_type"]) == ("tpo-1", "p5.48xlarge")
    assert document["blocks"] == []


def test_what_cannot_be_asked_is_said(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.offers = [{**plan(), "UpfrontFee": "NaN"}]
    assert search("--training-plans") == 1
    assert "us-east-1: sagemaker:SearchTrainingPlanOfferings: AWS answered a price of NaN" in capsys.readouterr().err


def test_types_without_plans_are_refused(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["capacity", "search", "--type", "g6.12xlarge", "--count", "1", "--duration", "24h"]
    assert main([*command, "--regions", "us-east-1", "--training-plans"]) != 0
    assert account.asked == []
    capsys.readouterr()


@pytest.mark.parametrize("typed", ["223254.53", "223,254.53 USD"])
def test_a_plan_is_bought_after_its_price_was_typed(
    typed: str, account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account.offers = [plan("tpo-0", "1.00"), plan()]
    type_in(monkeypatch, typed)
    assert buy() == 0
    assert account.bought == [{"TrainingPlanName": "research", "TrainingPlanOfferingId": "tpo-1"}]
    assert f'capacity=TrainingPlan.from_arn("{ARN}")' in capsys.readouterr().out
    assert account.clients[-1] == {"attempts": 1, "service": "sagemaker"}, "a lost answer may be a bought plan"


@pytest.mark.parametrize("typed", ["", "y", "223254.5"])
def test_nothing_is_bought_without_the_price(
    typed: str, account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account.offers = [plan()]
    type_in(monkeypatch, typed)
    assert buy() == 1
    assert account.bought == []
    assert "not bought" in capsys.readouterr().err


def test_without_a_question_only_up_to_a_price(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.offers = [plan()]
    assert buy("--yes") == 2
    assert buy("--yes", "--max-price", "223254.52") == 1
    assert account.bought == []
    assert buy("--yes", "--max-price", "223254.53") == 0
    assert len(account.bought) == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    ("offer", "words"),
    [
        (plan(InstanceType="ml.p4d.24xlarge"), "it is of p4d.24xlarge, not of p5.48xlarge"),
        (plan(InstanceCount=8), "it has 8 instances, not 16"),
        ({**plan(), "DurationHours": 24}, "it is for 24 hours, not for 336"),
        (plan(AvailabilityZone="us-west-2a"), "is not in us-east-1"),
        ({**plan(), "CurrencyCode": "CNY"}, "CNY, not USD"),
        (plan(price="-1"), "its price is -1"),
        (plan("tpo-2"), "tpo-1 is not on offer in us-east-1: search again"),
    ],
)
def test_what_is_not_what_was_asked_for_is_not_bought(
    offer: dict[str, Any], words: str, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.offers = [offer]
    assert buy("--yes", "--max-price", "999999") == 1
    assert account.bought == []
    assert words in capsys.readouterr().err


SAMPLE = Path(__file__).parents[2] / "fixtures" / "training_plan_offerings.json"


def sample() -> list[dict[str, Any]]:
    """The sample answer of AWS, with its times as botocore reads them."""
    offers: list[dict[str, Any]] = json.loads(SAMPLE.read_text(encoding="utf-8"))["TrainingPlanOfferings"]
    for offer in offers:
        for part in offer["ReservedCapacityOfferings"]:
            part.update({key: datetime.fromisoformat(part[key]) for key in ("StartTime", "EndTime")})
    return offers


@pytest.mark.parametrize("offering", ["tpo-1", "tpo-2", "tpo-3"])
def test_every_offering_of_the_sample_answer_can_be_bought(
    offering: str, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.offers = sample()
    account.answer = {"TrainingPlanArn": ARN.replace("us-east-1", "us-west-2")}
    asked = ["--type", "p4d.24xlarge", "--count", "1", "--duration", "1d", "--regions", "us-west-2"]
    bought = ["--name", "research", "--yes", "--max-price", "999"]
    assert main(["capacity", "buy-plan", offering, *asked, *bought]) == 0, capsys.readouterr().err
    assert account.bought == [{"TrainingPlanName": "research", "TrainingPlanOfferingId": offering}]


def test_a_plan_of_two_blocks_may_be_shorter_by_minutes_but_not_by_a_day(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    offer = plan()
    [block] = offer["ReservedCapacityOfferings"]
    middle = START + timedelta(hours=167, minutes=51)
    offer |= {
        "DurationHours": 335,
        "DurationMinutes": 51,
        "ReservedCapacityOfferings": [
            {**block, "EndTime": middle},
            {**block, "StartTime": START + timedelta(hours=400), "EndTime": START + timedelta(hours=568)},
        ],
    }
    account.offers = [offer]
    assert buy("--yes", "--max-price", "999999") == 0
    assert len(account.bought) == 1
    offer |= {"DurationHours": 312, "DurationMinutes": 0}
    assert buy("--yes", "--max-price", "999999") == 1
    assert len(account.bought) == 1
    assert "it is for 312 hours, not for 336" in capsys.readouterr().err


def test_requests_for_plans_have_a_rule_of_their_own(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    p5 = instance_type("p5.48xlarge")
    for days in (1, 15, 100, 182):
        assert check_plan_request(p5, count=64, duration=f"{days}d") == []
    wrong = [("36h", 1), ("183d", 1), ("two weeks", 1), ("14d", 3), ("14d", 128)]
    for duration, count in wrong:
        assert [one.id for one in check_plan_request(p5, count=count, duration=duration)] == ["GPU-OFFER-003"]
    command = ["capacity", "search", "--type", "p5.48xlarge", "--count", "16", "--regions", "us-east-1"]
    assert main([*command, "--duration", "15d"]) == 2
    assert "GPU-OFFER-001" in capsys.readouterr().err
    account.offers = [plan()]
    assert main([*command, "--duration", "15d", "--training-plans"]) == 0
    assert account.asked[-1]["DurationHours"] == 15 * 24


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("AccessDeniedException", "not bought: permission sagemaker:CreateTrainingPlan is missing"),
        (ReadTimeoutError(endpoint_url="x"), "It may have been bought: look at the training plans of us-east-1"),
        ({"TrainingPlanArn": ARN.replace("us-east-1", "us-west-2")}, "bought, but not as it was offered"),
    ],
)
def test_a_purchase_that_fails_is_said_once(
    answer: Any, words: str, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.offers, account.answer = [plan()], answer
    assert buy("--yes", "--max-price", "999999") == 1
    assert len(account.bought) == 1
    assert words in capsys.readouterr().err


def test_one_region_and_a_valid_name(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.offers = [plan()]
    assert buy("--yes", "--max-price", "999999", name="_") != 0
    assert buy("--regions", "us-east-1,us-west-2", "--yes", "--max-price", "999999") == 2
    assert account.bought == []
    capsys.readouterr()
