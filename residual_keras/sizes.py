"""How large a classifier is: the fields of a `Recipe` that say so, by name."""

SIZES = {
    # Weights as float16, with 20,000 words, two labels and a scheme that adds few:
    "tiny": {  # 1.4 MB
        "num_layers": 2,
        "embed_dim": 32,
        "num_heads": 2,
        "ff_dim": 128,
        "max_len": 512,
    },
    "small": {  # 3.0 MB
        "num_layers": 4,
        "embed_dim": 64,
        "num_heads": 2,
        "ff_dim": 256,
        "max_len": 512,
    },
    "medium": {  # 7.7 MB
        "num_layers": 6,
        "embed_dim": 128,
        "num_heads": 4,
        "ff_dim": 512,
        "max_len": 512,
    },
    "base": {  # the blocks of the published BERT-base; 202 MB
        "num_layers": 12,
        "embed_dim": 768,
        "num_heads": 12,
        "ff_dim": 3072,
        "max_len": 512,
    },
    "deep": {  # about base's weights in twice its blocks; 172 MB
        "num_layers": 24,
        "embed_dim": 512,
        "num_heads": 8,
        "ff_dim": 2048,
        "max_len": 512,
    },
}
