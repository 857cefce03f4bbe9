"""Launch templates and fleets of GPU nodes."""
