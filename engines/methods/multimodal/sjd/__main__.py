from engines.kit import show

show("sjd", "tiny-digits", "7")
