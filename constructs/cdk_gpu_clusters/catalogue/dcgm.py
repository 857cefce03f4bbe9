"""NVIDIA's DCGM exporter: the version of its package that NVIDIA pairs with each version of DCGM.

Sources: tags `<dcgm>-<exporter>` of NVIDIA/dcgm-exporter to d5e5f51 (2026-05-12), the last of each DCGM; DCGM
documentation, "DCGM Exporter Release Notes" (4.6.0-4.8.3); release 4.8.4 of the repository (DCGM 4.6.1); read
2026-11-27. The documentation, "Install DCGM Exporter", requires that an exporter runs with the DCGM that it is paired
with. 4.9.0, for DCGM 4.7, renames metrics that the dashboards show, and is not here.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Version of DCGM -> version of the exporter, the oldest first. DCGM 3 has no package of the exporter.
DCGM_EXPORTERS: Mapping[str, str] = {
    "4.0.0": "4.0.1",
    "4.1.1": "4.0.4",
    "4.2.0": "4.1.0",
    "4.2.3": "4.2.0",
    "4.3.1": "4.4.0",
    "4.4.0": "4.5.0",
    "4.4.1": "4.6.0",
    "4.4.2": "4.7.1",
    "4.5.1": "4.8.0",
    "4.5.2": "4.8.1",
    "4.5.3": "4.8.2",
    "4.6.0": "4.8.3",
    "4.6.1": "4.8.4",
}


def node_dcgm_exporters() -> str:
    """The table as a node has it: a line `DCGM EXPORTER` for each pair.

    Example:
        >>> node_dcgm_exporters().splitlines()[-1]
        '4.6.1 4.8.4'
    """
    return "".join(f"{dcgm} {exporter}\n" for dcgm, exporter in DCGM_EXPORTERS.items())
