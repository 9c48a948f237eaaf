"""Short English sentences of texts, the same with a "not" put in, and what has one.

A review says seldom "not bad at all", and where it does, these are a few words among
hundreds: from whole reviews a model does not learn that a "not" turns words round.
Source: Kaushik et al. 2020 (texts edited so that their label flips), arXiv:1909.12434,
where people wrote them; here rules do, so some sentences come out clumsy.
"""

import random
import re

LONGEST = 20  # words; in a longer sentence a "not" may turn round a small part only
SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|<br\s*/?>|\n")
NEGATIVE = re.compile(
    r"n't\b|\b(?:not|never|no|nothing|nobody|none|neither|nor|without|hardly|barely)\b",
    re.IGNORECASE,
)
VERBS = "like", "love", "enjoy", "hate", "laugh", "care", "recommend", "work", "deserve"
TURNED = {
    **{f"{verb}s": f"does not {verb}" for verb in VERBS},
    **{f"{verb.removesuffix('e')}ed": f"did not {verb}" for verb in VERBS},
}
START = r"^((?:[\w']+ ){1,4}?)"  # a sentence's own verb stands near its start
BE = r"(is|was|are|were)\b(?! (?:just|also|only)\b)"
WE = r"^((?:i|we|you|they) (?:\w+ly )?)"
FORMS = [
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (START + BE, r"\1\2 not"),
        (START + BE, r"\1\2n't"),
        (START + BE, r"\1\2 never"),
        (START + BE + r"(.*?)([.!]*)$", r"\1\2 not\3 at all\4"),
        (START + BE + r" (\w+) and (\w+)\b", r"\1\2 neither \3 nor \4"),
        (rf"^((?:it|(?:the|this|that)(?: \w+){{1,2}}?) {BE})", r"Nothing about \1"),
        (r"^((?:it|that|he|she|there)'s|i'm|(?:they|we|you)'re)\b", r"\1 not"),
        (START + r"(could|would|should)\b", r"\1\2n't"),
        (START + r"(can|could|will|would|should|must)\b", r"\1\2 not"),
        (WE + rf"({'|'.join(VERBS)})\b", r"\1don't \2"),
        (WE + rf"({'|'.join(VERBS)})\b", r"\1would not \2"),
        (START + rf"({'|'.join(TURNED)})\b", lambda m: m[1] + TURNED[m[2].lower()]),
    )
]


def pairs(texts, count, seed):
    """Sentences of texts, each beside the same with a "not" put in.

    Args:
        texts: the raw texts, in English.
        count: how many sentences to take of a text at most, drawn from those that are
            short, say something, and have no "not" yet.
        seed: of what is drawn.

    Returns:
        A list of pairs, sentence and negated sentence.

    Raises:
        ValueError: if no text has such a sentence.

    Example:
        >>> pairs(["I saw it twice. The acting is superb! Why?"], 1, seed=1)
        [('The acting is superb!', 'The acting is not superb at all!')]
    """
    rng = random.Random(seed)
    found = []
    for text in texts:
        both = [(one, negated(one, rng)) for one in sentences_of(text)]
        both = [(one, other) for one, other in both if other is not None]
        found += rng.sample(both, min(count, len(both)))
    if not found:
        raise ValueError(
            "Negations are of short English sentences, such as 'The acting is superb.' "
            f"Received: {len(texts)} texts, which have none. Leave them out."
        )
    return found


def passages(texts, count, seed):
    """One to three sentences of a text that stand together, one with a "not" at least.

    "Do not waste your money. It is dull." blames twice: who has read only what `pairs`
    makes takes any "not" for one that turns all round.

    Args:
        texts: the raw texts, in English.
        count: how many to take of a text at most, around sentences drawn from those
            that have a "not".
        seed: of what is drawn.

    Returns:
        A list of texts, none of more than `LONGEST` words a sentence in the mean.

    Example:
        >>> passages(["Do not go! We did."], 1, seed=1)
        ['Do not go! We did.']
    """
    rng = random.Random(seed)
    found = []
    for text in texts:
        sentences = sentences_of(text)
        places = [i for i, one in enumerate(sentences) if NEGATIVE.search(one)]
        for place in rng.sample(places, min(count, len(places))):
            length = rng.randint(1, 3)
            first = max(0, place - rng.randrange(length))
            passage = sentences[first : first + length]
            if sum(len(one.split()) for one in passage) <= LONGEST * len(passage):
                found.append(" ".join(passage))
    return found


def sentences_of(text):
    """The sentences of a text, as far as its marks and lines tell."""
    return [one for one in map(str.strip, SENTENCE_ENDS.split(text)) if one]


def negated(sentence, rng):
    """The sentence with a "not" put in, in one way of those that fit it; else None."""
    words = len(sentence.split())
    if words > LONGEST or sentence.endswith("?") or NEGATIVE.search(sentence):
        return None
    forms = [form for form in FORMS if form[0].search(sentence)]
    if not forms:
        return None
    pattern, replacement = rng.choice(forms)
    return pattern.sub(replacement, sentence, count=1)
