"""All options of the server in one table. Every option is a flag of `datamux serve` and an environment variable."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from datamux.errors import check_at_least_one, check_choice

PREFIX = "DATAMUX_SERVE_"
AT_LEAST_ONE = (
    "max_groups",
    "max_batch_tokens",
    "max_queue",
    "max_tenant_queue",
    "max_queue_characters",
    "max_body_bytes",
    "threads",
)
KEYS_FILE = Path("~/.config/datamux/keys.json")


def option(default: Any, help: str) -> Any:
    """A field of a dataclass that becomes a flag and an environment variable."""
    return dataclasses.field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Settings:
    """What an operator may choose."""

    host: str = option("127.0.0.1", "Address to listen on. 0.0.0.0 listens on all networks.")
    port: int = option(8080, "Port to listen on; 0 takes any free port.")
    max_drop: float | None = option(
        None,
        "Allow only group sizes that lose at most this many points of the score, by the model's own card.",
    )
    max_group_size: int | None = option(None, "Let at most this many texts share a pass.")
    gears: str | None = option(
        None, "Group sizes to shift between, separated by commas. Default: the sizes that the model's card measures."
    )
    deterministic: bool = option(False, "Never mix texts, so that no answer depends on other texts.")
    fill: str = option("nothing", "What empty slots hold: nothing, or repeat (the group's own texts, averaged).")
    single_tenant: bool = option(False, "Without keys, treat all connections as one tenant, whose texts may be mixed.")
    keys: str | None = option(None, f"File of API keys. Default: {KEYS_FILE}, once it exists.")
    metrics_key: str | None = option(
        None, "With keys, name of the only one that may read /metrics, which name all tenants. Default: any key."
    )
    classify_shape: str = option("infinity", "The shape of the answers of /classify: that of infinity, or of vllm.")
    no_keys: bool = option(False, "Ask for no key, even if there is a file of keys.")
    max_wait_ms: float = option(2.0, "How long a text waits for company, counted from its own arrival.")
    max_groups: int = option(8, "Groups in one pass, at most. On a GPU more are better: try 64.")
    max_batch_tokens: int = option(4096, "Positions in one pass, at most: groups times the longest text.")
    max_queue: int = option(8192, "Texts that may wait. When there are more, requests get status 429.")
    max_tenant_queue: int = option(4096, "Texts of one tenant that may wait.")
    timeout_ms: float = option(
        60_000.0, "Time for a request, for every 256 texts that it has; one that takes longer gets status 504."
    )
    pass_timeout_ms: float = option(30_000.0, "A pass that takes longer fails its requests and turns /health red.")
    max_queue_characters: int = option(
        64_000_000, "Characters that unanswered requests may have, in all; one tenant has the same share as of texts."
    )
    max_body_bytes: int = option(2_000_000, "Longest request body.")
    body_timeout_ms: float = option(10_000.0, "How long a client may take to send its request.")
    grace_ms: float = option(30_000.0, "After SIGTERM, how long to work on the requests that were accepted.")
    threads: int | None = option(None, "Threads that one pass uses. Default: PyTorch decides.")
    device: str | None = option(None, "cpu, cuda, cuda:1, ... Default: cuda if there is one.")
    bf16: bool = option(False, "Run in half precision.")
    compiled: bool = option(False, "Use torch.compile, which takes about a minute at the start.")
    log_level: str = option("info", "debug, info, warning or error.")
    no_playground: bool = option(False, "Leave out the pages at / and /docs.")

    def __post_init__(self) -> None:
        check_choice("log level", self.log_level, ("debug", "info", "warning", "error"))
        check_choice("fill", self.fill, ("nothing", "repeat"))
        check_choice("classify shape", self.classify_shape, ("infinity", "vllm"))
        for name in AT_LEAST_ONE:
            if getattr(self, name) is not None:
                check_at_least_one(flag(name), getattr(self, name))
        for name in ("timeout_ms", "pass_timeout_ms", "body_timeout_ms"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{flag(name)} must be more than 0 milliseconds, got {getattr(self, name):g}")
        for name in ("max_wait_ms", "grace_ms"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{flag(name)} must be at least 0 milliseconds, got {getattr(self, name):g}")
        if not 0 <= self.port <= 65_535:
            raise ValueError(f"--port must be 0 to 65535, got {self.port}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: Any) -> "Settings":
        """Settings from `DATAMUX_SERVE_...` variables. Those in `given` come first."""
        source = os.environ if environment is None else environment
        kinds = get_type_hints(cls)
        found = {
            field.name: _parsed(field.name, source[variable(field.name)], kinds[field.name])
            for field in dataclasses.fields(cls)
            if variable(field.name) in source
        }
        return cls(**found | given)


def group_sizes(gears: str) -> list[int]:
    """What `--gears` lists, sorted. Spaces do not matter."""
    try:
        return sorted({int(size) for size in gears.split(",")})
    except ValueError:
        raise ValueError(f"--gears is {gears!r}; give group sizes such as 1,5,20") from None


def variable(name: str) -> str:
    """The environment variable of an option."""
    return PREFIX + name.upper()


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parsed(name: str, text: str, kind: Any) -> Any:
    kinds = [k for k in (get_args(kind) or (kind,)) if k is not type(None)]
    if kinds[0] is bool:
        if text.lower() in ("1", "true", "yes", "on"):
            return True
        if text.lower() in ("0", "false", "no", "off", ""):
            return False
        raise ValueError(f"{variable(name)} is {text!r}; allowed: true or false")
    try:
        return kinds[0](text)
    except ValueError as error:
        raise ValueError(f"{variable(name)} is {text!r}; it must be a {kinds[0].__name__}") from error
