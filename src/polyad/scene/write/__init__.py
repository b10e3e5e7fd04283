"""Maps, probabilities and scores to files."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.write.area_table import write_areas
    from polyad.scene.write.map_writer import MapWriter
    from polyad.scene.write.points import write_points
    from polyad.scene.write.value_writer import ValueWriter
    from polyad.scene.write.writers import write_map, write_probabilities, write_scores

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
        value_writer="ValueWriter",
        area_table="write_areas",
        map_writer="MapWriter",
        points="write_points",
        writers="write_map write_probabilities write_scores",
    )
