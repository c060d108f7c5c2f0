from engines.kit import show

show("specmemo", "tiny-ar-l", "add: 457 + 86")
