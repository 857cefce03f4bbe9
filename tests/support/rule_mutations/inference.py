"""Faults in load balancers of model servers, and in the groups behind them."""

from __future__ import annotations

from collections.abc import Callable

from recorded_templates import Json
from rule_mutation import RuleMutation, first

SERVING = "g6e-tensor-parallel/chat-inference-llama"
BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"


def attribute(attributes: str, key: str, value: str | None) -> Callable[[Json], None]:
    """Another value of an attribute, or none."""

    def change(properties: Json) -> None:
        others = [one for one in properties[attributes] if one["Key"] != key]
        properties[attributes] = others + ([] if value is None else [{"Key": key, "Value": value}])

    return change


def in_clear_text(template: Json) -> None:
    listener = first(template, "AWS::ElasticLoadBalancingV2::Listener")["Properties"]
    listener["Protocol"] = "HTTP"
    listener.pop("Certificates", None)
    first(template, BALANCER)["Properties"]["Scheme"] = "internet-facing"


MUTATIONS = (
    RuleMutation(rule="GPU-INF-012", template=SERVING, change_template=in_clear_text),
    RuleMutation(
        rule="GPU-INF-013",
        template=SERVING,
        at=BALANCER,
        change=attribute("LoadBalancerAttributes", "idle_timeout.timeout_seconds", "9000"),
    ),
    RuleMutation(
        rule="GPU-INF-031",
        template=SERVING,
        at=BALANCER,
        change=attribute("LoadBalancerAttributes", "idle_timeout.timeout_seconds", None),
    ),
)
