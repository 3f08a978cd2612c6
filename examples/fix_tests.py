"""A coding agent: works in a folder until its tests pass, and asks before each change.

python examples/fix_tests.py PROJECT
"""

import asyncio
import sys

import kore

TASK = "Run the tests with `python -m pytest -q`. Find out why they fail, fix it, run them again."


async def ask(request: kore.ApprovalRequest) -> kore.Answer:
    """Show the planned action, and let a person decide."""
    print(f"\n{request.diff or request.command or request.tool}\n{request.reason}")
    reply = await asyncio.to_thread(input, "[y]es, [s]ession, [n]o: ")
    if reply == "s":
        return "session"
    return "once" if reply == "y" else "deny"


async def main(folder: str) -> bool:
    settings = kore.AgentSettings(max_iterations=30)
    async with kore.Agent(workspace=folder, approve=ask, settings=settings) as agent:
        async for event in agent.stream(TASK):
            match event:
                case kore.events.TextDelta(text=text):
                    print(text, end="", flush=True)
                case kore.events.ToolStart(name=name, arguments=arguments):
                    print(f"\n> {name} {dict(arguments)}")
                case kore.events.ToolResulted(is_error=True):
                    print("> failed")
                case kore.events.Done(result=result):
                    print(f"\n{result.usage.input} tokens in, {result.usage.output} out")
                    return result.success
    return False


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(0 if asyncio.run(main(sys.argv[1])) else 1)
