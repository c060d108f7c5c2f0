"""`python -m explorer.cli`: the same as `decoding-explorer`."""

import sys

from explorer.cli import main

if __name__ == "__main__":
    sys.exit(main())
