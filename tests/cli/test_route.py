"""``hoptrio route``: the order and the reasons, for a key and a contract, without a running server."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio.cli.main import run
from hoptrio.config import load
from hoptrio.ledger.ledger import open_ledger
from tests.support.certified import certificates
from tests.support.deployment import as_toml

CHANNEL = {"protocols": ["chat"], "base_url": "http://127.0.0.1:9/v1", "api_key": "sk-secret", "models": ["m"]}
CONFIG = {
    "ledger": {"url": "sqlite:///ledger.db"},
    "contracts": {"wide": {"preset": "hopbase"}},
    "models": {
        "m": {"input": "1", "output": "2", "max_input_tokens": 1000, "max_output_tokens": 100},
        "lonely": {"input": "1", "output": "2", "max_input_tokens": 1000, "max_output_tokens": 100},
    },
    "channels": {
        "light": CHANNEL,
        "heavy": CHANNEL | {"weight": 3},
        "first": CHANNEL | {"priority": 5, "models": [{"name": "m", "upstream": "m-2026"}]},
        "acmes": CHANNEL | {"route": "dedicated", "accounts": ["acme"], "priority": 9},
        "other": CHANNEL | {"protocols": ["gemini"], "base_url": "http://127.0.0.1:9"},
    },
}


@pytest.fixture
def config(tmp_path):
    """Its channels are certified, all but the one named other."""
    path = tmp_path / "hoptrio.toml"
    path.write_text(as_toml(CONFIG))

    async def certify():
        async with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
            for each in certificates(load(path).catalogue):
                if each.probed.channel != "other":
                    await ledger.end_probe(each)

    trio.run(certify)
    return path


@pytest.fixture
def key(tmp_path):
    async def make():
        async with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
            await ledger.create_account("acme")
            return (await ledger.create_key("acme", contract="wide", models=["m"]))[0].id

    return trio.run(make)


@pytest.fixture
def route(config, capsys):
    def call(*arguments, status=0):
        assert run(["route", "--config", str(config), "--json", *arguments]) == status
        captured = capsys.readouterr()
        # Warnings about the config stand before an error.
        return json.loads(captured.out if status == 0 else captured.err.splitlines()[-1])

    return call


def names(answer):
    return [each["channel"] for each in answer["asked"]]


def test_the_order_and_a_reason_for_everybody_else(route):
    told = route("m", "--protocol", "chat")
    assert (told["contract"], told["attempts"], told["health"]) == ("hoptrio", 1, "unknown")
    [answer] = told["routes"]
    assert names(answer) == ["first", "heavy", "light"]
    assert answer["asked"][0] == {
        "channel": "first",
        "upstream": "m-2026",
        "converts_to": None,
        "route": "shared",
        "priority": 5,
        "weight": 1,
        "health": "unknown",
    }
    assert answer["not_asked"] == [
        {"channel": "acmes", "why": "is dedicated to others"},
        {"channel": "other", "why": "does not speak the protocol, and the request cannot be converted for it"},
    ]
    assert answer["refused"] is None


@pytest.mark.parametrize("protocol", ["gemini", "messages"])
def test_a_channel_without_a_certificate_is_not_asked_under_a_contract_that_wants_one(route, protocol):
    """Neither in the client's protocol nor in the one it would be converted to."""
    [answer] = route("m", "--protocol", protocol)["routes"]
    assert {each["converts_to"] for each in answer["asked"]} == {"chat"}
    assert {"channel": "other", "why": "is not certified for the model"} in answer["not_asked"]


def test_without_a_certified_channel_nobody_is_asked(config, route):
    only = dict(CONFIG, channels={"other": CONFIG["channels"]["other"]})
    config.write_text(as_toml(only))
    [answer] = route("m", "--protocol", "messages")["routes"]
    assert answer["asked"] == []
    assert answer["refused"] == "No certified channel offers the model 'm'."


def test_what_a_channel_is_converted_to_and_that_its_own_protocol_comes_first(route, key):
    """The priority decides before that."""
    [answer] = route("m", "--protocol", "gemini", "--contract", "hoptrio", "--key", key)["routes"]
    assert [(each["channel"], each["converts_to"]) for each in answer["asked"]] == [
        ("acmes", "chat"),
        ("first", "chat"),
        ("heavy", "chat"),
        ("light", "chat"),
    ]
    [answer] = route("m", "--protocol", "responses", "--key", key)["routes"]
    assert [(each["channel"], each["converts_to"]) for each in answer["asked"]][-3:] == [
        ("heavy", "chat"),
        ("light", "chat"),
        ("other", "gemini"),
    ]


def test_a_keys_own_contract_account_and_models(route, key):
    told = route("m", "--key", key)
    assert (told["key"], told["contract"], told["attempts"]) == (key, "wide", 2)
    assert [answer["protocol"] for answer in told["routes"]] == ["chat", "responses", "messages"]
    assert names(told["routes"][0]) == ["acmes", "first", "heavy", "light"]
    assert {each["converts_to"] for each in told["routes"][1]["asked"]} == {"chat", "gemini"}
    [refused] = route("lonely", "--key", key, "--protocol", "chat")["routes"]
    assert refused["refused"] == "this key may not use the model"


def test_a_key_that_is_revoked_goes_nowhere(route, key, tmp_path):
    async def revoke():
        async with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
            await ledger.revoke_key(key)

    trio.run(revoke)
    [answer] = route("m", "--key", key, "--protocol", "chat")["routes"]
    assert (answer["asked"], answer["refused"]) == ([], "this key is revoked, has expired, or its account is disabled")


def test_a_contract_that_does_not_offer_the_protocol(route):
    [answer] = route("m", "--protocol", "gemini", "--contract", "hopbase")["routes"]
    assert answer["refused"] == "the contract hopbase does not offer gemini"


def test_a_model_without_a_channel(route):
    [answer] = route("lonely", "--protocol", "chat")["routes"]
    assert (answer["asked"], answer["refused"]) == ([], "No channel offers the model 'lonely' here.")
    assert {each["why"] for each in answer["not_asked"]} == {"does not have the model"}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["nobody"], 1),
        (["m", "--key", "key_x"], 1),
        (["m", "--protocol", "smoke"], 2),
        (["m", "--contract", "smoke"], 2),
    ],
)
def test_what_there_is_not(route, arguments, status):
    assert route(*arguments, status=status)["error"]["message"]


def test_for_people(config, capsys):
    assert run(["route", "m", "--config", str(config), "--protocol", "chat"]) == 0
    printed = capsys.readouterr().out
    assert "health is unknown" in printed
    assert "is dedicated to others" in printed
    assert printed.index("first") < printed.index("heavy") < printed.index("light")
    assert "sk-secret" not in printed


def test_for_people_it_says_what_is_converted(config, capsys):
    assert run(["route", "m", "--config", str(config), "--protocol", "responses", "--contract", "wide"]) == 0
    printed = capsys.readouterr().out
    assert (printed.count("converts to chat"), printed.count("converts to gemini")) == (3, 1)
