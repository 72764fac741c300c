"""Tools of planners: builders of rows, time limits, stretches of epochs, CUDA graphs."""
