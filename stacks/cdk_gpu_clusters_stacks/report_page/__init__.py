"""The report: a plan drawn as one self-contained page."""

from .page import report_html

__all__ = ["report_html"]
