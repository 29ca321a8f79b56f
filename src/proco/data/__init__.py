"""Data: where images and labels come from, long-tailed subsets of them, and the order they are drawn in."""
