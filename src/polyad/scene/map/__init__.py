"""From a model and a scene to a class map, tile by tile."""
