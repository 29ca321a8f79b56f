"""Speed and memory, always as ratios between contenders in one run. Run as python -m benchmarks.loss and so on."""
