from engines.kit import show

show("lean-attention", "tiny-ar-l", "add: 457 + 86")
