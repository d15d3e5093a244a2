"""The entry point of ``python -m levywalk``."""

from levywalk.cli.main import main

if __name__ == "__main__":
    main()
