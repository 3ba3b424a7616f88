"""The parts of a WebSocket session that know no socket: lanes, chains of answers, frames."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio import limits
from hoptrio.errors import BadRequest, BodyTooLarge, LimitExceeded
from hoptrio.exchange.websocket.chains import Budget, Chains, Link, body_with, items_of
from hoptrio.exchange.websocket.frames import Create, lane_of, read_frame, to_lane
from hoptrio.exchange.websocket.lanes import Lanes

RAW = msgspec.Raw
HELLO = b'{"type":"message","role":"user","content":"hello"}'


class Turn(NamedTuple):
    lane: str
    number: int
    size: int = 1


# -- lanes -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3))), st.data())
def test_a_lane_runs_one_turn_at_a_time_in_order_and_nothing_is_lost(asked, data):
    lanes, running, begun = Lanes(), [], {}
    for number, (lane, ends) in enumerate(asked):
        lanes.put(Turn(lane, number))
        for _ in range(ends):
            if running:
                lanes.over(running.pop(data.draw(st.integers(0, len(running) - 1))), left=False)
            running += take(lanes, begun)
            assert len({turn.lane for turn in running}) == len(running) == lanes.running
    while running or (more := take(lanes, begun)):
        running = running or more
        lanes.over(running.pop(), left=False)
        running += take(lanes, begun)
    for lane in "abcd":
        assert begun.get(lane, []) == [number for number, (name, _) in enumerate(asked) if name == lane]


def take(lanes, begun):
    ready = list(lanes.ready())
    for turn in ready:
        begun.setdefault(turn.lane, []).append(turn.number)
    return ready


def test_a_turn_that_was_left_frees_its_lane_but_still_counts():
    lanes = Lanes()
    for number in range(2):
        lanes.put(Turn("a", number))
    (first,) = lanes.ready()
    assert not list(lanes.ready())
    lanes.left(first)
    (second,) = lanes.ready()
    assert lanes.running == 2
    lanes.over(first, left=True)
    lanes.put(Turn("a", 3))
    assert not list(lanes.ready())
    lanes.over(second, left=False)
    assert lanes.running == 0
    assert [turn.number for turn in lanes.ready()] == [3]


def test_the_bytes_that_wait_are_bounded_but_one_turn_may_always():
    lanes = Lanes()
    lanes.put(Turn("a", 0, limits.WEBSOCKET_QUEUE_BYTES_MAX + 1))
    with pytest.raises(LimitExceeded):
        lanes.put(Turn("b", 1))
    assert len(list(lanes.ready())) == 1
    lanes.put(Turn("b", 2))
    assert len(lanes.drop()) == 1


# -- chains ------------------------------------------------------------------------------------------------------------


def link(parent=None, items=b"1", base="", lane=""):
    return Link(parent, lane, items, base)


def test_a_conversation_is_kept_once_however_many_of_its_answers_are():
    budget = Budget()
    chains = Chains(budget, "acct")
    last = None
    for number in range(10):
        last = link(last, b"%d" % number * 10)
        chains.keep(f"resp_{number}", last)
    assert chains.bytes == budget.bytes == 100
    assert chains.find("resp_9").pieces() == [b"%d" % number * 10 for number in range(10)]
    chains.evict("resp_3")
    assert (chains.find("resp_3"), chains.bytes) == (None, 100)
    chains.close()
    assert (len(chains), chains.bytes, budget.bytes) == (0, 0, 0)


def test_a_parent_that_was_dropped_is_weighed_again_with_its_child():
    chains = Chains(Budget(), "acct")
    first = link(items=b"x" * 10)
    chains.keep("resp_1", first)
    child = link(first, b"y" * 5)
    chains.evict("resp_1")
    assert chains.bytes == 0
    chains.keep("resp_2", child)
    assert chains.bytes == 15


def test_what_was_used_longest_ago_is_dropped_first():
    chains = Chains(Budget(), "acct")
    for number in range(limits.CHAINS_MAX):
        chains.keep(f"resp_{number}", link())
    assert chains.find("resp_0") is not None
    chains.keep("resp_new", link())
    assert chains.find("resp_1") is None
    assert chains.find("resp_0") is not None
    assert len(chains) == limits.CHAINS_MAX


def test_one_connection_and_all_together_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(limits, "CHAINS_BYTES_MAX", 100)
    budget = Budget(bytes_max=150)
    one, other = Chains(budget, "one"), Chains(budget, "other")
    for number in range(4):
        one.keep(f"resp_{number}", link(items=b"x" * 40))
    assert (one.bytes, len(one)) == (80, 2)
    other.keep("resp_a", link(items=b"x" * 60))
    other.keep("resp_b", link(items=b"x" * 60))
    assert (other.find("resp_a"), other.bytes) == (None, 60)
    other.keep("resp_c", link(items=b"x" * 101))
    assert (len(other), budget.bytes) == (0, 80)


def test_an_account_that_fills_the_process_takes_nothing_from_others():
    budget = Budget(bytes_max=100)
    small = Chains(budget, "small")
    small.keep("resp_small", link(items=b"x" * 30))
    hogs = [Chains(budget, "hog") for _ in range(20)]
    for hog in hogs:
        hog.keep("resp_hog", link(items=b"x" * 20))
    assert small.find("resp_small") is not None
    assert [hog.find("resp_hog") is not None for hog in hogs] == [False] * 17 + [True] * 3
    small.keep("resp_next", link(items=b"x" * 10))
    assert (small.bytes, sum(hog.bytes for hog in hogs)) == (40, 60)


def test_of_an_account_that_has_most_what_was_used_longest_ago_goes_on_whichever_connection():
    budget = Budget(bytes_max=100)
    one, other = Chains(budget, "acct"), Chains(budget, "acct")
    one.keep("resp_1", link(items=b"x" * 40))
    other.keep("resp_2", link(items=b"x" * 40))
    assert one.find("resp_1") is not None
    one.keep("resp_3", link(items=b"x" * 40))
    assert other.find("resp_2") is None
    assert None not in (one.find("resp_1"), one.find("resp_3"))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 40), st.booleans()), max_size=60))
def test_accounts_together_stay_within_the_budget_and_their_books_are_right(steps):
    budget = Budget(bytes_max=100)
    connections = [Chains(budget, account) for account in ("a", "a", "b", "c")]
    for connection, name, size, keeps in steps:
        chains = connections[connection]
        if keeps:
            chains.keep(f"{name}", link(chains.find(f"{size % 10}"), b"x" * size))
        else:
            chains.evict(f"{name}")
        assert budget.bytes == sum(each.bytes for each in connections) <= 100
    for chains in connections:
        chains.close()
    assert (budget.bytes, budget._shares) == (0, {})


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12), st.booleans())))
def test_the_weight_is_that_of_the_links_an_id_leads_to(steps):
    budget = Budget()
    chains, links = Chains(budget, "acct"), {}
    for number, (parent, evicted, keeps) in enumerate(steps):
        if keeps:
            links[number] = link(links.get(number - 1 - parent), b"x" * (number + 1))
            chains.keep(f"{number}", links[number])
        chains.evict(f"{evicted}")
        reached = set()
        for each in range(number + 1):
            found = chains.find(f"{each}")
            while found is not None:
                reached.add(found)
                found = found.parent
        assert chains.bytes == budget.bytes == sum(len(each.items) for each in reached)


@pytest.mark.parametrize(
    ("given_input", "items"),
    [(b'"hello"', HELLO), (b" [ 1 , 2 ] ", b"1 , 2"), (b"[]", b""), (b"null", b"")],
)
def test_an_input_is_its_items(given_input, items):
    body, own = body_with({"input": RAW(given_input), "previous_response_id": RAW(b'"r"')}, link(items=b"0"))
    assert own == items
    assert json.loads(body) == {"input": [0, *json.loads(b"[" + items + b"]")]}


def test_a_turn_without_a_chain_goes_as_it_came():
    body, own = body_with({"model": RAW(b'"m"'), "input": RAW(b'"hello"')}, None)
    assert (json.loads(body), own) == ({"model": "m", "input": "hello"}, HELLO)


def test_a_chain_that_began_at_a_provider_goes_on_there():
    chain = link(link(items=b"1", base="resp_theirs"), b"2")
    body, _ = body_with({"input": RAW(b"[3]"), "previous_response_id": RAW(b'"r"')}, chain)
    assert json.loads(body) == {"input": [1, 2, 3], "previous_response_id": "resp_theirs"}


def test_a_chain_and_its_turn_have_the_bound_of_a_body(monkeypatch):
    monkeypatch.setattr(limits, "BODY_BYTES_MAX", 100)
    with pytest.raises(BodyTooLarge):
        body_with({"input": RAW(b"[1]"), "previous_response_id": RAW(b'"r"')}, link(items=b"9" * 100))


def test_reasoning_that_nobody_could_look_up_is_left_out_and_ids_beside_it():
    hollow = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "thought"}]}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
    output = [RAW(json.dumps(each).encode()) for each in (hollow, call)]
    assert json.loads(items_of(output)) == {name: value for name, value in call.items() if name != "id"}


@pytest.mark.parametrize("state", [{"encrypted_content": "secret"}, {"content": [{"type": "reasoning_text"}]}])
def test_reasoning_with_a_state_of_its_own_is_carried_with_all_ids(state):
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], **state}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    output = [RAW(json.dumps(each).encode()) for each in (reasoning, message)]
    assert json.loads(b"[" + items_of(output) + b"]") == [reasoning, message]


# -- frames ------------------------------------------------------------------------------------------------------------


def test_a_create_is_a_body_without_what_belongs_to_the_frame():
    frame = read_frame('{"type":"response.create","model":"m","input":"x","stream_id":"a","generate":false,"n":[1, 2]}')
    assert isinstance(frame, Create)
    assert (frame.lane, frame.prewarm) == ("a", True)
    assert {name: bytes(value) for name, value in frame.body.items()} == {
        "model": b'"m"',
        "input": b'"x"',
        "stream": b"true",
        "n": b"[1, 2]",
    }


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 256])
def test_names_of_lanes(name):
    assert lane_of(json.dumps({"type": "nonsense", "stream_id": name})) == name


@pytest.mark.parametrize("name", ["", "x" * 257, "a b", "ä", "a\n", 5, ["a"]])
def test_no_names_of_lanes(name):
    message = json.dumps({"type": "response.create", "stream_id": name})
    with pytest.raises(BadRequest) as refused:
        read_frame(message)
    assert refused.value.code == "invalid_stream_id"
    assert lane_of(message) == ""


@pytest.mark.parametrize("data", [b"{}", b' {\n"a" : 1}', b'{"a":{"b":[]}}'])
@pytest.mark.parametrize("kind", ["", "response.created"])
@pytest.mark.parametrize("lane", ["", "a"])
def test_a_message_names_its_lane_and_keeps_its_own_bytes(data, kind, lane):
    message = to_lane(data, lane, kind=kind)
    added = {"type": kind} if kind else {}
    added |= {"stream_id": lane} if lane else {}
    assert json.loads(message) == added | json.loads(data)
    assert message.endswith(data.strip()[1:].strip())
