"""Looking inside a model: one call for a question, arrays and a drawing for an answer.

Every function takes a model (a `TextClassifier` or a `Classifier`, trained, loaded or
new, or a model that was wired by hand from our layers) and a batch of what it takes.
They run it eagerly, as in inference, and leave it as it was.
"""

from .ablation import SkippedBlocks, skipped_blocks
from .attention import AttentionMaps, attention_maps
from .attribution import WordAttributions, word_attributions
from .gradients import GradientNorms, GradientProfile, gradient_norms
from .lens import LogitLens, logit_lens
from .mixing import MixingWeights, mixing_weights
from .stream import StreamProfile, stream_profile

__all__ = [
    "AttentionMaps",
    "GradientNorms",
    "GradientProfile",
    "LogitLens",
    "MixingWeights",
    "SkippedBlocks",
    "StreamProfile",
    "WordAttributions",
    "attention_maps",
    "gradient_norms",
    "logit_lens",
    "mixing_weights",
    "skipped_blocks",
    "stream_profile",
    "word_attributions",
]
