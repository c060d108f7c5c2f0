"""Measured comparisons, printed as ratios: what a method costs against its baseline, and what recording costs. Medians
of alternating runs."""
