"""Run the checks against a real AWS account, or say what they would do and cost.

    make test-aws                                                    says it; needs no credentials
    make test-aws ARGS="--account 123456789012 --budget 20"          does it in that account, and in no other
    make test-aws ARGS="--account 123456789012 --clean"              only removes what an earlier run left

Everything that a run makes has the tag `gpu-clusters-test`. What has it is removed first and last, also after Ctrl-C
and after a run that was killed; a run that was killed with its watcher leaves its removal to the next one.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NoReturn

from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters.catalogue.prices import Market

from .account import Account, EmulatedAccount
from .checks import SCENARIOS
from .cleanup import clean
from .plan import DEFAULT_LIMIT_USD, Scenario, plan_lines, total_usd
from .results import RESULTS, Result, add_result
from .run import Run

# Amazon EKS user guide, "Amazon EKS networking requirements": zones that cannot have a cluster's subnets.
_ZONES_WITHOUT_EKS = ("use1-az3", "usw1-az2", "cac1-az3")
_USAGE, _FAILED, _LEFT = 2, 1, 3


def main(arguments: Sequence[str]) -> int:
    """Run, and give the exit status: 0 all passed, 1 a check failed, 2 refused, 3 something is left."""
    options = _options(arguments)
    chosen = _chosen(options.only)
    if options.worker:
        return _work(options, chosen)
    for line in plan_lines(chosen, options.region):
        print(line)
    if options.account is None:
        print("\nnothing was done: give --account and --budget to run it")
        return 0
    account = _account(options)
    _refuse_another_account(account, options.account)
    if options.clean:
        return _report_left(clean(account, tell=_say))
    _refuse_budget(options, total_usd(chosen, options.region))
    return _watch(account, options, chosen, list(arguments))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make test-aws", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [one.name for one in SCENARIOS]
    parser.add_argument("--account", metavar="ID", help="the account to use; another one is refused")
    parser.add_argument("--budget", metavar="USD", help="what the run may cost; less than its plan is refused")
    parser.add_argument("--limit", metavar="USD", default=str(DEFAULT_LIMIT_USD), help="greatest budget (20)")
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--zones", metavar="A,B", help="two zones; by default the first with the types")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="scenarios; all by default")
    parser.add_argument("--clean", action="store_true", help="only remove what an earlier run left")
    parser.add_argument("--emulator", metavar="URL", help="an emulator on loopback in place of AWS")
    parser.add_argument("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _chosen(names: Sequence[str]) -> list[Scenario]:
    return [one for one in SCENARIOS if one.name in names]


def _account(options: argparse.Namespace) -> Account:
    if options.emulator:
        return EmulatedAccount(options.region, options.emulator)
    return Account(options.region)


def _refuse(reason: str) -> NoReturn:
    print(f"refused: {reason}", file=sys.stderr)
    raise SystemExit(_USAGE)


def _refuse_another_account(account: Account, wanted: str) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = account.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as fault:
        _refuse(f"no usable credentials: {fault}")
    if found != wanted:
        _refuse(f"the credentials are of account {found}, and --account names {wanted}")


def _refuse_budget(options: argparse.Namespace, most: Decimal) -> None:
    if options.budget is None:
        _refuse(f"type what the run may cost: --budget {most}")
    try:
        budget, limit = Decimal(options.budget), Decimal(options.limit)
    except InvalidOperation:
        _refuse(f"--budget {options.budget} or --limit {options.limit} is no amount, such as 20")
    if not (budget.is_finite() and limit.is_finite() and budget > 0):
        _refuse(f"--budget {options.budget} is no amount, such as 20")
    if budget > limit:
        _refuse(f"--budget {budget} is above the limit of {limit} USD: choose scenarios with --only, or raise --limit")
    if most > budget:
        _refuse(f"the plan costs up to {most} USD, more than --budget {budget}: choose scenarios with --only")


# The watcher: it removes first and last, whatever becomes of the worker.


def _watch(account: Account, options: argparse.Namespace, chosen: Sequence[Scenario], arguments: list[str]) -> int:
    if left := clean(account, tell=_say):
        return _report_left(left)
    status = _FAILED
    with _signals_as_exceptions():
        worker = subprocess.Popen(
            [sys.executable, "-m", "real_account", "--worker", *arguments],
            env={**os.environ, "CDK_VALIDATION": "false"},  # other tests validate the templates
            stdin=subprocess.PIPE,  # it ends when this process does
            start_new_session=True,  # Ctrl-C is for this process, which removes things
        )
        print(f"worker {worker.pid}", flush=True)
        try:
            status = worker.wait(timeout=60 * sum(one.minutes for one in chosen))
        except (_Ended, subprocess.TimeoutExpired) as why:
            print(f"stopped ({type(why).__name__} {why}); what was made is removed now", flush=True)
        finally:
            _end(worker)
            left = clean(account, tell=_say)
    return _report_left(left) or (_FAILED if status else 0)


class _Ended(Exception):
    """A signal asked the run to end."""


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Raise once at SIGINT, SIGTERM or SIGHUP; further ones are ignored, so that they do not stop the removal."""

    def end(number: int, _frame: Any) -> None:
        for one in handled:
            signal.signal(one, signal.SIG_IGN)
        raise _Ended(signal.Signals(number).name)

    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.signal(one, end) for one in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(worker: subprocess.Popen[bytes]) -> None:
    """End the worker and what it started; the CDK CLI of a deployment too."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(worker.pid, number)
            worker.wait(timeout=10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _report_left(left: Sequence[str]) -> int:
    for one in left:
        print(f"LEFT: {one}", file=sys.stderr)
    print("nothing is left" if not left else "run it again with --clean", flush=True)
    return _LEFT if left else 0


def _say(line: str) -> None:
    print(line, flush=True)


# The worker: it runs the checks.


def _work(options: argparse.Namespace, chosen: Sequence[Scenario]) -> int:
    threading.Thread(target=_end_with_watcher, daemon=True).start()
    account = _account(options)
    passed = True
    for scenario in chosen:
        zones = options.zones.split(",") if options.zones else _zones(account, scenario)
        with tempfile.TemporaryDirectory() as folder:
            run = Run(account, scenario, Path(folder), zones=(zones[0], zones[1]))
            passed &= _run_checks(run, scenario, options)
        if scenario.cluster:
            passed &= not clean(account, tell=_say)
    return 0 if passed else _FAILED


def _zones(account: Account, scenario: Scenario) -> list[str]:
    """Two zones that have the instance types of a scenario; names of zones are others in each account."""
    ec2 = account.client("ec2")
    zones = ec2.describe_availability_zones(Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}])
    found = sorted(one["ZoneName"] for one in zones["AvailabilityZones"] if one["ZoneId"] not in _ZONES_WITHOUT_EKS)
    types = {part.subject for part in scenario.parts if part.market is Market.ON_DEMAND}
    if "ec2:DescribeInstanceTypeOfferings" in account.gaps or not types:
        return found[:2]
    asked = {"LocationType": "availability-zone", "Filters": [{"Name": "instance-type", "Values": sorted(types)}]}
    offers = [
        (one["InstanceType"], one["Location"])
        for page in ec2.get_paginator("describe_instance_type_offerings").paginate(**asked)
        for one in page["InstanceTypeOfferings"]
    ]
    return sorted(found, key=lambda zone: -sum((one, zone) in offers for one in types))[:2]


def _end_with_watcher() -> None:
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def _run_checks(run: Run, scenario: Scenario, options: argparse.Namespace) -> bool:
    # Without paid parts there is nothing that an account may lack.
    lacking = run.obstacles() if scenario.parts else []
    passed = not lacking
    for check in scenario.checks:
        outcome, cause = "not reached", "; ".join(lacking)
        if passed or not scenario.cluster:
            run.begin(check.minutes)
            try:
                check.run(run)
                outcome = "passed"
            except Exception as fault:  # noqa: BLE001 - every fault is the result of the check
                outcome, cause = "failed", f"{type(fault).__name__}: {fault}"
        passed &= outcome == "passed"
        print(f"{scenario.name}: {check.name}: {outcome} {cause}", flush=True)
        if run.account.is_real or options.results != RESULTS:
            add_result(options.results, _result(check.name, outcome, cause, options.region))
    return passed


def _result(check: str, outcome: str, cause: str, region: str) -> Result:
    lines = cause.splitlines()
    return Result(
        check=check,
        outcome=outcome,
        when=f"{datetime.now(UTC):%Y-%m-%d}",
        region=region,
        version=__version__,
        cause=lines[0][:200] if lines else "",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
