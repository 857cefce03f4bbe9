"""Checks of a node's health, each in a file of its own; `verify` runs them all."""
