"""`python -m widgets.app`: serve the page until it is interrupted."""

import argparse
import os
import sys

from widgets.app.serving import serve
from workbench.errors import WorkbenchError


def main(arguments: list[str] | None = None) -> int:
    """Serve the page.

    Args:
        arguments: Words of the command line; those of the process if None.

    Returns:
        0; 2 if the settings cannot be used.
    """
    parser = argparse.ArgumentParser(prog="python -m widgets.app", description="The workbench as a page.")
    parser.add_argument("--model", default="", help="a folder or a file with a model of your own")
    parser.add_argument("--port", type=int, default=5006, help="0 for a free one")
    parser.add_argument("--address", default="127.0.0.1", help="beyond this machine a token is needed")
    parser.add_argument("--token", default=os.environ.get("WORKBENCH_TOKEN", ""), help="or WORKBENCH_TOKEN")
    parser.add_argument("--computations", type=int, default=0, help="at once; half the cores by default")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    asked = vars(parser.parse_args(arguments))
    try:
        serve(show=not asked.pop("no_browser"), **asked)
    except WorkbenchError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
