"""Readers and writers: of models, data files, checkpoints, progress and pictures."""
