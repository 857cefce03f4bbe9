"""What people and programs see of a running cluster: metrics, dashboards and budgets."""
