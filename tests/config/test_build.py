from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from hoptrio.config import Config, ConfigError, Listen, build, load
from hoptrio.contract import PRESETS
from hoptrio.metering.price import Prices
from hoptrio.protocols.events import Protocol
from tests.support.certificates import Certificates

if TYPE_CHECKING:
    from pathlib import Path

MODEL = {"input": "1.25", "output": "10.00", "max_input_tokens": 400_000, "max_output_tokens": 128_000}
CHANNEL = {"protocols": ["chat"], "base_url": "https://api.example/v1", "api_key": "sk-secret", "models": ["m"]}
RAW: dict[str, Any] = {"models": {"m": MODEL}, "channels": {"c": CHANNEL}}


def changed(*path: str, to: Any) -> dict[str, Any]:
    """`RAW` with the key at `path` set."""
    raw = deepcopy(RAW)
    table = raw
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = to
    return raw


def without(*path: str) -> dict[str, Any]:
    raw = deepcopy(RAW)
    table = raw
    for name in path[:-1]:
        table = table[name]
    del table[path[-1]]
    return raw


def mistakes(raw: dict[str, Any], environ: dict[str, str] | None = None) -> dict[str, str]:
    """Key -> message of every mistake."""
    with pytest.raises(ConfigError) as caught:
        build(raw, environ=environ or {})
    return {problem.key: problem.message for problem in caught.value.problems}


def warnings(raw: dict[str, Any]) -> list[str]:
    return [problem.key for problem in build(raw, environ={}).warnings]


def model(raw: dict[str, Any]) -> Any:
    return build(raw, environ={}).catalogue.models["m"]


def channel(raw: dict[str, Any]) -> Any:
    return build(raw, environ={}).catalogue.channels["c"]


# -- defaults --------------------------------------------------------------------------------------------------------


def test_an_empty_config_is_the_interface_pages_defaults(tmp_path: Path) -> None:
    config = build({}, environ={}, directory=tmp_path)
    server = config.server
    assert (server.listen, server.workers, server.contract) == (Listen("127.0.0.1", 8080), 1, "hoptrio")
    assert (server.max_streams, server.shutdown_grace_seconds, server.cors_origins) == (10_000, 600, ("*",))
    assert (server.websocket, server.released_output_limit, server.trusted_proxies) == (True, 20, ())
    assert (config.control.listen, config.control.token) == (Listen("127.0.0.1", 8081), "")
    assert (config.ledger.currency, config.ledger.retention_days) == ("USD", 0)
    assert config.ledger.url == f"sqlite:///{tmp_path}/hoptrio.db"
    assert (config.certification.probe_at_start, config.certification.valid_days) == (True, 30)
    assert config.contracts == PRESETS
    assert config.contract is PRESETS["hoptrio"]
    assert config.warnings == ()


def test_prices_are_billionths_per_million_tokens_with_the_defaults_of_the_interface() -> None:
    nanos = 1_250_000_000
    assert model(RAW).prices == Prices(
        input=nanos, output=10_000_000_000, cached_input=nanos, cache_write=nanos, cache_write_1h=2 * nanos
    )
    assert (model(RAW).stall_s, model(RAW).tiers) == (120, {})


def test_a_tier_is_a_price_table_of_its_own_that_has_the_models_tools() -> None:
    raw = changed("models", "m", "tiers", to={"priority": {"input": "2.50", "output": "20"}})
    raw["models"]["m"] |= {"tools": {"web_search": "0.01"}, "cached_input": "0.125"}
    priority = model(raw).tiers["priority"]
    assert (priority.input, priority.cached_input, priority.tools) == (
        2_500_000_000,
        2_500_000_000,
        {"web_search": 10**7},
    )


