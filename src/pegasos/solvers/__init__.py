"""Linear and kernel solvers, and the schedule of their rounds."""
