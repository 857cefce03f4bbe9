"""File systems and buckets: what outlives every fleet."""
