"""Capacity on offer in an account's Regions: Capacity Blocks, on-demand and spot, side by side; and buying a block."""
