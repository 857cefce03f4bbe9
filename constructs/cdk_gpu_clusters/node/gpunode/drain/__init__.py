"""The end of a node: noticed, told to its orchestrator, and prepared for by the user's command and a signal to jobs."""
