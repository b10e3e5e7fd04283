"""How good a map is: scores, evaluations, samples to check, areas, reports."""
