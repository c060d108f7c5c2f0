from engines.kit import show

show("read-me", "tiny-ar-m", "add: 457 + 86")
