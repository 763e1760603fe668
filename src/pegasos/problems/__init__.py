"""What is minimised: losses, labels, rows and their weights; objectives and certificates."""
