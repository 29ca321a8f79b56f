"""What torch's own operations do slowly, by kernels of Triton: small networks, their views, the scores of ProCo."""
