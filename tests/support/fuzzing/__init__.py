"""A fuzzer: inputs that strangers choose, changed at random, and what the programs must not do with any of them."""
