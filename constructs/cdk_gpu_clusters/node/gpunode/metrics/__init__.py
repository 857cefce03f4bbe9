"""Metrics of this node, as records that CloudWatch makes metrics of."""
