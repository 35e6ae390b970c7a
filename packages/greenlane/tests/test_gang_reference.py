"""The native choice of a gang's core does what its plain Python twin does, and keeps its promises."""

from hypothesis import given
from hypothesis import strategies as st

from greenlane import _native
from tests.examples import examples
from tests.reference import gang as reference

#: Also the bounds themselves.
FRACTIONS = st.sampled_from([0.0, 0.05, 0.15, 0.151, 0.3, 0.35, 0.499, 0.5, 0.649, 0.65, 0.75, 1.0])
CORES = st.lists(st.tuples(FRACTIONS, FRACTIONS, st.booleans()), min_size=1, max_size=4).map(
    lambda cores: [(number, *core) for number, core in enumerate(cores)]
)
LOOKS = st.lists(st.tuples(CORES, st.sampled_from(["look", "look", "glance", "fails"])), max_size=80)


@given(always=st.booleans(), looks=LOOKS)
@examples(300)
def test_every_look_gives_what_the_twin_gives(always, looks):
    native, plain = _native.GangChoice(always), reference.Choice(always)
    for cores, what in looks:
        if what == "glance":
            assert native.glance(cores) == plain.glance(cores)
            continue
        assert native.look(cores) == plain.look(cores)
        if what == "fails":
            native.disband()
            plain.disband()


@given(looks=LOOKS)
@examples(200)
def test_no_gang_keeps_to_a_core_of_which_others_use_half(looks):
    choice = _native.GangChoice(False)
    for cores, _ in looks:
        core = choice.look(cores)
        assert core is None or {number: foreign for number, foreign, _, _ in cores}.get(core, 0.0) < 0.5


@given(period=st.integers(1, 8))
@examples(8)
def test_a_neighbour_that_comes_and_goes_has_the_core_to_itself_most_of_the_time(period):
    choice = _native.GangChoice(False)
    together = 0
    for second in range(600):
        spins = second // period % 2
        kept = choice.look([(0, float(spins), 0.4, True)])
        together += spins and kept is not None
    assert together == 0
