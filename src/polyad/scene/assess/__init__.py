"""How good a map is: scores, examinations, samples to check, areas, reports."""
