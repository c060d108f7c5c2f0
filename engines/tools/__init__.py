"""Real helpers of methods, each behind an optional extra. What they read is text that they are given, in a temporary
copy; they run none of it."""
