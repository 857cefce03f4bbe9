"""The checks, one module for each area; `preflight.registry` lists them."""
