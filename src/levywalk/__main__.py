"""The entry point of ``python -m levywalk``."""

from levywalk.cli.entry import main

if __name__ == "__main__":
    main()
