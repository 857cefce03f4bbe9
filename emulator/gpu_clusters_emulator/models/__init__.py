"""What the services refuse, by resource type; `registry` has the checks of every type."""