def test_a_channel_has_the_interface_pages_defaults() -> None:
    made = channel(RAW)
    assert made.base_urls == {Protocol.CHAT: "https://api.example/v1"}
    assert (made.models, made.route, made.priority, made.weight, made.max_streams) == ({"m": "m"}, "shared", 0, 1, 500)
    assert (made.include_usage, made.unknown_fields, made.auth, made.proxy, made.supplier) == (
        "ask",
        "pass",
        None,
        "",
        "",
    )


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://acme.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://api.mistral.ai/v1", "max_tokens"),
        ("https://notapi.openai.com.example/v1", "max_tokens"),
        ("https://fakeapi.openai.com/v1", "max_tokens"),
    ],
)
def test_the_output_limits_spelling_is_openais_at_openai_alone_unless_said(address: str, field: str) -> None:
    raw = changed("channels", "c", "base_url", to=address)
    assert channel(raw).max_tokens_field == field
    raw["channels"]["c"] |= {"base_url": {"chat": address}}
    assert channel(raw).max_tokens_field == field
    for said in ("max_tokens", "max_completion_tokens"):
        raw["channels"]["c"] |= {"max_tokens_field": said}
        assert channel(raw).max_tokens_field == said


def test_a_supplier_has_a_name_that_an_account_may_have() -> None:
    raw = changed("channels", "c", "supplier", to="..")
    raw["channels"]["c"] |= {"revenue_share": "0.5"}
    assert mistakes(raw) == {"channels.c.supplier": "no account can be named .."}


@pytest.mark.parametrize(
    "address",
    [
        "http://my_container:80/v1",
        "http://[::1]:80/v1",
        "http://[fe80::1%eth0]/v1",
        "https://m\u00fcnchen.example",
        "http://a.",
    ],
)
def test_a_channels_host_is_whatever_a_resolver_takes(address: str) -> None:
    raw = changed("channels", "c", "base_url", to=address)
    raw["channels"]["c"] |= {"proxy": address.removesuffix("/v1").replace("https", "http")}
    assert channel(raw).base_urls == {Protocol.CHAT: address}


def test_a_channel_may_have_an_address_per_protocol_and_names_of_the_provider() -> None:
    raw = changed("channels", "c", "base_url", to={"chat": "https://a/v1/", "messages": "https://b"})
    raw["channels"]["c"] |= {"protocols": ["chat", "messages"], "models": [{"name": "m", "upstream": "theirs"}]}
    made = channel(raw)
    assert made.base_urls == {Protocol.CHAT: "https://a/v1", Protocol.MESSAGES: "https://b"}
    assert made.models == {"m": "theirs"}


def test_a_supplier_has_a_share_in_billionths() -> None:
    raw = changed("channels", "c", "supplier", to="acme")
    raw["channels"]["c"]["revenue_share"] = "0.80"
    assert (channel(raw).supplier, channel(raw).revenue_share_nanos) == ("acme", 800_000_000)


def test_a_contract_is_a_preset_with_changes_and_a_server_may_name_it() -> None:
    raw = {"contracts": {"patient": {"preset": "anypath", "keepalive": "idle", "protocols": ["chat"]}}}
    config = build(raw | {"server": {"contract": "patient"}}, environ={})
    assert config.contract.name == "patient"
    assert (config.contract.failure, config.contract.keepalive, config.contract.protocols) == (
        "truncate",
        "idle",
        ("chat",),
    )


def test_embeddings_and_image_models_need_no_output_price_or_limit() -> None:
    raw = changed("models", "m", to={"input": "0.1", "max_input_tokens": 8_192, "image": "0.04"})
    assert (model(raw).max_output_tokens, model(raw).prices.output, model(raw).prices.image) == (None, 0, 40_000_000)


# -- secrets ---------------------------------------------------------------------------------------------------------


def test_secrets_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-file\n")
    raw = changed("channels", "c", "api_key", to="file:key")
    raw["channels"]["c"]["headers"] = {"X-Org": "env:ORG"}
    raw["control"] = {"token": "env:TOKEN"}
    config = build(raw, environ={"ORG": "from-env", "TOKEN": "t0ken"}, directory=tmp_path)
    made = config.catalogue.channels["c"]
    assert (made.api_key, made.headers, config.control.token) == ("from-file", {"X-Org": "from-env"}, "t0ken")


