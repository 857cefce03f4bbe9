"""Each check of preflight: that it passes where all is well, and what it says where something is not."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from cdk_gpu_clusters_stacks.preflight import Account, Check, Preflight, every_check, run_preflight
from preflight_account import (
    CLOSED,
    EXISTING,
    NEW,
    NOW,
    ON_BATCH,
    ON_EKS,
    ON_EXISTING_EKS,
    ON_EXISTING_PCS,
    ON_HYPERPOD,
    ON_HYPERPOD_EKS,
    ON_PARALLELCLUSTER,
    ON_PCS,
    healthy,
    spec_of,
)
from preflight_cases import CASES, Case

CHECKS = {check.id: check for check in every_check()}
HEALTHY = (
    EXISTING,
    NEW,
    ON_EKS,
    ON_EXISTING_EKS,
    ON_PCS,
    ON_EXISTING_PCS,
    ON_PARALLELCLUSTER,
    ON_BATCH,
    ON_HYPERPOD,
    ON_HYPERPOD_EKS,
)


def run(text: str, *, checks: list[Check[Any]] | None = None, **answers: Any) -> Preflight:
    spec = spec_of(text)
    with Account(healthy().but(**answers).clients, region=spec.region) as account:
        return run_preflight(spec, account, now=NOW, checks=checks)


@cache
def well(text: str) -> Preflight:
    return run(text)


@pytest.mark.parametrize("check_id", CHECKS)
def test_a_healthy_account_passes(check_id: str) -> None:
    outcomes = {result.outcome.value for text in HEALTHY for result in well(text).results if result.id == check_id}
    assert outcomes <= {"pass", "not applicable"}
    if check_id != "GPU-PRE-084":
        assert "pass" in outcomes


def test_a_healthy_account_has_the_endpoints_of_a_closed_network() -> None:
    (result,) = (one for one in well(CLOSED).results if one.id == "GPU-PRE-084")
    assert result.outcome.value == "pass"


@pytest.mark.parametrize("case", CASES, ids=[f"{case.id} {case.outcome}: {case.says}" for case in CASES])
def test_a_check_says_what_is_wrong_and_how_to_mend_it(case: Case) -> None:
    (result,) = run(case.spec, checks=[CHECKS[case.id]], **case.answers).results
    found = [verdict for verdict in result.verdicts if case.says in verdict.cause]
    assert [verdict.outcome.value for verdict in found][:1] == [case.outcome], result
    if case.outcome != "pass":
        assert result.outcome.value != "pass"
        assert any(case.fix in verdict.fix for verdict in found), found
    if case.outcome in ("fail", "warn"):
        assert all(verdict.fix for verdict in found)


@pytest.mark.parametrize("check_id", CHECKS)
def test_every_check_can_find_something(check_id: str) -> None:
    assert [case for case in CASES if case.id == check_id and case.outcome in ("fail", "warn")]


def test_there_are_at_least_30_checks_with_ids_in_order() -> None:
    assert len(CHECKS) >= 30
    assert list(CHECKS) == sorted(CHECKS)


def test_where_a_check_is_not_applicable_it_says_why() -> None:
    for text in (CLOSED, *HEALTHY):
        for result in well(text).results:
            assert bool(result.reason) == (result.outcome.value == "not applicable") == (not result.verdicts)
