"""Models that write a picture pixel by pixel, and their data."""
