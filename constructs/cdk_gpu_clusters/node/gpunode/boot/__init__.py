"""The boot of a node: stages in their order, then the launch is completed."""
