"""The contestants, a file each."""
