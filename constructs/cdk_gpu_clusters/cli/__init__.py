"""Commands; none of them starts Node."""
