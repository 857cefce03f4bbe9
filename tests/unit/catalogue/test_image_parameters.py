"""Image parameters: one preferred row per kind, and none where no image exists."""

import pytest

from cdk_gpu_clusters.catalogue import AcceleratorKind, Architecture, instance_types
from cdk_gpu_clusters.catalogue.images import (
    Framework,
    ImagePurpose,
    OperatingSystem,
    image_parameters,
    images_for,
    minimum_software,
)

DLAMI = "/aws/service/deeplearning/ami"
GPU, NEURON = AcceleratorKind.GPU, AcceleratorKind.NEURON
X86, ARM = Architecture.X86_64, Architecture.ARM64
AL2023, NOBLE = OperatingSystem.AL2023, OperatingSystem.UBUNTU_24_04


@pytest.mark.parametrize(
    ("accelerator", "architecture", "system", "parameter"),
    [
        (GPU, X86, AL2023, f"{DLAMI}/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"),
        (GPU, ARM, AL2023, f"{DLAMI}/arm64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"),
        (GPU, X86, NOBLE, f"{DLAMI}/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"),
        (NEURON, X86, AL2023, "/aws/service/neuron/dlami/base/amazon-linux-2023/latest/image_id"),
        (None, X86, AL2023, "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"),
        (None, ARM, AL2023, "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"),
        (
            None,
            ARM,
            NOBLE,
            "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id",
        ),
    ],
)
def test_the_preferred_parameter(
    accelerator: AcceleratorKind | None, architecture: Architecture, system: OperatingSystem, parameter: str
) -> None:
    rows = images_for(accelerator=accelerator, architecture=architecture, operating_system=system)
    assert rows[0].parameter == parameter
    assert [row.preferred for row in rows] == [True] + [False] * (len(rows) - 1)


def test_there_is_no_neuron_image_for_arm64() -> None:
    assert images_for(accelerator=NEURON, architecture=ARM) == ()


def test_families_are_those_of_the_release_notes() -> None:
    def families(architecture: Architecture, accelerator: AcceleratorKind = GPU) -> tuple[str, ...] | None:
        row = images_for(accelerator=accelerator, architecture=architecture, operating_system=AL2023)[0]
        return row.families

    assert {"p4d", "p5", "p6-b300", "g6e"} <= set(families(X86) or ())
    assert "g7" not in (families(X86) or ())
    assert "p3dn" not in (families(X86) or ())
    assert families(ARM) == ("g5g", "p6e-gb200", "p6e-gb300")
    assert "inf1" not in (families(X86, NEURON) or ())


def test_every_listed_family_has_the_image_s_architecture() -> None:
    known = {record.family: record for record in instance_types().values()}
    for row in image_parameters():
        for family in set(row.families or ()) & known.keys():
            record = known[family]
            assert record.architecture is row.architecture, row.parameter
            assert record.accelerator is not None
            assert record.accelerator.kind is row.accelerator, row.parameter


def test_every_row_is_sourced_and_unique() -> None:
    rows = image_parameters()
    assert len({row.parameter for row in rows}) == len(rows)
    for row in rows:
        assert row.sources, row.parameter
        assert row.verification in {"documentation", "recorded", "usage", "public knowledge"}
        assert (
            row.architecture.value in row.parameter or "amd64" in row.parameter or row.purpose is not ImagePurpose.EKS
        )


def test_the_name_of_an_image_with_pytorch_has_its_version() -> None:
    rows = [row for row in image_parameters() if row.framework is Framework.PYTORCH]
    assert {(row.architecture, row.operating_system) for row in rows} == {
        (architecture, system) for architecture in (X86, ARM) for system in (AL2023, NOBLE)
    }
    for row in rows:
        assert (row.purpose, row.accelerator, row.preferred) == (ImagePurpose.EC2, GPU, False)
        assert f"-pytorch-{row.versions['pytorch']}-" in row.parameter


def test_the_leaf_differs_by_publisher() -> None:
    leaves = {row.parameter.split("/")[3]: row.leaf for row in image_parameters()}
    assert (leaves["deeplearning"], leaves["neuron"], leaves["eks"]) == ("ami-id", "image_id", "image_id")


def test_minimum_software() -> None:
    b200 = minimum_software("p6-b200")
    assert b200 is not None
    assert (b200.nvidia_driver, b200.efa_installer, b200.kernel) == ("570", "1.41.0", "6.1")
    assert b200.source
    assert minimum_software("g5") is None
