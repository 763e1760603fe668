"""Estimators and searches that follow scikit-learn's conventions."""
