from engines.kit import show

show("clover", "tiny-ar-l", "add: 457 + 86")
