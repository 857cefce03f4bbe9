"""Constructs that let an engine run jobs on GPU nodes."""
