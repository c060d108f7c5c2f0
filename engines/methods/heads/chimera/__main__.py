from engines.kit import show

show("chimera", "tiny-ar-l", "add: 457 + 86")
