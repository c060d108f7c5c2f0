"""Training of what ships in `assets/models`, and of heads: `python -m engines.training NAME`."""
