from engines.kit import show

show("mirror-sd", "tiny-ar-l", "add: 457 + 86")
