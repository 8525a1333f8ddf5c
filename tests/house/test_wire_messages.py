"""Every message survives its way through its union; what is no message of ours is refused."""

import types
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from refloat.wire import messages, prep_messages
from refloat.wire.frame import FrameBuffer, encode_frame
from refloat.wire.messages import FromWorker, ToWorker
from refloat.wire.prep_messages import FromPrep, ToPrep

UNIONS: dict[str, Any] = {
    "ToWorker": ToWorker,
    "FromWorker": FromWorker,
    "ToPrep": ToPrep,
    "FromPrep": FromPrep,
}
CASES = [
    pytest.param(union, kind, id=f"{name}-{kind.__name__}")
    for name, union in UNIONS.items()
    for kind in get_args(union)
]

_WHOLE = st.integers(-(2**63), 2**64 - 1)
_PLAIN = st.recursive(
    st.none() | st.booleans() | _WHOLE | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def values(info: inspect.Type) -> st.SearchStrategy[Any]:
    """Anything that a field of this type may hold."""
    match info:
        case inspect.Metadata(type=inner):
            return values(inner)
        case inspect.UnionType(types=kinds):
            return st.one_of(*map(values, kinds))
        case inspect.StructType(cls=cls):
            return instances(cls)
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case inspect.ListType(item_type=item):
            return st.lists(values(item), max_size=4)
        case inspect.VarTupleType(item_type=item):
            return st.lists(values(item), max_size=4).map(tuple)
        case inspect.IntType(ge=low, le=high):
            return _WHOLE if low is None else st.integers(low, 2**64 - 1 if high is None else high)
        case inspect.DictType(value_type=value):
            return st.dictionaries(st.text(max_size=8), values(value), max_size=3)
        case _:
            return _SIMPLE[type(info)]


_SIMPLE: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.NoneType: st.none(),
    inspect.BoolType: st.booleans(),
    inspect.FloatType: st.floats(allow_nan=False),
    inspect.StrType: st.text(max_size=12),
    inspect.BytesType: st.binary(max_size=16),
    inspect.AnyType: _PLAIN,
}


def instances(kind: type[msgspec.Struct]) -> st.SearchStrategy[msgspec.Struct]:
    """Any message of a kind."""
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{f.name: values(inspect.type_info(f.type)) for f in fields})


@pytest.mark.parametrize(("union", "kind"), CASES)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_message_comes_through_its_union_unchanged(union: Any, kind: Any, data: Any) -> None:
    message = data.draw(instances(kind))
    buffer = FrameBuffer()
    buffer.feed(encode_frame(message))
    [payload] = buffer.payloads()
    decoded = msgspec.msgpack.decode(payload, type=union)
    assert type(decoded) is kind
    assert decoded == message


@pytest.mark.parametrize("union", UNIONS.values(), ids=list(UNIONS))
@pytest.mark.parametrize(
    "foreign",
    [
        {"type": "no_such_message"},
        {"type": 7},
        {"type": None},
        {},
        {"generation": 1},
        [],
        ["add", 1],
        "add",
        b"add",
        1,
        None,
    ],
    ids=repr,
)
def test_union_refuses_what_is_no_message(union: Any, foreign: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(foreign), type=union)


@pytest.mark.parametrize(("union", "kind"), CASES)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_field_of_another_type_is_refused(union: Any, kind: Any, data: Any) -> None:
    message = data.draw(instances(kind))
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    for field in msgspec.structs.fields(kind):
        # no field of any message is a list of lists of lists
        broken = msgspec.msgpack.encode({**plain, field.name: [[[[]]]]})
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(broken, type=union)


@pytest.mark.parametrize(("union", "kind"), CASES)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_message_without_a_field_it_needs_is_refused(union: Any, kind: Any, data: Any) -> None:
    message = data.draw(instances(kind))
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    for field in msgspec.structs.fields(kind):
        if field.required:
            left = {key: value for key, value in plain.items() if key != field.name}
            with pytest.raises(msgspec.ValidationError):
                msgspec.msgpack.decode(msgspec.msgpack.encode(left), type=union)


@pytest.mark.parametrize("module", [messages, prep_messages], ids=lambda m: m.__name__)
def test_every_tagged_message_is_in_a_union(module: types.ModuleType) -> None:
    listed = {kind for union in UNIONS.values() for kind in get_args(union)}
    tagged = {
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and kind.__struct_config__.tag is not None
    }
    assert tagged
    assert tagged <= listed


@pytest.mark.parametrize("union", UNIONS.values(), ids=list(UNIONS))
def test_tags_of_a_union_are_snake_case_names_of_their_classes(union: Any) -> None:
    for kind in get_args(union):
        tag = kind.__struct_config__.tag
        assert tag.replace("_", "") == kind.__name__.lower()
