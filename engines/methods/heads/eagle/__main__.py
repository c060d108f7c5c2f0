from engines.kit import show

show("eagle", "tiny-ar-l", "add: 457 + 86")
