from engines.kit import show

show("reflective-verification", "tiny-ar-l", "add: 457 + 86")
