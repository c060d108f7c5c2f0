from engines.kit import show

show("easyspec", "tiny-ar-l", "add: 457 + 86")