def test_a_missing_secret_is_named_by_its_variable_or_file(tmp_path: Path) -> None:
    found = mistakes(changed("channels", "c", "api_key", to="env:OPENAI_API_KEY"))
    assert found == {"channels.c.api_key": "the environment variable OPENAI_API_KEY is not set"}
    found = mistakes(changed("channels", "c", "api_key", to=f"file:{tmp_path}/none"))
    assert f"{tmp_path}/none cannot be read" in found["channels.c.api_key"]
    found = mistakes(changed("channels", "c", "api_key", to="env:EMPTY"), {"EMPTY": ""})
    assert found == {"channels.c.api_key": "the environment variable EMPTY is empty"}
    found = mistakes(changed("channels", "c", "api_key", to="env:"))
    assert found == {"channels.c.api_key": "env: names no variable; write env:NAME"}


def test_no_secret_is_part_of_a_repr() -> None:
    raw = deepcopy(RAW)
    raw["channels"]["c"] |= {"headers": {"a": "hush-1"}, "query": {"b": "hush-2"}, "proxy": "http://u:hush-3@h:1"}
    raw["control"] = {"token": "hush-4"}
    raw["ledger"] = {"url": "postgresql://u:hush-5@h/db"}
    text = repr(build(raw, environ={}))
    assert "hush" not in text
    assert "sk-secret" not in text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("channels", "c", "base_url"), "https://u:hush@h/v1"),
        (("channels", "c", "base_url"), "ftp://u:hush@h"),
        (("channels", "c", "proxy"), "socks5://u:hush@h"),
        (("channels", "c", "proxy"), "http://u:hush@h:port"),
        (("channels", "c", "headers"), {"Host": "hush"}),
        (("channels", "c", "headers"), {"a": "env:LINES"}),
        (("channels", "c", "headers"), {"a": "hush\nX-Evil: 1"}),
        (("channels", "c", "api_key"), "hush\r\nX-Evil: 1"),
        (("channels", "c", "api_key"), "hush\u2014"),
        (("channels", "c", "api_key"), "env:DASH"),
        (("channels", "c", "proxy"), "http://u:hush@a b"),
        (("ledger", "url"), "mysql://u:hush@h/db"),
        (("ledger", "url"), "postgresql://u:x@hush@127.0.0.1:1/db"),
        (("ledger", "url"), "postgresql://u:hush\u2100@h/db?no=1"),
        (("ledger", "url"), "postgresql://u@h:hush/db"),
        (("control", "token"), ["hush"]),
    ],
)
def test_no_secret_is_part_of_a_mistake(path: tuple[str, ...], value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        build(changed(*path, to=value), environ={"LINES": "hush\r\nX-Evil: 1", "DASH": "hush\u2014"})
    assert "hush" not in str(caught.value)


# -- mistakes --------------------------------------------------------------------------------------------------------

WRONG: list[tuple[tuple[str, ...], Any, str]] = [
    (("serverr",), {}, "there is no such table; did you mean server?"),
    (("server",), 3, "write a table here"),
    (("models",), 3, "write tables, e.g. [models.NAME]"),
    (("models", "m"), "x", "write a table here"),
    (("server", "listn"), "x", "there is no such key; did you mean listen?"),
    (("server", "listen"), "8080", 'is not "HOST:PORT"'),
    (("server", "listen"), "h:70000", 'is not "HOST:PORT"'),
    (("server", "listen"), "::1:80", "an IPv6 address is written"),
    (("server", "listen"), 8080, "write it as a string"),
    (("server", "workers"), 0, "greater than or equal to 1"),
    (("server", "workers"), "2", "valid integer"),
    (("server", "websocket"), "yes", "valid boolean"),
    (("server", "contract"), "patient", "there is no contract 'patient'"),
    (("server", "cors_origins"), "*", "write a list here"),
    (("server", "cors_origins"), ["example.com"], 'neither "*" nor an origin'),
    (("server", "trusted_proxies"), ["10.0.0.0/33"], "not an IP address or network"),
    (("server", "shutdown_grace_seconds"), -1, "greater than or equal to 0"),
    (("server", "tls_key"), "none.pem", "there is no file none.pem"),
    (("ledger", "url"), "sqlite:///", 'a ledger is "sqlite:///PATH"'),
    (("ledger", "url"), "postgresql://u@h/db?sslmod=require", "does not understand this address"),
    (("ledger", "url"), "postgresql://u:%zz@h/db", "does not understand this address"),
    (("ledger", "url"), "postgresql://u:hush@secret@h:1/db", "an @ in the user or password"),
    (("ledger", "url"), "postgresql://u:hush?x@secret@h:1/db", "an @ in the user or password"),
    (("ledger", "url"), "postgresql://u:hush@a/secret@h:1/db", "an @ in the user or password"),
    (("ledger", "url"), "postgresql://u@h:port/db", "a number from 1 to 65535"),
    (("ledger", "url"), "postgresql://u@h1:5432,h2:65536/db", "a number from 1 to 65535"),
    (("ledger", "url"), "postgresql://u@h/db?connect_timeout=x", "does not understand this address"),
    (("ledger", "journal"), "a\0b", "a NUL in it"),
    (("server", "spool_dir"), "a\0b", "a NUL in it"),
    (("server", "tls_certificate"), "a\0b", "a NUL in it"),
    (("server", "tls_key"), "a\0b", "a NUL in it"),
    (("control", "tls_key"), "a\0b", "a NUL in it"),
    (("ledger", "currency"), "usd", "capital letters"),
    (("certification", "valid_days"), 0, "greater than or equal to 1"),
    (("contracts", "hoptrio"), {}, "the name of a preset"),
    (("contracts", "x"), 1, "write a table here"),
    (("contracts", "x"), {"preset": "nope"}, "there are hopbase, anypath, hoptrio"),
    (("contracts", "x"), {"attempt": 1}, "did you mean attempts?"),
    (("contracts", "x"), {"attempts": 9}, "a number from 1 to 5"),
    (("contracts", "x"), {"failure": "boom"}, "one of event, truncate, event_abort"),
    (("contracts", "x"), {"stall": 1}, "one of true, false"),
    (("contracts", "x"), {"protocols": ["smtp"]}, "cannot be ['smtp']; it is a list of chat"),
    (("contracts", "x"), {"deadline_seconds": 601}, "a number from 1 to 600"),
    (("models", "m", "input"), 1.25, "as a decimal string"),
    (("models", "m", "input"), "1e3", "not a decimal amount"),
    (("models", "m", "max_input_tokens"), 0, "greater than or equal to 1"),
    (("models", "m", "stall_seconds"), 9, "greater than or equal to 10"),
    (("models", "m", "stall_seconds"), 591, "less than or equal to 590"),
    (("models", "m", "tools"), {"web_search": "-1"}, "negative"),
    (("models", "m", "tiers"), {"priority": {"input": "1"}}, "is missing"),
    (("models", "m", "tiers"), {"priority": {"input": "1", "output": "1", "stall_seconds": 20}}, "no such key"),
    (("channels", "c", "protocols"), ["chat", "smtp"], "'chat', 'responses'"),
    (("channels", "c", "protocols"), [], "is empty"),
    (("channels", "c", "base_url"), {}, "is empty"),
    (("channels", "c", "models"), [], "is empty"),
    (("channels", "c", "protocols"), ["chat", "chat"], "twice"),
    (("channels", "c", "protocols"), "chat", "write a list here"),
    (("channels", "c", "base_url"), {"messages": "https://a"}, "is missing: the channel speaks chat"),
    (("channels", "c", "base_url"), {"chat": "https://a", "smtp": "https://b"}, "'smtp' is not a protocol"),
    (("channels", "c", "base_url"), "https://h:port", "valid host and port"),
    (("channels", "c", "base_url"), "http://a b/v1", "valid host and port"),
    (("channels", "c", "base_url"), "http://a..b/v1", "valid host and port"),
    (("channels", "c", "base_url"), "http://h/v\t1", "valid host and port"),
    (("channels", "c", "base_url"), f"http://{'a' * 64}.com", "valid host and port"),
    (("channels", "c", "base_url"), "https://h/?key=1", "parameters into query"),
    (("channels", "c", "base_url"), 7, "one address as a string, or a table"),
    (("channels", "c", "models"), ["m", "unpriced"], "the model 'unpriced' has no price"),
    (("channels", "c", "models"), ["m", "m"], "twice"),
    (("channels", "c", "models"), [{"name": "m"}], "is missing"),
    (("channels", "c", "route"), "private", "'shared' or 'dedicated'"),
    (("channels", "c", "accounts"), ["a"], 'only a channel with route = "dedicated"'),
    (("channels", "c", "accounts"), [], "is empty: name who may use the channel"),
    (("channels", "c", "keys"), [], "is empty: name who may use the channel"),
    (("channels", "c", "weight"), 0, "greater than or equal to 1"),
    (("channels", "c", "auth"), "basic", "'bearer', 'x-api-key'"),
    (("channels", "c", "headers"), {"a b": "x"}, "not a header name"),
    (("channels", "c", "headers"), {"Content-Length": "1"}, "the gateway's own business"),
    (("channels", "c", "proxy"), "http://a b", "valid host and port"),
    (("channels", "c", "ca_file"), "a\0b", "a NUL in it"),
    (("channels", "c", "proxy"), "https://h", 'a proxy is "http://HOST:PORT"'),
    (("channels", "c", "ca_file"), "none.pem", "there is no file none.pem"),
    (("channels", "c", "supplier"), "acme", "it is never guessed"),
    (("channels", ".."), CHANNEL, "no channel can be named .."),
    (("channels", "c", "revenue_share"), "0.8", "revenue_share is whose?"),
    (("channels", "c", "revenue_share"), "1.01", "between 0 and 1"),
]


@pytest.mark.parametrize(
    ("path", "value", "message"), WRONG, ids=lambda value: ".".join(value) if isinstance(value, tuple) else None
)
def test_a_wrong_value_is_told(path: tuple[str, ...], value: Any, message: str) -> None:
    found = mistakes(changed(*path, to=value))
    assert len(found) == 1 or path[-1].startswith("tls_")
    assert any(message in each for each in found.values())


@pytest.mark.parametrize("section", ["server", "control"])
@pytest.mark.parametrize(
    ("spoilt", "key", "message"),
    [
        ({"chain.pem": ""}, "tls_certificate", "holds no certificate in PEM"),
        ({"chain.pem": "no certificate"}, "tls_certificate", "holds no certificate in PEM"),
        ({"key.pem": ""}, "tls_key", "holds no private key in PEM"),
        ({"key.pem": None}, "tls_key", "there is no file key.pem"),
        ({"key.pem": "other"}, "tls_key", "this is not the key of tls_certificate"),
        ({"key.pem": "encrypted"}, "tls_key", "the key is encrypted"),
    ],
)
def test_files_that_cannot_serve_tls_are_told_with_the_line_of_their_key(
    tmp_path: Path, section: str, spoilt: dict[str, str | None], key: str, message: str
) -> None:
    certificates = Certificates(tmp_path)
    [(name, content)] = spoilt.items()
    if content is None:
        (tmp_path / name).unlink()
    elif content == "other":
        kept = (tmp_path / "chain.pem").read_bytes()
        certificates.renew()
        (tmp_path / "chain.pem").write_bytes(kept)
    elif content == "encrypted":
        pem = (tmp_path / name).read_bytes()
        cipher = serialization.BestAvailableEncryption(b"a password")
        private = serialization.load_pem_private_key(pem, None)
        encrypted = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, cipher)
        (tmp_path / name).write_bytes(encrypted)
    else:
        (tmp_path / name).write_text(content)
    path = tmp_path / "hoptrio.toml"
    path.write_text(f'[{section}]\ntls_certificate = "chain.pem"\ntls_key = "key.pem"\n')
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    [problem] = caught.value.problems
    assert (problem.key, problem.line) == (f"{section}.{key}", 2 if key == "tls_certificate" else 3)
    assert problem.message.startswith(message)


