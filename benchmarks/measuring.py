"""How the benchmarks measure: in processes of their own, in CPU seconds, in turns."""

import concurrent.futures
import csv
import multiprocessing
import os
import statistics
import time


def new_process(start, *args):
    """A process that holds nothing else and begins with `start(*args)`."""
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(1, context, start, args)


def alone(function, *args):
    """What the function returns in a new process, which holds nothing else."""
    with new_process(load_quietly) as process:
        return process.submit(function, *args).result()


class Worker:
    """An object in a new process, which holds nothing else, and its methods.

    Args:
        make: a function at the top of a module; what it returns stays in the process.
        *args: its arguments.
    """

    def __init__(self, make, *args):
        self.process = new_process(_hold, make, args)

    def __call__(self, method, *args):
        """What the object's method returns, and the CPU and wall seconds it took."""
        return self.process.submit(_ask, method, args).result()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.shutdown()


def _hold(make, args):
    global held
    held = make(*args)


def _ask(method, args):
    wall, cpu = time.perf_counter(), time.process_time()
    found = getattr(held, method)(*args)
    return found, time.process_time() - cpu, time.perf_counter() - wall


def load_quietly():
    """Imports the libraries without what they log, which would tear the table."""
    from residual_keras.cli.loading import quiet_start

    with quiet_start():
        import residual_keras.catalogue  # noqa: F401


def cpu_seconds(step):
    """What a step costs, all threads together."""
    started = time.process_time()
    step()
    return time.process_time() - started


def quartiles(ours, theirs):
    """Those of ours / theirs, as text, of measurements that were taken in turns."""
    of_turns = [a / b for a, b in zip(ours, theirs, strict=True)]
    return [f"{ratio:.3f}" for ratio in statistics.quantiles(of_turns, n=4)]


class MatrixProduct:
    """A product of two square matrices in single precision, to say what is possible."""

    SIZE = 2048

    def __init__(self):
        load_quietly()
        import keras

        self.matrix = keras.random.normal((self.SIZE, self.SIZE))
        self.multiply = keras.ops.matmul
        self.rate()

    def rate(self):
        """Operations a CPU second, in billions."""
        spent = cpu_seconds(lambda: self.multiply(self.matrix, self.matrix).numpy())
        return 2e-9 * self.SIZE**3 / spent


def backend_version():
    """Keras' backend and its version."""
    import importlib.metadata

    import keras

    name = keras.backend.backend()
    return f"{name} {importlib.metadata.version(name)}"


class Results:
    """The rows of a benchmark: printed as a table, and kept in a CSV file if asked.

    Args:
        columns: dict from a column's heading to the template of its cells, whose fields
            are a row's.
        key: the names of the fields that tell the rows apart.
        path: of the CSV file, which may hold rows already; None for none.
    """

    def __init__(self, columns, key, path=None):
        self.columns = columns
        self.key = key
        self.path = path
        self.rows = {}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as file:
                self.rows = {self.of(row): row for row in csv.DictReader(file)}

    def of(self, row):
        """What tells a row apart."""
        return tuple(str(row[name]) for name in self.key)

    def find(self, *key):
        """The row of this key, or None."""
        return self.rows.get(tuple(map(str, key)))

    def head(self):
        """The head of the table."""
        return line(self.columns) + "\n" + line("---" for _ in self.columns)

    def line(self, row):
        """A row of the table."""
        return line(cell.format(**row) for cell in self.columns.values())

    def add(self, row):
        """Prints a row and keeps it, in place of an older one of its key."""
        print(self.line(row), flush=True)
        self.rows[self.of(row)] = row
        if self.path:
            self.write()

    def write(self):
        """Writes the file anew, in one move, so that it is never half there."""
        with open(f"{self.path}.new", "w", encoding="utf-8", newline="") as file:
            names = dict.fromkeys(name for row in self.rows.values() for name in row)
            writer = csv.DictWriter(file, list(names), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows.values())
        os.replace(f"{self.path}.new", self.path)


def line(cells):
    """A line of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"
