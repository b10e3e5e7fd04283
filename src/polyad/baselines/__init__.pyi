from .cnn import CNNClassifier as CNNClassifier
from .dense import DenseClassifier as DenseClassifier
from .svm import PatchSVC as PatchSVC
