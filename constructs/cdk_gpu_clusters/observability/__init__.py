"""Watching a cluster: metrics, dashboards, alerts and budgets."""
