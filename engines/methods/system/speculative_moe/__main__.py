from engines.kit import show

show("speculative-moe", "tiny-moe", "story: Mia, boat")
