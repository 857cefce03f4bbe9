"""Where nodes and GPUs are, and how jobs use it: peers in network order, pinning, NCCL's bandwidth."""
