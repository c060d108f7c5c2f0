from engines.kit import show

show("concise", "tiny-reasoner", "4+8-9*7")
