"""scikit-learn estimators around the Rank-R network."""
