"""Jobs on all nodes of a fleet: what `gpu-clusters run` and `gpu-clusters jobs` do in an account."""
