"""The CDK app of this repository: the one that ships as ``python -m cdk_gpu_clusters_stacks``."""

from cdk_gpu_clusters_stacks.app import main

main()
