"""Losses, labels, rows and their weights; objectives and certificates."""
