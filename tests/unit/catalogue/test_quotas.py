"""Codes of service quotas: as the pages and recordings have them, and one for each family of the catalogue."""

from __future__ import annotations

import pytest
from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.catalogue.quotas import Purchase, quotas, vcpu_quota

# AWS documentation, "Amazon EC2 instance type quotas", typed from the page.
VCPU_CODES = [
    ("p5", "on-demand", "L-417A185B"),
    ("p4d", "on-demand", "L-417A185B"),
    ("p5en", "spot", "L-C4BD4855"),
    ("p4de", "spot", "L-7212CCBC"),
    ("g6e", "on-demand", "L-DB2E81BA"),
    ("g5", "spot", "L-3819A6DF"),
    ("gr6", "on-demand", "L-DB2E81BA"),
    ("inf2", "on-demand", "L-1945791B"),
    ("trn2", "on-demand", "L-2C3B7624"),
    ("trn1", "spot", "L-6B0D517C"),
    ("m8g", "on-demand", "L-1216C47A"),
    ("c7i", "spot", "L-34B43A08"),
]


@pytest.mark.parametrize(("family", "purchase", "code"), VCPU_CODES)
def test_a_family_has_the_code_of_the_page(family: str, purchase: Purchase, code: str) -> None:
    found = vcpu_quota(family, purchase).quota
    assert found is not None
    assert found.code == code


def test_every_family_of_the_catalogue_has_an_on_demand_quota() -> None:
    families = {kind.family for kind in instance_types().values()}
    assert [family for family in families if vcpu_quota(family, "on-demand").quota is None] == []


def test_where_no_source_names_a_quota_there_is_none() -> None:
    for family in ("p6-b200", "p6-b300", "p6e-gb200"):
        assert vcpu_quota(family, "spot").quota is None
        assert not vcpu_quota(family, "on-demand").verified
    assert vcpu_quota("hpc7a", "on-demand").quota is None


def test_the_quotas_of_networks_are_those_of_the_recording() -> None:
    recorded = {row["QuotaCode"]: row["QuotaName"] for row in VPC_DEFAULT_QUOTAS}
    ours = {one.code: one.name for one in quotas() if one.service == "vpc"}
    assert ours
    assert ours == {code: recorded[code] for code in ours}


def test_every_quota_has_a_code_of_its_own_and_a_source() -> None:
    assert len({(one.service, one.code) for one in quotas()}) == len(quotas())
    assert all(one.source and one.unit for one in quotas())
