from engines.kit import show

show("afd", "tiny-mfa", "python: class Robot(size: int, owner: str)")
