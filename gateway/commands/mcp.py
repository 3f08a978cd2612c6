"""`/mcp`: list the MCP servers, and log in to them."""

from agent.errors import ToolError
from agent.i18n import t
from agent.mcp.revocation import end_login
from agent.mcp.servers import McpServers
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.markdown import code, escape_markdown
from gateway.core.messages import CONSOLE


@chat_command("mcp", "list the MCP servers, log in to one", group=WORK, position=80)
async def answer_mcp(call: CommandCall) -> str:
    """List the servers; `login NAME` and `logout NAME` are for the owner in private chats."""
    servers = call.services.agent.mcp
    if servers is None or not servers.names:
        return t("There are no MCP servers. `kore mcp add NAME URL` adds one on Kore's machine.")
    word, _, rest = call.argument.partition(" ")
    name, _, address = rest.strip().partition(" ")
    if word in ("", "list"):
        return "\n".join(_server_line(servers, text) for text in servers.names)
    if word not in ("login", "logout") or not name:
        raise CommandRefused(t("`/mcp login NAME`, `/mcp login NAME ADDRESS`, `/mcp logout NAME`."))
    message = call.message
    if not call.is_owner or not (message.private or message.channel == CONSOLE):
        raise CommandRefused(t("Only the owner can log in and out, and only in a private chat."))
    if name not in servers.names:
        raise CommandRefused(t("There is no MCP server {name}.", name=code(name)))
    try:
        if word == "logout":
            return await _log_out(servers, name)
        return await (_finish(servers, name, address.strip()) if address else _begin(servers, name))
    except ToolError as exc:
        raise CommandRefused(escape_markdown(str(exc))) from exc


async def _begin(servers: McpServers, name: str) -> str:
    if not servers.login_file(name).url:
        return t("{name} is a command: it needs no login.", name=code(name))
    link = await servers.pending_logins.begin(servers, name)
    if not link:
        return t("{name} needs no login.", name=code(name))
    return "\n\n".join(
        [
            t("Open this page to log in to {name}:", name=code(name)),
            escape_markdown(link),
            t(
                "It ends at an address that begins with 127.0.0.1 and cannot be opened. Copy that "
                "address from the browser within 10 minutes and send: {command}",
                command=code(f"/mcp login {name} ADDRESS"),
            ),
        ]
    )


async def _finish(servers: McpServers, name: str, address: str) -> str:
    listing = await servers.pending_logins.finish(name, address)
    if listing is None:
        raise CommandRefused(
            t(
                "This address does not belong to a login that has begun. {command} begins one.",
                command=code(f"/mcp login {name}"),
            )
        )
    # The running server does not have the new login yet.
    await servers.refresh(name)
    return t("Logged in to {name}.", name=code(name))


async def _log_out(servers: McpServers, name: str) -> str:
    had_login, revocation = await end_login(servers.login_file(name))
    if not had_login:
        return t("{name} had no login.", name=code(name))
    words = escape_markdown(revocation.sentence)
    return t("Logged out of {name}: {words}.", name=code(name), words=words)


def _server_line(servers: McpServers, name: str) -> str:
    listing, connection = servers.listing(name), servers.connection(name)
    if connection.state == "failed":
        words = escape_markdown(connection.failure)
        return f"- **{escape_markdown(name)}**: {t('not available: {reason}', reason=words)}"
    if listing is None:
        return f"- **{escape_markdown(name)}**: {t('not started yet')}"
    tools = [tool.definition.name for tool in servers.mcp_tools() if tool.server.name == name]
    names = ", ".join(map(code, tools)) or t("no tools")
    return f"- **{escape_markdown(name)}**: {names}"