@pytest.mark.parametrize("section", ["server", "control"])
@pytest.mark.parametrize("given", ["tls_certificate", "tls_key"])
def test_a_certificate_has_a_key_and_a_key_a_certificate(tmp_path: Path, section: str, given: str) -> None:
    table = Certificates(tmp_path).table
    [other] = table.keys() - {given}
    assert mistakes({section: {given: table[given]}}) == {
        f"{section}.{other}": f"is missing: {given} is of no use without it"
    }


@pytest.mark.parametrize("field", ["input", "output", "max_input_tokens", "max_output_tokens"])
def test_a_missing_price_or_limit_is_told(field: str) -> None:
    assert mistakes(without("models", "m", field)) == {f"models.m.{field}": "is missing"}


@pytest.mark.parametrize("field", ["protocols", "base_url", "models"])
def test_a_channel_without_what_it_needs_is_told(field: str) -> None:
    assert mistakes(without("channels", "c", field)) == {f"channels.c.{field}": "is missing"}


def test_case_67_a_negative_price_is_refused() -> None:
    assert "would pay the caller" in mistakes(changed("models", "m", "output", to="-1"))["models.m.output"]


def test_two_planes_cannot_share_an_address() -> None:
    for host in ("127.0.0.1", "0.0.0.0"):
        raw = {"server": {"listen": f"{host}:9000"}, "control": {"listen": "127.0.0.1:9000", "token": "t"}}
        assert mistakes(raw) == {"control.listen": "127.0.0.1:9000 is taken by [server]"}
    raw = {"server": {"listen": "127.0.0.1:0"}, "control": {"listen": "127.0.0.1:0", "token": "t"}}
    assert build(raw, environ={}).control.listen.port == 0


