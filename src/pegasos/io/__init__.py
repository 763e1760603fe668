"""What leaves the process and comes back: models, data files, checkpoints, progress, a picture."""
