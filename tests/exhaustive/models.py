"""The models that are explored: small ones with every edit, large ones for `make proof`.

`states` is the number of states when the model was written: a change of the library that makes the exploration smaller
unintentionally fails. After an intended change, store the printed number.
"""

from __future__ import annotations

from tests.exhaustive.model import (
    CLOSE,
    CUT,
    EXPIRE,
    FATES,
    FAULTS_OF_THE_ISSUE,
    MOVE,
    STRAY,
    UNSENT,
    WITHDRAW,
    Model,
)

ALL_FATES = tuple(FATES)
ALL_FAULTS = (CUT, STRAY, UNSENT, MOVE, EXPIRE, WITHDRAW, CLOSE, *ALL_FATES)
ONE_LINE = ((0, 2), (0, 1), (0, 2))
TWO_LINES = ((0, 2), (0, 1), (1, 2))
PAIR = ((0, 2), (0, 1))
ENDS_OF_EPOCHS = (CUT, STRAY, EXPIRE, "declined", "unordered")

MODELS = (
    Model("one line", ONE_LINE, ALL_FAULTS, most_faults=1, states=4_816),
    Model("fates", PAIR, (*ALL_FATES, CUT, STRAY, EXPIRE), most_faults=2, states=4_611),
    Model("endings", ((0, 2), (1, 1)), (CUT, STRAY, UNSENT, MOVE, EXPIRE, WITHDRAW, CLOSE), states=4_959),
    # What the leaders do not know yet, and what has no number after it.
    Model(
        "first batches",
        ((0, 2), (0, 1), (0, 1)),
        (*FAULTS_OF_THE_ISSUE, "declined"),
        1,
        introduced=False,
        states=999,
    ),
    Model(
        "first two batches",
        PAIR,
        (*FAULTS_OF_THE_ISSUE, "declined", "refused"),
        introduced=False,
        states=2_542,
    ),
    Model("last epoch", PAIR, ENDS_OF_EPOCHS, epoch=32766, states=1_770),
    Model("last epoch of two", ((0, 1), (0, 1), (1, 1)), ENDS_OF_EPOCHS, 1, epoch=32766, states=593),
    Model("wrap", ONE_LINE, most_faults=1, sequence=(1 << 31) - 3, states=3_141),
    # Two brokers, calls that come later, memory for two batches of three, few attempts, many batches.
    Model("two brokers", TWO_LINES, most_faults=1, leaders=(1, 2), states=2_938),
    Model("late calls", PAIR, (CUT, MOVE, EXPIRE, "declined", "unordered"), 1, upfront=0, states=1_776),
    Model("little memory", TWO_LINES, (CUT, MOVE, EXPIRE, CLOSE, "declined"), 1, memory=200, states=1_559),
    Model("few attempts", PAIR, (CUT, UNSENT, "declined", "unconfirmed"), retries=1, states=505),
    Model("many batches", ((0, 1),) * 7, (), 0, in_flight=7, states=320),
)
LARGE_MODELS = (
    Model("three batches", TWO_LINES, states=29_843),
    Model("three batches of one line", ONE_LINE, states=44_149),
    Model("three batches on two brokers", TWO_LINES, leaders=(1, 2), states=59_431),
    Model(
        "three first batches",
        ((0, 2), (0, 1), (0, 1)),
        (*FAULTS_OF_THE_ISSUE, "declined"),
        introduced=False,
        states=11_296,
    ),
    Model("last epoch of three", ((0, 1), (0, 1), (1, 1)), ENDS_OF_EPOCHS, epoch=32766, states=6_715),
    Model(
        "three faults", PAIR, (*FAULTS_OF_THE_ISSUE, "declined", "unconfirmed", "too-large"), 3, states=81_264
    ),
    Model("all faults", ONE_LINE, ALL_FAULTS, states=100_300),
)
# Just large enough for the planted defects.
SMALL_MODELS = (
    Model(
        "one fault", PAIR, (CUT, STRAY, MOVE, EXPIRE, "declined", "refused", "unordered", "unconfirmed"), 1
    ),
    Model("cut and refused", PAIR, (CUT, EXPIRE, "refused", "unordered", "too-large")),
    Model("cut and expired", ((0, 1),), (CUT, STRAY, EXPIRE, UNSENT, CLOSE)),
    Model("moved", PAIR, (MOVE,), 1),
    Model("moved to its neighbour", ((0, 1), (1, 1)), (MOVE,), 1, leaders=(1, 2)),
    Model("two of three declined", ONE_LINE, ("declined",), 1),
    Model("one of three refused", ONE_LINE, ("refused",), 1),
    Model("ends of epochs", ONE_LINE, ("unordered", "declined"), epoch=32766),
    Model("last epochs", ((0, 1),), ("unordered",), 2, epoch=32766),
    Model("one more epoch", ((0, 1), (1, 1), (1, 1)), ("unordered",), 1, leaders=(1, 2)),
)
BY_NAME = {model.name: model for model in (*MODELS, *LARGE_MODELS, *SMALL_MODELS)}
