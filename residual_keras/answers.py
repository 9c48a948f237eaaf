"""Labels and probabilities of texts as people and programs read them."""

import csv
import json


def write_text(label_names, texts, rows, file):
    """Writes label, probability and text, a line each, apart by tabs."""
    for text, row in zip(texts, rows, strict=True):
        sure = max(row)
        cells = label_names[row.index(sure)], f"{sure:.3f}", " ".join(text.split())
        print(*cells, sep="\t", file=file)


def write_csv(label_names, texts, rows, file):
    """Writes text, label and each label's probability as CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["text", "label", *label_names])
    for text, row in zip(texts, rows, strict=True):
        writer.writerow([text, label_names[row.index(max(row))], *row])


def write_json(label_names, texts, rows, file):
    """Writes a JSON object a line: text, label and each label's probability."""
    for text, row in zip(texts, rows, strict=True):
        answer = {
            "text": text,
            "label": label_names[row.index(max(row))],
            "probabilities": dict(zip(label_names, row, strict=True)),
        }
        print(json.dumps(answer, ensure_ascii=False), file=file)


WRITERS = {"text": write_text, "csv": write_csv, "json": write_json}
