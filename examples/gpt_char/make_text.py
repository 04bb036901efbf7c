"""make_text.py - writes text.txt, what the example trains on: the log of an invented tide station.

All sentences are this project's own; a seeded generator strings them together, so that the file can be
made again: python make_text.py > text.txt
"""

import random

DAYS = 400
PEOPLE = ["Marit", "old Jonas", "the pilot", "Edda", "the boy from the mill", "our cook", "Tove", "Ansgar"]
PLACES = ["the north pier", "the lamp room", "the boat house", "the tide gauge", "the upper path",
          "the reading room", "the salt shed", "the flagpole", "the weir"]
WINDS = ["north", "north by east", "east", "south-east", "south", "south-west", "west", "north-west"]
FORCES = ["hardly a breath", "light", "fresh", "steady", "strong", "a full gale"]
SEAS = ["flat as slate", "short and choppy", "rolling in long swells", "white to the horizon",
        "grey and patient", "green under the cliffs"]
BIRDS = ["terns", "two herons", "a lone cormorant", "gannets far out", "oystercatchers", "no birds at all"]
TOOLS = ["the barometer", "the brass clock", "the spare lens", "the signal lamp", "the rain gauge",
         "the float of the gauge", "the long rope", "the hand pump"]
FAULTS = ["runs slow again", "needs oil", "was found wet", "sticks at the half", "reads a hair too high",
          "has lost a screw", "gives two answers to one question", "agrees with nothing else here"]
DEEDS = ["set it right before noon", "took it apart on the kitchen table", "left it for Sunday",
         "wrote to the town for a new one", "measured it twice and believed neither",
         "cleaned it and said nothing", "marked the place with chalk"]
THOUGHTS = [
    "A number written down twice is a number checked once.",
    "When two clocks differ, the station has no time until we know why.",
    "We do not trust a calm that comes from the west.",
    "The sea keeps its own order, and we only keep the book.",
    "If the same day came back, I would like to see the same line here.",
    "Nobody moved the mark, and yet the mark has moved.",
    "It is the small error that travels farthest.",
    "Whoever reads this later: the ink is ours, the mistakes too.",
    "One drop in the wrong glass, and the whole table of the month is wrong.",
    "He asked how I could be certain, and I showed him the second book.",
    "First find where the two books part, and only then ask who held the pen.",
]
EVENTS = [
    "A barge passed close to {place} with its lights out.",
    "{who} came up by {place} and stayed for tea.",
    "Letters arrived; {who} read them aloud at {place}.",
    "We painted the door of {place} and then it rained.",
    "{who} counted {n} sails before noon and {m} after it.",
    "The dog found a crate at {place}; it held {n} lemons.",
    "{who} carried {n} buckets of coal to {place}.",
    "Fog from the third hour; the horn was sounded {n} times.",
    "Lent {n} candles to {who}, who promised to bring back {m}.",
]


def day(rng, number):
    def pick(items):
        return rng.choice(items)

    height = rng.randint(60, 420)
    lines = [
        "Day {}. Wind {}, {}. The sea {}. High water {} cm at {:02d}:{:02d}, low water {} cm.".format(
            number, pick(WINDS), pick(FORCES), pick(SEAS), height, rng.randint(0, 23),
            rng.randint(0, 59), height - rng.randint(20, 58)),
    ]
    if rng.random() < 0.6:
        who = pick(PEOPLE)
        who = who[0].upper() + who[1:]
        tool = pick(TOOLS)
        lines.append("{}{} {}; {} {}.".format(tool[0].upper(), tool[1:], pick(FAULTS), who, pick(DEEDS)))
    if rng.random() < 0.5:
        text = pick(EVENTS).format(place=pick(PLACES), who=pick(PEOPLE), n=rng.randint(3, 40),
                                   m=rng.randint(2, 12))
        lines.append(text[0].upper() + text[1:])
    if rng.random() < 0.35:
        lines.append("Seen from {}: {}.".format(pick(PLACES), pick(BIRDS)))
    if rng.random() < 0.3:
        lines.append(pick(THOUGHTS))
    return "\n".join(lines)


if __name__ == "__main__":
    generator = random.Random(1866)
    print("\n\n".join(day(generator, n + 1) for n in range(DAYS)))
