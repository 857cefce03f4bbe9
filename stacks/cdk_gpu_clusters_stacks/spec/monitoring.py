"""`monitoring`: dashboard, budget and metrics for Prometheus of the cluster. Alarms are keys of each fleet."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ._base import AsTuple, SpecModel, Text
from .changes import TEMPLATES, Resource, makes, replaces, updates
from .fleet import TopicArn

#: DNS label of Slurm's controller, which no scraped fleet has.
SLURM_LABEL = "slurm"
#: Amazon Route 53 API reference, ResourceId: 32 characters at most.
HostedZoneId = Annotated[str, StringConstraints(pattern=r"^Z[A-Z0-9]{1,31}$")]
_Percents = tuple[float, ...]


class BrakeSpec(SpecModel):
    """Fleets that stop when the budget is spent. None starts again by itself."""

    fleets: Annotated[tuple[Text, ...], AsTuple, updates(Resource.BRAKE)] = Field(
        description="Names of the fleets: on demand or Spot, with orchestrator `ec2`.", examples=[["workers"]]
    )
    percent: Annotated[float, updates(Resource.BRAKE)] = Field(
        default=100.0, description="Percentage of the budget at which they stop, by what is spent."
    )


class BudgetSpec(SpecModel):
    """The budget of the cluster; what is left out is as the library has it."""

    usd_per_month: Annotated[float, updates(Resource.BUDGET)] = Field(
        description="The budget in US dollars a calendar month (UTC).", examples=[50_000]
    )
    emails: Annotated[
        tuple[Text, ...],
        AsTuple,
        updates(Resource.BUDGET_ADDRESSES),
        makes(Resource.BUDGET_TOPIC),
        replaces(Resource.BUDGET),
    ] = Field(
        default=(), description="Addresses that are notified, instead of `topic_arn`. Each confirms a mail first."
    )
    topic_arn: Annotated[TopicArn | None, replaces(Resource.BUDGET)] = Field(
        default=None,
        description="Existing SNS topic that is notified, instead of `emails`. Its policy must let "
        "budgets.amazonaws.com publish, and its key, if it has one of its own.",
    )
    actual_percent: Annotated[_Percents, AsTuple, replaces(Resource.BUDGET)] = Field(
        default=(80.0, 100.0), description="Percentages of the budget at which it notifies when they are spent."
    )
    forecast_percent: Annotated[_Percents, AsTuple, replaces(Resource.BUDGET)] = Field(
        default=(100.0,), description="Percentages at which it notifies when they are forecast for the month."
    )
    brake: Annotated[BrakeSpec | None, makes(Resource.BRAKE)] = Field(
        default=None, description="Fleets that stop when the budget is spent. Default: none."
    )


class MetricsSpec(SpecModel):
    """What scrapes the nodes, and where their metrics go; what is left out is as the library has it."""

    destination: Annotated[
        Literal["cloudwatch", "workspace"], updates(Resource.SCRAPER), makes(Resource.METRICS_WORKSPACE)
    ] = Field(
        default="cloudwatch",
        description="`cloudwatch`: Amazon CloudWatch, with PromQL. `workspace`: a workspace of Amazon Managed Service "
        "for Prometheus, with the rules of the library. It is kept without its stack.",
    )
    retention_days: Annotated[int | None, updates(Resource.METRICS_WORKSPACE)] = Field(
        default=None, description="How many days a workspace keeps metrics, 1 to 1,095. Default: 150, as AWS has it."
    )
    exporters: Annotated[
        tuple[Literal["dcgm", "node"], ...],
        AsTuple,
        updates(Resource.SCRAPER, Resource.EC2_TEMPLATE, Resource.PCS_TEMPLATE, Resource.COMPUTE_NODE_GROUP),
    ] = Field(
        default=(),
        description="What the nodes serve besides the metrics of their watchdog at port 9810: `dcgm`, "
        "NVIDIA's DCGM exporter at port 9400, and `node`, the node exporter at port 9100. On Amazon EKS they are pods, "
        "and those of the DCGM exporter, of vLLM and of Ray are found anyway.",
    )
    install_exporters: Annotated[
        bool, updates(Resource.EC2_TEMPLATE, Resource.PCS_TEMPLATE, Resource.COMPUTE_NODE_GROUP)
    ] = Field(
        default=False,
        description="Whether nodes install the `exporters` that their images do not have, and start them: `dcgm` on "
        "GPUs only.",
    )
    zone_id: Annotated[HostedZoneId | None, updates(Resource.NODE_ADDRESSES), makes(Resource.METRICS_ZONE)] = Field(
        default=None,
        description="Existing private hosted zone `<name>.gpu-metrics.internal` of the network, such as the one that "
        "an earlier collector of this cluster has left. Default: one is made, and kept without its stack.",
        examples=["Z0123456789ABCDEFGHIJ"],
    )

    @property
    def installed_exporters(self) -> frozenset[str]:
        """The exporters that nodes install if their images do not have them."""
        return frozenset(self.exporters if self.install_exporters else ())


class GrafanaSpec(SpecModel):
    """A workspace of Amazon Managed Grafana that reads the metrics of the cluster."""

    authentication: Annotated[tuple[Literal["identity-center", "saml"], ...], AsTuple, updates(Resource.GRAFANA)] = (
        Field(
            description="How people sign in: `identity-center`, IAM Identity Center, which the account has enabled; "
            "`saml`, an identity provider that is configured in the workspace after the deployment; or both.",
            examples=[["identity-center"]],
        )
    )


class MonitoringSpec(SpecModel):
    """What monitors the cluster beside the alarms of its fleets; nothing by default."""

    dashboard: Annotated[bool, makes(Resource.DASHBOARD)] = Field(
        default=False, description="Whether a dashboard in Amazon CloudWatch shows fleets and file systems."
    )
    budget: Annotated[BudgetSpec | None, makes(Resource.BUDGET, Resource.BUDGET_TOPIC, Resource.BRAKE)] = Field(
        default=None,
        description="A budget for all that carries the tag `gpu-cluster` of this cluster, and who is notified. "
        "Default: none.",
    )

    metrics: Annotated[
        MetricsSpec | None,
        makes(
            Resource.SCRAPER,
            Resource.SCRAPER_GROUP,
            Resource.NODE_ADDRESSES,
            Resource.METRICS_ZONE,
            Resource.METRICS_WORKSPACE,
        ),
        updates(*TEMPLATES),
    ] = Field(
        default=None,
        description="Metrics for Prometheus, which a collector of AWS scrapes: of the nodes, with `orchestrator: eks` "
        "of pods, and with `orchestrator: pcs` and `pcs.metrics` of Slurm's controller. Default: none.",
    )

    grafana: Annotated[GrafanaSpec | None, makes(Resource.GRAFANA)] = Field(
        default=None,
        description="A workspace of Amazon Managed Grafana that reads CloudWatch and the workspace of `metrics`. "
        "Default: none.",
    )

    @property
    def has_workspace(self) -> bool:
        """Whether metrics go to a workspace that is made for them."""
        return self.metrics is not None and self.metrics.destination == "workspace"

    @property
    def notifies_own_topic(self) -> bool:
        """Whether the budget notifies a topic that is made for its addresses."""
        return self.budget is not None and bool(self.budget.emails)

    @property
    def brake(self) -> BrakeSpec | None:
        """What stops fleets when the budget is spent; None for nothing."""
        return None if self.budget is None else self.budget.brake

    @property
    def has_stack(self) -> bool:
        """Whether a stack is made for it."""
        parts = (self.budget, self.metrics, self.grafana)
        return self.dashboard or any(one is not None for one in parts)
