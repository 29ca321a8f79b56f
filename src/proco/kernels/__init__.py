"""Layers of small networks by kernels of our own, on GPUs in half precision; everywhere else by torch's."""
