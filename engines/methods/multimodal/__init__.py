"""Methods for pictures: image tokens, captions, words in scenes."""
