"""What rules need to know of a template beyond one resource: who launches with what, groups, reservations, zones.

Functions take a `Case` and are called through `case.once(...)`, or take a value and follow it.
"""
