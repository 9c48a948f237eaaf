"""The words and sentences that the grammar of `reviews` puts together."""

from __future__ import annotations

import dataclasses


def _words(text):
    return tuple(text.split())


POSITIVE = _words(
    "superb wonderful brilliant delightful excellent splendid charming gripping moving "
    "clever elegant fresh graceful inspired lovely magnificent marvellous memorable "
    "outstanding refreshing remarkable stunning subtle witty"
)
NEGATIVE = _words(
    "awful dreadful boring dull clumsy tedious terrible weak flat lifeless stale tired "
    "shallow sloppy ugly annoying bland careless crude dreary feeble forgettable "
    "hollow horrible"
)
ASPECTS = _words(
    "acting plot music camera editing script dialogue pacing ending opening story cast "
    "direction lighting soundtrack humour villain photography romance finale"
)
VERBS = ("was", "felt", "seemed")

# Each operator has wordings that read well anywhere, and some that are clear only
# around a whole claim: inside another operator their scope would be open to doubt
# ("it is not true that A, but B").
PREDICATE_NEGATIONS = (  # these need a bare opinion inside
    "the {opinion.aspect} was not {opinion.word}",
    "the {opinion.aspect} {opinion.verb} hardly {opinion.word}",
    "the {opinion.aspect} {opinion.verb} anything but {opinion.word}",
)
NEGATIONS = ("it is not true that {claim}", "nobody could say that {claim}")
OUTER_NEGATIONS = ("I would not say that {claim}", "I do not think that {claim}")
NOUN_CONTRASTS = (  # these need a bare opinion on the side
    "despite the {side.word} {side.aspect}, {main}",
    "for all its {side.word} {side.aspect}, {main}",
    "setting the {side.word} {side.aspect} aside, {main}",
)
CONTRASTS = (
    "although {clause}, {main}",
    "even if {clause}, {main}",
    "while {clause}, {main}",
)
OUTER_CONTRASTS = (
    "{clause}, but {main}",
    "{clause}, yet in the end {main}",
    "{main}, although {clause}",
)
REPORTS = {  # by whether the reporter is right
    True: (
        "{who.name} {who.be} right that {claim}",
        "{who.name} rightly {who.say} that {claim}",
    ),
    False: (
        "{who.name} {who.be} wrong that {claim}",
        "{who.name} falsely {who.say} that {claim}",
    ),
}
OUTER_REPORTS = {
    True: (
        "{who.name} {who.say} that {claim}, and {who.pronoun} {who.be} right",
        "{who.name} {who.say} that {claim}, and I agree",
    ),
    False: (
        "{who.name} {who.say} that {claim}, but {who.pronoun} {who.be} wrong",
        "{who.name} {who.say} that {claim}, but I disagree",
    ),
}

# Sentences that do not count: other things, facts of the plot, circumstances.
OTHERS = (
    "my neighbour's own film",
    "the sequel",
    "the trailer",
    "the remake",
    "the television series",
)
OTHER_WORDINGS = (
    "{other} {verb} {word}",
    "{other} was not {word}",
    "as for {other}, it {verb} {word}",
)
PLOT_FACTS = (
    "it follows her {word} uncle across the sea",
    "a boy builds his {word} brother a boat",
    "the heroine inherits her {word} aunt's bakery",
    "two thieves hide in their {word} old school",
    "the detective keeps calling his partner {word}",
    "someone in it paints {word} portraits of cats",
)
CIRCUMSTANCES = (
    "I saw it on a Sunday afternoon",
    "we sat in the third row",
    "it runs for two hours",
    "my train home was late",
    "the whole thing takes place in one winter",
    "I watched it with subtitles",
)


@dataclasses.dataclass(frozen=True)
class Reporter:
    """Somebody whose opinion is reported, with the verb forms that go with the name."""

    name: str
    say: str
    be: str
    pronoun: str


REPORTERS = (
    Reporter("the critics", "claim", "are", "they"),
    Reporter("my parents", "say", "are", "they"),
    Reporter("my friend", "says", "is", "she"),
    Reporter("my brother", "insists", "is", "he"),
    Reporter("the local paper", "writes", "is", "it"),
)
