"""Cluster files as files of other tools."""

from .parallelcluster import Exported, ExportOptions, export_parallelcluster

__all__ = ["ExportOptions", "Exported", "export_parallelcluster"]
