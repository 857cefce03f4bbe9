"""The report: a plan drawn as one self-contained page, and its topology as a picture."""

from .page import report_html, topology_picture

__all__ = ["report_html", "topology_picture"]
