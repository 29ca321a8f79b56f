"""Augmentation of whole batches on the device they are on: each image has its own random parameters."""
