"""`python -m gpu_clusters_emulator --port 0`: serve the emulator on the loopback interface."""

from __future__ import annotations

from .serve import main

if __name__ == "__main__":
    main()
