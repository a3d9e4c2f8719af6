"""``python -m workbench``: the command line, from a source tree as from an installation."""

from workbench.headless.cli import main

if __name__ == "__main__":
    main()
