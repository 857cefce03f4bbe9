"""The watchdog: probes the node every few seconds, acts once, and keeps evidence."""
