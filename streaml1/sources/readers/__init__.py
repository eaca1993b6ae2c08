"""Readers of text files, one file per format."""
