"""The shape of each table of the config file: its keys, their types, bounds and defaults. Frozen.

What a single key must be is said here; what keys must be to each other is `build`'s business. No key is required here,
so that one mistake never hides another: `build` reports what is missing. Where a default is a bound of the gateway it
comes from `limits`.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from hoptrio import limits
from hoptrio.config.secret import HeaderSecret, Secret
from hoptrio.money import NANOS, parse_nanos
from hoptrio.protocols.events import Protocol

__all__ = [
    "ANY",
    "JOURNAL",
    "SPOOL",
    "Certification",
    "ChannelTable",
    "Control",
    "LedgerSettings",
    "Listen",
    "ModelTable",
    "Offer",
    "PriceTable",
    "Server",
]

#: Where the journals of a ledger on PostgreSQL are unless the config says otherwise.
JOURNAL = "hoptrio-journal"
#: Where streams are kept for clients that come back.
SPOOL = "hoptrio-spool"

#: The key of a `ChannelTable.base_url` that stands for every protocol.
ANY = ""

#: A name as resolvers take it, the underscore of container networks included, or an IPv6 address with its zone.
_HOST = re.compile(r"[0-9A-Za-z._-]+|[0-9A-Fa-f:.]+(%[0-9A-Za-z._-]+)?", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
#: Headers that frame a message or belong to one connection (RFC 9110 7.6.1, RFC 9112): the driver's alone.
_FRAMING_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "expect", "host", "keep-alive", "te", "trailer"}
    | {"proxy-authenticate", "proxy-authorization", "proxy-connection", "transfer-encoding", "upgrade"}
)


class Listen(NamedTuple):
    """An address to listen on; port 0 lets the system choose one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Listen:
        """Read ``HOST:PORT`` or ``[IPV6]:PORT``. Raises ValueError for anything else."""
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 2**16):
            raise ValueError(f'{text!r} is not "HOST:PORT"')
        if (":" in host) != bracketed:
            raise ValueError(f'{text!r}: an IPv6 address is written "[ADDRESS]:PORT"')
        return cls(host.strip("[]"), int(port))


def _listen(value: Any) -> Any:
    if isinstance(value, str):
        return Listen.parse(value)
    if isinstance(value, Listen):
        return value
    raise ValueError('write it as a string, "HOST:PORT"')


