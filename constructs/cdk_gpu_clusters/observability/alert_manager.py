"""What Alertmanager does with the alerts of the rules: groups them by fleet, and sends them to topics of Amazon SNS."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import yaml

_RECEIVER = "operators"
_FLEET, _NODE = "fleet", "instance_id"
_UNHEALTHY, _XID = "UnhealthyNode", "Xid"
# Amazon Managed Service for Prometheus takes 5 days at most (user guide, "Create an alert manager configuration").
_REPEAT = "12h"
# The default has all labels, and may be longer than the 100 characters of Amazon SNS.
_SUBJECT = "{{ .CommonLabels.alertname }} {{ .CommonLabels.fleet }}"


def alert_manager_configuration(topic_arns: Sequence[str], *, region: str) -> str:
    """A configuration file for Alertmanager that sends the alerts of `prometheus_rules` to topics of Amazon SNS.

    Alerts of one name and fleet are one message, which comes 30 seconds after the first, again after 5 minutes if more
    nodes raise it, again after 12 hours, and when it clears. Of a node with an Xid none reports that it is unhealthy.

    Sources: Prometheus documentation, "Alerting", Configuration (`route`, `inhibit_rule`, `sns_config`).

    Args:
        topic_arns: Topics that are notified, of one Region. May be tokens.
        region: Region of the topics. May be a token.

    Example:
        >>> text = alert_manager_configuration(["arn:aws:sns:us-east-2:123456789012:operators"], region="us-east-2")
        >>> text.splitlines()[:2]
        ['route:', '  receiver: operators']
    """
    configuration: dict[str, Any] = {
        "route": {
            "receiver": _RECEIVER,
            "group_by": ["alertname", _FLEET],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": _REPEAT,
        },
        "inhibit_rules": [
            {
                "source_matchers": [f'alertname="{_XID}"'],
                "target_matchers": [f'alertname="{_UNHEALTHY}"'],
                "equal": [_FLEET, _NODE],
            }
        ],
        "receivers": [
            {
                "name": _RECEIVER,
                "sns_configs": [
                    {
                        "topic_arn": arn,
                        "sigv4": {"region": region},
                        "send_resolved": True,
                        "subject": _SUBJECT,
                    }
                    for arn in topic_arns
                ],
            }
        ],
    }
    return yaml.safe_dump(configuration, sort_keys=False, width=1000)


def alert_manager_definition(topic_arns: Sequence[str], *, region: str) -> str:
    """The same, as a workspace of Amazon Managed Service for Prometheus takes it.

    Source: user guide of Amazon Managed Service for Prometheus, "Create an alert manager configuration": all of it is
    one text under the key `alertmanager_config`.
    """
    text = alert_manager_configuration(topic_arns, region=region)
    return f"alertmanager_config: |\n{textwrap.indent(text, '  ')}"
