"""Maps, probabilities and scores to files."""