def _amount(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError('write the amount as a decimal string, e.g. "1.25"')
    nanos = parse_nanos(value)
    if nanos < 0:
        raise ValueError(f"{value!r} is negative: it would pay the caller")
    return nanos


def _share(nanos: int) -> int:
    if nanos > NANOS:
        raise ValueError("a share is between 0 and 1")
    return nanos


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _unique(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) != len(values):
        raise ValueError("a name stands here twice")
    return values


def _base_url(text: str) -> str:
    url = _url(text)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError("this is not an http:// or https:// address")
    if url.username or url.password or url.query or url.fragment:
        raise ValueError("credentials belong into api_key, parameters into query; neither may stand in the address")
    return text.rstrip("/")


def _base_urls(value: Any) -> Any:
    """One address for every protocol is kept under `ANY`."""
    if isinstance(value, str):
        return {ANY: value}
    if isinstance(value, dict) and ANY not in value:
        return value
    raise ValueError("write one address as a string, or a table with an address per protocol")


def _protocol_or_any(name: str) -> str:
    if name != ANY and name not in list(Protocol):
        raise ValueError(f"{name!r} is not a protocol; there are {', '.join(Protocol)}")
    return name


def _proxy(text: str) -> str:
    url = _url(text) if text else None
    if url and (url.scheme != "http" or not url.hostname or url.path not in ("", "/")):
        raise ValueError('a proxy is "http://HOST:PORT"')
    return text


def _ledger_url(text: str) -> str:
    if text.startswith(("postgresql://", "postgres://")):
        return _postgres_url(text)
    if not text.startswith("sqlite:///") or text == "sqlite:///":
        raise ValueError('a ledger is "sqlite:///PATH" or "postgresql://USER@HOST/DATABASE"')
    return text


def _postgres_url(text: str) -> str:
    """Whatever the ledger can make a connection of."""
    from hoptrio.ledger.postgres_session import parameters

    parameters(text)
    return text


def _url(text: str) -> Any:
    """Split an address; unlike urlsplit, a host or port that is none is an error at once. Its text may hold a
    password."""
    try:
        url = urlsplit(text)
        _ = url.port
        # The resolver encodes a name in the same way, and a label that is empty or too long is an error here, too.
        host = (url.hostname or "").encode("idna").decode("ascii")
        if not text.isprintable() or (host and not _HOST.fullmatch(host)):
            raise ValueError
    except ValueError:
        raise ValueError("this is not an address with a valid host and port") from None
    return url


def _path(text: str) -> str:
    if "\0" in text:
        raise ValueError("this is not the path of a file: it has a NUL in it")
    return text


def _header_name(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise ValueError("this is not a header name")
    if text.lower() in _FRAMING_HEADERS:
        raise ValueError("this header is the gateway's own business")
    return text


def _origin(text: str) -> str:
    url = _url(text)
    if text != "*" and (url.scheme not in ("http", "https") or not url.hostname or url.path or url.query):
        raise ValueError(f'{text!r} is neither "*" nor an origin such as "https://example.com"')
    return text


def _gateway_url(text: str) -> str:
    origin = text.rstrip("/")
    # It stands in the header of a policy, where these would end it.
    if origin and (origin == "*" or re.search(r"[^!-~]|[;,'\"@]", origin) or _origin(origin) != origin):
        raise ValueError(f'{text!r} is not an address such as "https://api.example.com"')
    return origin


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address or network") from None


ListenText = Annotated[Any, BeforeValidator(_listen)]
Amount = Annotated[int, BeforeValidator(_amount)]
Share = Annotated[Amount, AfterValidator(_share)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Path = Annotated[str, AfterValidator(_path)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
Tokens = Annotated[int, Field(ge=1, le=limits.TOKENS_MAX)]
ProtocolName = Annotated[Protocol, Field(strict=False)]
ProtocolOrAny = Annotated[str, AfterValidator(_protocol_or_any)]


class Table(BaseModel):
    """What all tables are: no unknown keys, no type guessing, frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class Server(Table):
    """The data plane of one node."""

    listen: ListenText = Field(
        default=Listen("127.0.0.1", 8080), description="Where the data plane listens. Port 0 takes any free one."
    )
    tls_certificate: Path = Field(
        default="", description="A file with the certificate chain (PEM). With `tls_key`: the data plane speaks HTTPS."
    )
    tls_key: Path = Field(default="", description="A file with the certificate's private key (PEM).")
    workers: int = Field(default=1, ge=1, le=256, description="Processes that share the port.")
    contract: Name = Field(
        default="hoptrio", description="The contract of keys that name none: a preset, or one of `[contracts]`."
    )
    max_streams: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Requests in flight in one process, those whose client has left included. Beyond it a request is a "
        "503 with `Retry-After`. It is lowered, with a warning, where the limit of open files is too small for it.",
    )
    shutdown_grace_seconds: float = Field(
        default=limits.DEADLINE_S,
        ge=0,
        le=3_600,
        description="How long running streams may go on after SIGTERM before they are ended and settled.",
    )
    cors_origins: Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_tuple)] = Field(
        default=("*",), description="Origins whose pages may call the data plane; `*` is every origin."
    )
    websocket: bool = Field(
        default=True, description="Whether Responses may be spoken over a WebSocket. If not, an upgrade is a 426."
    )
    released_output_limit: int = Field(
        default=20,
        ge=0,
        description="Answers with output that nobody paid, per key, model and 10 minutes, beyond which the key gets a "
        "429. Counted are ends that a caller can provoke, while other keys fare better on the channel; a key alone "
        "there is never limited. 0 is no limit.",
    )
    reattach_minutes: float = Field(
        default=limits.SPOOL_KEPT_S / 60,
        ge=0,
        le=1_440,
        description="How long after its end an answer is kept for a client that comes back. 0 keeps nothing.",
    )
    reattach_bytes_max: int = Field(
        default=limits.SPOOL_STREAM_BYTES_MAX,
        ge=0,
        le=1024 * limits.MIB,
        description="The size, in bytes, up to which one answer is kept.",
    )
    spool_dir: Annotated[Name, AfterValidator(_path)] = Field(
        default=SPOOL, description="The directory in which answers are kept: on a local disk, made with mode 0700."
    )
    spool_bytes_max: int = Field(
        default=limits.SPOOL_BYTES_MAX,
        ge=0,
        description="Bytes on disk of all kept answers of the machine. Beyond it the oldest go first.",
    )
    trusted_proxies: Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], BeforeValidator(_tuple)] = Field(
        default=(), description="Addresses or networks whose `X-Forwarded-For` is believed."
    )

    @property
    def keeps_streams(self) -> bool:
        """Clients may come back, where their contract says so."""
        return self.reattach_minutes > 0 and self.reattach_bytes_max > 0 and self.spool_bytes_max > 0


class Control(Table):
    """The control plane: dashboard, API and metrics. Without a token it is not served."""

    listen: ListenText = Field(default=Listen("127.0.0.1", 8081), description="Where the control plane listens.")
    tls_certificate: Path = Field(
        default="",
        description="A file with the certificate chain (PEM). With `tls_key`: the control plane speaks HTTPS.",
    )
    tls_key: Path = Field(default="", description="A file with the certificate's private key (PEM).")
    token: Secret = Field(
        default="", repr=False, description="What opens it: for people at the login, for programs as a bearer token."
    )
    gateway_url: Annotated[str, AfterValidator(_gateway_url)] = Field(
        default="",
        description="The address at which browsers reach the data plane, for the playground. Needed only where that is "
        "not the address it listens on, behind a proxy for example.",
    )


class LedgerSettings(Table):
    """The database of accounts, holds and entries."""

    # Once `build` returns, the path of an SQLite file is absolute, and so is `journal`, which is empty where
    # settlements need none.

    url: Annotated[Secret, AfterValidator(_ledger_url)] = Field(
        default="sqlite:///hoptrio.db",
        repr=False,
        description="The database: `sqlite:///PATH`, or any `postgresql://` address that libpq takes.",
    )
    journal: Path = Field(
        default="",
        description="A directory on a local disk in which settlements are made durable before they go to the database. "
        f"Empty: `{JOURNAL}` with PostgreSQL, no journal with SQLite.",
    )
    currency: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9]{2,7}$")] = Field(
        default="USD",
        description="The unit of every amount: a capital letter and two to seven capital letters or digits.",
    )
    retention_days: int = Field(
        default=0,
        ge=0,
        le=36_500,
        description="How long records of requests are kept; 0 is for ever. Holds and entries are always kept.",
    )


class Certification(Table):
    """When channels are probed."""

    probe_at_start: bool = Field(
        default=True, description="Whether channels without a valid certificate are probed when the gateway starts."
    )
    valid_days: int = Field(
        default=30, ge=1, le=36_500, description="How long a certificate is valid. It is renewed before its end."
    )


class PriceTable(Table):
    """A further price table of a model. It allows the request field that selects it, such as `service_tier`."""

    input: Amount | None = Field(default=None, description="Price of a million input tokens. Required.")
    cached_input: Amount | None = Field(
        default=None, description="Price of a million input tokens read from a cache. Default: `input`."
    )
    cache_write: Amount | None = Field(
        default=None, description="Price of a million input tokens written to a cache. Default: `input`."
    )
    cache_write_1h: Amount | None = Field(
        default=None, description="The same for a cache that is kept for an hour. Default: twice `input`."
    )
    output: Amount | None = Field(
        default=None,
        description="Price of a million output tokens, reasoning included. Required, but for embeddings and image "
        "models.",
    )
    tools: dict[Name, Amount] | None = Field(
        default=None,
        description="Price of a call of each hosted tool, by its name. A tool without a price is not sold.",
    )
    image: Amount | None = Field(default=None, description="Price of one generated image.")


class ModelTable(PriceTable):
    """What a model costs, and how large a request may be."""

    max_input_tokens: Tokens | None = Field(
        default=None,
        description="Required. What is held for where the input is not plain text in the body, an image for example.",
    )
    max_output_tokens: Tokens | None = Field(
        default=None,
        description="A request that asks for more is lowered to it. Required, but for embeddings and image models.",
    )
    makes: Literal["text", "images"] | None = Field(
        default=None,
        description="`images`: the model is neither asked for text nor probed. Default: `images` if it has an `image` "
        "price, else `text`.",
    )
    stall_seconds: float = Field(
        default=limits.STALL_S,
        ge=limits.STALL_MIN_S,
        le=limits.STALL_MAX_S,
        description="How long a stream may go without progress of the model. Also the wait for the provider's headers.",
    )
    tiers: dict[Name, PriceTable] = Field(
        default={}, description="Further price tables, by the value that selects them."
    )


class Offer(Table):
    """One model of a channel: the name callers use, and the provider's own."""

    name: Name
    upstream: Name


def _offer(value: Any) -> Any:
    return {"name": value, "upstream": value} if isinstance(value, str) else value


class ChannelTable(Table):
    """One account at a provider."""

    protocols: Annotated[tuple[ProtocolName, ...], BeforeValidator(_tuple), AfterValidator(_unique)] = Field(
        default=(),
        description="Required. What the provider speaks there. `chat` also serves embeddings and images.",
    )
    base_url: Annotated[dict[ProtocolOrAny, BaseUrl], BeforeValidator(_base_urls)] = Field(
        default={}, description="Required. The provider's address: one for all protocols, or a table with one for each."
    )
    api_key: HeaderSecret = Field(default="", repr=False, description="The key sent to the provider.")
    models: Annotated[tuple[Annotated[Offer, BeforeValidator(_offer)], ...], BeforeValidator(_tuple)] = Field(
        default=(),
        description="Required. Names out of `[models]`; where the provider uses another name, "
        "`{ name = ..., upstream = ... }`.",
    )
    route: Literal["shared", "dedicated"] = Field(
        default="shared",
        description="`shared` serves every account, and streams only once certified if the contract says so. "
        "`dedicated` needs no certificate.",
    )
    accounts: Annotated[tuple[Name, ...], BeforeValidator(_tuple)] = Field(
        default=(),
        description="The accounts that a dedicated channel is for, by name. With `keys` empty too: everybody.",
    )
    keys: Annotated[tuple[Name, ...], BeforeValidator(_tuple)] = Field(
        default=(), description="The keys that a dedicated channel is for, by id."
    )
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000, description="Higher ones are asked first.")
    weight: int = Field(default=1, ge=1, le=1_000_000, description="The channel's share among those of its priority.")
    max_streams: int = Field(default=500, ge=1, le=1_000_000, description="Requests at a time, in each process.")
    include_usage: Literal["ask", "never"] = Field(
        default="ask", description="`never` for a Chat provider that refuses `stream_options`."
    )
    unknown_fields: Literal["pass", "drop"] = Field(
        default="pass",
        description="Whether fields of a request that hoptrio does not know reach the provider. `drop` leaves out "
        "those at the top of the body alone; what is deeper, in a message or a tool, passes.",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        default=None,
        description="The name of the output limit in a converted Chat request. Default: `max_completion_tokens` at "
        "OpenAI and Azure OpenAI, `max_tokens` elsewhere.",
    )
    headers: dict[Annotated[str, AfterValidator(_header_name)], HeaderSecret] = Field(
        default={}, repr=False, description="Further headers for the provider."
    )
    auth: Literal["bearer", "x-api-key", "x-goog-api-key", "api-key"] | None = Field(
        default=None, description="The header that carries `api_key`. Default: the protocol's own."
    )
    query: dict[Name, Secret] = Field(default={}, repr=False, description="Further query parameters for the provider.")
    proxy: Annotated[Secret, AfterValidator(_proxy)] = Field(
        default="", repr=False, description="An HTTP proxy on the way to the provider: `http://HOST:PORT`."
    )
    ca_file: Path = Field(
        default="", description="A file of certificate authorities (PEM) trusted for it, instead of the usual ones."
    )
    supplier: str = Field(default="", description="The account that gets a share of every charge on this channel.")
    revenue_share: Share | None = Field(default=None, description="The supplier's share, from 0 to 1.")
