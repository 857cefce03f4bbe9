"""The software of a node: its user data, and `gpunode`, the program on it. Imports no CDK."""
