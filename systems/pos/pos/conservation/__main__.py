"""`python -m pos.conservation`."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
