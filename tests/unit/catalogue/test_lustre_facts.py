"""Facts of FSx for Lustre against a table written here from AWS's pages, not from the data file."""

import pytest

from cdk_gpu_clusters.catalogue.lustre import (
    lustre_client,
    lustre_ports,
    lustre_provenance,
    lustre_tier,
    lustre_tiers,
    lustre_versions_of,
)

# Deployment type, MB/s/TiB: network baseline and burst, memory, disk read and write, disk burst, EFA step.
# FSx for Lustre user guide, "Performance characteristics of SSD and HDD storage classes" and "Getting started".
TIERS = {
    ("SCRATCH_2", None): (200, 1300, 6.7, 200, 100, None, None),
    ("PERSISTENT_2", 125): (320, 1300, 3.4, 125, 125, 500, 38_400),
    ("PERSISTENT_2", 250): (640, 1300, 6.8, 250, 250, 500, 19_200),
    ("PERSISTENT_2", 500): (1300, None, 13.7, 500, 500, None, 9600),
    ("PERSISTENT_2", 1000): (2600, None, 27.3, 1000, 1000, None, 4800),
}


@pytest.mark.parametrize(("key", "row"), TIERS.items(), ids=str)
def test_tiers(key: tuple[str, int | None], row: tuple[float | None, ...]) -> None:
    tier = lustre_tier(*key)
    assert tier is not None
    assert (
        tier.network_baseline,
        tier.network_burst,
        tier.memory_gib,
        tier.disk_read_baseline,
        tier.disk_write_baseline,
        tier.disk_burst,
        tier.efa_step_gib,
    ) == row


def test_no_other_tiers() -> None:
    assert {(t.deployment_type.value, t.throughput_mb_per_s_per_tib) for t in lustre_tiers()} == set(TIERS)


def test_one_efa_step_is_always_one_server_of_4800_mb_per_s() -> None:
    steps = {tier.efa_step_gib * tier.baseline_mb_per_s_per_tib for tier in lustre_tiers() if tier.efa_step_gib}
    assert steps == {4_800_000}


@pytest.mark.parametrize(
    "group",
    ["metadata", "intelligent_tiering", "ssd_capacity", "versions", "clients", "efa", "ports", "limits"],
)
def test_every_group_names_dated_sources(group: str) -> None:
    facts = lustre_provenance(group)
    assert facts.sources
    assert all("20" in source for source in facts.sources)
    assert facts.verified or facts.note, "what is not verified says so"
    assert all(tier.provenance.sources for tier in lustre_tiers())


def test_ports_and_versions() -> None:
    assert lustre_ports() == ((988, 988), (1018, 1023))
    assert lustre_versions_of("PERSISTENT_2") == ("2.12", "2.15")
    assert "2.10" in lustre_versions_of("SCRATCH_2")


@pytest.mark.parametrize("system", ["al2023", "ubuntu-24.04", "ubuntu-22.04"])
def test_clients_mount_current_file_systems(system: str) -> None:
    client = lustre_client(system)
    assert client is not None
    assert client.kernels
    assert client.file_system_versions == ("2.12", "2.15")
    assert client.efa


def test_bottlerocket_has_no_client() -> None:
    client = lustre_client("bottlerocket")
    assert client is not None
    assert (client.kernels, client.efa) == ((), False)
