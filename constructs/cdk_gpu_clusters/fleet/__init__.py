"""One fleet of GPU nodes, decided once: a request of plain values becomes a plan with all of its findings."""
