"""GGUF files, llama.cpp's format, as models: llama.cpp reads the weights and computes (`llama_cpp`),
we read the keys and the tensor table (`header`)."""
