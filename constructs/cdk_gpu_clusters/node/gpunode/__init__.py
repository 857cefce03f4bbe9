"""The software of a GPU node: checks its boot, watches it, drains it, measures it.

It is shipped to the node as one archive and runs there on the system's own Python: standard library only, Python 3.9
or later, nothing else of this library. Every module imports its neighbours relatively, so that the package works under
any name.
"""
