"""The checks, by area; `preflight.check` lists the areas."""
