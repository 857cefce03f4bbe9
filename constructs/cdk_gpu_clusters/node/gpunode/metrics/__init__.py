"""Metrics of this node, as records that CloudWatch turns into metrics."""
