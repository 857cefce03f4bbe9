"""Names of stores, as fleets give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdk_gpu_clusters.errors import Finding

from ._rules import STORE


def check_store_name(
    name: str, stores: Mapping[str, Any], kinds: tuple[type[Any], ...], word: str
) -> list[Finding]:
    """Find a name that no store of these kinds has; one with a fault of its own may be of any kind."""
    if name in stores and (stores[name] is None or isinstance(stores[name], kinds)):
        return []
    fitting = sorted(other for other, store in stores.items() if isinstance(store, kinds))
    return [
        STORE.finding(
            cause=f"this store is not one of {word}"
            if name in stores
            else "there is no store of this name in data",
            got=name,
            allowed=", ".join(fitting) or "none: data holds no such store",
            fix=f"write {' or '.join(fitting)}" if fitting else f"add data: {{ {name}: {{ {word}: … }} }}",
        )
    ]
