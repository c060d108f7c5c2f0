from engines.kit import show

show("ffs", "tiny-ar-s", "subtract: 8754 - 4184")
