"""Training of the models that ship in `assets/models`: `python -m engines.models.train NAME`."""
