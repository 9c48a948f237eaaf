"""What the formats share: write beside, load again, compare, describe, rename."""

import contextlib
import dataclasses
import importlib.util
import logging
import pathlib
import warnings

import numpy as np

from ..quiet import stderr_kept
from . import folder
from .card import write_card
from .precision import in_float32
from .samples import sample_texts
from .serving import IdsFunctions
from .tokenizer import READER, write_tokenizer
from .weights import STORAGES

BATCH = """\
texts = ["a text", "another text, which is longer", ""]
rows = [token_ids(text) for text in texts]
ids = np.zeros((len(rows), max(1, *map(len, rows))), "int32")
for row, found in zip(ids, rows, strict=True):
    row[: len(found)] = found

"""
LARGEST_DIFFERENCE = 1e-4  # between probabilities, of an export that is let through


@dataclasses.dataclass(frozen=True)
class Export:
    """An export that was compared with its model.

    Attributes:
        path: of the version's folder.
        difference: the largest one between the export's probabilities and those of the
            model in float32, with its weights as they are stored.
        cost: the largest one to the model as it was trained; more, where weights are
            stored in fewer bits, or where it was trained in half precision.
        size: of the model's files, in bytes.
    """

    path: pathlib.Path
    difference: float
    cost: float
    size: int


class Format:
    """A way to write a `TextClassifier` down for a runtime that is not Keras.

    Args:
        half_precision: whether weights are stored as float16.
        quantize: whether matrices are stored as int8, with a scale for each column.
        explain: whether the signature `explain` is offered.

    Raises:
        ValueError: if the format does not carry what is asked.
    """

    name = None  # the key in FORMATS, and the extra of this package that pip installs
    libraries = ()  # the modules that must be there
    refused = {}  # an argument's name -> why the format does not carry it
    call = ""  # Python that asks for the `probabilities` of `ids`, an int32 array

    def __init__(self, half_precision=False, quantize=False, explain=False):
        asked = {
            "half_precision": half_precision,
            "quantize": quantize,
            "explain": explain,
        }
        for argument, reason in self.refused.items():
            if asked[argument]:
                raise ValueError(
                    f"{self.name} is not exported with {argument}: {reason}. "
                    f"Received: {argument}=True"
                )
        if half_precision and quantize:
            raise ValueError(
                "Weights are stored in one way. Received: half_precision=True and "
                "quantize=True. Leave one out."
            )
        self.storage = (
            "float16" if half_precision else "int8" if quantize else "float32"
        )
        self.explain = explain

    def module(self, model):
        """The functions to write, over the weights as they are stored."""
        return IdsFunctions(model, STORAGES[self.storage])

    def functions(self, module):
        """Those that are written, concrete, by the name that they are called by."""
        function = module.probabilities_of_ids
        return {"probabilities": function.get_concrete_function()}

    def write(self, module, path):
        """Writes the module's functions into a folder."""
        raise NotImplementedError

    def write_tokenizer(self, model, path):
        """Writes what makes ids of a text, where the functions cannot."""
        write_tokenizer(model, path)

    @classmethod
    def next_step(cls, path):
        """A sentence to one who has just exported to `path`."""
        return f"{path / 'README.md'} says how to call it."

    @property
    def how_to_call(self):
        """The section of the model card on how to call the export."""
        return (
            "The model takes ids. This makes them of a text, by tokenizer.json:\n\n"
            f"```python\n{READER}```\n\n"
            "and this calls the model:\n\n"
            f"```python\nimport numpy as np\n\n{BATCH}{self.call}```"
        )

    def load(self, path):
        """What `write` wrote, in its own runtime.

        Returns:
            A function from texts and their ids, (batch, time), to what runs gave for
            them: a list of probabilities, (batch, labels) each.
        """
        raise NotImplementedError

    def export(self, model, base, facts=None):
        """Writes a model as the next version under a folder.

        See `residual_keras.export.export_model`.
        """
        self.check_libraries()
        check_model(model)
        with folder.beside(base) as path:
            module = self.module(in_float32(model))
            difference, cost = self.written_and_compared(module, model, path)
            size = folder.size(path)
            self.write_tokenizer(model, path)
            measured = {
                "largest difference of a probability, to the model in float32 with its "
                "weights stored as here": difference,
                "the same, to the model as it was trained": cost,
                "bytes": size,
            }
            write_card(path, self, self.functions(module), model, measured, facts or {})
            return Export(folder.claim_version(path, base), difference, cost, size)

    def written_and_compared(self, module, model, path):
        """Writes; returns the largest differences to the module and to the model."""
        samples = list(batches(model.vectorizer))
        try:
            with quiet():
                self.write(module, path)
                run = self.load(path)
                found = [(ids, run(texts, ids)) for texts, ids in samples]
        except OSError:
            raise
        except Exception as error:  # each converter has a class of its own
            raise ValueError(
                f"{self.name} cannot carry this model: {type(error).__name__}: "
                f"{str(error).strip()[:300]}"
            ) from error
        difference, cost = (
            largest_difference(found, one.probabilities) for one in (module, model)
        )
        if not difference <= LARGEST_DIFFERENCE:  # NaN is none of both
            raise ValueError(
                f"{self.name} does not give what the model gives: probabilities differ "
                f"by up to {difference:.2g}, and at most {LARGEST_DIFFERENCE:g} is let "
                "through. The files are deleted. Use another format."
            )
        return difference, cost

    def check_libraries(self):
        """Raises ValueError if a library that the format needs is missing."""
        missing = [n for n in self.libraries if importlib.util.find_spec(n) is None]
        if missing:
            raise ValueError(
                f"The format {self.name} needs {', '.join(missing)}. Install: "
                f"pip install 'residual_keras[{self.name}]'."
            )


@contextlib.contextmanager
def quiet():
    """Keeps back what converters and runtimes tell; what is wrong, they raise."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), stderr_kept(show_if_failed=False):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def batches(vectorizer):
    """The texts to compare on, with their ids, as pairs."""
    for texts in sample_texts(vectorizer):
        yield texts, vectorizer(texts).numpy()


def largest_difference(found, probabilities):
    """Between what runs gave and what `probabilities(ids)` gives."""
    gaps = [
        np.abs(one - expected).max()
        for ids, runs in found
        for expected in [probabilities(ids).numpy()]
        for one in runs
    ]
    return float(np.max(gaps))


def check_model(model):
    """Raises ValueError if a model is no `TextClassifier`."""
    if not hasattr(model, "vectorizer"):
        raise ValueError(
            "What is exported takes raw text or brings its vocabulary: a "
            f"TextClassifier. Received: a {type(model).__name__}. Put the classifier, "
            "its TextVectorizer and the labels' names into one."
        )
