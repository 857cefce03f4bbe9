"""AWS PCS: clusters, compute node groups, queues and login nodes."""
