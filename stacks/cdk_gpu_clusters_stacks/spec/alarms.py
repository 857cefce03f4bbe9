"""`alarms`: when a fleet raises alarms, whom they tell, and whether a launch loop is stopped."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from cdk_gpu_clusters.rules.fleet_alarms import AlarmSettings

from ._base import AsTuple, SpecModel, Text

_USUAL = AlarmSettings()

TopicArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$"),
]


class AlarmsSpec(SpecModel):
    """The alarms of a fleet; what is left out is as the library has it."""

    enabled: bool = Field(
        default=True,
        description="False: no alarms at all, and nothing stops a launch loop. CloudWatch bills each.",
    )
    idle: bool = Field(default=True, description="Whether GPUs that all stand idle raise an alarm.")
    idle_minutes: int = Field(
        default=_USUAL.idle_minutes or 60, ge=5, le=1440, description="How long they stand idle before it."
    )
    abandoned_launches_per_node: int = Field(
        default=_USUAL.abandoned_launches_per_node,
        ge=1,
        le=100,
        description="Launches that may be abandoned for each node that the fleet is short of.",
    )
    abandoned_within_minutes: int | None = Field(
        default=_USUAL.abandoned_within_minutes,
        ge=10,
        le=1440,
        description="Within which time. Default: an hour, or as long as one more boot than that may take.",
    )
    suspends_launching: bool = Field(
        default=_USUAL.suspends_launching,
        description="Whether launching is suspended then, or only the alarm is raised.",
    )
    inspection_minutes: int = Field(
        default=_USUAL.inspection_minutes,
        ge=0,
        le=2880,
        description="How long a node that fails its boot is kept once launching is suspended. It is paid for.",
    )
    topic_arn: TopicArn | None = Field(
        default=None,
        description="Existing SNS topic in the cluster's Region that all alarms tell; one with a key of its own must "
        "let CloudWatch use it.",
        examples=["arn:aws:sns:us-east-1:111122223333:operators"],
    )
    emails: Annotated[tuple[Text, ...], AsTuple] = Field(
        default=(),
        description="E-mail addresses that all alarms tell, by a topic made here. Each confirms it by a link first.",
        examples=[["operators@example.org"]],
    )

    @property
    def settings(self) -> AlarmSettings | None:
        """The same as the library takes it; None for no alarms."""
        if not self.enabled:
            return None
        return AlarmSettings(
            idle_minutes=self.idle_minutes if self.idle else None,
            abandoned_launches_per_node=self.abandoned_launches_per_node,
            abandoned_within_minutes=self.abandoned_within_minutes,
            suspends_launching=self.suspends_launching,
            inspection_minutes=self.inspection_minutes,
        )

    @property
    def tells(self) -> bool:
        """Whether somebody is told."""
        return self.topic_arn is not None or bool(self.emails)
