from .cluster import open_cluster as open_cluster
from .cluster import reproduce_on as reproduce_on
from .maps import MapSummary as MapSummary
from .maps import map_files as map_files
from .maps import map_lazy as map_lazy
