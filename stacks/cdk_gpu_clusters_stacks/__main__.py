"""`python -m cdk_gpu_clusters_stacks` is the CDK app."""

from cdk_gpu_clusters_stacks.app import main

main()
