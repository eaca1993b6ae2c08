"""Online optimization: the loop, the losses and one update rule per file."""
