"""Pinned images: the key under which an image id stands in `cdk.context.json`."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Finding, define_rule

PINNED_IMAGE = define_rule(
    "GPU-AMI-101",
    "a pinned image has been looked up once",
    source="design: synthesis reads no account; the image id stands in cdk.context.json",
)


def image_context_key(region: str, parameter: str) -> str:
    """The key in `cdk.context.json` under which the image id of a parameter stands."""
    return f"cdk-gpu-clusters:image:region={region}:parameter={parameter}"


def not_pinned(region: str | None, parameter: str) -> Finding:
    """The finding for a pinned image that was never looked up.

    Args:
        region: Region of the stack, None if it has none.
        parameter: Name of the image's parameter.
    """
    where = region or "REGION"
    also = "" if region else "; and give the stack that Region in its env"
    return PINNED_IMAGE.finding(
        cause="the image is to be pinned, but its id stands nowhere in the context",
        got=f"no {image_context_key(where, parameter)!r}",
        allowed="an image id in cdk.context.json",
        fix=f"run: gpu-clusters pin-image --region {where} {parameter}{also}",
    )
