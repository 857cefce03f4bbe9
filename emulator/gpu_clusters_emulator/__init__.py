"""An emulated AWS account that GPU clusters are deployed to; `cdk_gpu_clusters.testing` starts it.

`python -m gpu_clusters_emulator --port 0` serves it on the loopback interface.
"""
