"""Kernels that make rows of text, as far as it is ordinary: what is not goes another road."""
