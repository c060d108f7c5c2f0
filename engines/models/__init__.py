"""Models behind the protocols of `engines.core.models`: the zoo, its loaders and the training of the tiny family."""
