"""AWS ParallelCluster: clusters as resources of a stack."""
