from engines.kit import show

show("a-star-decoding", "tiny-reasoner", "4+8-9*7")