def test_dedicated_routes_may_be_restricted() -> None:
    raw = changed("channels", "c", "route", to="dedicated")
    raw["channels"]["c"] |= {"accounts": ["a"], "keys": ["k"]}
    assert (channel(raw).accounts, channel(raw).keys) == (frozenset({"a"}), frozenset({"k"}))


def test_one_mistake_never_hides_another() -> None:
    raw = changed("models", "m", to={"input": 1, "max_output_tokens": 0})
    raw["models"]["n"] = {"input": "1", "tiers": {"a": {"input": 1}, "b": {"bogus": 1}}, "output": "1"}
    raw["channels"]["c"] |= {"models": ["m", "unpriced"], "weight": 0, "accounts": ["a"]}
    raw["channels"]["d"] = {"protocols": ["smtp"], "base_url": "x", "models": ["unpriced"]}
    assert list(mistakes(raw)) == [
        *("models.m.input", "models.m.max_output_tokens"),
        *("models.n.tiers.a.input", "models.n.tiers.b.bogus"),
        *("channels.c.weight", "channels.d.protocols[0]", "channels.d.base_url"),
        *("models.m.max_input_tokens", "models.m.output"),
        *("models.n.max_input_tokens", "models.n.max_output_tokens", "models.n.tiers.a.output"),
        *("models.n.tiers.b.input", "models.n.tiers.b.output"),
        *("channels.c.models[1]", "channels.c.accounts", "channels.d.models[0]"),
    ]


