"""Traces as files for other people and other programs."""
