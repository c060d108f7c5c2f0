"""The page: a Gradio app around the player. Everything here is layout, wiring and refusal of bad input; decoding
happens in `engines`."""
