"""Amazon EKS: the cluster, its add-ons, and its GPU node groups."""
