"""GGUF files, llama.cpp's format, as models."""