@pytest.mark.parametrize(
    "url",
    ["*", "api.example.com", "https://", "https://a/b", "https://a?b", "https://u:p@a", "https://a;b", "https://a b"],
)
def test_where_browsers_reach_the_gateway_is_an_origin(url: str) -> None:
    assert list(mistakes({"control": {"token": "t", "gateway_url": url}})) == ["control.gateway_url"]
    for right in ("", "https://api.example.com", "http://[::1]:8080/"):
        made = build({"control": {"token": "t", "gateway_url": right}}, environ={})
        assert made.control.gateway_url == right.rstrip("/")


# -- warnings --------------------------------------------------------------------------------------------------------


def test_case_12_a_keepalive_that_proxies_do_not_wait_for_is_warned_of() -> None:
    assert warnings({"contracts": {"x": {"keepalive_seconds": 30}}}) == ["contracts.x.keepalive_seconds"]
    assert warnings({"contracts": {"x": {"keepalive_seconds": 29}}}) == []
    assert warnings({"contracts": {"x": {"keepalive": "off", "keepalive_seconds": 30}}}) == []
    assert {preset.keepalive_seconds for preset in PRESETS.values()} == {10}


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"server": {"workers": 2}}, "server.workers"),
        ({"control": {}}, "control.token"),
        ({"models": {"m": MODEL}}, "models.m"),
        (without("channels", "c", "api_key"), "channels.c.api_key"),
        (changed("channels", "c", "protocols", to=["chat", "messages"]), "channels.c.base_url"),
    ],
)
def test_what_works_and_is_advised_against_is_warned_of(raw: dict[str, Any], key: str) -> None:
    assert warnings(raw) == [key]


