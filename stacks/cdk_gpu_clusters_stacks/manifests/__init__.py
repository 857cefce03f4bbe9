"""What a cluster file makes inside Kubernetes: software, queues, volumes, jobs and model servers, as text to apply."""
