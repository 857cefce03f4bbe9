"""Cluster files made of files of other tools, with a report: what becomes better, what is lost, what breaks a rule."""

from .make import Imported, import_account, import_file
from .network import Place

__all__ = ["Imported", "Place", "import_account", "import_file"]