# -- files -----------------------------------------------------------------------------------------------------------


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "hoptrio.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def places(path: Path, environ: dict[str, str] | None = None) -> list[tuple[int, str]]:
    with pytest.raises(ConfigError) as caught:
        load(path, environ or {})
    assert all(problem.file == str(path) for problem in caught.value.problems)
    return [(problem.line, problem.key) for problem in caught.value.problems]


def test_all_mistakes_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """# a config with a mistake in each table
[server]
listen = "nowhere"
bogus = 1

[contracts.patient]
keepalive_seconds = 0

[models."gpt-5.6-sol"]
input = "-1"
output = "10.00"
max_input_tokens = 400000
tools = {
} # the next line is in a table of its own
[models."gpt-5.6-sol".tiers.priority]
input = "1.25"
[channels.openai]
protocols = ["chat", "responses"]
base_url = "https://api.openai.com/v1"
api_key = "env:OPENAI_API_KEY"
models = [
  "gpt-5.6-sol",
  "unpriced",
]
headers = { "X-A" = "1", Host = "x" }
""".replace("tools = {\n}", "tools = { a = 1 }"),
    )
    assert places(path) == [
        (3, "server.listen"),
        (4, "server.bogus"),
        (7, "contracts.patient.keepalive_seconds"),
        (9, 'models."gpt-5.6-sol".max_output_tokens'),
        (10, 'models."gpt-5.6-sol".input'),
        (13, 'models."gpt-5.6-sol".tools.a'),
        (14, 'models."gpt-5.6-sol".tiers.priority.output'),
        (19, "channels.openai.api_key"),
        (22, "channels.openai.models[1]"),
        (24, "channels.openai.headers.Host"),
    ]


def test_what_a_table_lacks_that_only_has_tables_is_told_with_the_line_of_the_first(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
[models.a.tiers.priority]
input = "1"
output = "2"
[models.b.tiers.priority]
input = "1"
[models.b.tiers.flex]
input = "1"
""",
    )
    assert places(path) == [
        *[(2, f"models.a.{key}") for key in ("input", "max_input_tokens")],
        *[(5, f"models.b.{key}") for key in ("input", "max_input_tokens")],
    ]


def test_the_text_of_a_mistake_is_file_line_key_and_message(tmp_path: Path) -> None:
    path = write(tmp_path, "[server]\r\nworkers = 0\r\n")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert str(caught.value) == f"{path}:2: server.workers: Input should be greater than or equal to 1"


@pytest.mark.parametrize(
    ("text", "line"),
    [("[server]\na b", 2), ("[server]\n[server]", 2), ('a = """\n', 2), (b"# \xff", 1), (b"a = 1\nb = '\xff'", 2)],
)
def test_what_is_not_toml_is_told_with_its_line(tmp_path: Path, text: str | bytes, line: int) -> None:
    assert places(write(tmp_path, text)) == [(line, "")]


def test_a_file_that_is_not_there_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`hoptrio init` writes one"):
        load(tmp_path / "none.toml", {})


