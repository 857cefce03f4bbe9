"""Numbers of advice as people write them: GB of 10^9 bytes, billions of parameters."""

from __future__ import annotations

BYTES_PER_GB = 10**9


def gb_text(count: int) -> str:
    """Bytes in GB, such as `1,260.0 GB`."""
    return f"{count / BYTES_PER_GB:,.1f} GB"


def parameters_text(count: int) -> str:
    """Parameters, such as `70B` and `350M`."""
    return f"{count / 10**9:.4g}B" if count >= 10**9 else f"{count / 10**6:.4g}M"
