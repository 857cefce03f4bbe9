"""The read-only AWS calls that costs are read from, beside those of preflight."""

from __future__ import annotations

from cdk_gpu_clusters_stacks.preflight.call import define_call

#: AWS bills 0.01 US dollars for each of its requests (AWS Cost Explorer FAQs, "Cost Explorer API").
COST_AND_USAGE = define_call("ce", "get_cost_and_usage")
