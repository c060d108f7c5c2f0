from engines.kit import show

show("ppd", "tiny-ar-l", "add: 457 + 86")
