from engines.kit import show

show("hidden-transfer", "tiny-ar-l", "add: 457 + 86")
