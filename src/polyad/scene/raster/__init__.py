"""What a scene is: dims, grid, classes, valid pixels, tiles and patches."""
