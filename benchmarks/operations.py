"""Where a training step's time goes, operation by operation, ours beside Keras' block.

    taskset -c 0 python benchmarks/operations.py [--layers N] [--csv PATH]

Both are those of benchmarks/peers.py, in processes of their own, under TensorFlow's
profiler. On one core, as by `taskset`, what an operation takes is CPU time; on several,
operations that run at once are counted side by side. Printed are milliseconds a step.
Products of matrices are what no library can leave out.
"""

import argparse
import collections
import pathlib
import tempfile

from measuring import Results, alone, load_quietly
from peers import PEERS, Ours

PEER = "Keras MultiHeadAttention"
SHOWN = 14  # the rest stands in one row
KEY = ("operation",)
COLUMNS = {
    "operation": "{operation}",
    "ours, ms": "{ours_ms}",
    "its share": "{ours_share}",
    "theirs, ms": "{theirs_ms}",
}
SETTING = {"activation": "relu", "rate": 0.0, "attention_rate": 0.0, "ff_rate": 0.0}


def main():
    options = argparse.ArgumentParser(description="A training step by operation.")
    options.add_argument("--layers", type=int, default=4, help="default: 4")
    options.add_argument("--steps", type=int, default=5, help="default: 5")
    options.add_argument("--csv", help="a file for the rows, which are new")
    args = options.parse_args()
    peer = PEERS[PEER]
    setting = {**SETTING, "layers": args.layers, "key_dim": peer.key_dim}
    ours, theirs = (
        alone(profiled, make, setting, args.steps) for make in (Ours, peer.make)
    )
    results = Results(COLUMNS, KEY, args.csv)
    results.rows.clear()
    print(results.head())
    whole = sum(ours.values())
    order = sorted({*ours, *theirs}, key=lambda name: -max(ours[name], theirs[name]))
    groups = {name: [name] for name in order[:SHOWN]}
    groups["all others"] = order[SHOWN:]
    groups["all"] = order
    for group, names in groups.items():
        mine, its = (sum(found[name] for name in names) for found in (ours, theirs))
        results.add(
            {
                "operation": group,
                "ours_ms": f"{mine:.1f}",
                "ours_share": f"{mine / whole:.2f}",
                "theirs_ms": f"{its:.1f}",
                "layers": args.layers,
                "steps": args.steps,
            }
        )


def profiled(make, setting, steps):
    """Milliseconds a step of every kind of operation, a `Counter`."""
    load_quietly()
    import tensorflow as tf

    model = make(setting)
    for _ in range(3):  # the first one makes the graph
        model.train()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        for _ in range(steps):
            model.train()
        tf.profiler.experimental.stop()
        [trace] = pathlib.Path(folder).rglob("*.xplane.pb")
        return by_kind(trace.read_bytes(), steps)


def by_kind(trace, steps):
    """What a trace holds of operations, which it names "where/it/stands:Kind"."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    found = collections.Counter()
    for plane in xplane_pb2.XSpace.FromString(trace).planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                kind = name.rpartition(":")[2]
                if "::" not in name and ":" in name and kind.lstrip("_")[:1].isupper():
                    found[kind] += event.duration_ps / 1e9 / steps
    return found


if __name__ == "__main__":
    main()
