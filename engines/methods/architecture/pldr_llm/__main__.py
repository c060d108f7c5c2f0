from engines.kit import show

show("pldr-llm", "tiny-pldr", "story: Mia, boat, lamp")
