"""The software of a GPU node: checks its boot, watches it, drains it, measures it.

It travels to the node as one archive and runs there on the system's own Python: standard library only, Python 3.9 or
later, nothing of the rest of this library. Every module imports its neighbours relatively, so that the package works
under any name.
"""
