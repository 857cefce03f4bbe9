"""Which driver a layout needs, and which images are told to lack it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of, mig_gpus
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.images import choose_image, version_of
from cdk_gpu_clusters.rules.mig import MigLayout, check_mig_driver, plan_mig

IMAGE = choose_image("p4d.24xlarge", operating_system="al2023")


@pytest.mark.parametrize(
    ("layouts", "needed"),
    [
        (MigLayout(["1g.5gb"] * 7), "450.80.02"),
        (MigLayout(["3g.20gb", "3g.20gb"]), "450.80.02"),
        (MigLayout(["3g.20gb", "4g.20gb"]), "510"),
        # Beside each other on one GPU, not on one node.
        ([*[MigLayout(["3g.20gb"])] * 4, *[MigLayout(["4g.20gb"])] * 4], "450.80.02"),
        ([*[MigLayout.whole_gpu()] * 7, MigLayout("5,9")], "510"),
    ],
)
def test_the_newest_need_of_a_layout_counts(layouts: MigLayout | list[MigLayout], needed: str) -> None:
    assert plan_mig("p4d.24xlarge", layouts).minimum_driver == needed


@pytest.mark.parametrize(
    ("driver", "needed", "found"),
    [
        ("450.80.02", "450.80.02", []),
        ("470.256.02", "450.80.02", []),
        ("470.256.02", "510", [Severity.WARNING]),
        ("450.51.06", "450.80.02", [Severity.WARNING]),
        ("99.1", "450.80.02", [Severity.WARNING]),
        (None, "450.80.02", [Severity.INFO]),
    ],
)
def test_an_older_driver_is_warned_of_and_an_unknown_one_is_said(
    driver: str | None, needed: str, found: list[Severity]
) -> None:
    image = replace(IMAGE, versions={"nvidia_driver": driver} if driver else {})
    findings = check_mig_driver("NVIDIA A100-SXM4-40GB", needed, image)
    assert [finding.severity for finding in findings] == found
    for finding in findings:
        assert finding.id == "GPU-MIG-009"
        assert f"driver {needed} or newer on NVIDIA A100" in finding.allowed
        assert driver is None or (driver == finding.got and str(IMAGE.as_of) in finding.cause)


def test_the_driver_of_an_own_image_is_unknown() -> None:
    [finding] = check_mig_driver("NVIDIA A100-SXM4-40GB", "510", None)
    assert (finding.severity, finding.got) == (Severity.INFO, "an image of your own")


def test_no_default_image_is_known_to_be_too_old() -> None:
    """A new release note or GPU that breaks this needs a look at the defaults."""
    checked = 0
    for record in instance_types().values():
        gpu = mig_gpu_of(record)
        if gpu is None or not gpu.profiles:
            continue
        driver = choose_image(record).versions["nvidia_driver"]
        assert version_of(driver) >= version_of(gpu.minimum_driver), record.name
        checked += 1
    assert checked > 10


def test_combinations_name_profiles_of_their_gpu() -> None:
    found = [(gpu, one) for gpu in mig_gpus().values() for one in gpu.combinations]
    assert len(found) == 2
    for gpu, one in found:
        assert all(gpu.profile(name) for name in one.profiles)
        assert version_of(one.minimum_driver) > version_of(gpu.minimum_driver)
