from engines.kit import show

show("adaptive-drafts", "tiny-ar-l", "copy: Ada, Ada, Ada, Ada")
