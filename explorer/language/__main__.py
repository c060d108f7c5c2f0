"""`python -m explorer.language`."""

import sys

from explorer.language import LANGUAGES, faults, read, write

if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        write()
    found = faults()
    print("\n".join(found) or f"{len(read('en'))} messages in {', '.join(LANGUAGES)}")
    sys.exit(bool(found))
