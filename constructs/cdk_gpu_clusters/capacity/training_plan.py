"""`TrainingPlan`: capacity of SageMaker HyperPod that was bought ahead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """A flexible training plan of SageMaker, from which an instance group of HyperPod takes its nodes.

    It is what HyperPod has in place of Capacity Blocks and On-Demand Capacity Reservations. Nothing here buys one: a
    plan is bought for a fixed time, and cannot be given back.

    Source: botocore 1.44.5, sagemaker service model: CreateTrainingPlan; ClusterInstanceGroupSpecification.

    Example:
        >>> TrainingPlan.from_arn("arn:aws:sagemaker:us-east-1:123456789012:training-plan/research").arn[-8:]
        'research'

    Attributes:
        arn: ARN of the plan.
    """

    arn: str

    @classmethod
    def from_arn(cls, arn: str) -> TrainingPlan:
        """A plan by its ARN, which is Scheduled or Active.

        Args:
            arn: Such as `arn:aws:sagemaker:us-east-1:123456789012:training-plan/research`.
        """
        return cls(arn=arn)

    @classmethod
    def from_text(cls, text: str) -> TrainingPlan:
        """The plan of an ARN.

        Args:
            text: The ARN.

        Raises:
            ValueError: If it is no ARN.
        """
        if not text.startswith("arn:"):
            raise ValueError(f"{text!r} is not the ARN of a training plan")
        return cls(arn=text)
