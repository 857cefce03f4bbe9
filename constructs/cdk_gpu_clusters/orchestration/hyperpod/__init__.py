"""Clusters of Amazon SageMaker HyperPod, on Slurm and on Amazon EKS."""
