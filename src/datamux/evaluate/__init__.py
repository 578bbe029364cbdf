"""Honest numbers: quality for every group size, and the records that keep them."""
