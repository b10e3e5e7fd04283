"""Maps, probabilities and scores to files."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.write.tables import write_areas, write_points, write_scores
    from polyad.scene.write.writers import MapWriter, ValueWriter, write_map, write_probabilities

__all__ = [
    "MapWriter",
    "ValueWriter",
    "write_areas",
    "write_map",
    "write_points",
    "write_probabilities",
    "write_scores",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        tables="write_areas write_points write_scores",
        writers="MapWriter ValueWriter write_map write_probabilities",
    )
