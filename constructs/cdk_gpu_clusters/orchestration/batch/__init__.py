"""AWS Batch: compute environments, job queues and multi-node jobs."""
