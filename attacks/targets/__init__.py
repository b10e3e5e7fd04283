"""What the search tries: every reader of scenes and labels, model files, journals and requests.

A target is given bytes, makes of them what a stranger could send, and hands it to polyad. It must
end, or end in one of polyad's own errors; anything else is a finding.
"""

from attacks.targets.base import Target, Uninteresting, changed
from attacks.targets.labels import LABELS
from attacks.targets.models import MODELS
from attacks.targets.page import PAGE
from attacks.targets.scenes import SCENES

__all__ = ["TARGETS", "Target", "Uninteresting", "changed"]

TARGETS: dict[str, Target] = {**SCENES, **LABELS, **MODELS, **PAGE}
