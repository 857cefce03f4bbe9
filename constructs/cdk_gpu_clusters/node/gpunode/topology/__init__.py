"""The topology of nodes and GPUs for jobs: peers in network order, pinning, and NCCL's bandwidth."""
