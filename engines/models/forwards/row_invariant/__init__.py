"""Forwards in which a row's logits are the same to the bit however many rows stand beside it, in a chain or a draft
tree, and however the cache was filled."""
