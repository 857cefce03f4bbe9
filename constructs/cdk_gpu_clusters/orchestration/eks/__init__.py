"""GPU clusters on Amazon EKS."""
