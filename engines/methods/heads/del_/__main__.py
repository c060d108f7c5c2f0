from engines.kit import show

show("del", "tiny-ar-l", "add: 457 + 86")
