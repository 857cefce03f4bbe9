"""What runs in an account, and its bill. Answers and parameters are checked by botocore's models."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest

from cdk_gpu_clusters_stacks.cost import Live, policy_for_cost, read_account
from cdk_gpu_clusters_stacks.cost.account import COST_AND_USAGE
from cdk_gpu_clusters_stacks.cost.money import Usd
from cdk_gpu_clusters_stacks.cost.text import live_text
from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.spec import load_cluster
from cost_month import CLUSTER
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
OWN = {"Key": "gpu-cluster", "Value": "llama"}
ZONE = "us-west-2b"
RESERVATION = "cr-0123456789abcdef0"


def instance(*tags: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {
        "InstanceId": "i-0123456789abcdef0",
        "InstanceType": "p4d.24xlarge",
        "Placement": {"AvailabilityZone": ZONE},
        "Tags": [OWN, *({"Key": key, "Value": value} for key, value in tags)],
        **more,
    }


def cost(name: str, amount: str, unit: str = "USD") -> dict[str, Any]:
    return {"Keys": [name], "Metrics": {"UnblendedCost": {"Amount": amount, "Unit": unit}}}


def bill(*groups: dict[str, Any]) -> dict[str, Any]:
    period = {"Start": "2026-11-01", "End": "2026-11-28"}
    return {"ResultsByTime": [{"TimePeriod": period, "Groups": list(groups), "Estimated": True}]}


GROUPS = [
    instance(("eks:nodegroup-name", "workers"), ("aws:autoscaling:groupName", "eks-workers-1")),
    instance(("aws:autoscaling:groupName", "slices"), InstanceLifecycle="spot"),
    instance(("aws:pcs:compute-node-group-id", "pcs_1"), CapacityReservationId=RESERVATION),
    instance(CapacityReservationId="cr-1", InstanceLifecycle="capacity-block"),
]
RESERVED = {
    "CapacityReservationId": RESERVATION,
    "InstanceType": "p4d.24xlarge",
    "AvailabilityZone": ZONE,
    "TotalInstanceCount": 16,
    "AvailableInstanceCount": 15,
    "ReservationType": "default",
}
ANSWERS = {
    "sts.get_caller_identity": {"Account": ACCOUNT},
    "ec2.describe_instances": {"Reservations": [{"Instances": GROUPS}]},
    "ec2.describe_capacity_reservations": {
        "CapacityReservations": [RESERVED, {**RESERVED, "CapacityReservationId": "cr-of-others"}]
    },
    "ce.get_cost_and_usage": bill(cost("Amazon Elastic Compute Cloud - Compute", "100.005"), cost("AWS PCS", "7")),
}


@pytest.fixture
def look(tmp_path: Path) -> Any:
    def ask(aws: FakeAws, *, bill: bool = True) -> Live:
        (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
        spec = load_cluster(tmp_path / "cluster.yaml")
        with Account(aws.clients, region=spec.region) as account:
            return read_account(spec, account, now=NOW, bill=bill)

    return ask


def even(amount: str) -> Usd:
    return Usd(Decimal(amount), Decimal(amount))


def test_what_runs_by_group_and_how_it_is_bought(look: Any) -> None:
    live = look(FakeAws(ANSWERS))
    assert not live.is_partial
    assert {(one.where, one.count, one.used, one.purchase) for one in live.running} == {
        (f"reservation {RESERVATION}", 16, 1, "reservation, used or not"),
        ("EKS node group workers", 1, 1, "on demand"),
        ("Auto Scaling group slices", 1, 1, "Spot, at most"),
        ("instances without a group", 1, 1, "Capacity Block, paid in advance"),
    }
    # 16 reserved nodes 351.32, one on demand and one Spot node 21.96 each; the block is paid already.
    assert live.per_hour == even("395.24")
    assert not [what for what in live.cannot_tell if "Explorer" in what]


def test_what_a_reservation_has_unused_is_a_share_of_what_it_costs(look: Any) -> None:
    live = look(FakeAws(ANSWERS))
    unused = {one.where: one.unused_per_hour for one in live.running}
    # 15 of 16 nodes at 21.957642 USD: 329.36463.
    assert unused.pop(f"reservation {RESERVATION}") == even("329.36")
    assert set(unused.values()) == {even("0.00")}
    (line,) = [one for one in live_text(live, width=200).splitlines() if RESERVATION in one]
    assert "16 x p4d.24xlarge, 1 used" in line
    assert "351.32 USD an hour, 329.36 USD of it unused" in line
    assert live_text(live, width=200).count("unused") == 1


def test_a_block_is_paid_already_and_has_nodes_unused(look: Any) -> None:
    block = {**RESERVED, "ReservationType": "capacity-block", "AvailableInstanceCount": 16}
    live = look(FakeAws({**ANSWERS, "ec2.describe_capacity_reservations": {"CapacityReservations": [block]}}))
    one = next(one for one in live.running if RESERVATION in one.where)
    # 16 nodes at 11.80 USD.
    assert (one.used, one.per_hour, one.unused_per_hour) == (0, even("188.80"), even("188.80"))
    (line,) = [line for line in live_text(live, width=200).splitlines() if RESERVATION in line]
    assert "188.80 USD an hour, paid already, 188.80 USD of it unused" in line


def test_only_running_instances_of_the_cluster_are_asked_for(look: Any) -> None:
    aws = FakeAws(ANSWERS)
    look(aws)
    (asked,) = [one.parameters for one in aws.asked if one.name == "ec2.describe_instances"]
    assert asked["Filters"] == [
        {"Name": "tag:gpu-cluster", "Values": ["llama"]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]


def test_the_bill_by_service(look: Any) -> None:
    aws = FakeAws(ANSWERS)
    live = look(aws)
    assert [(one.name, one.usd) for one in live.services] == [
        ("Amazon Elastic Compute Cloud - Compute", Decimal("100.01")),
        ("AWS PCS", Decimal("7.00")),
    ]
    assert live.billed == Decimal("107.01")
    (asked,) = [one.parameters for one in aws.asked if one.name == "ce.get_cost_and_usage"]
    assert asked["TimePeriod"] == {"Start": "2026-11-01", "End": "2026-11-28"}
    assert asked["Filter"] == {"Tags": {"Key": "gpu-cluster", "Values": ["llama"]}}


def test_every_page_of_the_bill_is_read(look: Any) -> None:
    first, second = bill(cost("EC2", "1")), bill(cost("EC2", "2"), cost("FSx", "3"))

    def pages(asked: Any) -> Any:
        return second if asked.get("NextPageToken") == "2" else {**first, "NextPageToken": "2"}

    live = look(FakeAws({**ANSWERS, "ce.get_cost_and_usage": pages}))
    assert {one.name: one.usd for one in live.services} == {"EC2": Decimal("3.00"), "FSx": Decimal("3.00")}


def test_without_bill_cost_explorer_is_not_asked(look: Any) -> None:
    aws = FakeAws(ANSWERS)
    live = look(aws, bill=False)
    assert "ce.get_cost_and_usage" not in aws.names()
    assert (live.billed_since, live.billed) == (None, None)


@pytest.mark.parametrize(
    ("call", "answer", "unknown"),
    [
        ("ce.list_cost_allocation_tags", {}, "ce:GetCostAndUsage"),
        (
            "ce.get_cost_and_usage",
            {"ResultsByTime": [{"Groups": [{"Keys": ["EC2"], "Metrics": {"UnblendedCost": {"Amount": "1"}}}]}]},
            "ce:GetCostAndUsage",
        ),
        (
            "ec2.describe_capacity_reservations",
            {"CapacityReservations": [{"CapacityReservationId": RESERVATION}, {}]},
            "ec2:DescribeCapacityReservations",
        ),
        (
            "ec2.describe_instances",
            {"Reservations": [{"Instances": [{"InstanceId": "i-1"}]}, {}]},
            "ec2:DescribeInstances",
        ),
    ],
)
def test_a_partial_answer_is_unknown_and_no_traceback(look: Any, call: str, answer: Any, unknown: str) -> None:
    none: dict[str, Any] = {"ce.get_cost_and_usage": {"ResultsByTime": []}} if call.startswith("ce.list") else {}
    live = look(FakeAws({**ANSWERS, **none, call: answer}))
    assert unknown in live.cannot_tell


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        ("AccessDeniedException", "User not enabled for cost explorer access", "enable Cost Explorer in Billing"),
        (
            "LimitExceededException",
            "You made too many calls in a short period of time. Try again later.",
            "throttled to the last retry",
        ),
    ],
)
def test_what_cost_explorer_refuses_in_its_own_way(look: Any, code: str, message: str, said: str) -> None:
    live = look(FakeAws({**ANSWERS, "ce.get_cost_and_usage": Refusal(code, message)}))
    assert said in live_text(live, width=200)
    assert "allow ce:" not in live_text(live, width=200)


def test_a_denied_bill_cannot_be_told(look: Any) -> None:
    refused = Refusal("AccessDeniedException", "User x is not authorized to perform: ce:GetCostAndUsage on resource: *")
    live = look(FakeAws({**ANSWERS, "ce.get_cost_and_usage": refused}))
    assert live.billed is None
    assert live.cannot_tell["ce:GetCostAndUsage"].startswith("ce:GetCostAndUsage is not allowed")
    assert live.per_hour == even("395.24")


def test_another_currency_is_unknown(look: Any) -> None:
    live = look(FakeAws({**ANSWERS, "ce.get_cost_and_usage": bill(cost("EC2", "100", "CNY"), cost("FSx", "3"))}))
    assert {one.name: one.usd for one in live.services} == {"EC2": None, "FSx": Decimal("3.00")}
    assert live.cannot_tell["bill of EC2"] == "it is in CNY, not in USD"


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ([{"TagKey": "gpu-cluster", "Type": "UserDefined", "Status": "Inactive"}], "is not activated as a cost"),
        ([{"TagKey": "gpu-cluster", "Type": "UserDefined", "Status": "Active"}], "is activated as a cost"),
        ([], "Billing does not know gpu-cluster yet"),
        (Refusal("AccessDeniedException", "no"), "whether gpu-cluster is activated as a cost"),
    ],
)
def test_a_bill_without_the_tag_is_not_zero(look: Any, tags: Any, words: str) -> None:
    answer = tags if isinstance(tags, Refusal) else {"CostAllocationTags": tags}
    aws = FakeAws({**ANSWERS, "ce.get_cost_and_usage": bill(), "ce.list_cost_allocation_tags": answer})
    live = look(aws)
    assert live.billed is None
    assert words in live.cannot_tell["ce:GetCostAndUsage"]
    (asked,) = [one.parameters for one in aws.asked if one.name == "ce.list_cost_allocation_tags"]
    assert asked["TagKeys"] == ["gpu-cluster"]


def test_the_tag_is_not_asked_for_if_it_has_costs(look: Any) -> None:
    aws = FakeAws(ANSWERS)
    look(aws)
    assert "ce.list_cost_allocation_tags" not in aws.names()


def test_denied_instances_are_not_zero(look: Any) -> None:
    denied = Refusal("UnauthorizedOperation", "You are not authorized to perform this operation.")
    aws = FakeAws({**ANSWERS, "ec2.describe_instances": denied, "ec2.describe_capacity_reservations": denied})
    live = look(aws, bill=False)
    assert live.per_hour is None
    assert set(live.cannot_tell) == {"ec2:DescribeInstances", "ec2:DescribeCapacityReservations"}


def test_a_type_without_a_price_is_unknown(look: Any) -> None:
    strange = {**instance(), "InstanceType": "p5e.48xlarge"}
    live = look(FakeAws({**ANSWERS, "ec2.describe_instances": {"Reservations": [{"Instances": [strange]}]}}))
    assert live.per_hour == even("351.32")
    assert live.is_partial
    assert "p5e.48xlarge" in live.cannot_tell["instances without a group, p5e.48xlarge"]


def test_an_ultraserver_block_is_paid_already(look: Any) -> None:
    block = {
        **RESERVED,
        "InstanceType": "p6e-gb200.36xlarge",
        "ReservationType": "capacity-block",
        "TotalInstanceCount": 9,
        "AvailableInstanceCount": 0,
    }
    answers = {**ANSWERS, "ec2.describe_capacity_reservations": {"CapacityReservations": [block]}}
    one = look(FakeAws({**answers, "ec2.describe_instances": {"Reservations": []}})).running[0]
    assert (one.purchase, one.is_paid_in_advance) == ("UltraServer block, paid in advance", True)


def test_a_group_of_reservations_is_named(tmp_path: Path) -> None:
    group = f"arn:aws:resource-groups:us-west-2:{ACCOUNT}:group/research"
    text = CLUSTER.replace("reservation: cr-0123456789abcdef0", f"reservation_group: '{group}'")
    (tmp_path / "cluster.yaml").write_text(text, encoding="utf-8")
    spec = load_cluster(tmp_path / "cluster.yaml")
    with Account(FakeAws(ANSWERS).clients, region=spec.region) as account:
        live = read_account(spec, account, now=NOW, bill=False)
    assert live.is_partial
    assert "resource group" in live.cannot_tell[group]


def test_the_policy_has_exactly_the_calls(look: Any) -> None:
    (statement,) = policy_for_cost(bill=True)["Statement"]
    aws = FakeAws(
        {**ANSWERS, "ce.get_cost_and_usage": bill(), "ce.list_cost_allocation_tags": {"CostAllocationTags": []}}
    )
    look(aws)
    calls = {name.replace("_", "").replace(".", ":") for name in aws.names()}
    assert {action.lower() for action in statement["Action"]} == calls
    assert "ce:GetCostAndUsage" not in policy_for_cost(bill=False)["Statement"][0]["Action"]


@pytest.mark.parametrize(
    ("region", "endpoint"),
    [
        ("us-west-2", "https://ce.us-east-1.amazonaws.com"),
        ("cn-north-1", "https://ce.cn-northwest-1.amazonaws.com.cn"),
    ],
)
def test_botocore_sends_cost_explorer_to_the_endpoint_of_the_partition(region: str, endpoint: str) -> None:
    client = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b").client("ce", region_name=region)
    assert client.meta.endpoint_url == endpoint
    model = client.meta.service_model.operation_model("GetCostAndUsage")
    assert client.meta.method_to_api_mapping[COST_AND_USAGE.operation] == model.name
    assert {"TimePeriod", "Granularity", "Metrics"} == set(model.input_shape.required_members)
