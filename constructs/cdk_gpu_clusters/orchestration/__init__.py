"""Clusters of other schedulers: what brings the library's nodes to Amazon EKS."""
