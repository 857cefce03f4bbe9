"""What people and programs see of a running cluster: dashboards, rules for Prometheus and budgets."""
