"""Lustre over EFA: what sets it up, and what tells whether it is used."""
