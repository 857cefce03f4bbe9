"""The app of cdk_gpu_clusters: from a cluster file to stacks."""
