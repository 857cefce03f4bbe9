"""What a cluster file makes inside Kubernetes: software, queues, volumes, jobs and model servers, as text to apply."""

from cdk_gpu_clusters_stacks.manifests.files import cluster_manifests

__all__ = ["cluster_manifests"]
