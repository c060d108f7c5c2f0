"""Models behind the protocols of `engines.core.kinds`: the zoo, its loaders and the training of the tiny family."""
