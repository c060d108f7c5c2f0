"""GGUF files, llama.cpp's format, as models: llama.cpp reads the weights and computes (`library`, through `binding`),
we read the keys and the tensor table (`header`)."""
