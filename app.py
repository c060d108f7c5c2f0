"""Start the Decoding Explorer: `python app.py`. Also the entry point of a Space."""

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from explorer import main

if __name__ == "__main__":
    main()
