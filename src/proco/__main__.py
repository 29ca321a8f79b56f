"""Run the command line by `python -m proco`."""

from proco.cli.main import main

if __name__ == "__main__":
    main()
