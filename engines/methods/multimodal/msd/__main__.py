from engines.kit import show

show("msd", "tiny-vlm", "scene 12")
