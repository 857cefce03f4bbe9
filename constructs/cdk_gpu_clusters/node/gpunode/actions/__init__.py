"""What each orchestrator can do about an unhealthy node."""
