"""How long a start takes: the command line's help, and the import.

    python benchmarks/startup.py [--times N] [--csv PATH]

Each is run in a new process, in turns; printed are the median and the quartiles of the
wall seconds. By itself the package imports Keras when it is first used; what it adds
after `import keras` is the difference of two imports that took turns.
"""

import argparse
import statistics
import subprocess
import sys
import time

from measuring import Results

COMMANDS = {
    "residual-keras --help": ["-m", "residual_keras", "--help"],
    "python -c pass": ["-c", "pass"],
    "import keras": ["-c", "import keras"],
    "import residual_keras": ["-c", "import residual_keras"],
    "import keras, residual_keras": ["-c", "import keras, residual_keras"],
}
ADDED = "import residual_keras, after import keras"
KEY = ("start",)
COLUMNS = {
    "start": "{start}",
    "seconds": "{seconds}",
    "quartiles": "{seconds_low} to {seconds_high}",
}


def main():
    options = argparse.ArgumentParser(description="Wall seconds of a start.")
    options.add_argument("--times", type=int, default=9, help="of each; default: 9")
    options.add_argument("--csv", help="a file for the rows")
    args = options.parse_args()
    for command in COMMANDS.values():  # compiled to bytecode, and in the disk's cache
        start(command)
    found = {name: [] for name in [*COMMANDS, ADDED]}
    for _ in range(args.times):
        for name, command in COMMANDS.items():
            found[name].append(start(command))
        ours, keras = found["import keras, residual_keras"], found["import keras"]
        found[ADDED].append(ours[-1] - keras[-1])
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    for name, seconds in found.items():
        low, middle, high = statistics.quantiles(seconds, n=4)
        results.add(
            {
                "start": name,
                "seconds": f"{middle:.2f}",
                "seconds_low": f"{low:.2f}",
                "seconds_high": f"{high:.2f}",
                "times": args.times,
            }
        )


def start(command):
    """Wall seconds of a new process."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
