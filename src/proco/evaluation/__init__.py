"""How good predictions are: accuracy of classes and of groups of classes, calibration; sums that ranks can add up."""
