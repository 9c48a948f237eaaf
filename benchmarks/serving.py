"""How many requests a second a server answers, by clients, lengths and batching.

    pip install '.[serving]' && python benchmarks/serving.py [--seconds S] [--csv PATH]

The server is serving/kserve_server.py in a process of its own, on this machine. Clients
are threads of another process that ask again as soon as they are answered, each over a
connection that stays open; both share the cores. A client asks for one text a request,
and the server computes it alone or, with `--batch`, together with what others ask for
at that time; or it asks for 32 texts a request. Each row is asked for so many seconds,
5 by default. Printed are answers a second, and wall milliseconds to an answer, the
median and the 99th percentile; `load` is how many processes wanted a core before the
first row. The model is that of `residual-keras train`, two blocks 96 wide, untrained.
"""

import argparse
import contextlib
import http.client
import json
import os
import tempfile
import threading
import time

import numpy as np
from measuring import Results, alone
from server_process import kserve_server

MOST = 20_000  # requests a row
WORDS = [f"word{number}" for number in range(1000)]
LENGTHS = {"short": 16, "long": 256}  # in words
WAYS = {  # whether the server batches, and texts a request
    "one text": (False, 1),
    "one text, batched by the server": (True, 1),
    "32 texts": (False, 32),
}
ADDRESS = "/v1/models/classifier:predict"
JSON = {"Content-Type": "application/json"}
KEY = "asked", "words", "clients"
COLUMNS = {
    "a request": "{asked}",
    "words": "{words}",
    "clients": "{clients}",
    "requests a second": "{requests}",
    "texts a second": "{texts}",
    "ms": "{ms}",
    "99 in 100 within": "{ms_99}",
    "load": "{load}",
}


def main():
    options = argparse.ArgumentParser(description="Requests a second of a server.")
    options.add_argument("--clients", nargs="+", type=int, default=[1, 8, 32])
    options.add_argument("--seconds", type=float, default=5, help="a row; default: 5")
    options.add_argument("--csv", help="a file for the rows")
    args = options.parse_args()
    results = Results(COLUMNS, KEY, args.csv)
    load = f"{os.getloadavg()[0]:.1f}"
    print(results.head())
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        alone(export, folder)
        quiet = "--enable_latency_logging=false"
        ports = {
            batch: stack.enter_context(kserve_server(folder, quiet, *flags))
            for batch, flags in {False: [], True: ["--batch"]}.items()
        }
        for words in LENGTHS.values():
            for batch, number in WAYS.values():  # graphs are made, caches filled
                ask_for(ports[batch], bodies(words, number), max(args.clients), 1)
            for clients in args.clients:
                for asked, (batch, number) in WAYS.items():
                    requests = bodies(words, number)
                    row = ask_for(ports[batch], requests, clients, args.seconds)
                    row["texts"] = f"{float(row['requests']) * number:.0f}"
                    key = {"asked": asked, "words": words, "clients": clients}
                    results.add({**key, **row, "load": load, "seconds": args.seconds})


def export(folder):
    """Exports a classifier of the default sizes that knows the words."""
    import keras

    from residual_keras import (
        Recipe,
        TextClassifier,
        TextVectorizer,
        build_classifier,
        export_saved_model,
    )

    keras.utils.set_random_seed(0)
    recipe = Recipe()
    vectorizer = TextVectorizer(recipe.vocab_size, recipe.max_len)
    vectorizer.adapt([" ".join(WORDS)])
    classifier = build_classifier(
        vectorizer.vocab_size,
        num_classes=2,
        num_layers=recipe.num_layers,
        embed_dim=recipe.embed_dim,
        num_heads=recipe.num_heads,
        max_len=recipe.max_len,
    )
    model = TextClassifier(classifier, vectorizer, ["negative", "positive"])
    export_saved_model(model, folder)


def bodies(words, number, requests=50):
    """The bodies of requests, of so many texts of so many words each."""
    draw = np.random.default_rng(0)
    texts = draw.choice(WORDS, (requests, number, words))
    return [
        json.dumps({"instances": [" ".join(text) for text in rows]}) for rows in texts
    ]


def ask_for(port, requests, clients, seconds):
    """What so many clients measured who asked at once for so long."""
    waited, wrong = [], []
    started = time.perf_counter()
    until = started + seconds

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for turn in range(MOST // clients):
            asked = time.perf_counter()
            if asked >= until:
                break
            body = requests[(number + turn) % len(requests)]
            connection.request("POST", ADDRESS, body, JSON)
            response = connection.getresponse()
            said = response.read()
            waited.append(time.perf_counter() - asked)
            if response.status != 200:
                wrong.append(said)
                break
        connection.close()

    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    if wrong:
        raise RuntimeError(wrong[0].decode())
    return {
        "requests": f"{len(waited) / took:.1f}",
        "ms": f"{1000 * np.median(waited):.1f}",
        "ms_99": f"{1000 * np.percentile(waited, 99):.1f}",
    }


if __name__ == "__main__":
    main()
