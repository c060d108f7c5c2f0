from engines.kit import show

show("rsd", "tiny-ar-l", "add: 457 + 86")
