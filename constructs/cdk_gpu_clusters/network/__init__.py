"""Networks and security groups."""
