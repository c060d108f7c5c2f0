"""Helpers of methods that are no part of a paper's loop: static analysis, retrieval, fits. Some stand behind an
optional extra. What they read is text that they are given, in a temporary copy; they run none of it."""
