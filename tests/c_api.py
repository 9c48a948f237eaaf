"""A SavedModel asked through TensorFlow's C API, as a program in C would.

    python c_api.py LIBRARY REQUEST

No Python package but NumPy is imported: whatever loads here needs no op that Python
would have brought. REQUEST is a JSON file with `folder`, `texts`, and the names of the
tensors `input`, `probabilities` and `label`; the answer is printed as JSON.
"""

import ctypes
import json
import sys

import numpy as np

STRING, FLOAT = 7, 1  # of TF_DataType
STRING_SIZE = 24  # of a TF_TString


class Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


def declared(library):
    """The library, its functions' results declared as what they are."""
    for name in (
        "TF_NewStatus",
        "TF_NewGraph",
        "TF_NewSessionOptions",
        "TF_LoadSessionFromSavedModel",
        "TF_GraphOperationByName",
        "TF_AllocateTensor",
        "TF_TensorData",
        "TF_StringGetDataPointer",
    ):
        getattr(library, name).restype = ctypes.c_void_p
    library.TF_Message.restype = ctypes.c_char_p
    library.TF_StringGetSize.restype = ctypes.c_size_t
    library.TF_Dim.restype = ctypes.c_int64
    return library


class Session:
    def __init__(self, library, folder):
        self.tf = declared(ctypes.CDLL(library))
        self.status = ctypes.c_void_p(self.tf.TF_NewStatus())
        self.graph = ctypes.c_void_p(self.tf.TF_NewGraph())
        tags = (ctypes.c_char_p * 1)(b"serve")
        options = ctypes.c_void_p(self.tf.TF_NewSessionOptions())
        self.session = ctypes.c_void_p(
            self.tf.TF_LoadSessionFromSavedModel(
                options, None, folder.encode(), tags, 1, self.graph, None, self.status
            )
        )
        self.check()

    def check(self):
        if self.tf.TF_GetCode(self.status):
            sys.exit(self.tf.TF_Message(self.status).decode())

    def output(self, name):
        operation, index = name.split(":")
        found = self.tf.TF_GraphOperationByName(self.graph, operation.encode())
        return Output(found, int(index))

    def strings(self, texts):
        shape = (ctypes.c_int64 * 1)(len(texts))
        size = ctypes.c_size_t(STRING_SIZE * len(texts))
        tensor = ctypes.c_void_p(self.tf.TF_AllocateTensor(STRING, shape, 1, size))
        start = self.tf.TF_TensorData(tensor)
        for row, text in enumerate(texts):
            place, text = ctypes.c_void_p(start + STRING_SIZE * row), text.encode()
            self.tf.TF_StringInit(place)
            self.tf.TF_StringCopy(place, text, ctypes.c_size_t(len(text)))
        return tensor

    def array(self, tensor):
        tensor = ctypes.c_void_p(tensor)
        rank = self.tf.TF_NumDims(tensor)
        shape = [self.tf.TF_Dim(tensor, axis) for axis in range(rank)]
        start = self.tf.TF_TensorData(tensor)
        if self.tf.TF_TensorType(tensor) == FLOAT:
            flat = (ctypes.c_float * int(np.prod(shape))).from_address(start)
            return np.array(flat).reshape(shape).tolist()
        places = (ctypes.c_void_p(start + STRING_SIZE * i) for i in range(shape[0]))
        return [
            ctypes.string_at(
                self.tf.TF_StringGetDataPointer(place), self.tf.TF_StringGetSize(place)
            ).decode()
            for place in places
        ]

    def run(self, name, texts, outputs):
        asked = (Output * len(outputs))(*map(self.output, outputs))
        found = (ctypes.c_void_p * len(outputs))()
        self.tf.TF_SessionRun(
            self.session,
            None,
            (Output * 1)(self.output(name)),
            (ctypes.c_void_p * 1)(self.strings(texts)),
            1,
            asked,
            found,
            len(outputs),
            None,
            0,
            None,
            self.status,
        )
        self.check()
        return [self.array(tensor) for tensor in found]


if __name__ == "__main__":
    library, request = sys.argv[1:]
    with open(request, encoding="utf-8") as file:
        request = json.load(file)
    session = Session(library, request["folder"])
    outputs = [request["probabilities"], request["label"]]
    probabilities, label = session.run(request["input"], request["texts"], outputs)
    assert "tensorflow" not in sys.modules
    print(json.dumps({"probabilities": probabilities, "label": label}))
