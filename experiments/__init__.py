"""Published results, reproduced: ``python -m experiments --help``."""
