"""MIG: GPUs that are split, as user data or a label says."""

from cdk_gpu_clusters.template_rules.rules.mig import (
    apart_from_efa,
    capable_gpu,
    every_boot,
    known_profile,
    labelled_nodes,
    layout_count,
    layout_fits,
    media_engines,
)

RULES = (
    apart_from_efa.RULE,
    capable_gpu.RULE,
    every_boot.RULE,
    known_profile.RULE,
    labelled_nodes.RULE,
    layout_count.RULE,
    layout_fits.RULE,
    media_engines.RULE,
)
