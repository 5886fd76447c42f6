"""Which of the things that are kept may go, and how much that frees."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.cache import Kept, beyond, freed, own_size, unused, without_needed


def thing(name: str, parts: Mapping[str, int], used: float = 0.0, **options: object) -> Kept:
    return Kept(kind="things", name=name, parts=parts, used=used, remove=lambda: True, **options)  # type: ignore[arg-type]


def names(things: list[Kept]) -> str:
    return " ".join(thing.name for thing in things)


def test_unused_is_what_was_not_used_since_and_litter_and_never_what_is_held() -> None:
    things = [
        thing("old", {}, 1),
        thing("new", {}, 9),
        thing("litter", {}, 9, litter=True),
        thing("held", {}, 1, held="a container uses it"),
        thing("held-litter", {}, 1, litter=True, held="a container uses it"),
    ]
    assert names(unused(things, since=5)) == "old litter"


def test_the_longest_unused_goes_until_the_rest_fits() -> None:
    things = [thing(str(used), {str(used): 10}, used, built=True) for used in (3, 1, 2, 4)]
    assert names(beyond(things, 40, recent=100)) == ""
    assert names(beyond(things, 39, recent=100)) == "1"
    assert names(beyond(things, 20, recent=100)) == "1 2"
    assert names(beyond(things, 0, recent=100)) == "1 2 3 4"


def test_no_limit_removes_what_is_held_or_was_used_just_now() -> None:
    things = [thing("held", {"a": 10}, 1, built=True, held="x"), thing("new", {"b": 10}, 9, built=True)]
    assert names(beyond(things, 0, recent=5)) == ""


def test_what_built_things_share_with_their_base_is_not_counted() -> None:
    base = thing("base", {"base": 1000})
    tasks = [thing(name, {"base": 1000, name: 10}, built=True) for name in "abc"]
    assert names(beyond([base, *tasks], 30, recent=100)) == ""
    assert names(beyond([base, *tasks], 20, recent=100)) == "a"
    assert own_size(tasks, [base, *tasks]) == 30
    assert own_size([base], [base, *tasks]) == 1000


def test_a_part_of_several_tasks_is_free_only_when_the_last_of_them_is_gone() -> None:
    things = [thing(name, {"shared": 100, name: 1}, used, built=True) for used, name in enumerate("abc")]
    assert names(beyond(things, 102, recent=100)) == "a"
    assert names(beyond(things, 100, recent=100)) == "a b c"
    assert freed(things[:2], things[2:]) == 2
    assert freed(things, []) == 103


def test_a_base_stays_while_one_of_its_tasks_stays_and_else_goes_after_them() -> None:
    base = thing("base", {"base": 1000})
    one, other = (thing(name, {"base": 1000, name: 10}, built=True) for name in ("one", "other"))
    assert names(without_needed([base, one], [base, one, other])) == "one"
    assert names(without_needed([base, one, other], [base, one, other])) == "one other base"
    container = thing("container", {}, litter=True)
    assert names(without_needed([base, one, other, container], [base, one, other, container])) == (
        "container one other base"
    )


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abcdef"), st.just(7), max_size=4),
            st.floats(0, 10),
            st.booleans(),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(0, 60),
)
def test_whatever_is_kept_the_limit_holds_for_all_that_may_go(
    made: list[tuple[dict[str, int], float, bool, bool]], limit: int
) -> None:
    things = [
        thing(str(number), parts, used, built=built, held="x" if held else "")
        for number, (parts, used, built, held) in enumerate(made)
    ]
    gone = beyond(things, limit, recent=5)
    assert all(thing.built and not thing.held and thing.used <= 5 for thing in gone)
    stays = [thing for thing in things if thing not in gone and thing.built]
    may_go = [thing for thing in stays if not thing.held and thing.used <= 5]
    assert own_size(stays, things) <= limit or not may_go
