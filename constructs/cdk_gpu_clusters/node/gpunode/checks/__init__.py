"""Health checks of a node; `verify` runs all of them."""
