"""`/compact`: makes room in the model's window now; what is asked for is kept above all."""

from gateway.commands.call import CommandCall


async def answer(call: CommandCall) -> str:
    """Repeated after a crash, it finds done what was done."""
    return await call.office.compact(call.claim, call.argument)