def test_paths_start_from_the_directory_of_the_file(tmp_path: Path) -> None:
    # Names between the certificates may be in any writing.
    (tmp_path / "ca.pem").write_bytes("Autorité\n".encode() + trustme.CA().cert_pem.bytes())
    path = write(
        tmp_path,
        """
        [ledger]
        url = "sqlite:///money.db"
        [channels.c]
        protocols = ["messages"]
        base_url = "http://127.0.0.1:9"
        api_key = "k"
        models = ["m"]
        ca_file = "ca.pem"
        [models.m]
        input = "0"
        output = "0"
        max_input_tokens = 1
        max_output_tokens = 1
        """,
    )
    config: Config = load(path, {})
    assert config.path == path
    assert config.ledger.url == f"sqlite:///{tmp_path}/money.db"
    assert config.catalogue.channels["c"].authorities.startswith("Autorit\n-----BEGIN CERTIFICATE-----")


@pytest.mark.parametrize("content", ["", "x", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
def test_authorities_that_are_none_are_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "ca.pem").write_text(content)
    found = mistakes(changed("channels", "c", "ca_file", to=str(tmp_path / "ca.pem")))
    assert list(found.values()) == ["holds no certificate in PEM"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@h/db",
        "postgres://u:hush@h:6432/db?sslmode=verify-full",
        "postgresql:///db?host=/run/postgresql",
        "postgresql://u@h1:5432,h2/db?target_session_attrs=read-write",
        "postgresql://u:%40hush%3A@[::1]:5432/db?application_name=a@b",
        "postgresql://u@/db?host=@abstract",
    ],
)
def test_a_ledger_is_wherever_libpq_finds_it(url):
    built = build({"ledger": {"url": url}})
    assert built.ledger.url == url
    assert built.warnings == ()


def test_a_ledger_on_postgresql_has_its_journal_beside_the_config(tmp_path: Path) -> None:
    def journal(**ledger: str) -> str:
        return build({**RAW, "ledger": ledger}, environ={}, directory=tmp_path).ledger.journal

    assert journal() == ""
    assert journal(url="postgresql://user@host/db") == str(tmp_path / "hoptrio-journal")
    assert journal(url="postgresql://user@host/db", journal="/var/lib/j") == "/var/lib/j"
    assert journal(journal="j") == str(tmp_path / "j")
    assert not list(tmp_path.iterdir()), "it is made by the gateway"


def test_the_spool_is_beside_the_config_and_one_that_cannot_be_made_is_no_reason_not_to_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert build(RAW, environ={}, directory=tmp_path).server.spool_dir == str(tmp_path / "hoptrio-spool")
    config = build({**RAW, "server": {"spool_dir": "file/below"}}, environ={}, directory=tmp_path)
    assert [problem.key for problem in config.warnings if "spool" in problem.key] == ["server.spool_dir"]
    off = build({**RAW, "server": {"spool_dir": "file/below", "reattach_minutes": 0}}, environ={}, directory=tmp_path)
    assert not [problem for problem in off.warnings if "spool" in problem.key]


def test_the_spool_has_room_for_a_stream_of_each_worker(tmp_path: Path) -> None:
    server = {"workers": 4, "reattach_bytes_max": 1000, "spool_bytes_max": 4000}
    build({**RAW, "server": server}, environ={}, directory=tmp_path)
    with pytest.raises(ConfigError, match="spool_bytes_max"):
        build({**RAW, "server": {**server, "spool_bytes_max": 3999}}, environ={}, directory=tmp_path)


def test_streams_are_kept_unless_one_of_three_is_zero(tmp_path: Path) -> None:
    def keeps(**server: int) -> bool:
        return build({**RAW, "server": server}, environ={}, directory=tmp_path).server.keeps_streams

    assert keeps()
    for name in ("reattach_minutes", "reattach_bytes_max", "spool_bytes_max"):
        assert not keeps(**{name: 0})


def test_a_journal_that_cannot_be_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for journal in ("file", "file/below"):
        with pytest.raises(ConfigError, match="file is not a directory"):
            build({**RAW, "ledger": {"journal": journal}}, environ={}, directory=tmp_path)
