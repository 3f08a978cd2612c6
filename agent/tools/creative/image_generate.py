"""`image_generate` tool: generate a picture with an OpenAI-compatible service.

https://platform.openai.com/docs/api-reference/images/create
"""

import base64
import binascii
import os
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from agent.errors import ConfigError, LimitReached, ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.providers.usage import NUSD_PER_USD, Charge
from agent.proxies.outbound import ensure_usable, proxy_for, trust_store
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.file_io import exclusive_file
from agent.security.network.urls import Allow, is_public
from agent.security.policy.base import Decision
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import NOTHING
from agent.settings import ToolSettings
from agent.text.media_types import sniff_image_type
from agent.text.visible import escape_line
from agent.tools.base import CallContext, EffectPlan
from agent.tools.creative.delivery import delivered, plain_name, unused_path, way_out
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.tools.web.fetch import fetch_bytes
from agent.types import Effect, JsonSchema, Taint, ToolResult, Usage

if TYPE_CHECKING:
    import openai
    from openai.types import ImagesResponse

FOLDER = "pictures"
ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
ANSWER_TIMEOUT_S = 180.0
_MAX_BYTES = 30_000_000
_MAX_PROMPT_CHARS = 8_000


@frozen
class ImageSettings:
    """Settings of an image service.

    The address includes `/v1`. Without `asks`, a picture needs no consent. `price_usd` is the price
    of a picture, None if unknown.
    """

    api_base: str
    model: str
    api_key: str = field(default="", repr=False)
    size: str | None = None
    asks: bool = True
    price_usd: float | None = None

    @property
    def charge(self) -> Charge:
        """Cost of one picture."""
        cost_nusd = None if self.price_usd is None else round(self.price_usd * NUSD_PER_USD)
        return Charge(f"images/{self.model}", Usage(), cost_nusd)

    @property
    def host(self) -> str:
        return urlsplit(self.api_base).hostname or self.api_base


class ServiceRefused(ToolError):
    """Rejection by the service, with its explanation."""

    untrusted = True
    public = "The image service refused; the log of this Kore tells its owner why."


_MADE = re.compile(r"\AMade (.+) \([\d,]+ bytes\)\.")


class ImageGenerate:
    """Tool that generates a picture as a new file and sends it to the person.

    It costs money and sends the prompt away, so each call asks in every mode, unless configured
    otherwise. `allow` exists for tests only.
    """

    name: ClassVar[str] = "image_generate"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit",
        ("paths",),
        mark_for_translation("Making a picture: {prompt}"),
        delivered=lambda arguments, result: _MADE.findall(result)[:1],
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = parameters(prompt="string", path="string?", size="string?")

    def __init__(
        self, settings: ToolSettings, service: ImageSettings, allow: Allow = is_public
    ) -> None:
        self._scope = WorkspaceScope(settings)
        self._service = service
        self._allow = allow
        self.consent = _consent(service)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/image_generate")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare the host that receives the prompt, and the new file."""
        path = await file_io.in_thread(lambda: self._target(args, call))
        hosts = (self._service.host, *way_out(call))
        return EffectPlan(creates=(path,), hosts=hosts, sends=_prompt(args))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = await file_io.in_thread(lambda: self._target(args, call))
        meter, charge = call.environment.meter, self._service.charge
        if meter is not None:
            try:
                await meter.before(charge)
            except LimitReached as exc:
                raise ToolError(str(exc)) from exc
        data = await self._picture(_prompt(args), args.get("size") or self._service.size)
        if meter is not None:
            await meter.after(charge)
        if sniff_image_type(data[:16]) is None:
            raise ToolError("The image service returned something that is not a picture.")

        def keep() -> None:
            with exclusive_file(path):
                if path.exists():
                    raise ToolError(f"{path} exists: give another path.")
                with call.changes.file(path, data):
                    write_marked(path, data, call.workspace, call.taint)

        await file_io.in_thread(keep)
        return await delivered(path, f"Made {path} ({len(data):,} bytes).", call)

    def _target(self, args: Mapping[str, Any], call: CallContext) -> Path:
        """Return the path of the new file. Raises `ToolError`."""
        name = args.get("path")
        if not name:
            plain = plain_name(_prompt(args), "picture")
            name = unused_path(FOLDER, plain, ENDINGS[0], call.workspace)
        path = self._scope.find(name, call)
        if path.suffix.lower() not in ENDINGS:
            raise ToolError(f"{escape_line(name)}: expected a name that ends in .png or .jpg.")
        if path.exists():
            raise ToolError(f"{path} exists: give another path.")
        return path

    async def _picture(self, prompt: str, size: str | None) -> bytes:
        """Return the picture. Raises `ToolError`."""
        import openai

        service = self._service
        client = openai.AsyncOpenAI(
            api_key=service.api_key or "none",
            base_url=service.api_base,
            timeout=ANSWER_TIMEOUT_S,
            # A retry might produce, and charge for, a second picture.
            max_retries=0,
            http_client=_http_client(service.api_base),
        )
        try:
            async with client:
                answer = await client.images.generate(
                    model=service.model, prompt=prompt, n=1, size=size or openai.omit
                )
        except openai.AuthenticationError as exc:
            raise ToolError("The image service refused the key (images.api_key).") from exc
        except openai.APIStatusError as exc:
            reason = escape_line(exc.message)[:300]
            raise ServiceRefused(f"The image service refused: {reason}") from exc
        except openai.APITimeoutError as exc:
            raise ToolError(
                f"The image service did not answer within {ANSWER_TIMEOUT_S:g} s."
            ) from exc
        except openai.APIError as exc:
            raise ToolError("The image service could not be reached.") from exc
        return await self._data(answer)

    async def _data(self, answer: "ImagesResponse") -> bytes:
        """Return the picture from the response or from the address that it names."""
        first = answer.data[0] if answer.data else None
        if first is not None and first.b64_json:
            try:
                return base64.b64decode(first.b64_json, validate=True)
            except binascii.Error as exc:
                raise ToolError("The image service returned something unreadable.") from exc
        if first is None or not first.url:
            raise ToolError("The image service returned no picture.")
        return await fetch_bytes(first.url, _MAX_BYTES, self._allow)


def _consent(service: ImageSettings) -> Decision:
    """Return the decision that the configuration makes about calls."""
    if service.asks:
        return Decision("ask", render_prompt("policy/ask_image", host=service.host), "ask-image")
    return Decision("allow", "images.ask is off", "image-allowed")


def _prompt(args: Mapping[str, Any]) -> str:
    prompt: str = args["prompt"].strip()
    if not prompt:
        raise ToolError("The prompt is empty: describe the picture.")
    if len(prompt) > _MAX_PROMPT_CHARS:
        raise ToolError(
            f"The prompt has {len(prompt):,} characters; {_MAX_PROMPT_CHARS:,} at most."
        )
    return prompt


def _http_client(address: str) -> "openai.DefaultAsyncHttpxClient":
    """Return a client that uses the proxy for an address. Raises `ToolError`."""
    import openai

    try:
        proxy = proxy_for(address, os.environ)
        ensure_usable(proxy)
        return openai.DefaultAsyncHttpxClient(
            proxy=proxy.url if proxy else None,
            trust_env=False,
            verify=trust_store(),
        )
    except ConfigError as exc:
        raise ToolError(str(exc)) from exc
    except (ImportError, ValueError) as exc:
        # SOCKS needs an additional package here, and version 4 is not supported.
        name = proxy.name if proxy else ""
        raise ToolError(f"The image service cannot be reached through {name}: {exc}") from exc
