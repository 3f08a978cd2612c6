"""`/context`: what fills the model's window, as a small picture."""

from dataclasses import replace

from gateway.commands.call import CommandCall


async def answer(call: CommandCall) -> str:
    from agent.context.gauge import counted_as
    from agent.context.picture import parts, picture
    from agent.measure import room
    from gateway.store import sessions, windows
    from gateway.store.windows import Window

    office, session = call.office, call.session
    window, model = Window([], trimmed=False), None
    if session is not None:
        window = await office.database.run(windows.load, session)
        model = await office.database.run(sessions.chosen_model, session)
    speaking = replace(office.speaking(call.message), model=model)
    found = room(office.agent, speaking)
    memory = office.agent.workspace.text_of(speaking.memory)
    filled = parts(found, window.conversation, memory)
    told = counted_as(office.agent.models.open(model))
    if found.factor != 1:
        told += f" (my estimate, times {found.factor:.2f} as the model counts)"
    else:
        told += " (estimated)"
    return f"Window of {told}:\n```\n{picture(found, filled)}\n```"
