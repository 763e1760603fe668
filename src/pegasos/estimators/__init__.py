"""What people fit: estimators and searches after scikit-learn's conventions."""
