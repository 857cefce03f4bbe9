"""A report as text for people, and as JSON, SARIF and JUnit for programs."""

from collections.abc import Callable

from cdk_gpu_clusters.policy.lint import Report
from cdk_gpu_clusters.policy.reports.human import human_text
from cdk_gpu_clusters.policy.reports.json_text import json_text
from cdk_gpu_clusters.policy.reports.junit import junit_text
from cdk_gpu_clusters.policy.reports.sarif import sarif_text

#: By the name of the format.
FORMATS: dict[str, Callable[[Report], str]] = {
    "human": human_text,
    "json": json_text,
    "sarif": sarif_text,
    "junit": junit_text,
}

__all__ = ["FORMATS"]
