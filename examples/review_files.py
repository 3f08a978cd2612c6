"""Review many files at once, four at a time, and print the cost.

python examples/review_files.py src/*.py
"""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import kore


@dataclass
class Finding:
    line: int
    problem: str


agent = kore.Agent(
    instructions="You review Python files. Report defects only, never style.",
    builtin_tools=[],
    model_settings=kore.ModelSettings(max_tokens=2_000),
)


async def main(files: list[Path]) -> int:
    async with agent:
        prompts = (f"{file}\n\n{file.read_text()}" for file in files)
        done = await agent.parallel(prompts, limit=4, output_type=list[Finding])
    for n, (file, result) in enumerate(zip(files, done.results, strict=True)):
        if result is None:
            print(f"{file}: not reviewed: {done.errors[n]}")
            continue
        for finding in result.output:
            print(f"{file}:{finding.line}: {finding.problem}")
    print(f"{done.usage.input} tokens in, {done.usage.output} out", file=sys.stderr)
    return 1 if done.errors else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main([Path(name) for name in sys.argv[1:]])))
