"""How an account is asked: side by side, once, to the last page, again after throttling, and what no answer means."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import EndpointConnectionError, NoCredentialsError, UnauthorizedSSOTokenError
from moto import mock_aws
from moto.core.botocore_stubber import MockRawResponse

from cdk_gpu_clusters_stacks.preflight import (
    Account,
    Preflight,
    Unusable,
    boto3_clients,
    call,
    every_check,
    run_preflight,
)
from cdk_gpu_clusters_stacks.preflight.call import Absent, Call, Denied, NoAnswer, RegionSilent
from cdk_gpu_clusters_stacks.preflight.run import format_preflight
from fake_aws import FakeAws, Refusal
from preflight_account import EXISTING, NEW, NOW, OTHER_CLUSTER, healthy, hyperpod_clusters, spec_of

CALLS = {name: one for name, one in vars(call).items() if isinstance(one, Call)}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/no/such/file")


def ask(aws: FakeAws, one: Call, **parameters: Any) -> Any:
    with Account(aws.clients, region="us-east-1") as account:
        return account.ask(one, **parameters)


@pytest.mark.parametrize("text", [EXISTING, NEW])
def test_every_distinct_question_is_asked_once(text: str) -> None:
    aws = healthy()
    with Account(aws.clients, region="us-east-1") as account:
        run_preflight(spec_of(text), account, now=NOW)
    questions = [(one.name, one.region, repr(sorted(one.parameters.items()))) for one in aws.asked]
    assert len(questions) == len(set(questions)) == len(account.asked) > 40


def longest_chain(aws: FakeAws) -> int:
    """The most requests of which each began after the one before had ended: what cannot be any faster."""
    chain, free = 0, 0.0
    for one in sorted(aws.asked, key=lambda asked: asked.ended):
        if one.began >= free:
            chain, free = chain + 1, one.ended
    return chain


def test_calls_run_side_by_side() -> None:
    aws = healthy()
    with Account(aws.clients, region="us-east-1") as account:  # clients are made before anything is measured
        run_preflight(spec_of(EXISTING), account, now=NOW)
    aws = healthy()
    aws.seconds = 0.05
    with Account(aws.clients, region="us-east-1") as account:
        run_preflight(spec_of(EXISTING), account, now=NOW)
    most = max(sum(other.began <= one.began < other.ended for other in aws.asked) for one in aws.asked)
    assert len(aws.asked) > 40
    assert most >= 10
    assert longest_chain(aws) <= 12  # at 200 ms a call under 3 s; it takes 5 on an idle machine


def test_a_question_asked_by_many_at_once_is_one_request() -> None:
    aws, together = healthy(), threading.Barrier(8)
    with Account(aws.clients, region="us-east-1") as account:

        def wonder() -> None:
            together.wait()
            account.ask(call.VPCS)

        threads = [threading.Thread(target=wonder) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [one.name for one in aws.asked] == ["ec2.describe_vpcs"]


def _pages(client: Any, operation: str) -> Iterator[Any]:
    """Two pages of a paginated operation with one item each, or two where an item can be empty."""
    import botocore.session

    service = client.meta.service_model
    model = botocore.session.get_session().get_paginator_model(service.service_name)
    config = model.get_paginator(client.meta.method_to_api_mapping[operation])
    keys = config["result_key"] if isinstance(config["result_key"], list) else [config["result_key"]]
    token = config["output_token"][0] if isinstance(config["output_token"], list) else config["output_token"]
    more = {config["more_results"]: True} if "more_results" in config else {}
    items: dict[str, Any] = {
        "Stacks": {"StackName": "a", "CreationTime": NOW, "StackStatus": "X"},
        "clusters": "a",
        "ClusterSummaries": hyperpod_clusters(OTHER_CLUSTER)["ClusterSummaries"][0],
        "Tags": {"Key": "a", "Value": "b"},
    }
    of_pcs = {
        "clusters": {"name": "a", "id": "pcs_a", "arn": "a", "createdAt": NOW, "modifiedAt": NOW, "status": "ACTIVE"}
    }
    item = (items | of_pcs if service.service_name == "pcs" else items).get(keys[0], {})
    yield {keys[0]: [item], token.split(" ")[0]: "next", **more}
    yield {keys[0]: [item]}


# Calls with pages that botocore has no paginator for, and the list in their answers.
TOKENS_ALONE = {"STATUS_CHECKS": "ApplicationStatusChecks", "STATUS_CHECK_TARGETS": "Associations"}


@pytest.mark.parametrize(("name", "key"), TOKENS_ALONE.items())
def test_pages_without_a_paginator_are_read(name: str, key: str) -> None:
    one = CALLS[name]
    pages = iter([{key: [{}], "NextToken": "next"}, {key: [{}]}])
    aws = healthy().but(**{f"{one.service}.{one.operation}": lambda _: next(pages)})
    assert ask(aws, one)[key] == [{}, {}]
    assert [asked.parameters.get("NextToken") for asked in aws.asked] == [None, "next"]


PAGED = [name for name, one in CALLS.items() if one.service != "logs"]


@pytest.mark.parametrize("name", PAGED)
def test_every_page_is_read(name: str) -> None:
    one = CALLS[name]
    aws = healthy()
    client = aws.clients(one.service, "us-east-1")
    if not client.can_paginate(one.operation):
        assert name in {
            *("CALLER", "REGIONS", "ZONES", "PLACEMENT_GROUPS", "VPC_ATTRIBUTE", "ADDRESSES"),
            *("QUOTA", "DEFAULT_QUOTA", "PARAMETER", "SECRET", "BUCKET", "KEY", "ROLE", "CERTIFICATE"),
            *("USER", "EKS_CLUSTER", "EKS_ADD_ON", "EBS_KEY", "KEY_POLICY", "PCS_CLUSTER", *TOKENS_ALONE),
            *("HYPERPOD_CLUSTER", "TRAINING_PLAN"),
        }, "AWS answers these whole"
        return
    pages = _pages(client, one.operation)
    aws = aws.but(**{f"{one.service}.{one.operation}": lambda _: next(pages)})
    required = {
        "CONTAINER_IMAGE": {"repositoryName": "models"},
        "POD_IDENTITIES": {"clusterName": "research"},
        "HYPERPOD_TAGS": {"ResourceArn": OTHER_CLUSTER},
        **{key: {"ServiceCode": "sagemaker"} for key in ("QUOTAS", "DEFAULT_QUOTAS")},
    }.get(name, {})
    answer = ask(aws, one, **required)
    assert [len(items) for items in answer.values() if isinstance(items, list) and items] == [2]
    assert len(aws.asked) == 2


@pytest.mark.usefixtures("credentials")
def test_what_is_throttled_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", pauses.append)
    with mock_aws():
        clients = boto3_clients()
        client = clients("ec2", "us-east-1")
        refusals = iter(["RequestLimitExceeded", "Throttling"])

        def throttle(request: Any, **_: Any) -> Any:
            code = next(refusals, None)
            return None if code is None else _error(request.url, 503, code)

        client.meta.events.register_first("before-send.ec2.DescribeVpcs", throttle)
        with Account(lambda _service, _region: client, region="us-east-1") as account:
            assert len(account.ask(call.VPCS)["Vpcs"]) == 1  # the default one
    assert len(pauses) == 2


@pytest.mark.usefixtures("credentials")
def test_what_is_throttled_to_the_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", pauses.append)
    with mock_aws():
        client = boto3_clients()("ec2", "us-east-1")
        client.meta.events.register_first(
            "before-send", lambda request, **_: _error(request.url, 503, "RequestLimitExceeded")
        )
        with (
            Account(lambda _service, _region: client, region="us-east-1") as account,
            pytest.raises(NoAnswer, match="ec2:DescribeVpcs was throttled to the last retry"),
        ):
            account.ask(call.VPCS)
    assert len(pauses) == 5


def _error(url: str, status: int, code: str) -> AWSResponse:
    text = f"<Response><Errors><Error><Code>{code}</Code><Message>slow</Message></Error></Errors></Response>"
    raw: Any = MockRawResponse(text.encode())
    assert isinstance(raw, BytesIO)
    return AWSResponse(url, status, HTTPHeaders(), raw)


DENIALS = [
    ("UnauthorizedOperation", "You are not authorized to perform this operation.", "ec2:DescribeVpcs"),
    (
        "AccessDenied",
        "User: arn:aws:iam::1:user/me is not authorized to perform: ec2:DescribeVpcThings on resource: *",
        "ec2:DescribeVpcThings",
    ),
    (
        "AccessDeniedException",
        "User is not authorized to perform: ec2:DescribeVpcs with an explicit deny in a service control policy",
        "ec2:DescribeVpcs",
    ),
]


@pytest.mark.parametrize(("code", "message", "action"), DENIALS)
def test_a_missing_permission_is_named(code: str, message: str, action: str) -> None:
    with pytest.raises(Denied) as caught:
        ask(healthy().but(ec2__describe_vpcs=Refusal(code, message)), call.VPCS)
    assert caught.value.permission == action
    assert action in caught.value.fix
    assert ("policy of the organization" in caught.value.cause) == ("service control" in message)


@pytest.mark.parametrize(
    "error",
    [
        Refusal("ExpiredToken"),
        Refusal("ExpiredTokenException"),
        Refusal("RequestExpired"),
        NoCredentialsError(),
        UnauthorizedSSOTokenError(),
    ],
    ids=str,
)
def test_credentials_that_are_over_or_missing_stop_everything(error: Any) -> None:
    with pytest.raises(Unusable, match="credentials"):
        ask(healthy().but(ec2__describe_vpcs=error), call.VPCS)


def test_credentials_that_sts_does_not_know_stop_everything() -> None:
    with pytest.raises(Unusable, match="InvalidClientTokenId"):
        ask(healthy().but(sts__get_caller_identity=Refusal("InvalidClientTokenId")), call.CALLER)


@pytest.mark.parametrize("code", ["AuthFailure", "OptInRequired", "UnrecognizedClientException"])
def test_a_region_that_is_not_enabled_is_named(code: str) -> None:
    with pytest.raises(RegionSilent, match=f"ec2 in us-east-1 refuses credentials that STS takes .{code}"):
        ask(healthy().but(ec2__describe_vpcs=Refusal(code)), call.VPCS)


def test_a_region_without_the_service_is_named() -> None:
    error = EndpointConnectionError(endpoint_url="https://fsx.us-east-1.amazonaws.com")
    with pytest.raises(RegionSilent, match="fsx in us-east-1 did not answer"):
        ask(healthy().but(fsx__describe_file_systems=error), call.FILE_SYSTEMS)


def preflight(aws: FakeAws) -> Preflight:
    with Account(aws.clients, region="us-east-1") as account:
        return run_preflight(spec_of(NEW), account, now=NOW)


def test_a_machine_without_a_network_is_told_so_once() -> None:
    silent = EndpointConnectionError(endpoint_url="https://sts.us-east-1.amazonaws.com")
    aws = healthy().but(sts__get_caller_identity=silent, ec2__describe_regions=silent)
    with pytest.raises(Unusable, match=r"^no service of AWS answers in us-east-1: sts .*; check the network") as told:
        preflight(aws)
    assert "\n" not in str(told.value)


def test_one_silent_service_is_one_line() -> None:
    silent = EndpointConnectionError(endpoint_url="https://cloudformation.us-east-1.amazonaws.com")
    lines = [line for _, line in format_preflight(preflight(healthy().but(cloudformation__describe_stacks=silent)))]
    assert sum("cloudformation in us-east-1 did not answer" in line for line in lines) == 1


@pytest.mark.parametrize(
    "code", ["404", "NoSuchEntity", "ParameterNotFound", "InvalidAMIID.NotFound", "NoSuchResourceException"]
)
def test_what_is_not_there_is_absent(code: str) -> None:
    with pytest.raises(Absent):
        ask(healthy().but(ec2__describe_vpcs=Refusal(code)), call.VPCS)


def test_an_image_that_is_not_shared_is_absent() -> None:
    refusal = Refusal("AuthFailure", "Not authorized for images: [ami-0123456789abcdef0]")
    with pytest.raises(Absent, match="Not authorized for images"):
        ask(healthy().but(ec2__describe_images=refusal), call.IMAGES, ImageIds=["ami-0123456789abcdef0"])


def test_any_other_error_is_told_with_its_code() -> None:
    with pytest.raises(NoAnswer, match="InternalError: refused") as caught:
        ask(healthy().but(ec2__describe_vpcs=Refusal("InternalError")), call.VPCS)
    assert type(caught.value) is NoAnswer


@pytest.mark.parametrize(
    ("region", "first"),
    [("eu-west-1", "us-east-1"), ("us-gov-east-1", "us-gov-west-1"), ("cn-northwest-1", "cn-north-1")],
)
def test_who_asks_is_asked_where_every_account_is_enabled(region: str, first: str) -> None:
    aws = healthy()
    with Account(aws.clients, region=region) as account:
        account.ask(call.CALLER)
    assert [one.region for one in aws.asked] == [first]


def test_a_whole_region_that_is_off_fails_one_check_and_leaves_the_others_open() -> None:
    refused = {name.replace(".", "__"): Refusal("AuthFailure") for name in healthy().answers if "sts" not in name}
    aws = healthy().but(**{name.replace("-", "_"): answer for name, answer in refused.items()})
    with Account(aws.clients, region="us-east-1") as account:
        found = run_preflight(spec_of(NEW), account, now=NOW)
    outcomes = {result.id: result.outcome.value for result in found.results}
    assert [check for check, outcome in outcomes.items() if outcome == "fail"] == ["GPU-PRE-003"]
    assert {check for check, outcome in outcomes.items() if outcome == "pass"} == {
        "GPU-PRE-001",
        "GPU-PRE-002",
        "GPU-PRE-060",
    }


def test_one_missing_permission_leaves_all_other_checks_as_they_are() -> None:
    aws = healthy().but(fsx__describe_file_systems=Refusal("AccessDeniedException", "no"))
    with Account(aws.clients, region="us-east-1") as account:
        found = run_preflight(spec_of(EXISTING), account, now=NOW)
    open_ones = {result.id: result for result in found.results if result.outcome.value == "cannot tell"}
    assert sorted(open_ones) == ["GPU-PRE-113", "GPU-PRE-114", "GPU-PRE-115"]
    for result in open_ones.values():
        assert [verdict.permission for verdict in result.verdicts] == ["fsx:DescribeFileSystems"]
    assert not found.failed


def test_a_check_cannot_make_a_call_that_it_does_not_declare() -> None:
    from dataclasses import replace

    (check,) = (one for one in every_check() if one.id == "GPU-PRE-071")
    careless = replace(check, calls=())
    with (
        Account(healthy().clients, region="us-east-1") as account,
        pytest.raises(AssertionError, match="ec2:DescribeVpcs"),
    ):
        run_preflight(spec_of(EXISTING), account, now=NOW, checks=[careless])


def test_progress_ends_with_everything_done() -> None:
    steps: list[tuple[int, int]] = []
    with Account(healthy().clients, region="us-east-1") as account:
        run_preflight(spec_of(NEW), account, now=NOW, on_done=lambda done, total: steps.append((done, total)))
    assert [done for done, _ in steps] == list(range(1, steps[0][1] + 1))


@pytest.mark.usefixtures("credentials")
def test_a_profile_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(Unusable, match="nobody"):
        boto3_clients("nobody")


@pytest.mark.usefixtures("credentials")
def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(Unusable, match=r"pip install 'gpu-clusters\[live\]'"):
        boto3_clients()


def test_the_fake_gives_no_answer_that_aws_could_not_give() -> None:
    with pytest.raises(NoAnswer, match='Unknown parameter in input: "Subnets"'):
        ask(healthy().but(ec2__describe_vpcs={"Subnets": []}), call.VPCS)


def test_the_fake_takes_no_parameter_that_aws_would_not_take() -> None:
    with pytest.raises(NoAnswer, match='Unknown parameter in input: "Names"'):
        ask(healthy(), call.VPCS, Names=["a"])
