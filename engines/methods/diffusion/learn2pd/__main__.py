from engines.kit import show

show("learn2pd", "tiny-dlm", "add: 457 + 286")
