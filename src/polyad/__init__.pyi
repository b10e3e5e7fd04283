from .core import Plan as Plan
from .core import RankRLinear as RankRLinear
from .core import RankRNet as RankRNet
from .core import plan_inner as plan_inner
from .estimators import ModeStandardScaler as ModeStandardScaler
from .estimators import RankRClassifier as RankRClassifier
from .estimators import RankRRegressor as RankRRegressor
from .estimators import load as load
from .estimators import save as save
from .scene import SceneModel as SceneModel
from .scene import cross_validate as cross_validate
from .scene import evaluate as evaluate
from .scene import map_file as map_file
from .scene import map_scene as map_scene
from .scene import open_labels as open_labels
from .scene import open_scene as open_scene
from .scene import select_bands as select_bands
from .scene import train as train

__version__: str
