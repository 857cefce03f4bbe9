"""Training plans of SageMaker on offer, and buying one: what HyperPod has in place of Capacity Blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cdk_gpu_clusters.rules.hyperpod import ml_name
from cdk_gpu_clusters_stacks.offers import (
    BlockOffer,
    BlockSegment,
    CapacityRequest,
    Ec2Clients,
    Problem,
    checked_offer,
    checked_price,
    problem_of,
)

#: botocore 1.44.5, sagemaker service model: SageMakerResourceName.
_TARGET = "hyperpod-cluster"
_SEARCH = "sagemaker:SearchTrainingPlanOfferings"
#: The action that a purchase needs.
PURCHASE = "sagemaker:CreateTrainingPlan"
_CALLS = 16
_ARN = re.compile(r"arn:aws[a-z\-]*:sagemaker:(?P<region>[a-z0-9\-]+):[0-9]{12}:training-plan/.+")


def search_plans(
    request: CapacityRequest, regions: Iterable[str], clients: Ec2Clients
) -> tuple[list[BlockOffer], list[Problem]]:
    """Ask every Region for training plans for HyperPod, side by side; what fails is a problem of its own.

    Args:
        request: What is asked for.
        regions: The Regions.
        clients: Makes the SageMaker client of a Region.

    Returns:
        The offers, the cheapest first, and what could not be asked.

    Raises:
        NoCredentials: If there are no credentials that are good.
    """
    asked = list(dict.fromkeys(regions))
    with ThreadPoolExecutor(_CALLS) as pool:
        answers = list(pool.map(lambda region: plans_in(request, region, clients), asked))
    offers = [one for found, _ in answers for one in found]
    return sorted(offers, key=lambda one: (one.price, one.starts_at, one.id)), [
        one for _, problems in answers for one in problems
    ]


def plans_in(request: CapacityRequest, region: str, clients: Ec2Clients) -> tuple[list[BlockOffer], list[Problem]]:
    """The training plans that one Region offers.

    Args:
        request: What is asked for.
        region: The Region.
        clients: Makes the SageMaker client of a Region.

    Raises:
        NoCredentials: If there are no credentials that are good.
    """
    asked: dict[str, Any] = {
        "InstanceType": ml_name(request.instance_type),
        "InstanceCount": request.count,
        "DurationHours": request.hours,
        "TargetResources": [_TARGET],
    }
    if request.starts_after is not None:
        asked["StartTimeAfter"] = request.starts_after
    if request.ends_before is not None:
        asked["EndTimeBefore"] = request.ends_before
    try:
        rows = clients(region).search_training_plan_offerings(**asked)["TrainingPlanOfferings"]
        return [_offer(row, region) for row in rows if row.get("ReservedCapacityOfferings")], []
    except Exception as error:  # noqa: BLE001 - every failure of a call becomes a problem with its reason
        return [], [problem_of(error, region=region, action=_SEARCH)]


def buy_plan(offer: BlockOffer, clients: Ec2Clients, *, name: str) -> str:
    """Buy a training plan; SageMaker charges its full price at once.

    Args:
        offer: The offer.
        clients: Makes the SageMaker client of a Region.
        name: Name of the plan.

    Returns:
        Its ARN.

    Raises:
        TypeError: If the answer names none.
    """
    answer = clients(offer.region).create_training_plan(TrainingPlanName=name, TrainingPlanOfferingId=offer.id)
    arn = answer.get("TrainingPlanArn")
    if not isinstance(arn, str):
        raise TypeError("the answer names no training plan")
    return arn


def faults_of_plan(offer: BlockOffer, arn: str) -> list[str]:
    """How a bought plan differs from the offer; empty if it does not.

    Args:
        offer: The offer.
        arn: ARN of the plan.
    """
    found = _ARN.fullmatch(arn)
    if found is None:
        return [f"{arn!r} is no ARN of a training plan"]
    return [] if found["region"] == offer.region else [f"it is in {found['region']}, not in {offer.region}"]


def _offer(row: dict[str, Any], region: str) -> BlockOffer:
    """An offering, in the form of a Capacity Block: each of its reserved capacities is a segment."""
    segments = sorted(
        (
            BlockSegment(
                zone=part["AvailabilityZone"],
                instance_type=part["InstanceType"].removeprefix("ml."),
                count=part["InstanceCount"],
                starts_at=part["StartTime"],
                ends_at=part["EndTime"],
            )
            for part in row["ReservedCapacityOfferings"]
        ),
        key=lambda one: (one.starts_at, one.zone),
    )
    first = segments[0]
    return checked_offer(
        BlockOffer(
            id=row["TrainingPlanOfferingId"],
            region=region,
            zone=first.zone,
            instance_type=first.instance_type,
            count=first.count,
            hours=row["DurationHours"],
            minutes=row.get("DurationMinutes", 0),
            starts_at=first.starts_at,
            ends_at=max(one.ends_at for one in segments),
            price=checked_price(row["UpfrontFee"]),
            currency=row["CurrencyCode"],
            segments=tuple(segments),
        )
    )
