"""The policy of preflight has every permission that its checks use, no other, and only such as read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from cdk_gpu_clusters_stacks.preflight import Account, call, every_check, policy_for, run_preflight
from cdk_gpu_clusters_stacks.preflight.call import Call
from fake_aws import FakeAws, Refusal
from preflight_account import (
    CLOSED,
    EXISTING,
    GROUP,
    GROUPED,
    NEW,
    NOW,
    ON_BATCH,
    ON_HYPERPOD,
    OTHER_CLUSTER,
    block,
    healthy,
    hyperpod_clusters,
    limit,
    spec_of,
    subnets,
)

CALLS = [one for one in vars(call).values() if isinstance(one, Call)]
SPECS = {"existing": EXISTING, "new": NEW, "closed": CLOSED, "batch": ON_BATCH, "hyperpod": ON_HYPERPOD}


def accounts() -> Iterator[FakeAws]:
    """A healthy account, one in which everything is short, and one without quotas of its own."""
    yield healthy()
    yield healthy().but(
        service_quotas__get_service_quota=limit(1),
        ec2__describe_subnets=subnets(AvailableIpAddressCount=0),
        ec2__describe_capacity_reservations=block(AvailableInstanceCount=0),
        s3__head_bucket={},
        sagemaker__list_clusters=hyperpod_clusters(OTHER_CLUSTER),
    )
    yield healthy().but(
        service_quotas__get_service_quota=Refusal("NoSuchResourceException"),
        service_quotas__list_service_quotas={"Quotas": []},
    )


def made(spec: str) -> set[Call]:
    """The calls that all checks together make."""
    found: set[str] = set()
    for aws in accounts():
        with Account(aws.clients, region="us-east-1") as account:
            run_preflight(spec_of(spec), account, now=NOW)
        found |= aws.names()
    return {one for one in CALLS if f"{one.service}.{one.operation}" in found}


@pytest.mark.parametrize("name", SPECS)
def test_every_call_of_a_file_is_in_its_policy(name: str) -> None:
    (statement,) = policy_for(spec_of(SPECS[name]))["Statement"]
    missing = {action for one in made(SPECS[name]) for action in one.actions} - set(statement["Action"])
    assert missing == set()


def test_every_action_of_a_policy_is_of_a_call_that_is_made() -> None:
    used = {action for spec in SPECS.values() for one in made(spec) for action in one.actions}
    for spec in SPECS.values():
        (statement,) = policy_for(spec_of(spec))["Statement"]
        assert set(statement["Action"]) <= used


def test_every_call_is_declared_by_a_check() -> None:
    declared = {one for check in every_check() for one in check.calls}
    assert declared == set(CALLS)


def test_only_what_a_file_needs_is_asked_for() -> None:
    (closed,) = policy_for(spec_of(CLOSED))["Statement"]
    for action in (
        "fsx:DescribeFileSystems",
        "acm:DescribeCertificate",
        "kms:DescribeKey",
        "tag:GetResources",
    ):
        assert action not in closed["Action"]


def test_members_of_groups_are_asked_for_only_where_a_file_names_a_group() -> None:
    group = f'{{ reservation_group: "{GROUP}" }}'
    assert group in EXISTING
    without = EXISTING.replace(group, f"{{ reservation: {GROUPED} }}")
    for spec, needed in ((EXISTING, True), (without, False)):
        (statement,) = policy_for(spec_of(spec))["Statement"]
        assert ("resource-groups:ListGroupResources" in statement["Action"]) is needed
        assert made(spec) <= {one for one in CALLS if set(one.actions) <= set(statement["Action"])}


def test_every_action_reads() -> None:
    for one in CALLS:
        for action in one.actions:
            assert re.fullmatch(r"[a-z0-9-]+:(Describe|Get|List)\w+", action)
            assert "Value" not in action  # of a secret
