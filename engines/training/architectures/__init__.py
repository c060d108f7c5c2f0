"""Training of the small networks of `engines/models/networks`: one module for each paper, on one corpus, by one loop.

A further network: write its file there, name it in `OURS`, then a module here with its recipes, its losses and what is
measured of it, on `corpus` and `language`, as `blockffn.py` does."""
