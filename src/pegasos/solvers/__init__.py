"""What minimises it: the solvers, linear and kernel, and the schedule that lets them run."""
