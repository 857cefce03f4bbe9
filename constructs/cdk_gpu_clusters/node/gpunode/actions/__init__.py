"""What is done about a node that is not well, by orchestrator."""
