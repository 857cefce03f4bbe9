"""No module needs itself through others, not even for its types or inside a function."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp

PACKAGES = ("cdk_gpu_clusters", "cdk_gpu_clusters_stacks", "gpu_clusters_emulator")


def test_modules_import_each_other_in_one_direction() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=False)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert sum(map(len, imported.values())) > 1_000
    TopologicalSorter(imported).prepare()  # raises a CycleError that names the circle
