"""The watchdog: looks every few seconds, acts once, and leaves evidence."""
