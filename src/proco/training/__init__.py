"""Training: settings, the way of an epoch to the device, the step, the loop, and the folder a run leaves behind."""
