"""Findings that the compliance packs have on every network, accepted with the reason where they arise."""

from __future__ import annotations

from constructs import IConstruct

from cdk_gpu_clusters._cdk import acknowledge

# The packs of cdk-nag that share one set of rules; AwsSolutions has other ids.
_PACKS = ("NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321")


def acknowledge_in_packs(scope: IConstruct, rule: str, reason: str) -> None:
    """Accept a finding of the NIST 800-53 r5, HIPAA and PCI DSS packs of cdk-nag.

    Args:
        scope: The construct that causes it.
        rule: The rule's name without the pack, such as `CloudWatchLogGroupEncrypted`.
        reason: Why it is right here.
    """
    for pack in _PACKS:
        acknowledge(scope, f"{pack}::{pack}-{rule}", reason)
