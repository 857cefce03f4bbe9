"""Completion of values on the command line: instance types, Regions, examples, rules."""

from __future__ import annotations


def instance_types(incomplete: str) -> list[str]:
    """Instance types that begin like this; those with accelerators before the others."""
    from cdk_gpu_clusters.catalogue.instances import instance_types as known

    found = [one for name, one in known().items() if name.startswith(incomplete)]
    return [one.name for one in sorted(found, key=lambda one: one.accelerator is None)]


def regions(incomplete: str) -> list[str]:
    """Regions that begin like this."""
    from cdk_gpu_clusters.catalogue.regions import regions as known

    return [name for name in known() if name.startswith(incomplete)]


def families(incomplete: str) -> list[str]:
    """Families of instance types with accelerators that begin like this."""
    from cdk_gpu_clusters.catalogue.instances import instance_types as known

    found = dict.fromkeys(one.family for one in known().values() if one.accelerator is not None)
    return [name for name in found if name.startswith(incomplete)]


def gpus_with_mig(incomplete: str) -> list[str]:
    """GPUs with MIG, and instance types, that begin like this."""
    from cdk_gpu_clusters.catalogue.mig import mig_gpus

    return [*(name for name in mig_gpus() if name.startswith(incomplete)), *instance_types(incomplete)]


def examples(incomplete: str) -> list[tuple[str, str]]:
    """Examples that begin like this, each with what it shows."""
    from cdk_gpu_clusters_stacks.project import examples as known

    return [(name, one.summary) for name, one in known().items() if name.startswith(incomplete)]


def rules(incomplete: str) -> list[tuple[str, str]]:
    """Rules whose ids begin like this, each with its title."""
    from .rule_index import rule_index

    return [(one, facts["title"]) for one, facts in rule_index().items() if one.startswith(incomplete.upper())]


def rules_and_cluster_files(incomplete: str) -> list[tuple[str, str]]:
    """Rules whose ids begin like this, and files of YAML whose paths do."""
    from pathlib import Path

    where = Path(incomplete if incomplete.endswith("/") else f"{incomplete}-").parent
    names = [path.as_posix() for path in sorted(where.glob("*.y*ml"))] if where.is_dir() else []
    return [*rules(incomplete), *((name, "cluster file") for name in names if name.startswith(incomplete))]
