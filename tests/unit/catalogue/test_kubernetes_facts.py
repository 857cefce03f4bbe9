"""Facts of Kubernetes on EKS: whole, sourced, and known to the tools that will read them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from botocore.session import Session

from cdk_gpu_clusters.catalogue import AcceleratorKind, instance_types, kubernetes
from cdk_gpu_clusters.catalogue.instances import Architecture


def test_every_row_says_from_where_and_when_it_was_read() -> None:
    rows: list[Any] = [
        *kubernetes.kubernetes_versions(),
        *kubernetes.ami_types(),
        *kubernetes.add_ons(),
        *kubernetes.charts(),
        *kubernetes.images(),
    ]
    assert [row for row in rows if not re.search(r"2026-\d\d-\d\d\)$", row.source)] == []


def test_the_api_knows_every_ami_type() -> None:
    known: Any = Session().get_service_model("eks").shape_for("AMITypes")
    assert {row.ami_type for row in kubernetes.ami_types()} <= set(known.enum)


@pytest.mark.parametrize("kind", [None, AcceleratorKind.GPU, AcceleratorKind.NEURON])
def test_accelerated_types_have_an_ami_type_wherever_eks_has_an_image(kind: AcceleratorKind | None) -> None:
    architectures = {
        record.architecture
        for record in instance_types().values()
        if (record.accelerator.kind if record.accelerator else None) is kind
    }
    without = {one for one in architectures if kubernetes.ami_type(accelerator=kind, architecture=one) is None}
    assert without == set()


def test_neuron_has_no_image_for_arm() -> None:
    assert kubernetes.ami_type(accelerator=AcceleratorKind.NEURON, architecture=Architecture.ARM64) is None


def test_support_lasts_14_months_and_then_12() -> None:
    for row in kubernetes.kubernetes_versions():
        if row.standard_support_ends and row.extended_support_ends:
            assert (row.extended_support_ends - row.standard_support_ends).days == pytest.approx(365, abs=1)


def test_the_default_version_is_one_whose_end_is_known_and_on_which_the_efa_dra_driver_runs() -> None:
    default = kubernetes.kubernetes_version(kubernetes.DEFAULT_KUBERNETES_VERSION)
    assert default.standard_support_ends is not None
    assert default.minor >= (1, 35)


def test_versions_are_in_order() -> None:
    minors = [row.minor for row in kubernetes.kubernetes_versions()]
    assert minors == sorted(set(minors))


def test_no_image_is_named_by_a_tag_that_is_meant_to_move() -> None:
    assert [one.name for one in kubernetes.images() if one.tag in {"", "latest", "main", "stable"}] == []


def test_digests_are_digests() -> None:
    digests = [one.digest for one in kubernetes.images() if one.digest is not None]
    assert digests
    assert [one for one in digests if not re.fullmatch(r"sha256:[0-9a-f]{64}", one)] == []


def test_every_chart_names_images_of_the_catalogue() -> None:
    for chart in kubernetes.charts():
        assert chart.images or chart.name.endswith("-crds")
        for name in chart.images:
            assert kubernetes.image(name).name == name


def test_charts_come_by_https_or_as_an_oci_artifact() -> None:
    for chart in kubernetes.charts():
        assert chart.repository.startswith(("https://", "oci://"))
        assert re.fullmatch(r"[0-9a-f]{40}", chart.commit)
        assert chart.license == "Apache-2.0"


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-west-2", "602401143452.dkr.ecr.us-west-2.amazonaws.com"),
        ("cn-north-1", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"),
        ("ap-east-2", None),
    ],
)
def test_eks_serves_its_images_from_the_region_itself(region: str, host: str | None) -> None:
    assert kubernetes.eks_image_registry(region) == host


def test_an_add_on_with_a_service_account_says_what_it_may_do_or_that_it_depends() -> None:
    for one in kubernetes.add_ons():
        assert one.needs_permissions == (one.service_account is not None)
        if one.needs_permissions and not one.managed_policies:
            assert one.note
