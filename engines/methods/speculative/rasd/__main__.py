from engines.kit import show

show("rasd", "tiny-ar-l", "sort: Zoe, Mia, Leo, Ada, Kim")
