from engines.kit import show

show("aded", "tiny-ar-l", "copy: Ada, Ben, Ada, Ben, Ada, Ben", learn_from_prompt=True)
