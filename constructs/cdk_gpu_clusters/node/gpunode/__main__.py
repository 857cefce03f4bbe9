"""`python3 -m gpunode`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
