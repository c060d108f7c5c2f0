from engines.kit import show

show("judge-decoding", "tiny-ar-l", "shuffle: Zoe, Mia, Leo, Ada")
