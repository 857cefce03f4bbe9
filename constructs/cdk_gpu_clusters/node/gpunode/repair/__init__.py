"""Repair of an unhealthy node: what was tried, what comes next, and how."""
