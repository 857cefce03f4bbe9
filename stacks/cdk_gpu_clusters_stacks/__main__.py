"""`python -m cdk_gpu_clusters_stacks` is the CDK app."""

import gc

# The process ends with the assembly: looking for garbage takes 7 % of its time and finds hardly any.
gc.disable()

from cdk_gpu_clusters_stacks.app import main  # noqa: E402  loading CDK is where most of that time goes

main()
