import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from inspect import signature
from typing import Any

import pytest

from agent.records import frozen


@frozen
class Point:
    """A place."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False, repr=False)
    seen: dict[str, int] = field(default_factory=dict, init=False)

    @property
    def sum(self) -> int:
        return self.x + self.y


@frozen
class Named(Point):
    name: str = ""


@frozen
class Nothing:
    pass


@frozen
class Positive:
    value: float

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError("not positive")
        object.__setattr__(self, "value", float(self.value))


@frozen
class Loud:
    word: str

    def __repr__(self) -> str:
        return self.word.upper()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loud) and other.word.upper() == self.word.upper()

    def __hash__(self) -> int:
        return hash(self.word.upper())


@dataclass(frozen=True, slots=True)
class Twin:
    """The fields of `Point` as a standard dataclass."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False, repr=False)
    seen: dict[str, int] = field(default_factory=dict, init=False)


def test_record_is_constructed_like_a_dataclass() -> None:
    assert (Point(1).x, Point(1).y, Point(1).sum) == (1, 2, 3)
    assert Point(y=5, x=4) == Point(4, 5)
    assert Named(1, 2, ["a"], "n").name == "n"
    assert Nothing() == Nothing()


@pytest.mark.parametrize("wrong", [{}, {"x": 1, "z": 2}, {"x": 1, "seen": {}}])
def test_missing_or_unknown_argument_is_a_type_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Point(**wrong)


def test_classes_of_the_same_shape_have_their_own_parameters_and_defaults() -> None:
    @frozen
    class Price:
        euros: int
        cents: int = 99

    assert list(signature(Price).parameters) == ["euros", "cents"]
    assert Price(1).cents == 99
    with pytest.raises(TypeError, match=r"Price.__init__\(\) missing .* 'euros'"):
        Price()  # type: ignore[call-arg]


def test_field_without_default_after_one_with_default_is_rejected() -> None:
    with pytest.raises(TypeError, match="'second'"):

        @frozen
        class Reversed:
            first: int = 1
            second: int  # type: ignore[misc]


def test_default_factory_runs_for_each_instance() -> None:
    assert Point(1).tags is not Point(1).tags
    assert Point(1, tags=[]).seen == {}


def test_repr_comparison_and_hash_match_a_dataclass() -> None:
    assert repr(Point(1)) == repr(Twin(1)).replace("Twin", "Point")
    assert Point(1, tags=["a"]) == Point(1, tags=["b"])
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    assert Point(1) != (1, 2)
    assert hash(Positive(1)) == hash(Positive(1.0))


def hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def test_record_with_a_mutable_field_is_unhashable() -> None:
    assert not hashable(Point(1))
    assert not hashable(Twin(1))


def test_fields_cannot_be_set_deleted_or_added() -> None:
    point: Any = Point(1)
    with pytest.raises(FrozenInstanceError, match="'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="'x'"):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.other = 2
    assert point.x == 1
    assert not hasattr(point, "__dict__")


def test_dataclass_functions_accept_a_record() -> None:
    assert [item.name for item in fields(Named)] == ["x", "y", "tags", "seen", "name"]
    assert asdict(Named(1)) == {"x": 1, "y": 2, "tags": [], "seen": {}, "name": ""}
    assert replace(Named(1, name="a"), y=7) == Named(1, 7, name="a")
    match Point(3, 4):
        case Point(x, y=4):
            assert x == 3
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_record_can_be_copied_and_pickled(way: Any) -> None:
    point = Named(1, tags=["a"], name="n")
    again = way(point)
    assert again == point
    assert again.tags == ["a"]


def test_post_init_may_validate_and_convert_fields() -> None:
    with pytest.raises(ValueError, match="not positive"):
        Positive(0)
    assert isinstance(Positive(1).value, float)


def test_own_methods_are_kept() -> None:
    assert repr(Loud("a")) == "A"
    assert Loud("a") == Loud("A")


def test_unfrozen_subclass_is_rejected() -> None:
    with pytest.raises(TypeError, match="frozen"):

        @dataclass(frozen=True, slots=True)
        class More(Positive):
            unit: str = "m"


@frozen
class Base:
    width: int = field(default=1, kw_only=True)
    names: tuple[str, ...] = field(default_factory=tuple, kw_only=True)


@frozen
class Derived(Base):
    title: str
    height: int = 2


def test_keyword_fields_allow_required_fields_in_a_subclass() -> None:
    assert Derived("a", 3, width=4) == Derived(title="a", height=3, width=4)
    assert Derived("a").width == 1
    assert Derived("a").names == ()


def test_keyword_field_cannot_be_positional() -> None:
    with pytest.raises(TypeError, match="positional"):
        Derived("a", 3, 4)  # type: ignore[misc, call-arg]
