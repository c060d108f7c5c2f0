"""Start the Decoding Explorer: `python app.py`, with the options of `decoding-explorer serve`. Also the entry point of
a Space."""

import os
import sys

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from explorer import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
