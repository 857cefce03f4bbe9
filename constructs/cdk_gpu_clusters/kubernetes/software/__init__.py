"""Charts of the software that a cluster of GPUs needs: which version, from where, with which values.

Plain functions: pools of nodes in, `ChartRelease` out. A construct installs them; a user's own tool may as well.
"""

from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware, gpu_operator_values
from cdk_gpu_clusters.kubernetes.software.cluster import cluster_software
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, ImageMirror, mirror_commands
from cdk_gpu_clusters.kubernetes.software.slurm import SlurmCluster, SlurmDatabase, slurm_software, slurm_values

__all__ = [
    "ChartRelease",
    "EfaSoftware",
    "ImageMirror",
    "SlurmCluster",
    "SlurmDatabase",
    "cluster_software",
    "gpu_operator_values",
    "mirror_commands",
    "slurm_software",
    "slurm_values",
]
