"""Jobs that run on all nodes of a fleet at once: how nodes agree on them, start their ranks and send their output."""
