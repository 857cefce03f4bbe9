"""The report: a plan drawn as one self-contained page, its topology as a picture, and a live cluster as a page."""

from .page import report_html, topology_picture
from .status import status_html

__all__ = ["report_html", "status_html", "topology_picture"]
